"""A federation's plan as a forecast: its prices, noise and traffic in words, its figures, the picture of its noise."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from tacit.kinds.horizontal.forecast import Plan, Price, plan
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Holds, Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.report.chart import Chart, Panel, Series
from tacit.report.forecast import Forecast, Priced
from tacit.report.numbers import size

_FREE = Priced("Nothing that leaves a client has an epsilon.")


def forecast(settings: Settings) -> Forecast:
    """What the settings come to. The task is made, for the size of its model; nothing is trained."""
    task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    tasks.check_private_fit(task, settings)
    judged = tasks.infers(task, settings)
    classes = judged.classes if judged else None
    return in_words(plan(settings, Layout.of(task.model()), classes, samples_of(settings, task)))


def samples_of(settings: Settings, task: Task) -> list[int] | None:
    """How many each client has; None if the task does not tell."""
    return [len(task.held(client)) for client in range(settings.clients)] if isinstance(task, Holds) else None


def in_words(made: Plan) -> Forecast:
    """The plan as a forecast."""
    prices = [_priced(price, made.rounds) for price in made.prices]
    if made.records is not None:
        prices.append(made.records.in_words())
    parts: dict[str, tuple[str | Priced, ...]] = {
        "What it costs in privacy": tuple(prices) or (_FREE,),
        "What the noise does": made.noise,
        "What travels, for each client and round": tuple(_travels(made)),
        "Who sees what": made.sees,
        "What is not protected": made.unprotected,
        "Warnings": made.warnings,
    }
    figures: dict[str, Any] = asdict(made)
    if made.records is None:
        del figures["records"]
    figures["traffic"]["exchanges"] = made.traffic.exchanges
    return Forecast(figures.pop("title"), parts, figures, tuple(_pictures(made)))


def _priced(price: Price, rounds: int) -> Priced:
    delta = f"at delta {price.delta:.3g}"
    often = f"{price.times} rounds" + (", for the client that is asked most often" if price.view == "local" else "")
    if price.view == "central" and price.times < rounds:
        often = f"{price.times} of {rounds} rounds, as many as a client takes part in"
    rows = [
        ("one round", f"epsilon {_number(price.epsilon_round)} {delta}"),
        ("the run", f"epsilon {_number(price.epsilon_run)} {delta} ({often})"),
        ("that is", str(price.reading)),
    ]
    if price.times_worst > price.times:
        worst = f"epsilon {_number(price.epsilon_worst)} {delta}: clients answer {price.times_worst} times, if asked"
        rows.append(("at worst", worst))
    head = f"{' and '.join(price.covers)}: {price.against} (unit {price.unit}, {price.relation})"
    return Priced(head, tuple(rows))


def _travels(made: Plan) -> list[str]:
    traffic = made.traffic
    up, down = sum(traffic.up.values()), sum(traffic.down.values())
    return [
        f"{traffic.exchanges} exchange{'s' * (traffic.exchanges > 1)} with the coordinator",
        f"up {size(up)}: " + ", ".join(f"{name} {size(count)}" for name, count in traffic.up.items()),
        f"down {size(down)}: " + ", ".join(f"{name} {size(count)}" for name, count in traffic.down.items()),
        f"in {made.rounds} rounds, if it is sampled for each: up {size(up * made.rounds)}, "
        f"down {size(down * made.rounds)}",
    ]


def _pictures(made: Plan) -> list[Chart]:
    """The density of the noise on inference vectors, if there is some: MindSpore Federated's picture of it."""
    scale = made.laplace_scale
    if scale is None:
        return []
    points = [5 * scale * step / 100 for step in range(-100, 101)]
    density = Series("density", tuple((x, math.exp(-abs(x) / scale) / (2 * scale)) for x in points), tips=())
    return [
        Chart(
            "laplace-noise",
            f"Laplace noise of scale {scale:.3g} on each probability",
            f"95% of the noise lies within {-scale * math.log(0.05):.3g} of 0; what it is added to lies between 0 "
            f"and 1. {made.noise[-1].rsplit('. ', 1)[-1]}",
            "noise added to a probability",
            (Panel("density (1 / probability)", (density,), from_zero=True),),
            whole_x=False,
        )
    ]


def _number(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}" if epsilon < 1e4 else f"{epsilon:.0f}"
