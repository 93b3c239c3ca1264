"""The report of a training in epochs."""

from __future__ import annotations

from collections.abc import Callable

from tacit.events import Counted, EpochFinished
from tacit.report import page
from tacit.report import page_sections as sections
from tacit.report.chart import Chart, Colour, Panel, Series, number
from tacit.report.epochs_view import Epochs
from tacit.report.figure import EPSILONS, Figure, Report, bytes_unit, slug, with_points
from tacit.report.markup import Markup, element, join
from tacit.report.numbers import duration, metric, or_nothing, short
from tacit.report.page_sections import PRIVATE_SETTINGS, promise_card
from tacit.report.promises import Promise, promised
from tacit.report.results import results, unnamed
from tacit.report.results import shown as in_words
from tacit.version import __version__

TONES: dict[str, page.Tone] = {"done": "good", "budget reached": "fair", "failed": "bad"}
LEFT_OUT = (
    "Left out, because no ε covers it: losses and curves of private records, times, traffic, and how the run ended, in "
    "words."
)


def training(record: Epochs, share: bool) -> Report:
    """The page, and the figures on it."""
    covered = record.boundary.covered
    made = [each for account in record.ledgers for each in promised(account)]
    cover = page.Cover(covered, frozenset())
    groups = {"learning": _learning(record), "spending": _spending(record), "costs": _costs(record)}
    shown = {name: [each for each in found if not share or each.fields <= covered] for name, found in groups.items()}
    drawn = {name: page.figures(found, cover) for name, found in shown.items()}
    left = [] if share else results(record)
    shown |= {f"results: {each.title}": each.figures for each in left}
    parts = [
        ("learning", "Learning", _learned(record, drawn["learning"], share, covered)),
        *((f"results-{slug(each.title)}", each.title, in_words(each, cover)) for each in left),
        ("privacy", "Privacy", _privacy(record, made, drawn["spending"])),
        ("boundary", "Who saw what", sections.boundary(record.boundary)),
        ("costs", "Time and traffic", None if share else _spent_time(record, drawn["costs"])),
        ("settings", "Settings", _settings(record, share)),
    ]
    whole = page.page(
        f"{record.settings.name}: report",
        _headline(record, made, share, covered),
        *_notices(record, share),
        *page.sections(parts),
        footer(record.counted),
        styles=("results.css",) if left else (),
    )
    return Report(whole, tuple(each for found in shown.values() for each in found))


def footer(counted: Counted) -> Markup:
    return element("footer", f"Made by tacit {__version__}. {counted.title} count from 1.")


# --- the top of the page


def _headline(record: Epochs, made: list[Promise], share: bool, covered: frozenset[str]) -> Markup:
    badge = element("span", record.status, class_=f"badge {TONES.get(record.status, 'fair')}")
    parts = []
    if record.started is not None:
        parts = [record.started.protection, f"{record.started.parameters:,} {record.counted.numbers}{_whose(record)}"]
        if record.started.parties > 1:
            parts.insert(0, f"{record.started.parties} parties")
    lines = [element("p", "" if share else join(badge, " "), " · ".join(parts))]
    if not share:
        lines.append(element("p", record.path.resolve().name))
    return join(
        page.header("Tacit run", record.settings.name, *lines), page.cards(*_cards(record, made, share, covered))
    )


def _whose(record: Epochs) -> str:
    """Of which part of the model the parameters are."""
    if record.started is None or record.started.parties == 1:
        return ""
    return " of the whole model" if record.settings.counts_whole_model else ""


def _cards(record: Epochs, made: list[Promise], share: bool, covered: frozenset[str]) -> list[Markup]:
    found = []
    if record.epochs and (not share or "metrics" in covered):
        last = record.epochs[-1]
        shown = last.metrics if share or last.metrics else last.local  # of private records: for this party's eyes
        for name, value in list(shown.items())[:3]:
            if number(value) is not None:
                found.append(page.card(in_title(name), metric(name, value), f"after the last {record.counted.one}"))
    found += [promise_card(promise) for promise in made]
    if not made:
        found.append(page.card("ε", "none", "nothing here has an ε", "bad"))
    if share:
        return found
    planned = f" of {record.started.epochs}" if record.started is not None else ""
    found.append(page.card(record.counted.title, f"{len(record.epochs)}{planned}"))
    if record.aligned is not None:
        found.append(page.card("Common records", f"{record.aligned.common:,}", f"of {record.aligned.own:,} here"))
    rate = f"{short(record.seconds / len(record.epochs), 3)} s {record.counted.each}" if record.epochs else ""
    found.append(page.card("Time", duration(record.seconds), rate))
    return found


def _notices(record: Epochs, share: bool) -> list[Markup]:
    if share:
        more = ["So are tables and coefficients, which derive from private records."] if results(record) else []
        return [
            page.notice(
                "plain",
                "This page is for sharing",
                LEFT_OUT,
                *more,
                f"Left out of the settings, because it may hold paths and addresses: {', '.join(PRIVATE_SETTINGS)}.",
            )
        ]
    found = []
    if not record.epochs:
        found.append(page.notice("fair", f"No {record.counted.one} was finished", "There are no figures to show yet."))
    if record.finished is not None and record.finished.text:
        found.append(page.notice("fair", f"The run ended: {record.finished.status}", record.finished.text))
    if record.resumed:
        times = "once" if record.resumed == 1 else f"{record.resumed} times"
        words = "Steps that were done again are shown as they came out the last time."
        found.append(page.notice("plain", f"The run was resumed {times}", words))
    return found


