"""Hypothesis draws no random examples: the same tests run together meet the same ones. A slow machine is no failure."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
