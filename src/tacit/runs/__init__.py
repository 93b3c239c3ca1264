"""The verbs: what can be done with a file or a run, whatever its kind.

load        reading a file of any kind that is installed
plan        what a file will cost and show: all of it, or one party's part
run         every party in this process; `join`: one party over a network
outcome     how parties are carried out, and what they came to; `resume` takes up what was stopped
predict     what a trained model says about new rows
audit       the attacks that fit a file, one after the other
report      the pages made of runs
export      a run's figures for TensorBoard and MLflow
"""
