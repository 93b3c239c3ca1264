"""What this process takes of its machine, under the names that Prometheus has for it. On Linux only."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from functools import cache
from pathlib import Path

from tacit.operations.exposition import Family, Sample

_OWN = Path("/proc/self")
_AFTER_NAME = 2  # the number of the first field after the name, which may hold anything, in proc_pid_stat(5)


def families() -> list[Family]:
    """CPU, memory, descriptors and the time of the start."""
    found = []
    with suppress(OSError, ValueError, IndexError):  # no /proc, or one that hides
        found += _of_stat(_stat())
    with suppress(OSError):
        found.append(_family("process_open_fds", "gauge", "Open file descriptors.", len(os.listdir(_OWN / "fd")) - 1))
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = float("inf") if limit == resource.RLIM_INFINITY else limit
        found.append(_family("process_max_fds", "gauge", "How many there may be.", most))
    return found


def started_at() -> float | None:
    """When this process began, in seconds since 1970."""
    try:
        return _booted_at() + int(_stat()[22 - _AFTER_NAME - 1]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _stat() -> list[str]:
    return (_OWN / "stat").read_text().rpartition(")")[2].split()


def _of_stat(stat: list[str]) -> list[Family]:
    def field(number: int) -> int:
        return int(stat[number - _AFTER_NAME - 1])

    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    return [
        _family("process_cpu_seconds_total", "counter", "CPU time, user and system.", (field(14) + field(15)) / ticks),
        _family("process_virtual_memory_bytes", "gauge", "Virtual memory.", field(23)),
        _family("process_resident_memory_bytes", "gauge", "Resident memory.", field(24) * page),
        _family(
            "process_start_time_seconds",
            "gauge",
            "When the process began, in seconds since 1970.",
            _booted_at() + field(22) / ticks,
        ),
    ]


@cache
def _booted_at() -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    raise ValueError("/proc/stat does not say when the machine was started")


def _family(name: str, kind: str, words: str, value: float) -> Family:
    return Family(name, "counter" if kind == "counter" else "gauge", words, (Sample(value),))
