"""What operators of a running party see and do: its state, its metrics, and commands to it.

    events ──►  standing, counts  ─┐
    vitals, pausing  ──────────────┴─►  overview  ─┬─►  http       GET /healthz /readyz /status /metrics
                                                   └─►  control    the commands status, pause, unpause, stop

Nothing here knows a kind of training, and nothing of a single client is shown, but of those that are proved to have
broken the protocol; no score, loss or other figure of the task either.
"""
