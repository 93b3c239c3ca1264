"""The arithmetic of benchmarks, with a clock that moves only when a side is called."""

import json
import math

import pytest

from bench.measure import Budget, Pair, Result, Row, Side, interleave, rate_row, time_row
from bench.table import json_line, quantity


class ManualClock:
    """Time that passes only by `spend`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def side(self, name: str, *seconds: float, work: float = 1.0) -> Side:
        """A side whose calls take the given seconds in turn, the last one ever after."""
        left = list(seconds)

        def call() -> None:
            self.calls.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return Side(call, work)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_sides_alternate_and_the_first_place_changes_hands(clock: ManualClock) -> None:
    pair = interleave(
        clock.side("ours", 1), clock.side("peer", 2), Budget(1000, clock), rounds=3, warm_up=0, clock=clock
    )
    assert clock.calls == ["ours", "peer", "peer", "ours", "ours", "peer"]
    assert pair == Pair(ours=1, peer=2, rounds=3)


def test_warm_up_is_not_measured(clock: ManualClock) -> None:
    pair = interleave(clock.side("ours", 90, 1), clock.side("peer", 50, 3), Budget(1000, clock), clock=clock)
    assert pair == Pair(ours=1, peer=3, rounds=7)


def test_median_is_taken_unless_min_is_asked_for(clock: ManualClock) -> None:
    def times() -> Side:
        return clock.side("ours", 5, 1, 9)

    budget = Budget(1000, clock)
    assert interleave(times(), None, budget, rounds=3, warm_up=0, clock=clock).ours == 5
    assert interleave(times(), None, budget, rounds=3, warm_up=0, clock=clock, summary=min).ours == 1


def test_work_of_the_two_sides_may_differ(clock: ManualClock) -> None:
    ours, peer = clock.side("ours", 2, work=1_000), clock.side("peer", 2, work=10)
    row = rate_row("draws", interleave(ours, peer, Budget(1000, clock), clock=clock), unit="samples", floor=50)
    assert (row.ours, row.peer, row.unit) == (pytest.approx(500), pytest.approx(5), "samples/s")
    assert row.ratio == pytest.approx(100)
    assert row.verdict == "above floor"


def test_rounds_stop_when_the_next_would_not_fit(clock: ManualClock) -> None:
    pair = interleave(
        clock.side("ours", 1), clock.side("peer", 9), Budget(35, clock), rounds=100, warm_up=0, clock=clock
    )
    assert pair.rounds == 3
    assert clock.now <= 35


def test_a_spent_budget_still_measures_one_round(clock: ManualClock) -> None:
    assert interleave(clock.side("ours", 4), None, Budget(0, clock), clock=clock) == Pair(4, None, 1)


def test_a_clock_that_stands_still_gives_a_finite_ratio(clock: ManualClock) -> None:
    ratio = time_row(
        "nothing", interleave(clock.side("ours", 0), clock.side("peer", 1), Budget(9, clock), clock=clock)
    ).ratio
    assert ratio is not None
    assert math.isfinite(ratio)


def test_budget_is_shared_out_of_what_remains(clock: ManualClock) -> None:
    budget = Budget(40, clock)
    clock.now = 10
    assert budget.share(3).remaining() == 10
    clock.now = 50
    assert budget.remaining() == 0
    assert budget.share(2).remaining() == 0


@pytest.mark.parametrize(
    ("better", "ours", "peer", "ratio"),
    [("lower", 2.0, 6.0, 3.0), ("higher", 6.0, 2.0, 3.0), ("lower", 6.0, 2.0, 1 / 3)],
)
def test_ratio_is_how_many_times_better_ours_is(better: str, ours: float, peer: float, ratio: float) -> None:
    assert Row("r", ours, peer, "s", better).ratio == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("ratio", "floor", "target", "verdict"),
    [
        (2.0, 2.0, 4.0, "above floor"),
        (1.99, 2.0, 4.0, "below floor"),
        (4.0, 2.0, 4.0, "on target"),
        (4.0, None, 4.0, "on target"),
        (3.0, None, 4.0, "not judged"),
        (9.0, 2.0, None, "above floor"),
        (0.1, None, None, "not judged"),
        (math.nan, 2.0, 4.0, "below floor"),
    ],
)
def test_verdict(ratio: float, floor: float | None, target: float | None, verdict: str) -> None:
    row = Row("r", ratio, 1.0, "runs/s", "higher", floor, target)
    assert row.verdict == verdict
    assert Result("b", (row,)).passed == (verdict != "below floor")


@pytest.mark.parametrize(
    ("better", "ours", "verdict"),
    [
        ("higher", 12e6, "above floor"),
        ("higher", 9e6, "below floor"),
        ("lower", 9e6, "above floor"),
        ("lower", 12e6, "below floor"),
    ],
)
@pytest.mark.parametrize("peer", [None, 1.0])
def test_absolute_floor_judges_ours_with_or_without_a_peer(
    better: str, ours: float, verdict: str, peer: float | None
) -> None:
    assert Row("r", ours, peer, "u", better, floor=10e6, judged="ours").verdict == verdict


def test_a_floor_on_a_ratio_needs_a_peer() -> None:
    with pytest.raises(ValueError, match="no peer"):
        Row("r", 1.0, None, "s", "lower", floor=2.0)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.00125, "s", "1.25 ms"),
        (8000.0, "s", "8e+03 s"),
        (56.2e6, "samples/s", "56.2 M samples/s"),
        (3.0, "samples/s", "3 samples/s"),
        (0.0, "s", "0 s"),
        (None, "s", "-"),
    ],
)
def test_quantity_is_readable(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_json_line_is_one_line_and_fails_when_a_benchmark_is_missing() -> None:
    result = Result("noise", (Row("draws", 4.0, 2.0, "samples/s", "higher", floor=1.5),))
    line = json_line([result], quick=True, missing=[])
    assert "\n" not in line
    (row,) = json.loads(line)["rows"]
    assert (row["benchmark"], row["ratio"], row["floor"], row["verdict"]) == ("noise", 2.0, 1.5, "above floor")
    assert json.loads(line)["passed"] is True
    assert json.loads(json_line([result], quick=True, missing=["psi"]))["passed"] is False
