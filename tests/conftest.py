"""Hypothesis draws no random examples: the same tests run together meet the same ones. A slow machine is no failure."""

import gc
import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

import tacit.net.grpc  # noqa: F401 -- before a test loads gRPC: it says which versions of TLS gRPC takes
from tests.subprocesses import end_all

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run in as many processes as there are cores
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background job, and in all that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)

WALL_TIME = [HealthCheck.too_slow]
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=40, suppress_health_check=WALL_TIME
)
settings.register_profile(  # of `make test-all`
    "explore", deadline=None, max_examples=200, print_blob=True, suppress_health_check=WALL_TIME
)
settings.load_profile("repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Let nothing be freed while a failure is put into words.

    pytest parses the source for it. If the garbage collector runs meanwhile and what it frees logs a traceback, which
    parses too, CPython 3.11 raises "AST constructor recursion depth mismatch", and that ends the whole run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A test in a folder of its own. Commands look for tasks there, and leave no trace of it in the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture(autouse=True)
def _nothing_left_running():
    """Processes and ports are of one test only, also if it fails."""
    yield
    end_all()
