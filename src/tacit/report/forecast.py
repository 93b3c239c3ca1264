"""A file's plan: made without training, in words, as plain data, and as a picture of the noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from tacit import kind as kinds
from tacit.boundary import Forecast
from tacit.config.load import Settings
from tacit.kinds.horizontal.forecast import Plan, Price, plan
from tacit.kinds.horizontal.settings import Settings as Horizontal
from tacit.kinds.horizontal.task import Holds
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.report.chart import Chart, Panel, Series, standalone
from tacit.report.numbers import size
from tacit.store.directory import replace_file

if TYPE_CHECKING:
    from tacit.runs.party_plan import PartyPlan

_WIDTH = 110


def planned(settings: Settings) -> Plan | Forecast:
    """What the settings come to. The task is made, for the size of its model; nothing is trained."""
    if not isinstance(settings, Horizontal):
        return kinds.of(settings).forecast(settings)
    task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    judged = tasks.infers(task, settings)
    samples = [len(task.held(client)) for client in range(settings.clients)] if isinstance(task, Holds) else None
    return plan(settings, Layout.of(task.model()), judged.classes if judged else None, samples)


def words_of_party(made: PartyPlan) -> str:
    """What is one party's own, before the plan that it is part of."""
    own = [line for title, said in made.sections.items() for line in _section(title, said)]
    return "\n".join(own) + "\n" + words(made.plan)


def words(made: Plan | Forecast) -> str:
    """The plan as text for a terminal."""
    if isinstance(made, Forecast):
        parts = [made.title, "", *(line for title, said in made.sections.items() for line in _section(title, said))]
        return "\n".join(parts).rstrip() + "\n"
    parts = [made.title, ""]
    parts += ["What it costs in privacy", *(line for price in made.prices for line in _priced(price))]
    parts += [""] if made.prices else ["  Nothing that leaves a client has an epsilon.", ""]
    parts += _section("What the noise does", made.noise)
    parts += _section("What travels, for each client and round", _travels(made))
    parts += _section("Who sees what", made.sees)
    parts += _section("What is not protected", made.unprotected)
    parts += _section("Worth a thought", made.warnings)
    return "\n".join(parts).rstrip() + "\n"


def pictures(made: Plan | Forecast) -> list[Chart]:
    """The density of the noise on inference vectors, where there is some: MindSpore Federated's picture of it."""
    if isinstance(made, Forecast):
        return []
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


def draw(made: Plan | Forecast, folder: Path) -> list[Path]:
    """Write the pictures as SVG files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for chart in pictures(made):
        paths.append(folder / f"{chart.name}.svg")
        replace_file(paths[-1], standalone(chart).encode())
    return paths


def plain(made: Plan | Forecast) -> dict[str, Any]:
    """The plan for `json.dumps`; what is infinite stands as text."""
    if isinstance(made, Forecast):
        shown: dict[str, Any] = _finite({"title": made.title, **made.figures, "sections": dict(made.sections)})
        return shown
    data = asdict(made)
    data["traffic"]["exchanges"] = made.traffic.exchanges
    cleaned: dict[str, Any] = _finite(data)
    return cleaned


def plain_of_party(made: PartyPlan) -> dict[str, Any]:
    """The same for `json.dumps`."""
    return {
        "party": made.party,
        "own": {title: list(said) for title, said in made.sections.items()},
        **plain(made.plan),
    }


def _section(title: str, sentences: Iterable[str]) -> list[str]:
    lines = [fill(text, _WIDTH, initial_indent="  - ", subsequent_indent="    ") for text in sentences]
    return [title, *lines, ""] if lines else []


def _priced(price: Price) -> list[str]:
    delta = f"at delta {price.delta:.3g}"
    often = f"{price.times} rounds" + (", for the client that is asked most often" if price.view == "local" else "")
    rows = [
        ("one round", f"epsilon {_number(price.epsilon_round)} {delta}"),
        ("the run", f"epsilon {_number(price.epsilon_run)} {delta} ({often})"),
        ("that is", str(price.reading)),
    ]
    if price.times_worst > price.times:
        worst = f"epsilon {_number(price.epsilon_worst)} {delta}: clients answer {price.times_worst} times, if asked"
        rows.append(("at worst", worst))
    head = f"{' and '.join(price.covers)}: {price.against} (unit {price.unit}, {price.relation})"
    return [
        fill(head, _WIDTH, initial_indent="  ", subsequent_indent="    "),
        *(fill(text, _WIDTH, initial_indent=f"    {name:<12}", subsequent_indent=" " * 16) for name, text in rows),
    ]


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


def _number(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}" if epsilon < 1e4 else f"{epsilon:.0f}"


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "infinite"
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value
