"""What parties in lock step share, whatever they compute.

parties         what their settings have in common
verbs           makes what a kind can do of its `Lockstep`
run             `Lockstep`, and carrying it out: all parties in this process, or one over a network
resumption      has them begin, resume and end together; `alignment` finds the rows that all have
context         what the function of a party is given in addition to its data
exchange        what parties say to each other around their protocol
schedule        which records each step takes
progress        what a party tells of its training; `traffic` counts bytes and seconds
evaluation      how good the scores are in the end, as curves and tables
"""
