"""python -m tests.frozen [--rewrite | --store] [NAME ...]: what differs to the last bit; freeze it; store runs anew."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.frozen import observed
from tests.frozen.frozen_values import VALUES, differences, read, write, write_arrays

# Before which replacing of a file a run is killed: in the middle of its training, and between two rounds.
_KILLED_AT = {"horizontal": 18, "private_training": 15, "split": 50, "split-plain": 50, "vertical_logistic": 50}
_NAMES = ("frames", "agreements", "plans", "pages", "resumed", "runs", "whole")


def _runs(outcomes: dict[str, Any], name: str, keep: bool) -> dict[str, Any]:
    found, arrays = {}, {}
    for case, outcome in outcomes.items():
        seen, models = observed.seen_of(outcome)
        found[case] = {"sha256": observed.digest(models), "models": observed.shapes(models), "seen": seen}
        arrays |= {f"{case}:{key}": array for key, array in observed.some(models).items()}
    if keep:
        VALUES.mkdir(exist_ok=True)
        write_arrays(name, arrays)
    return found


def _now(name: str, folder: Path, keep: bool) -> Any:
    match name:
        case "runs" | "whole":
            cases = observed.RUNS if name == "runs" else observed.WHOLE
            return _runs({case: observed.run_of(case, folder) for case in cases}, name, keep)
        case "resumed":
            outcomes = {case: observed.resumed_of(case, folder) for case in observed.TO_BE_STOPPED}
            outcomes |= {f"{case} whole": observed.run_of(case, folder) for case in observed.NEVER_STOPPED}
            return _runs(outcomes, name, keep)
        case "pages":
            return observed.pages(folder)
        case _:
            return observed.OBSERVED[name]()


def _store() -> None:
    """Make the stopped runs again."""
    shutil.rmtree(observed.STOPPED, ignore_errors=True)
    for name, last in _KILLED_AT.items():
        with TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.frozen.killed", name, folder, str(last)]
            subprocess.run(command, check=True)
            (run,) = Path(folder).iterdir()
            for left in run.rglob(".*.tmp"):
                left.unlink()
            shutil.copytree(run, observed.STOPPED / name)
    for file in observed.STOPPED.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)  # as git keeps them


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(_NAMES)}; all but whole by default")
    parser.add_argument("--rewrite", action="store_true", help="freeze what is now")
    parser.add_argument("--store", action="store_true", help="make the stopped runs again, and freeze what they give")
    given = parser.parse_args()
    if unknown := set(given.names) - set(_NAMES):
        parser.error(f"{', '.join(sorted(unknown))}: names are {', '.join(_NAMES)}")
    names = given.names or (["pages", "resumed"] if given.store else [name for name in _NAMES if name != "whole"])
    if given.store:
        _store()
    keep = given.rewrite or given.store
    failed = False
    for name in names:
        with TemporaryDirectory() as folder:
            now = _now(name, Path(folder), keep)
        if keep:
            write(name, now)
        else:
            found = list(differences(read(name), now))
            failed = failed or bool(found)
            print(f"{name}: {'the same' if not found else f'{len(found)} differences'}", *found[:20], sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
