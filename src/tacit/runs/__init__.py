"""What a run reads and leaves behind. Only this package touches the disk.

config      a federation's file: settings, or errors with file, line and key
            `source` reads it, `placing` brings its keys under the settings' names, `explain` says what is wrong
execute     carrying out what the settings say
directory   what a run leaves behind: settings, `environment`, events, log, ledger and model
lines       each event as a plain line
export      a run's figures for TensorBoard and MLflow
"""
