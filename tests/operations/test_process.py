"""What a process takes of its machine, against psutil."""

from __future__ import annotations

import os

import pytest

from tacit.operations import process
from tacit.operations.exposition import text
from tests.operations import promtool

psutil = pytest.importorskip("psutil")


def test_it_agrees_with_psutil():
    own = psutil.Process(os.getpid())
    before, memory, open_before = own.cpu_times(), own.memory_info(), own.num_fds()
    page = text(process.families())
    after = own.cpu_times()
    assert promtool.lint(page) == []
    cpu = promtool.value(page, "process_cpu_seconds_total")
    assert before.user + before.system - 0.02 <= cpu <= after.user + after.system + 0.02  # a tick is 10 ms
    assert promtool.value(page, "process_start_time_seconds") == pytest.approx(own.create_time(), abs=1.0)
    assert process.started_at() == promtool.value(page, "process_start_time_seconds")
    assert promtool.value(page, "process_resident_memory_bytes") == pytest.approx(memory.rss, rel=0.2)
    assert promtool.value(page, "process_virtual_memory_bytes") == pytest.approx(memory.vms, rel=0.2)
    assert promtool.value(page, "process_open_fds") == open_before - 1  # psutil counts the one that it counts with
    assert promtool.value(page, "process_max_fds") == own.rlimit(psutil.RLIMIT_NOFILE)[0]
