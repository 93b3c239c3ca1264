"""Secure aggregation: the exact sum of private vectors, and nothing else. See README.md in this folder."""
