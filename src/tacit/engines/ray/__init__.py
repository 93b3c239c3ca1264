"""Simulated clients and unmasking on a Ray cluster (extra `ray`).

    engine      the driver: the coordinator, and what goes to which worker
    worker      many clients of a round in one process, whose updates it adds up before they travel
    cluster     starting or finding a cluster; tasks that unmask ranges of columns
    paillier    one party's Paillier batches as tasks

One trust domain only: the driver and all workers see everything, keys included, and Ray moves it by pickle. It is for
simulations, and for the coordinator's own arithmetic; parties that must not trust each other use `tacit join`.
"""
