"""Words for options that several commands have."""

METRICS = "Serve /metrics for Prometheus, /status, /healthz and /readyz on this machine at PORT."
LOG_FORMATS = (
    "Print lines with time and level, also on a terminal, and in run.log; by default without, and a bar on a terminal."
)
