"""The figures of a report: charts made of a run's record, each with the fields of events that it shows."""

from __future__ import annotations

from collections.abc import Callable

from tacit.events import RoundFinished
from tacit.kinds.horizontal.report.promises import spent_on
from tacit.kinds.horizontal.report.scores import Loss, pairs
from tacit.kinds.horizontal.rounds_view import Rounds
from tacit.report.chart import COLOURS, Chart, Colour, Mark, Panel, Series, number
from tacit.report.figure import Figure, bytes_unit, slug, with_points
from tacit.report.numbers import short

_ROUND = "round"
_MOST_STAGES = 6
_SCORES = {
    "SILHOUETTE_SCORE": "silhouette score",
    "CALINSKI_HARABASZ_SCORE": "Calinski-Harabasz score",
    "DAVIES_BOULDIN_SCORE": "Davies-Bouldin score (less is better)",
}
_WIDE = 1000.0  # from the least to the largest: beyond it an axis of epsilon is logarithmic


def learning(record: Rounds) -> list[Figure]:
    """The metrics on the coordinator's data, the training loss and the size of the steps."""
    names = list(dict.fromkeys(name for event in record.rounds for name in event.metrics))
    names.sort(key=lambda name: (name != "accuracy", name != "loss"))
    found = []
    for index, name in enumerate(names):
        chart = _over_rounds(
            f"metric-{index + 1}-{slug(name)}",
            name[:1].upper() + name[1:],
            "On the coordinator's own data, at the end of each round.",
            name,
            record,
            lambda event, name=name: event.metrics.get(name),  # type: ignore[misc]
            colour="teal" if name == "accuracy" else "blue",
        )
        found.append(_figure(chart, "metrics"))
    found.append(
        _figure(
            _over_rounds(
                "training-loss",
                "Training loss",
                "Mean over the clients' own records, as they report it.",
                "training loss",
                record,
                lambda event: event.training_loss,
            ),
            "training_loss",
        )
    )
    found.append(
        _figure(
            _over_rounds(
                "update-norm",
                "Size of the update",
                "The norm of the mean update, as the coordinator knows it: with any noise that was added.",
                "L2 norm",
                record,
                lambda event: event.update_norm,
                colour="violet",
            ),
            "update_norm",
        )
    )
    return with_points(found)


def scoring(record: Rounds, losses: Loss | None) -> list[Figure]:
    """The score over rounds, and against the loss of the same model."""
    if not record.scores:
        return []
    protected = record.settings.vectors.protects
    score = Series(
        "score",
        tuple((event.round + 1, event.score) for event in record.evaluations),
        "red" if protected else "blue",
        dashed=protected,
        tips=tuple(f"round {event.round + 1}: {_value(event.score)}" for event in record.evaluations),
    )
    kind = score_name(record.evaluations[-1].eval_type)
    said = "Of the model with which the round began."
    found = [_figure(Chart("score", "Score", said, _ROUND, (Panel(kind, (score,)),)), "score")]
    both = pairs(record, losses) if losses else {}
    if losses and both:
        scatter = Series(
            "rounds",
            tuple(both.values()),
            "red" if protected else "blue",
            kind="dots",
            tips=tuple(f"round {r + 1}: loss {short(x)}, score {short(y)}" for r, (x, y) in both.items()),
        )
        words = f"A point for each round: the score of a model against its {losses.name}. Later rounds are stronger."
        chart = Chart("score-loss", "Score against loss", words, losses.name, (Panel(kind, (scatter,)),), whole_x=False)
        found.append(_figure(chart, "score", losses.field))
    return found


def spending(record: Rounds) -> list[Figure]:
    """Epsilon over rounds: of the updates, of the inference vectors, and of both where the coordinator sees both."""
    settings = record.settings
    limit = None if settings.budget is None else settings.budget.epsilon
    budget = None if limit is None else (limit, f"budget {short(limit)}")
    level = budget
    if (sized := settings.updates.limit(settings)) is not None:
        level = (sized.epsilon, f"budget {short(sized.epsilon)}")
    at = _at({event.delta for event in record.rounds if event.delta is not None})
    at_both = _at({event.composed_delta for event in record.rounds if event.composed_delta is not None})
    return with_points(
        [
            _figure(
                _over_rounds(
                    "epsilon-updates",
                    f"ε of the {spent_on(record)}",
                    f"What the {spent_on(record)} so far cost{at}.",
                    f"ε{at}",
                    record,
                    lambda event: event.epsilon,
                    colour="violet",
                    level=level,
                    epsilon=True,
                ),
                "epsilon",
            ),
            _figure(
                _over_rounds(
                    "epsilon-vectors",
                    "ε of the inference vectors",
                    "What one client's inference vectors so far cost: ε of each vector, times vectors, times rounds.",
                    "ε at δ = 0",
                    record,
                    lambda event: event.evaluation_epsilon,
                    colour="red",
                    epsilon=True,
                ),
                "evaluation_epsilon",
            ),
            _figure(
                _over_rounds(
                    "epsilon-composed",
                    "ε of both together",
                    f"What the sums and one client's inference vectors so far cost together{at_both}: the coordinator "
                    "sees both.",
                    f"ε{at_both}",
                    record,
                    lambda event: event.composed_epsilon,
                    colour="blue",
                    level=budget,
                    epsilon=True,
                ),
                "composed_epsilon",
            ),
        ]
    )


