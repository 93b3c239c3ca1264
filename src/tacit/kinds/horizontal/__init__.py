"""Horizontal federation: many clients with the same features train one model.

    settings      what a file says
    task          what a user writes: fit, and optionally evaluate; `tasks` are the built-in ones
    protection    how an update leaves a client and is added up: in the clear, with local DP, under masks
    sums          updates that come in one by one, or by the group, added up
    messages      what the coordinator and a client send each other; `frames` has them as bytes
    boundary      everything that leaves a client, and how it is protected; `costs` and `forecast` what it costs
    client        one client, a state machine without I/O
    coordinator   the coordinator, the same; `optimizer` turns a mean update into the next model
    simulate      every client on one machine or one cluster; `join`: one party over a network; `run`: either of them
    record        what a run's directory says; `participation` that of a client; `report` makes pages of both
    attacks       what the coordinator learns of the clients

Two messages make a round: `Work` (the model) to each sampled client, `Update` back. Under masks the update is the
vector of a secure aggregation, whose messages travel in between. An engine carries them.
"""
