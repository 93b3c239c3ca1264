"""What parties in lock step share, whatever they compute.

run             carries them out: all of them in this process, or one over a network
resumption      has them begin, resume and end together
context         what the function of a party is given besides its data
exchange        what parties say to each other around their protocol
schedule        which records each step takes
progress        what a party tells of its training; `traffic` counts bytes and seconds
"""
