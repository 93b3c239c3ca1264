"""Boosted trees of parties with the same rows and different columns."""
