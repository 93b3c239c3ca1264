"""The board: a page of this machine that shows the runs of a folder and follows those that are under way.

    open_board(root, port)      listen on 127.0.0.1 (`server`); gives the address with its token

    changes     which runs there are and what they come to now, in bounded reads; each change has a number
    told        the events of one run in words, and its figures as points, piece by piece
    made        reports and comparisons, which a process of its own makes (`tacit report`)
    pages       the HTML around them; `assets/board.js` asks for what is new once a second and draws it
    access      who may read: the token, the cookie it is exchanged for, the Host header
    server      the port: one GET a connection, bounded in size, time and number

Nothing is written into a run, and nothing but GET is answered. Whatever a run's folder says is text: the server sends
it as JSON or escapes it, the script never makes markup of it, and the pages forbid what is not theirs. Pages that lie
in a run's folder (`audit.html`) are shown without scripts, in an origin of their own.

Addresses, below a random path that the cookie is bound to:

    ?token=T (at the root)      the token for the cookie, then on to the list
    (nothing)                   the list                    runs.json?after=N       what changed since N
    run/ID                      one run                     run/ID/events.json?from=N
    run/ID/report, run/ID/audit                             compare?run=ID&run=ID
"""