def _at(deltas: set[float]) -> str:
    return f" at δ = {short(max(deltas))}" if deltas else ""


def participation(record: Rounds) -> list[Figure]:
    """How many clients were sampled and survived, with the rounds that changed nothing."""
    if not record.sampled and not record.rounds:
        return []
    survivors = {event.round: float(event.survivors) for event in record.rounds}
    rounds = sorted({*record.sampled, *survivors, *(event.round for event in record.aborted)})
    sampled = tuple((r + 1, record.sampled.get(r)) for r in rounds)
    kept = tuple((r + 1, survivors.get(r)) for r in rounds)
    marks = tuple(Mark(event.round + 1, f"round {event.round + 1}: {event.reason}") for event in record.aborted)
    caption = "Clients whose update counted, of those that were sent the model."
    if marks:
        caption += " A cross marks a round that changed nothing."
    panel = Panel(
        "clients",
        (Series("sampled", sampled, "grey", "step"), Series("survivors", kept, "blue", "step")),
        marks=marks,
        from_zero=True,
        whole=True,
    )
    return [_figure(Chart("survivors", "Survivors", caption, _ROUND, (panel,)), "survivors")]


def costs(record: Rounds) -> list[Figure]:
    """The time of each stage and the bytes of one client."""
    found = []
    names = _stages(record.rounds)
    if names:
        series = tuple(
            Series(
                name,
                tuple((event.round + 1, _stage(event, name, names)) for event in record.rounds),
                COLOURS[index % len(COLOURS)],
                "bar",
                tips=tuple(
                    f"round {event.round + 1}, {name}: {_value(_stage(event, name, names))} s"
                    for event in record.rounds
                ),
            )
            for index, name in enumerate(names)
        )
        panel = Panel("seconds", series)
        found.append(_figure(Chart("stages", "Time", "Seconds of each stage.", _ROUND, (panel,)), "stages"))
    else:
        chart = _over_rounds(
            "seconds", "Time", "How long each round took.", "seconds", record, lambda e: e.seconds, from_zero=True
        )
        found.append(_figure(chart, "seconds"))
    largest = max((max(event.bytes_up, event.bytes_down) for event in record.rounds), default=0)
    unit, size = bytes_unit(largest)
    up = tuple((event.round + 1, event.bytes_up / size) for event in record.rounds)
    down = tuple((event.round + 1, event.bytes_down / size) for event in record.rounds)
    series = (Series("from a client", up, "blue"),)
    if any(event.bytes_down for event in record.rounds):
        series += (Series("to a client", down, "amber"),)
    panel = Panel(unit, series, from_zero=True)
    found.append(_figure(Chart("bytes", "Traffic", "Of one client, on the wire.", _ROUND, (panel,)), "bytes_up"))
    return with_points(found)


def _over_rounds(
    name: str,
    title: str,
    caption: str,
    axis: str,
    record: Rounds,
    value: Callable[[RoundFinished], float | None],
    *,
    colour: Colour = "blue",
    level: tuple[float, str] | None = None,
    epsilon: bool = False,
    from_zero: bool = False,
) -> Chart:
    points = tuple((event.round + 1, value(event)) for event in record.rounds)
    values = [y for _, y in points if number(y) is not None and y is not None]
    log = epsilon and bool(values) and min(values) > 0 and max(values) > _WIDE * min(values)
    if level is not None and values and not log and level[0] > 5 * max(values):
        level = None  # it would press the curve flat
    tips = tuple(f"round {x}: {_value(y)}" for x, y in points)
    series = Series(title, points, colour, tips=tips)
    panel = Panel(axis, (series,), level=level, log=log, from_zero=epsilon or from_zero)
    return Chart(name, title, caption, _ROUND, (panel,))


def _stages(rounds: tuple[RoundFinished, ...]) -> list[str]:
    """The stages in order; where there are many, the short ones go together as `other`."""
    total: dict[str, float] = {}
    for event in rounds:
        for name, seconds in event.stages.items():
            total[name] = total.get(name, 0.0) + (number(seconds) or 0.0)
    if len(total) <= _MOST_STAGES:
        return list(total)
    longest = set(sorted(total, key=lambda name: -total[name])[: _MOST_STAGES - 1])
    return [*(name for name in total if name in longest), "other"]


def _stage(event: RoundFinished, name: str, names: list[str]) -> float | None:
    if name == "other" and "other" not in event.stages:
        return sum(number(value) or 0.0 for stage, value in event.stages.items() if stage not in names)
    return event.stages.get(name)


def _figure(chart: Chart, *fields: str) -> Figure:
    return Figure(chart, frozenset(fields))


def score_name(eval_type: str) -> str:
    """A type of evaluation in words."""
    return _SCORES.get(eval_type, eval_type)


def _value(value: float | None) -> str:
    found = number(value)
    return "no number" if found is None else short(found)
