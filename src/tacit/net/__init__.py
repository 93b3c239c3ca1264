"""Parties on different machines. Nothing here knows what they say to each other.

identity        who is who, by certificates;  certificates: their form;  key_files: where keys lie
tls             why a connection to a party fails
pins, peers     which keys are whose in a run;  loopback: addresses of this machine;  site: how a party is reached
link            frames that arrive once, in order, over connections that break; without I/O
handshake       who speaks, which conversation, whether the files agree
ends            a few parties in lock step: what `hub` and `spoke` share;  relay: what passes the hub unread
star            a coordinator and its clients, without I/O;  star_host, star_guest: these on a server, on a connection
transport       how frames travel: what a transport promises;  grpc/: the one that comes with Tacit
page_server     HTTP pages for people and monitors, bounded in time, size and number of connections
"""
