"""Same rows, other columns: parties that know different things about the same people learn one model.

settings          what the file of such a training says
align             which rows the parties have in common, by private set intersection
logistic_masked   logistic regression under Paillier, for parties that follow the protocol; one function a role
predict           what the trained parts say about new rows, with the same protection
checks            what each party refuses, and why
boundary, plan    who sees what, and what it will cost, before anybody trains

No torch, network or clock here: channels, time and randomness are arguments.
"""
