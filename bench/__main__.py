"""The command line: `python -m bench NAME [--json] [--quick] [--data DIR] [--plots DIR] [--store DIR]`.

`python -m bench all` runs each benchmark in a process of its own. One that fails, or is not done in its time, does not
end the others, and what each found is stored when it is there: the run may be interrupted, and begun again.
`python -m bench sabotage` measures nothing and is not among `all`: see `bench/sabotage`.

Exit codes: 0 every judged row reaches its floor, 1 one does not or a benchmark failed, 2 the user's input or a missing
package, 130 it was interrupted.
"""

import argparse
import ast
import importlib
import importlib.util
import os
import pkgutil
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

import bench
from bench.apart import Failed, measured
from bench.measure import Budget, Options, Result, Row
from bench.stored import store
from bench.table import json_line, table

QUICK_LIMIT = 50.0  # seconds for the whole process, or for the process of each benchmark
QUICK_BUDGET = 40.0  # of which the benchmarks plan with this much; the rest is for imports and one call too many
FULL_BUDGET = 600.0  # seconds for one benchmark
ALL_BUDGET = 3000.0  # seconds for all of them; the rest of an hour is for what a benchmark does besides its rounds
ALL_LIMIT = 3540.0  # seconds after which all of them have ended, done or not, ...
LAST_RESERVE = 30.0  # ... with so many left for each that comes later
ONE_LIMIT = 900.0  # seconds after which one of them is ended
INTERRUPTED = 130  # the exit code, as shells have it
FILE_WIDTH = 140  # columns where no terminal sets a width

# Where each package that is not in the core comes from: import name to extra.
EXTRAS = {
    "phe": "bench",
    "opacus": "bench",
    "opendp": "bench",
    "private_set_intersection": "bench",
    "xgboost": "bench",
    "torch": "torch",
    "transformers": "hf",
    "peft": "hf",
    "ray": "ray",
    "flwr": "flower",
    "pyarrow": "parquet",
}


class UsageError(Exception):
    """The user asked for something that cannot be run. The message is one sentence."""


class MissingPackage(Exception):
    """A benchmark needs a package of an extra that is not installed. The message is one sentence."""


def benchmark_names() -> list[str]:
    """The modules of `bench` with a top-level function `run`. They are read, not imported."""
    names = []
    for folder in bench.__path__:
        for module in pkgutil.iter_modules([folder]):
            path = Path(folder, f"{module.name}.py")
            if path.exists():
                tree = ast.parse(path.read_text(encoding="utf-8"))
                if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
                    names.append(module.name)
    return sorted(names)


def run_benchmark(name: str, options: Options, limit: float | None = None) -> Result:
    """Import and run one benchmark; with a `limit` of seconds, in a process of its own."""
    try:
        if limit is not None:
            rows = measured(name, options.budget.remaining(), options.quick, options.data, options.plots, limit=limit)
        else:
            run: Callable[[Options], list[Row]] = importlib.import_module(f"bench.{name}").run
            rows = tuple(run(options))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS and limit is not None:
            raise Failed(f"Benchmark {name} failed: {error}.") from error
        if package not in EXTRAS:
            raise  # a mistake in the benchmark, not in the user's environment
        extra = EXTRAS[package]
        raise MissingPackage(
            f"Benchmark {name} needs the package {package}: install it with "
            f"pip install -c constraints.txt '.[{extra}]'."
        ) from error
    if not rows and limit is not None:
        raise Failed(f"Benchmark {name} measured nothing.")
    if not rows:
        raise RuntimeError(f"benchmark {name} measured nothing")  # an empty result must not pass
    return Result(name, rows)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Tacit against its peers.")
    parser.add_argument("name", metavar="NAME", help="a benchmark, or all; or sabotage, which has options of its own")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line, not a table")
    parser.add_argument(
        "--quick", action="store_true", help=f"small inputs; a benchmark ends within {QUICK_LIMIT:.0f} s"
    )
    parser.add_argument("--data", metavar="DIR", type=Path, help="a folder with data for the benchmarks that use it")
    parser.add_argument("--plots", metavar="DIR", type=Path, help="a folder for the pictures that some benchmarks draw")
    parser.add_argument("--store", metavar="DIR", type=Path, help="a folder for the results, one JSON file a benchmark")
    return parser.parse_args(argv)


