"""Several runs on one page: their losses and scores over the same rounds.

A run whose inference results are protected is dashed, the first of them in red.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tacit.dp.accounting import strength
from tacit.kinds.horizontal import boundary
from tacit.kinds.horizontal.report.figures import score_name
from tacit.kinds.horizontal.report.promises import hollow, promises
from tacit.kinds.horizontal.report.scores import loss, pairs
from tacit.kinds.horizontal.report.single import correlation_sentence, footer
from tacit.kinds.horizontal.rounds_view import Rounds
from tacit.report import page
from tacit.report.chart import Chart, Colour, Panel, Point, Series, number
from tacit.report.correlation import correlation, mean_relative_difference
from tacit.report.figure import Figure, Report
from tacit.report.markup import Markup, element, join
from tacit.report.numbers import duration, metric, short, signed
from tacit.report.page_sections import promise_card
from tacit.report.promises import Promise

_OPEN: tuple[Colour, ...] = ("blue", "teal", "violet", "grey")
_PROTECTED: tuple[Colour, ...] = ("red", "amber", "violet", "grey")


@dataclass(frozen=True, slots=True)
class _Run:
    """A run as it is drawn here."""

    label: str
    record: Rounds
    covered: frozenset[str]
    colour: Colour
    protected: bool  # its inference results
    promises: list[Promise]

    def shows(self, field: str, share: bool) -> bool:
        return not share or field in self.covered


def comparison(records: Sequence[Rounds], share: bool) -> Report:
    """The page, and the figures on it."""
    runs = _named(records, share)
    # Of a shared page every figure shown is covered: of runs that are not, nothing is drawn.
    covered = (frozenset.union if share else frozenset.intersection)(*(run.covered for run in runs))
    cover = page.Cover(covered, frozenset.union(*(hollow(run.promises) for run in runs)))
    drawn = _figures(runs, share)
    sections = [
        ("overlay", "Loss and score", join(page.figures(drawn, cover), page.bullets(_findings(runs, share)))),
        ("runs", "The runs", join(_table(runs, share), page.bullets(_settings_apart(runs)))),
        ("privacy", "What the protection means", _privacy(runs)),
    ]
    names = " and ".join([", ".join(run.label for run in runs[:-1]), runs[-1].label])
    whole = page.page(
        f"{names}: comparison",
        page.header("Tacit comparison", names, element("p", f"{len(runs)} runs over the same rounds")),
        page.cards(*_cards(runs, share)),
        _left_out() if share else None,
        *(page.section(anchor, title, body) for anchor, title, body in sections),
        footer(),
    )
    return Report(whole, tuple(drawn))


def _named(records: Sequence[Rounds], share: bool) -> list[_Run]:
    names = [record.settings.name for record in records]
    found = []
    counts = {True: 0, False: 0}
    for index, record in enumerate(records):
        name = names[index]
        if names.count(name) > 1:
            name = f"{name} {index + 1}" if share else record.path.resolve().name
        protected = record.settings.vectors.protects
        colours = _PROTECTED if protected else _OPEN
        colour = colours[counts[protected] % len(colours)]
        counts[protected] += 1
        found.append(_Run(name, record, boundary.covered(record.settings), colour, protected, promises(record)))
    if len({run.label for run in found}) < len(found):  # folders of one name, in different places
        found = [replace(run, label=f"{run.label} ({count})") for count, run in enumerate(found, 1)]
    return found


def _figures(runs: list[_Run], share: bool) -> list[Figure]:
    found = [_over_rounds(runs, share), _against(runs, share), _accuracy(runs, share)]
    return [figure for figure in found if figure is not None]


def _over_rounds(runs: list[_Run], share: bool) -> Figure | None:
    """Loss and score over rounds."""
    losses, scores, fields, kinds = [], [], set(), []
    for run in runs:
        record = run.record
        if (each := loss(record, covered=run.covered if share else None)) is not None:
            losses.append(_series(run, tuple((round + 1, value) for round, value in each.by_round.items())))
            fields.add(each.field)
        if record.scores and run.shows("score", share):
            scores.append(_series(run, tuple((event.round + 1, event.score) for event in record.evaluations)))
            fields.add("score")
            kinds.append(score_name(record.evaluations[-1].eval_type))
    panels = []
    if losses:
        panels.append(Panel("loss", tuple(losses)))
    if scores:
        panels.append(Panel(" and ".join(dict.fromkeys(kinds)), tuple(scores)))
    if not panels:
        return None
    title = "Loss and score" if len(panels) > 1 else "Loss" if losses else "Score"
    noises = dict.fromkeys(run.record.settings.vectors.label for run in runs if run.protected)
    caption = f"Dashed: the run's inference results have {' or '.join(noises)} noise. " if noises else ""
    caption += "The score of a round is of the model with which it began, the loss of that with which it ended."
    return Figure(Chart("loss-score", title, caption, "round", tuple(panels), tall=True), frozenset(fields))


def _against(runs: list[_Run], share: bool) -> Figure | None:
    """The score of each model against its loss."""
    series, fields = [], {"score"}
    for run in runs:
        losses = loss(run.record, covered=run.covered if share else None)
        if losses is not None and run.shows("score", share) and (both := pairs(run.record, losses)):
            tips = tuple(f"{run.label}, round {r + 1}: loss {short(x)}, score {short(y)}" for r, (x, y) in both.items())
            series.append(Series(run.label, tuple(both.values()), run.colour, "dots", tips=tips))
            fields.add(losses.field)
    if not series:
        return None
    caption = "A point for each round: the score of a model against its loss. Later rounds are stronger."
    panel = Panel("score", tuple(series))
    chart = Chart("score-loss", "Score against loss", caption, "loss", (panel,), whole_x=False, tall=True)
    return Figure(chart, frozenset(fields))


def _accuracy(runs: list[_Run], share: bool) -> Figure | None:
    series = tuple(
        _series(run, tuple((event.round + 1, event.metrics.get("accuracy")) for event in run.record.rounds))
        for run in runs
        if run.shows("metrics", share) and any("accuracy" in event.metrics for event in run.record.rounds)
    )
    if not series:
        return None
    caption = "On the coordinator's own data, at the end of each round."
    return Figure(Chart("accuracy", "Accuracy", caption, "round", (Panel("accuracy", series),)), frozenset({"metrics"}))


def _series(run: _Run, points: tuple[Point, ...]) -> Series:
    tips = tuple(f"{run.label}, round {short(x)}: {'no number' if y is None else short(y)}" for x, y in points)
    return Series(run.label, points, run.colour, dashed=run.protected, tips=tips)


@dataclass(frozen=True, slots=True)
class _Apart:
    """How far a protected score is from an unprotected one."""

    run: _Run
    clear: _Run
    mean: float
    rounds: int


def _apart(runs: list[_Run], share: bool) -> list[_Apart]:
    scored = [run for run in runs if run.record.scores and run.shows("score", share)]
    clear = next((run for run in scored if not run.protected), None)
    found = []
    for run in scored:
        if clear is None or not run.protected or _score_type(run) != _score_type(clear):
            continue
        difference = mean_relative_difference(run.record.scores, clear.record.scores)
        if difference is not None:
            found.append(_Apart(run, clear, *difference))
    return found


def _score_type(run: _Run) -> str:
    return run.record.evaluations[-1].eval_type


def _cards(runs: list[_Run], share: bool) -> list[Markup]:
    found = [
        page.card(
            f"{each.run.label} against {each.clear.label}", _part(each.mean), "mean relative difference of the score"
        )
        for each in _apart(runs, share)
    ]
    for run in runs:
        losses = loss(run.record, covered=run.covered if share else None)
        if losses is None or not run.shows("score", share):
            continue
        if (together := correlation(list(pairs(run.record, losses).values()))) is not None:
            note = f"correlation of score and loss (Pearson, n = {together.pairs})"
            found.append(page.card(run.label, signed(together.pearson), note))
    return [*found, *(promise_card(each, run.label) for run in runs for each in run.promises)]


def _findings(runs: list[_Run], share: bool) -> list[str]:
    """How score and loss go together in each run, and how far protected scores are from the unprotected."""
    scored = [run for run in runs if run.record.scores]
    found = [f"{run.label}: {correlation_sentence(run.record, run.covered if share else None)}" for run in scored]
    found += [
        f"The protected score of {each.run.label} is {_part(each.mean)} away from that of {each.clear.label}, on "
        f"average over {each.rounds} rounds."
        for each in _apart(runs, share)
    ]
    if len({_score_type(run) for run in scored}) > 1:
        found.append("The runs have different scores, which cannot be compared.")
    return found or ["No run has a score."]


def _part(value: float) -> str:
    return f"{short(100 * value, 3)}%"


def _table(runs: list[_Run], share: bool) -> Markup:
    rows = []
    for run in runs:
        record = run.record
        last = record.rounds[-1].metrics if record.rounds and run.shows("metrics", share) else {}
        values = {name: found for name, value in last.items() if (found := number(value)) is not None}
        epsilons = [f"{short(each.epsilon)} ({each.what})" for each in run.promises]
        row = [
            run.label,
            record.settings.updates.label,
            record.settings.vectors.label if run.protected or record.settings.unsupervised else "none",
            ", ".join(epsilons) or "none",
            ", ".join(f"{name} {metric(name, value)}" for name, value in values.items()),
        ]
        if not share:
            row += [record.status, f"{len(record.rounds)} of {record.settings.rounds}", duration(record.seconds)]
        rows.append(row)
    head = ["run", "updates", "inference results", "ε", "last round"]
    return page.table(head if share else [*head, "status", "rounds", "time"], rows, label="The runs")


def _settings_apart(runs: list[_Run]) -> list[str]:
    """Other settings that differ: they may be why the curves do."""
    first = runs[0].record.settings
    found = []
    for run in runs[1:]:
        names = [
            name
            for name in ("task", "task_options", "rounds", "clients", "round", "train", "server", "simulation", "seed")
            if getattr(run.record.settings, name) != getattr(first, name)
        ]
        if names:
            found.append(f"{run.label} also differs from {runs[0].label} in {', '.join(names)}.")
    return found or ["Apart from the protection the runs have the same settings."]


def _privacy(runs: list[_Run]) -> Markup:
    found = []
    for run in runs:
        settings = run.record.settings
        if run.protected:
            found.append(page.paragraph(element("strong", f"{run.label}: "), settings.vectors.scored(settings)))
        for each in run.promises:
            at = f"{short(each.epsilon)} at δ = {short(each.delta, 3)}"
            words = f"ε of the {each.what} is {at}: {strength(each.epsilon)}."
            found.append(page.paragraph(element("strong", f"{run.label}: "), words))
    return join(*found) if found else page.paragraph("Nothing in these runs has an ε.")


def _left_out() -> Markup:
    return page.notice(
        "plain",
        "This page is for sharing",
        "Left out, because no ε covers it: training losses, scores of unprotected inference results or updates, counts "
        "of clients, times and how the runs ended.",
    )
