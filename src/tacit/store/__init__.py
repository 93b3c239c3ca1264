"""What a run leaves on disk. Only this package writes it.

directory       settings, `environment`, events, log, ledger and model of a run
party_folder    what one party keeps, as `files` that are whole at any moment
reading         what lies in a run's directory, read and checked
log_lines       each event as a plain line;  metrics: as numbers for Prometheus
journal_files   secrets of a run that is under way
"""
