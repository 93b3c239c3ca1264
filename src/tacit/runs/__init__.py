"""What a run reads and leaves behind. Only this package touches the disk.

config      a federation's file: settings, or errors with file, line and key
            `source` reads it, `placing` brings its keys under the settings' names, `explain` says what is wrong
plan        what a file will cost and show
execute     carrying out what the settings say; `resume` takes up what was stopped
directory   what a run leaves behind: settings, `environment`, events, log, ledger and model
lines       each event as a plain line
record      what a run's directory says
report/     the page that is made of it
keys        the files by which parties know each other
export      a run's figures for TensorBoard and MLflow
"""
