"""The epsilons of a private training, computed again from its ledger, epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tacit.dp.accounting import Ledger
from tacit.dp.release import number
from tacit.events import EpochFinished, Event
from tacit.kinds.private_training.settings import Settings
from tacit.report.recomputed import Check, check, count_of


def recompute(settings: Settings, events: Sequence[Event], ledgers: Sequence[dict[str, Any]]) -> Iterable[Check]:
    """The noise and delta of the ledger, and the epsilon of every epoch: what so many of its first steps cost."""
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
    if stated.noise_multiplier is not None and settings.noise.kind == "gaussian":
        found = {line.get("noise_multiplier") for line in data["lines"]}
        text = f"noise multipliers {sorted(map(str, found))}, the file says {stated.noise_multiplier:g}"
        yield check("noise of the ledger", found == {stated.noise_multiplier}, text)
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


def _first(data: dict[str, Any], steps: int) -> Ledger:
    """The ledger of the first steps: lines are in the order in which they were paid."""
    kept = []
    for line in data["lines"]:
        if steps > 0:
            kept.append({**line, "count": min(steps, line["count"])})
        steps -= line["count"]
    bare = {key: data[key] for key in ("version", "unit", "relation")}
    return Ledger.from_json({**bare, "budget": None, "lines": kept})
