"""What the command line takes before it does anything: processor time of user and system.

- `tacit --help`, against an interpreter that does nothing.
- `tacit plan` of each file in examples/, against importing torch, which most of them need: at most 2 s.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from bench.measure import Options, Row, Side, interleave, time_row

HELP_SECONDS, PLAN_SECONDS = 0.3, 2.0
EXAMPLES = Path(__file__).parents[1] / "examples"


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def run(options: Options) -> list[Row]:
    files = [EXAMPLES / "private_digits.yaml"] if options.quick else sorted(EXAMPLES.glob("*.yaml"))
    budget = options.budget.share(1 + len(files))
    pair = interleave(
        Side(lambda: _run("-m", "tacit", "--help")),
        Side(lambda: _run("-c", "pass")),
        budget,
        rounds=5 if options.quick else 21,
        clock=_children,
    )
    rows = [time_row("tacit --help / an interpreter that does nothing", pair, floor=HELP_SECONDS, judged="ours")]
    for file in files:
        pair = interleave(
            Side(lambda file=file: _run("-m", "tacit", "plan", str(file))),  # type: ignore[misc]
            Side(lambda: _run("-c", "import torch")),
            budget,
            rounds=3 if options.quick else 5,
            clock=_children,
        )
        rows.append(time_row(f"tacit plan {file.name} / import torch", pair, floor=PLAN_SECONDS, judged="ours"))
    return rows
