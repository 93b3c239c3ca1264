"""The command line: `python -m bench sabotage [--only NAME]... [--tests-only | --audits-only] [--workers N]`.

Exit codes: 0 every fault is noticed, 1 one is not or the package without a fault does not pass, 2 a mistake in the
input or a patch that lost its place.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.sabotage.faults import FAULTS, FILES, Fault
from bench.sabotage.noticed import Broken, copied, run_audit, run_tests, tests_of
from bench.sabotage.patches import PlaceLost, place

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tacit"
FILE_WIDTH = 140  # columns where no terminal sets a width


@dataclass(frozen=True, slots=True)
class Judged:
    """Who noticed a fault. None: nobody was asked."""

    fault: Fault
    tests: int | None
    audit: bool | None
    seconds: float
    words: str = ""  # on who did not notice, or why that cannot be said

    @property
    def noticed(self) -> bool:
        return not self.words

    def __str__(self) -> str:
        return f"{self.fault.name}: {self.words or 'noticed'} ({self.seconds:.0f} s)"


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench sabotage",
        description="Put known faults into copies of the package, and see whether tests and audits notice each.",
    )
    parser.add_argument("--only", metavar="NAME", action="append", help="one fault; may be repeated")
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        default=os.cpu_count() or 1,
        help="at once; as many as processors by default",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--tests-only", action="store_true", help="run no audits, which take most of the time")
    which.add_argument("--audits-only", action="store_true", help="run no tests")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    options = arguments(argv)
    known = {fault.name: fault for fault in FAULTS}
    unknown = [name for name in options.only or () if name not in known]
    if unknown:
        print(f"There is no fault {unknown[0]!r}: choose one of {', '.join(known)}.", file=sys.stderr)
        return 2
    chosen = [known[name] for name in options.only or known]
    try:
        nodes = check(chosen)
        with tempfile.TemporaryDirectory(prefix="tacit-sabotage-") as folder:
            judged = _judge(
                chosen,
                nodes,
                Path(folder),
                tests=not options.audits_only,
                audits=not options.tests_only,
                workers=max(1, options.workers),
            )
    except (PlaceLost, Broken) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, PlaceLost) else 1
    Console(width=None if sys.stdout.isatty() else FILE_WIDTH).print(table(judged))
    for each in judged:
        if not each.noticed:
            print(f"{each.fault.name}: {each.words}", file=sys.stderr)
    return 0 if all(each.noticed for each in judged) else 1


def check(faults: Sequence[Fault]) -> dict[str, str]:
    """Raise unless every patch has its place, every named test and file exists. Gives the tests' node ids."""
    for fault in faults:
        try:
            for patch in fault.patches:
                place(patch, SOURCE)
        except PlaceLost as error:
            raise PlaceLost(f"{fault.name}: {error}") from None
        if fault.file is not None and not (FILES / fault.file).is_file():
            raise Broken(f"{fault.name}: there is no file {fault.file} in {FILES.relative_to(ROOT)}")
        if not fault.tests:
            raise Broken(f"{fault.name}: no test is named that must notice it")
    return tests_of((name for fault in faults for name in fault.tests), ROOT)


def _judge(
    faults: Sequence[Fault], nodes: dict[str, str], folder: Path, *, tests: bool, audits: bool, workers: int
) -> list[Judged]:
    sane = copied(folder / "sane", SOURCE, ())
    if tests:
        _tell(f"control: {len(nodes)} tests on the package without a fault")
        for node, ended in run_tests(sorted(nodes.values()), sane, ROOT).items():
            if ended.outcome != "passed":
                raise Broken(f"without a fault {node} ends with {ended.outcome}: {ended.error}")
    files = sorted({fault.file for fault in faults if fault.file is not None}) if audits else []
    with ThreadPoolExecutor(workers) as pool:
        try:
            controls = [pool.submit(_control, FILES / file, sane) for file in files]
            asked = [
                pool.submit(_judge_one, fault, nodes, folder / f"fault-{number}", tests=tests, audits=audits)
                for number, fault in enumerate(faults)
            ]
            for done in as_completed([*controls, *asked]):
                _tell(str(done.result()))
        finally:
            pool.shutdown(cancel_futures=True)
    return [each.result() for each in asked]


def _control(file: Path, sane: Path) -> str:
    """No claim of a file is false without a fault; by chance one audit in a hundred says so, two in a row hardly do."""
    began = time.monotonic()
    for seed in (0, 1):
        false_claims = run_audit(file, sane, ROOT, seed)
        if not false_claims:
            return f"control: no claim of {file.name} is false ({time.monotonic() - began:.0f} s)"
    raise Broken(f"without a fault the audit of {file.name} says that a claim is false: {', '.join(false_claims)}")


def _judge_one(fault: Fault, nodes: dict[str, str], folder: Path, *, tests: bool, audits: bool) -> Judged:
    began = time.monotonic()
    copy = copied(folder, SOURCE, fault.patches)
    words, count, found = [], None, None
    if tests:
        ended = run_tests([nodes[name] for name in fault.tests], copy, ROOT)
        count = sum(each.outcome == "asserted" for each in ended.values())
        words += [f"{node} {_WORDS[e.outcome]}{e.error}" for node, e in ended.items() if e.outcome != "asserted"]
    if audits and fault.file is not None:
        try:
            found = bool(run_audit(FILES / fault.file, copy, ROOT))
        except Broken as error:
            words.append(str(error))
        else:
            words += [] if found else [f"the audit of {fault.file} calls no claim false"]
    return Judged(fault, count, found, time.monotonic() - began, "; ".join(words))


_WORDS = {"passed": "passes", "error": "fails otherwise than by an assertion: "}


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def table(judged: Sequence[Judged]) -> Table:
    """Who noticed each fault."""
    drawn = Table(title="who notices a fault in the package", title_justify="left")
    for heading in ("fault", "tests", "audit"):
        drawn.add_column(heading)
    drawn.add_column("seconds", justify="right")
    for each in judged:
        fault = each.fault
        tests = "-" if each.tests is None else f"noticed by {each.tests} of {len(fault.tests)}"
        if fault.file is None:
            audit = "not applicable: accounting"
        else:
            audit = {None: "-", True: f"noticed ({fault.file})", False: f"[bold red]not noticed[/] ({fault.file})"}[
                each.audit
            ]
        if each.tests is not None and each.tests < len(fault.tests):
            tests = f"[bold red]{tests}[/]"
        drawn.add_row(fault.name, tests, audit, f"{each.seconds:.0f}")
    return drawn
