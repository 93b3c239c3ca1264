"""The verbs: what can be done with a file or a run, whatever its kind.

run         carrying out what the settings say; `resume` takes up what was stopped, `outcome` is what it came to
predict     what a trained model says about new rows
audit       the attacks that fit a file, one after the other; `attacks` finds them
report      the pages made of runs
party_plan  one party's part in a file over a network, before it joins
export      a run's figures for TensorBoard and MLflow
"""
