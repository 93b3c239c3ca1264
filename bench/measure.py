"""How a benchmark measures: ours and the peer interleaved in one run, compared as a ratio.

A benchmark is a module `bench/NAME.py` with a function `run(options: Options) -> list[Row]`:

    from bench.measure import CPU, Options, Row, Side, interleave, rate_row

    def run(options: Options) -> list[Row]:
        import opendp                                    # a peer: if it is missing, the user is told the extra
        count = 100_000 if options.quick else 1_000_000
        pair = interleave(
            Side(lambda: ours(count), work=count),       # one call does `work` units; the two sides may differ
            Side(lambda: theirs(1_000), work=1_000),
            options.budget.share(1),                     # share(n): an equal part of what is left, with n rows to go
            clock=CPU,                                   # or WALL, the default
        )
        return [rate_row("discrete Gaussian", pair, unit="samples", floor=100, target=500)]

`interleave` returns seconds per unit of work. Make a row of it with
- `time_row(name, pair, ...)`: shows seconds, lower is better;
- `rate_row(name, pair, unit=..., ...)`: shows units per second, higher is better;
- `Row(...)` itself for anything else, such as bytes or an overhead.

`floor` and `target` bound the ratio: how many times better ours is than the peer, whichever way "better" points.
With `judged="ours"` they bound the absolute value of ours, for instance 10e6 samples per second.
Such a row needs no peer (`interleave(ours, None, ...)`), but may have one: its ratio is then shown and not judged.

`options.quick` asks for small inputs and `options.budget` holds the time left: the whole run is stopped at 50 s.
`options.data` is the folder given by `--data`, or None; `options.plots` that for pictures, given by `--plots`.
"""

import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Clock = Callable[[], float]
WALL: Clock = time.perf_counter
CPU: Clock = time.process_time  # this process, all its threads; not its child processes

Verdict = Literal["on target", "above floor", "below floor", "not judged"]

SHORTEST = 1e-9  # seconds; a clock that did not move must not divide by zero


@dataclass(frozen=True, slots=True)
class Budget:
    """Wall time that a benchmark may use. It starts when it is made."""

    seconds: float
    clock: Clock = WALL
    started: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "started", self.clock())

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.started + self.seconds - self.clock())

    def share(self, parts: int) -> "Budget":
        """A budget of one of `parts` equal parts of what remains."""
        return Budget(self.remaining() / parts, self.clock)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks of a benchmark."""

    budget: Budget
    quick: bool = False
    data: Path | None = None
    plots: Path | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One contender. A call does `work` units of work: samples, records, steps."""

    call: Callable[[], object]
    work: float = 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Seconds per unit of work of both sides, after `rounds` measured rounds."""

    ours: float
    peer: float | None
    rounds: int


@dataclass(frozen=True, slots=True)
class Row:
    """One measured line: a value of ours, perhaps the peer's, and what is asked of them."""

    name: str
    ours: float
    peer: float | None
    unit: str
    better: Literal["lower", "higher"]
    floor: float | None = None
    target: float | None = None
    judged: Literal["ratio", "ours"] = "ratio"

    def __post_init__(self) -> None:
        if self.judged == "ratio" and self.peer is None and (self.floor is not None or self.target is not None):
            raise ValueError(f"row {self.name!r} has no peer, so no ratio to judge: pass judged='ours'")

    @property
    def ratio(self) -> float | None:
        """How many times better ours is than the peer."""
        if self.peer is None:
            return None
        better, worse = (self.peer, self.ours) if self.better == "lower" else (self.ours, self.peer)
        return better / worse if worse else None

    @property
    def verdict(self) -> Verdict:
        """Where the judged value stands. A value that is not a number is below every floor."""
        if self.floor is None and self.target is None:
            return "not judged"
        if self.floor is not None and not self._reaches(self.floor):
            return "below floor"
        if self.target is not None and self._reaches(self.target):
            return "on target"
        return "above floor" if self.floor is not None else "not judged"

    def _reaches(self, bound: float) -> bool:
        if self.judged == "ratio":
            return self.ratio is not None and self.ratio >= bound
        return self.ours <= bound if self.better == "lower" else self.ours >= bound


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of one benchmark."""

    benchmark: str
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        return all(row.verdict != "below floor" for row in self.rows)


def interleave(
    ours: Side,
    peer: Side | None,
    budget: Budget,
    *,
    rounds: int = 7,
    warm_up: int = 1,
    clock: Clock = WALL,
    summary: Callable[[Sequence[float]], float] = statistics.median,
) -> Pair:
    """Measure both sides in turn, so that a change in the machine's speed meets both alike.

    `warm_up` calls of each side come first and are not measured. At least one round is measured. Then rounds go on
    until there are `rounds` of them or the next one would not fit in the budget. `summary` is the median or `min`.
    """
    sides = [ours] if peer is None else [ours, peer]
    for side in sides:
        for _ in range(warm_up):
            side.call()
    seconds: dict[int, list[float]] = {index: [] for index in range(len(sides))}
    longest = 0.0
    for measured in range(rounds):
        if measured and budget.remaining() < longest:
            break
        start = budget.clock()
        # The first place changes hands: what one side leaves in the caches must not always help the same other.
        for index in sorted(seconds, reverse=bool(measured % 2)):
            seconds[index].append(_seconds(sides[index], clock))
        longest = max(longest, budget.clock() - start)
    per_unit = [summary(seconds[index]) / side.work for index, side in enumerate(sides)]
    return Pair(per_unit[0], per_unit[1] if peer is not None else None, len(seconds[0]))


def _seconds(side: Side, clock: Clock) -> float:
    start = clock()
    side.call()
    return max(clock() - start, SHORTEST)


def time_row(
    name: str,
    pair: Pair,
    *,
    floor: float | None = None,
    target: float | None = None,
    judged: Literal["ratio", "ours"] = "ratio",
) -> Row:
    """A row in seconds per unit of work: lower is better."""
    return Row(name, pair.ours, pair.peer, "s", "lower", floor, target, judged)


def rate_row(
    name: str,
    pair: Pair,
    *,
    unit: str,
    floor: float | None = None,
    target: float | None = None,
    judged: Literal["ratio", "ours"] = "ratio",
) -> Row:
    """A row in units of work per second: higher is better."""
    peer = None if pair.peer is None else 1 / pair.peer
    return Row(name, 1 / pair.ours, peer, f"{unit}/s", "higher", floor, target, judged)


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # `ru_maxrss` of a new process also counts the one that it came from
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
