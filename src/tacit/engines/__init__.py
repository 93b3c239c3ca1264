"""Where parties live. `memory` runs them all in this process; the same objects can be driven over a network.

`identity` says who is who, by certificates; `tls` has gRPC verify it at both ends. `metrics` shows a run to Prometheus.
"""
