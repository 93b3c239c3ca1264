"""Boosted trees. No torch, network or clock here: channels, time and randomness are arguments.

features    one party's features as the active sees them, and those of its own table
bins        values of a table as bins; losses, what labels make of raw scores; rounding, g and h as one word of 64 bits
splits      the best split of a node from its sums; growth, one tree; boosting, all trees
tree        what the active keeps of a tree, and how a row is routed
cells       a passive's table as punctured trees, made once; shares, values of the active at the bins of all cells
active      a passive's features over a channel; passive, its end, which refuses nodes that are too small (opened)
sides       which rows of a split go left; prediction, the scores of new rows; messages, what crosses
"""
