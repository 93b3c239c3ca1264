"""The epsilons of a private training, computed again from its ledger, epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tacit.dp.accounting import Ledger
from tacit.dp.release import number
from tacit.events import EpochFinished, Event
from tacit.kinds.private_training.settings import Settings
from tacit.report.recomputed import Check, check, count_of, same
from tacit.training.plan import TOLERANCE, Plan

_MOST_EPOCHS = 100_000  # of which a price is computed here
_ROUNDING = 1e-9  # relative, of a noise that the file gives
_CALIBRATION = 5e-4  # of one that was found for an epsilon, which it meets up to 1e-4 of it


def recompute(settings: Settings, events: Sequence[Event], ledgers: Sequence[dict[str, Any]]) -> Iterable[Check]:
    """The promise, sample and noise of the ledger, and the epsilon of every epoch: what so many of its first steps
    cost."""
    epochs = [event for event in events if isinstance(event, EpochFinished)]
    if len(ledgers) != 1:
        told = bool(ledgers) or bool(epochs)
        text = f"there are {len(ledgers)}, a training has one" if told else "no step was taken"
        yield check("ledger of the training", not told, text)
        return
    (data,) = ledgers
    stated = settings.privacy
    relation = "add-remove" if stated.sampling == "poisson" else "zero-out"
    promise = (data["view"], data["covers"], data["unit"], data["relation"]) == (
        "central",
        ["model"],
        stated.unit,
        relation,
    )
    text = f"for each {data['unit']} under {data['relation']}, the file says {stated.unit} under {relation}"
    yield check("promise of the ledger", promise, text)
    yield check(
        "delta of the ledger", data["delta"] == stated.delta, f"{data['delta']:g}, the file says {stated.delta:g}"
    )
    tier = "secure" if settings.noise.kind == "laplace" else stated.tier
    yield check("tier of the noise", data.get("tier") == tier, f"{data.get('tier')}, the file says {tier}")
    yield from _as_planned(settings, data, max((event.epoch + 1 for event in epochs), default=0))
    if not epochs or stated.sampling != "poisson":
        return
    lines, last, wrong = data["lines"], 0, []
    whole = sum(line["count"] for line in lines)
    # An epoch has about units / batch steps, and a sample takes batch / units of them.
    epoch_steps = max(1, math.floor(1 / max(line.get("sampling_probability", 1.0) for line in lines)))

    def price(steps: int) -> float:
        return _first(data, steps).epsilon(stated.delta, settings.monitor.method) if steps else 0.0

    for event in epochs:
        if event.epsilon is None:
            continue
        if event.delta != stated.delta:
            wrong.append(f"epoch {event.epoch + 1}: delta {event.delta}, the file says {stated.delta:g}")
        low = min(whole, max(last, epoch_steps * (event.epoch + 1)))
        steps = count_of(price, number(event.epsilon), low, whole)
        if steps is None:
            wrong.append(f"epoch {event.epoch + 1}: epsilon {event.epsilon:.6g} is that of no number of steps")
        else:
            last = steps
    text = "; ".join(wrong[:5]) if wrong else f"{len(epochs)} figures are those of the ledger's first steps"
    yield check("epsilon of each epoch", not wrong, text)


def _as_planned(settings: Settings, data: Mapping[str, Any], epochs: int) -> Iterator[Check]:
    """The ledger against the plan that the file leads to, for as many records or owners as its samples are of.

    `epochs`: that are told. Steps that were taken again after an interruption are paid twice: there may be more of
    them, and never fewer.
    """
    stated = settings.privacy
    if stated.epsilon is not None:
        spent = _first(data, sum(line["count"] for line in data["lines"])).epsilon(stated.delta, Plan.method)
        holds = spent <= stated.epsilon * TOLERANCE or same(spent, stated.epsilon)
        yield check("epsilon of the file", holds, f"{spent:.6g} was paid, the file allows {stated.epsilon:g}")
    told = settings.train.epochs
    yield check("epochs of the file", epochs <= told, f"{epochs} are told, the file says {told}")
    shuffled = stated.sampling == "shuffled"
    if (shuffled and settings.noise.decay is not None) or told > _MOST_EPOCHS or not data["lines"]:
        yield Check("noise of the ledger", "not checked", "it depends on how many records there are")
        return
    batch, sampled = settings.train.batch, number(data["lines"][0]["sampling_probability"])
    units = batch if shuffled else round(batch / sampled)
    plan = settings.plan(units, units if stated.unit == "owner" else None)
    alike = partial(_alike, _ROUNDING if stated.epsilon is None else _CALIBRATION)
    known = plan.ledger(plan.steps).to_json()["lines"]
    wrong = [line for line in data["lines"] if not any(alike(line, due) for due in known)]
    text = f"{len(data['lines'])} of its lines are those of the file, for samples of 1 in {1 / plan.probability:.6g}"
    if wrong:
        noise, part = (wrong[0].get(name) for name in ("noise_multiplier", "sampling_probability"))
        text = f"noise of {noise} for samples of {part} is not what the file leads to"
    yield check("noise of the ledger", not wrong, text)
    least = plan.ledger(min(epochs, told) * plan.steps_an_epoch).to_json()["lines"]
    paid = [sum(line["count"] for line in data["lines"] if alike(line, due)) for due in least]
    enough = all(count >= due["count"] for count, due in zip(paid, least, strict=True))
    text = f"{sum(paid)} of {sum(due['count'] for due in least)} steps that {epochs} epochs have are paid for"
    yield check("steps of the epochs", enough, "those of all epochs are paid for" if enough else text)


def _alike(tolerance: float, line: Mapping[str, Any], due: Mapping[str, Any]) -> bool:
    """Whether two lines are of the same event."""
    if line.keys() != due.keys() or line["kind"] != due["kind"]:
        return False
    if not same(line["sampling_probability"], due["sampling_probability"]):
        return False
    slack = all(line[name] >= due[name] or same(line[name], due[name]) for name in due.keys() & {"log2_slack"})
    return slack and abs(line["noise_multiplier"] / due["noise_multiplier"] - 1) <= tolerance


def _first(data: Mapping[str, Any], steps: int) -> Ledger:
    """The ledger of the first steps: lines are in the order in which they were paid."""
    kept = []
    for line in data["lines"]:
        if steps > 0:
            kept.append({**line, "count": min(steps, line["count"])})
        steps -= line["count"]
    bare = {key: data[key] for key in ("version", "unit", "relation")}
    return Ledger.from_json({**bare, "budget": None, "lines": kept})
