"""Hypothesis draws no random examples: the same tests run together meet the same ones. A slow machine is no failure."""

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run in as many processes as there are cores

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
