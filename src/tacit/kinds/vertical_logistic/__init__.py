"""Same rows, other columns: parties that know different things about the same people learn one model.

settings            what the file of such a training says
protocol            logistic regression under Paillier, one function a role
party               one party with its table: aligns, trains, keeps its own part
boundary, forecast  who sees what, and what it will cost, before anybody trains
attacks             what the active learns of rows, and a passive of labels
"""