def in_title(name: str) -> str:
    """A figure's name at the top of something."""
    return name.upper() if name in ("auc", "ks", "roc") else name[:1].upper() + name[1:]


# --- the figures


def _learning(record: Epochs) -> list[Figure]:
    found = []
    for name in dict.fromkeys(name for event in record.epochs for name in event.metrics):
        found.append(
            _over_epochs(
                f"metric-{slug(name)}",
                name,
                f"At the end of each {record.counted.one}.",
                record,
                lambda event, name=name: event.metrics.get(name),  # type: ignore[misc]
                "metrics",
                "teal" if name == "accuracy" else "blue",
            )
        )
    for name in dict.fromkeys(name for event in record.epochs for name in event.local):
        found.append(
            _over_epochs(
                f"local-{slug(name)}",
                name,
                "Of private records, for this party's eyes.",
                record,
                lambda event, name=name: event.local.get(name),  # type: ignore[misc]
                "local",
                "amber",
            )
        )
    losses = tuple((event.epoch + event.step / max(1, event.steps), event.loss) for event in record.steps)
    series = Series("loss", losses, "amber")
    words = "Of the records of a step, now and then, for this party's eyes."
    found.append(
        Figure(
            Chart(
                "loss-of-steps", "Loss of steps", words, record.counted.one, (Panel("loss", (series,)),), whole_x=False
            ),
            frozenset({"loss"}),
        )
    )
    found += unnamed(record)
    return with_points(found)


def _spending(record: Epochs) -> list[Figure]:
    deltas = {event.delta for event in record.epochs if event.delta is not None}
    at = f" at δ = {short(max(deltas), 3)}" if deltas else ""
    words = f"What the training has cost so far{at}."
    return with_points(
        [_over_epochs("epsilon", f"ε{at}", words, record, lambda event: event.epsilon, "epsilon", "violet")]
    )


def _costs(record: Epochs) -> list[Figure]:
    found = [
        _over_epochs(
            "seconds",
            "seconds",
            f"How long each {record.counted.one} took.",
            record,
            lambda event: event.seconds,
            "seconds",
        )
    ]
    unit, size = bytes_unit(max((max(e.bytes_sent, e.bytes_received) for e in record.epochs), default=0))
    if any(event.bytes_sent or event.bytes_received for event in record.epochs):
        sent = tuple((event.epoch + 1, event.bytes_sent / size) for event in record.epochs)
        received = tuple((event.epoch + 1, event.bytes_received / size) for event in record.epochs)
        panel = Panel(unit, (Series("sent", sent, "blue"), Series("received", received, "amber")), from_zero=True)
        words = f"Of this party, on the wire, in each {record.counted.one}."
        found.append(Figure(Chart("bytes", "Traffic", words, record.counted.one, (panel,)), frozenset({"bytes_sent"})))
    return with_points(found)


def _over_epochs(
    name: str,
    axis: str,
    caption: str,
    record: Epochs,
    value: Callable[[EpochFinished], float | None],
    field: str,
    colour: Colour = "blue",
) -> Figure:
    points = tuple((event.epoch + 1, value(event)) for event in record.epochs)
    title = in_title(axis) if field not in EPSILONS else axis
    panel = Panel(axis, (Series(axis, points, colour),), from_zero=field in EPSILONS)
    return Figure(Chart(name, title, caption, record.counted.one, (panel,)), frozenset({field}))


# --- the sections


def _learned(record: Epochs, drawn: Markup, share: bool, covered: frozenset[str]) -> Markup | None:
    if not record.epochs:
        return None if share else page.paragraph(f"No {record.counted.one} was finished: nothing was learned yet.")
    if share and "metrics" not in covered:
        return None
    return join(drawn, page.folded(f"All {record.counted.many} as a table", _table(record, covered if share else None)))


def _table(record: Epochs, covered: frozenset[str] | None) -> Markup:
    columns: list[tuple[str, list[str]]] = [(record.counted.one, [str(event.epoch + 1) for event in record.epochs])]
    for field in ("metrics", "local"):
        if covered is None or field in covered:
            for name in dict.fromkeys(name for event in record.epochs for name in getattr(event, field)):
                columns.append((name, [or_nothing(getattr(event, field).get(name)) for event in record.epochs]))
    columns.append(("ε", [or_nothing(event.epsilon) for event in record.epochs]))
    if covered is None:
        columns.append(("seconds", [or_nothing(event.seconds) for event in record.epochs]))
    kept = [(name, cells) for name, cells in columns if any(cells)]
    rows = list(zip(*(cells for _, cells in kept), strict=True))
    return page.table([name for name, _ in kept], rows, numbers=True, label=f"All {record.counted.many}")


def _privacy(record: Epochs, made: list[Promise], drawn: Markup) -> Markup:
    found = [sections.promised(each) for each in made]
    if not made:
        found.append(page.paragraph("Nothing in this run has an ε: what it tells about a record is not bounded."))
    return join(*found, drawn, sections.ledgers(record.ledgers))


def _spent_time(record: Epochs, drawn: Markup) -> Markup | None:
    if not record.epochs:
        return None
    return join(drawn, sections.stages([event.stages for event in record.epochs], f"Stages of {record.counted.each}"))


def _settings(record: Epochs, share: bool) -> Markup:
    settings = record.settings
    notes = settings.notes() if share else list(record.notes)
    fixes = "The seed fixes the first model and the split of the data. Samples, noise and keys are drawn afresh."
    return sections.settings(settings, notes, fixes, record.environment, share)
