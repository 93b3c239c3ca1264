"""How long `tacit --help` takes to answer, against an interpreter that does nothing: processor time of the user."""

from __future__ import annotations

import resource
import subprocess
import sys

from bench.measure import Options, Row, Side, interleave, time_row

SECONDS = 0.3


def _children() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def run(options: Options) -> list[Row]:
    pair = interleave(
        Side(lambda: _run("-m", "tacit", "--help")),
        Side(lambda: _run("-c", "pass")),
        options.budget.share(1),
        rounds=5 if options.quick else 21,
        clock=_children,
    )
    return [time_row("tacit --help / an interpreter that does nothing", pair, floor=SECONDS, judged="ours")]