def chosen(name: str) -> list[str]:
    """The benchmarks that NAME stands for."""
    known = benchmark_names()
    if name == "all":
        return known
    if name not in known:
        raise UsageError(f"There is no benchmark {name!r}: choose one of {', '.join(['all', *known])}.")
    return [name]


def stop_at_limit() -> threading.Timer:
    """End the process at the quick limit, even when a benchmark does not return."""

    def stop() -> None:
        print(f"The quick run did not finish in {QUICK_LIMIT:.0f} s and was stopped.", file=sys.stderr, flush=True)
        os._exit(1)  # an exception would reach this thread only, not the one that measures

    timer = threading.Timer(QUICK_LIMIT - 1, stop)  # a second is left for the interpreter's own start
    timer.daemon = True
    timer.start()
    return timer


def measure(
    names: Sequence[str], *, quick: bool, data: Path | None, plots: Path | None, folder: Path | None = None
) -> tuple[list[Result], list[str], list[str]]:
    """Run the benchmarks, and store each result when it is there.

    Returns them, the names that lack a package, and those that failed: one by itself raises its error.
    """
    results, missing, failed = [], [], []
    whole = Budget(QUICK_BUDGET if quick else min(ALL_BUDGET, FULL_BUDGET * len(names)))
    last = Budget(ALL_LIMIT)
    for index, name in enumerate(names):
        if len(names) > 1 or sys.stderr.isatty():
            print(f"measuring {name} ({index + 1} of {len(names)})", file=sys.stderr, flush=True)
        load = os.getloadavg()[0]
        left = len(names) - index
        longest = QUICK_LIMIT if quick else min(ONE_LIMIT, last.remaining() - LAST_RESERVE * (left - 1))
        try:
            options = Options(whole.share(left), quick, data, plots)
            results.append(run_benchmark(name, options, max(LAST_RESERVE, longest) if len(names) > 1 else None))
        except MissingPackage as error:
            print(error, file=sys.stderr)
            missing.append(name)
            continue
        except Failed as error:
            print(error, file=sys.stderr, flush=True)
            failed.append(name)
            continue
        if folder is not None:
            store(results[-1], folder, with_data=data is not None, load=load)
    return results, missing, failed


def sabotage(argv: Sequence[str]) -> int:
    """Plant faults: see `bench/sabotage`. It needs what the tests need."""
    if importlib.util.find_spec("pytest") is None or importlib.util.find_spec("torch") is None:
        print(
            "Planted faults need pytest and torch: install them with pip install -c constraints.txt -e '.[dev,torch]'.",
            file=sys.stderr,
        )
        return 2
    from bench.sabotage import command

    return command.main(argv)


def main(argv: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    if argv[:1] == ["sabotage"]:
        return sabotage(argv[1:])
    options = arguments(argv)
    try:
        names = chosen(options.name)
        if options.data is not None and not options.data.is_dir():
            raise UsageError(f"The folder {str(options.data)!r} given by --data does not exist.")
        if options.plots is not None and not options.plots.is_dir():
            raise UsageError(f"The folder {str(options.plots)!r} given by --plots does not exist.")
        if options.store is not None and not options.store.is_dir():
            raise UsageError(f"The folder {str(options.store)!r} given by --store does not exist.")
        if options.store is not None and options.quick:
            raise UsageError("A quick run measures small inputs: leave out --quick, or --store.")
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    limit = stop_at_limit() if options.quick and len(names) == 1 else None
    try:
        results, missing, failed = measure(
            names, quick=options.quick, data=options.data, plots=options.plots, folder=options.store
        )
    except KeyboardInterrupt:
        kept = "" if options.store is None else ", with what was measured until then stored"
        print(f"The run was interrupted{kept}.", file=sys.stderr)
        return INTERRUPTED
    finally:
        if limit is not None:
            limit.cancel()
    if options.json:
        print(json_line(results, quick=options.quick, missing=missing, failed=failed))
    elif results:
        Console(width=None if sys.stdout.isatty() else FILE_WIDTH).print(table(results))
    if failed:
        print(f"No result of {', '.join(failed)}: see the reasons above.", file=sys.stderr)
    if failed or not all(result.passed for result in results):
        return 1
    return 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
