"""File descriptors of the party that listens: enough for all parties, and some for the store whatever comes."""

from __future__ import annotations

import os
import resource

EACH = 3  # of a connection: of the network, and both ends of the way from the front to gRPC
_RESERVE = 128  # for the store, logs, threads and what a task opens
_SPARE = 16  # connections beyond one for each party, so that one can come back before its old connection has ended
_LARGEST = 1 << 20  # a limit that is none


def provide(parties: int, wanted: int | None, unauthenticated: int) -> tuple[int, str]:
    """How many connections there may be, and what the user should know about it.

    The soft limit of the process is raised as far as the hard one allows. ValueError: not all parties fit.
    """
    least = parties + _SPARE
    if wanted is not None and wanted < least:
        raise ValueError(f"network.connections is {wanted}, and {parties} parties connect: give {least} or more")
    if wanted is None:
        wanted = 2 * parties + 4 * unauthenticated
    in_use = _in_use() + _RESERVE
    soft, hard = (_LARGEST if limit == resource.RLIM_INFINITY else limit for limit in _limits())
    needed = in_use + EACH * wanted
    if soft < needed:
        soft = min(hard, needed)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, _limits()[1]))
        except (OSError, ValueError):  # some systems have a limit below the hard one
            soft = _limits()[0]
    fit = (soft - in_use) // EACH
    if fit >= wanted:
        return wanted, ""
    advice = f"raise the limit of open files to {needed} (ulimit -Hn, LimitNOFILE= of a service)"
    if fit < least:
        raise ValueError(
            f"{parties} parties need {in_use + EACH * least} file descriptors here and the limit is {soft}: {advice}"
        )
    return fit, f"the limit of {soft} open files leaves room for {fit} connections, not for {wanted}: {advice}"


def _limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def _in_use() -> int:
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder))
        except OSError:
            continue
    return 64
