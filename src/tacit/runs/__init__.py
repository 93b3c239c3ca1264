"""What a run reads and leaves behind. Only this package touches the disk.

config      a federation's file: settings, or errors with file, line and key
            `source` reads it, `placing` brings its keys under the settings' names, `explain` says what is wrong
execute     carrying out what the settings say
directory   what a run leaves behind: settings, `environment`, events, log, ledger and model
lines       each event as a plain line
record      what a run's directory says
report      the page that is made of it: `single` for one run, `comparison` for several, built with `page`, `notices`
            `figures` and `chart` draw, `scores` and `correlation` compare, `meaning` and `words` say it plainly
export      a run's figures for TensorBoard and MLflow
"""
