"""The regression itself. No torch, network or clock here: channels, time and randomness are arguments.

logistic_masked   training under Paillier, for parties that follow the protocol; one function a role
objective         what labels make of scores, logistic and linear; `model` is what each party keeps
greeting          how the parties begin; `journal` is what a party remembers of its last steps
predict           what the trained parts say about new rows, with the same protection
checks            what each party refuses, and why; `decryption_proof` that the active decrypted what it was sent
"""
