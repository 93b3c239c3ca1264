"""Several trainings in epochs on one page: what they learnt, what it cost, and in what their settings differ.

Trainings of different kinds are compared in what they share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.config.load import flat
from tacit.events import Counted, EpochFinished
from tacit.report import page
from tacit.report.chart import COLOURS, Chart, Colour, Panel, Point, Series, number
from tacit.report.epochs import LEFT_OUT, footer, in_title, training
from tacit.report.epochs_view import Epochs, epochs_of
from tacit.report.figure import EPSILONS, Figure, Report, bytes_unit, slug, with_points
from tacit.report.markup import Markup, element
from tacit.report.numbers import duration, metric, short
from tacit.report.page_sections import PRIVATE_SETTINGS, promise_card
from tacit.report.promises import Promise, promised
from tacit.store.record import Record, S

_LONGEST = 60  # letters of a setting
_MIXED = Counted("epoch or round", "an epoch or round", "epochs or rounds")


@dataclass(frozen=True, slots=True)
class _Run:
    """A training as it is drawn here."""

    label: str
    record: Epochs
    colour: Colour
    covered: frozenset[str]
    promises: list[Promise]

    def shows(self, field: str, share: bool) -> bool:
        return not share or field in self.covered


def trainings(records: Sequence[Epochs], share: bool) -> Report:
    """The page, and the figures on it."""
    runs = _named(records, share)
    # Of a shared page every figure shown is covered: of runs that are not, nothing is drawn.
    covered = (frozenset.union if share else frozenset.intersection)(*(run.covered for run in runs))
    cover = page.Cover(covered, frozenset())
    groups = {"learning": _learning(runs, share), "privacy": _privacy(runs, share), "costs": _costs(runs, share)}
    drawn = {name: with_points(found) for name, found in groups.items()}
    parts = [
        ("learning", "Learning", page.figures(drawn["learning"], cover) if drawn["learning"] else None),
        ("privacy", "Privacy", page.figures(drawn["privacy"], cover) if drawn["privacy"] else None),
        ("costs", "Time and traffic", page.figures(drawn["costs"], cover) if drawn["costs"] else None),
        ("runs", "The runs", _table(runs, share)),
        ("settings", "Settings that differ", _settings(runs, share)),
    ]
    names = " and ".join([", ".join(run.label for run in runs[:-1]), runs[-1].label])
    whole = page.page(
        f"{names}: comparison",
        page.header(
            "Tacit comparison", names, element("p", f"{len(runs)} trainings over the same {_counted(runs).many}")
        ),
        page.cards(*_cards(runs, share)),
        page.notice("plain", "This page is for sharing", LEFT_OUT) if share else None,
        *page.sections(parts),
        footer(_counted(runs)),
    )
    return Report(whole, tuple(each for found in drawn.values() for each in found))


def report(records: Sequence[Record[S]], share: bool) -> Report:
    """The page of one training in epochs, or of several, which may be of different kinds."""
    views = [epochs_of(record) for record in records]
    return training(views[0], share) if len(views) == 1 else trainings(views, share)


def _named(records: Sequence[Epochs], share: bool) -> list[_Run]:
    labels = [record.settings.name for record in records]
    if len(set(labels)) < len(labels) and not share:
        labels = [record.path.resolve().name for record in records]
    if len(set(labels)) < len(labels):
        labels = [f"{label} {count}" for count, label in enumerate(labels, 1)]
    found = []
    for index, (label, record) in enumerate(zip(labels, records, strict=True)):
        covered = record.boundary.covered
        made = [each for account in record.ledgers for each in promised(account)]
        found.append(_Run(label, record, COLOURS[index % len(COLOURS)], covered, made))
    return found


def _counted(runs: list[_Run]) -> Counted:
    """The words of all runs."""
    found = {run.record.counted for run in runs}
    return found.pop() if len(found) == 1 else _MIXED


# --- the figures


@dataclass(frozen=True, slots=True)
class _Plot:
    """What a figure shows of each run."""

    name: str  # of its file
    axis: str
    caption: str
    field: str  # of events
    title: str
    whole_x: bool = True


def _learning(runs: list[_Run], share: bool) -> list[Figure]:
    found, one = [], _counted(runs).one
    for field, caption in (
        ("metrics", f"At the end of each {one}."),
        ("local", f"Of private records, at the end of each {one}, for the party that holds them."),
    ):
        for name in _names(runs, field, share):
            twice = field == "local" and name in _names(runs, "metrics", share)
            title = f"{in_title(name)} of private records" if twice else in_title(name)
            plot = _Plot(f"{field}-{slug(name)}", name, caption, field, title)
            found.append(_over_epochs(plot, runs, share, _value_of(field, name)))
    words = "Of the records of a step, now and then, for the party that holds them."
    plot = _Plot("loss-of-steps", "loss", words, "loss", "Loss of steps", whole_x=False)
    losses = {run.label: _losses(run.record) for run in runs if run.shows("loss", share)}
    return [*found, _drawn(plot, runs, losses)]


def _names(runs: list[_Run], field: str, share: bool) -> list[str]:
    shown = (event for run in runs if run.shows(field, share) for event in run.record.epochs)
    return list(dict.fromkeys(name for event in shown for name in getattr(event, field)))


def _value_of(field: str, name: str) -> Callable[[EpochFinished], float | None]:
    return lambda event: getattr(event, field).get(name)


def _losses(record: Epochs) -> tuple[Point, ...]:
    return tuple((event.epoch + event.step / max(1, event.steps), event.loss) for event in record.steps)


def _privacy(runs: list[_Run], share: bool) -> list[Figure]:
    plot = _Plot("epsilon", "ε", "What each training has cost so far, each at its own δ.", "epsilon", "ε")
    return [_over_epochs(plot, runs, share, lambda event: event.epsilon)]


def _costs(runs: list[_Run], share: bool) -> list[Figure]:
    plot = _Plot("seconds", "seconds", f"How long each {_counted(runs).one} took.", "seconds", "Seconds")
    found = [_over_epochs(plot, runs, share, lambda event: event.seconds)]
    largest = max((_bytes(event) for run in runs for event in run.record.epochs), default=0)
    if largest:
        unit, size = bytes_unit(largest)
        words = f"Of one party, on the wire, sent and received in each {_counted(runs).one}."
        plot = _Plot("bytes", unit, words, "bytes_sent", "Traffic")
        found.append(_over_epochs(plot, runs, share, lambda event: _bytes(event) / size or None))
    return found


def _bytes(event: EpochFinished) -> int:
    return event.bytes_sent + event.bytes_received


def _over_epochs(plot: _Plot, runs: list[_Run], share: bool, value: Callable[[EpochFinished], float | None]) -> Figure:
    shown = [run for run in runs if run.shows(plot.field, share)]
    return _drawn(plot, runs, {run.label: tuple((e.epoch + 1.0, value(e)) for e in run.record.epochs) for run in shown})


def _drawn(plot: _Plot, runs: list[_Run], points: Mapping[str, tuple[Point, ...]]) -> Figure:
    """A line for each run that has such numbers."""
    series = tuple(
        Series(run.label, points[run.label], run.colour)
        for run in runs
        if any(number(y) is not None for _, y in points.get(run.label, ()))
    )
    panel = Panel(plot.axis, series, from_zero=plot.field in {*EPSILONS, "seconds", "bytes_sent"})
    caption = plot.caption if len(series) != 1 else f"{plot.caption} Only {series[0].name} has such numbers."
    chart = Chart(plot.name, plot.title, caption, _counted(runs).one, (panel,), whole_x=plot.whole_x)
    return Figure(chart, frozenset({plot.field}))


# --- words and tables


def _last(run: _Run, share: bool) -> dict[str, float]:
    """The figures after the last epoch that has any."""
    for event in reversed(run.record.epochs):
        for field in ("metrics", "local"):
            values = getattr(event, field) if run.shows(field, share) else {}
            if kept := {name: value for name, value in values.items() if number(value) is not None}:
                return kept
    return {}


def _cards(runs: list[_Run], share: bool) -> Iterable[Markup]:
    for run in runs:
        for name, value in list(_last(run, share).items())[:1]:
            yield page.card(run.label, metric(name, value), f"{name} after the last {run.record.counted.one}")
        for promise in run.promises:
            yield promise_card(promise, run.label)


def _table(runs: list[_Run], share: bool) -> Markup:
    head = ["run", "protection", "at the end", "ε"]
    rows = []
    for run in runs:
        record = run.record
        last = [f"{name} {metric(name, value)}" for name, value in _last(run, share).items()]
        epsilons = [f"{each.what}: {short(each.epsilon)} at δ = {short(each.delta, 3)}" for each in run.promises]
        row = [
            run.label,
            record.started.protection if record.started else "",
            ", ".join(last),
            ", ".join(epsilons) or "none",
        ]
        rows.append(row if share else [*row, *_costs_of(record)])
    if not share:
        counted = _counted(runs)
        head += ["status", counted.many, "time", counted.each, "traffic"]
    return page.table(head, rows, label="The runs")


def _costs_of(record: Epochs) -> list[str]:
    count = len(record.epochs)
    planned = f" of {record.started.epochs}" if record.started is not None else ""
    sent = sum(_bytes(event) for event in record.epochs)
    unit, size = bytes_unit(sent / count if count else 0)
    return [
        record.status,
        f"{count}{planned}",
        duration(record.seconds),
        duration(record.seconds / count) if count else "",
        f"{short(sent / count / size, 3)} {unit} {record.counted.each}" if count and sent else "",
    ]


def _settings(runs: list[_Run], share: bool) -> Markup:
    """Each setting in which the runs differ: it may be why the curves do."""
    found = [dict(flat(run.record.settings)) for run in runs]
    keys = dict.fromkeys(key for each in found for key in each)
    differing = [
        key
        for key in keys
        if key != "name"
        and not (share and key.partition(".")[0] in PRIVATE_SETTINGS)
        and len({repr(each.get(key)) for each in found}) > 1
    ]
    if not differing:
        return page.paragraph("The runs have the same settings.")
    rows = [[key, *(_setting(each, key) for each in found)] for key in differing]
    return page.table(["setting", *(run.label for run in runs)], rows, label="Settings that differ")


def _setting(settings: dict[str, Any], key: str) -> str:
    if key not in settings:
        return ""
    words = str(settings[key])
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
