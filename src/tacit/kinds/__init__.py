"""One folder a kind. What knows what a kind means lies there; all else works for any kind."""
