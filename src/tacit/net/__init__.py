"""Parties on different machines. Nothing here knows what they say to each other, but for the two ends of a star.

identity        who is who, by certificates;  certificates: their form;  key_files: where keys lie
tls             why a connection to a party fails
pins, peers     which keys are whose in a run;  loopback: addresses of this machine;  site: how a party is reached
link            frames that arrive once, in order, over connections that break; without I/O
handshake       who speaks, which conversation, whether the files agree
ends            a few parties in lock step: what `hub` and `spoke` share;  relay: what passes the hub unread
star_host       a federation's coordinator on a server;  star_guest: one of its clients on a connection
transport       how frames travel: what a transport promises;  grpc/: the one that comes with Tacit
"""
