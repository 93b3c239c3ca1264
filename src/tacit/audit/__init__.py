"""What an attacker recovers: the attacks that each protection is meant to stop, run against it on and off.

residues    vertical logistic regression: rows from residues and scores, labels from gradients
"""
