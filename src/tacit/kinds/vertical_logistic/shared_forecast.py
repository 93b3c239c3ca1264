"""What a training on shares will cost and show, before it begins: bytes, exchanges, time, distances from uniform."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tacit.kinds.vertical_logistic.label_counts_words import label_count_costs, label_count_warnings
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared.costs import Costs, costs
from tacit.kinds.vertical_logistic.shared.histogram import LEAST
from tacit.kinds.vertical_logistic.shared.scales import distances
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.shared_boundary import shared_sentences, shared_unprotected
from tacit.kinds.vertical_logistic.shared_party import terms_of
from tacit.kinds.vertical_logistic.two_party import costs as two_party
from tacit.kinds.vertical_logistic.two_party.cell_trees import memory
from tacit.report.forecast import Forecast, in_sentences

ROUND_TRIP = 0.02  # seconds, of the estimate
# Seconds of one core of about 3 GHz, all parties together, measured with `python -m bench vertical_shared`: of an
# exchange, of a byte that is dealt to two parties, and of a cell of the table in a step of two parties.
_EXCHANGE, _DEALT, _CELL = 2.5e-4, 3e-9, 1.2e-8
# Between two parties: of a meeting, of a cell in the set-up, of a score's lookup, and of a cell in a step.
_MET, _PLANTED, _LOOKED_UP, _DIGITS = 0.25, 4.5e-6, 2e-5, 2e-6
_MOST_DISTANCE = 2.0**-40
_FEW = 500  # held-out rows: with fewer, groups of rows make the AUC visibly lower than it is


def shared_forecast(
    settings: Settings,
    rows: int | None,
    features: Mapping[str, int],
    outputs: int,
    groups: Mapping[str, tuple[int, int]],
) -> Forecast:
    """The plan; arguments as those of `forecast.forecast`."""
    train = settings.train
    title = (
        f"{settings.name}: {settings.active} with labels and {', '.join(settings.passives)}, {train.epochs} epochs in "
        f"batches of {train.batch}, secret shares "
        + ("and no dealer" if settings.dealer is None else f"with the dealer {settings.dealer}")
    )
    figures: dict[str, Any] = {"epochs": train.epochs, "parties": len(settings.parties)}
    terms = None if rows is None else terms_of(settings, rows, outputs)
    exchanges = 4 + (train.class_weight is not None)
    said = [f"A step has {exchanges} exchanges, in each of which all parties send at once."]
    if settings.dealer is None:
        said = [f"A step has {2 + (settings.model == 'logistic')} exchanges."]
    if terms is not None:
        held_out = terms.counts[1]
        figures |= {"rows": rows, "training rows": terms.counts[0], "steps of an epoch": terms.schedule.steps}
        said.append(
            f"An epoch has {terms.schedule.steps} steps over {terms.counts[0]} of {rows} rows; {held_out} are held out."
        )
        if all(name in features for name in settings.owners):
            widths = {name: features[name] for name in settings.owners}
            said += _costs(terms, widths, figures) if terms.dealer else between_two(terms, widths, figures)
    warnings = _warnings(settings, terms)
    if (distance := figures.get("statistical distance from uniform", 0.0)) > _MOST_DISTANCE:
        warnings.append(
            f"The statistical distances add up to 2^{math.log2(distance):.0f}, above 2^-40: take fewer epochs, rows or "
            "columns."
        )
    for name, (columns, count) in groups.items():
        if terms is not None:
            said += label_count_costs(settings.active, name, terms.counts[0], columns, count, settings.paillier.bits)
            warnings += label_count_warnings(settings.active, name, terms.counts[0], columns, count)
    return in_sentences(
        title,
        {
            "Who sees what": tuple(shared_sentences(settings)),
            "What is not protected": tuple(shared_unprotected(settings)),
            "What it costs": tuple(said),
            "Warnings": (*warnings, *settings.notes()),
        },
        figures,
    )


def whole_costs(terms: Terms, columns: Mapping[str, int]) -> Costs:
    """What a training sends: as `costs`, which goes through all steps, but epochs have steps of the same sizes."""
    one, two = (
        costs(replace(terms, rates=terms.rates[:1] * count, order_seeds=terms.order_seeds[:1] * count), columns)
        for count in (1, 2)
    )
    more = len(terms.rates) - 1
    return Costs(
        one.exchanges + more * (two.exchanges - one.exchanges),
        one.table_bytes,
        one.opened_bytes + more * (two.opened_bytes - one.opened_bytes),
        one.dealt_bytes + more * (two.dealt_bytes - one.dealt_bytes),
    )


def seconds(terms: Terms, columns: Mapping[str, int], spent: Costs) -> float:
    """About how long all parties compute together, on one core each of about 3 GHz."""
    cells = terms.counts[0] * len(terms.rates) * sum(columns.values()) * terms.outputs
    pairs = len(terms.parties) / 2
    return _EXCHANGE * spent.exchanges + pairs * (_DEALT * spent.dealt_bytes + _CELL * cells)


def _costs(terms: Terms, columns: Mapping[str, int], figures: dict[str, Any]) -> list[str]:
    spent = whole_costs(terms, columns)
    parties, others = len(terms.parties), len(terms.parties) - 1
    tables, width = sum(spent.table_bytes.values()), sum(columns.values())
    total = others * (tables + parties * spent.opened_bytes) + spent.dealt_bytes
    computed = seconds(terms, columns, spent)
    waits = spent.exchanges * ROUND_TRIP
    distance = sum(distances(terms, width).values())
    figures |= {
        "exchanges": spent.exchanges,
        "bytes of the tables under masks": tables * others,
        "bytes opened by each party to each other": spent.opened_bytes,
        "bytes from the dealer": spent.dealt_bytes,
        "bytes of the run": total,
        "seconds of processor time": round(computed, 3),
        "seconds at a round trip of 20 ms": round(waits + computed, 3),
        "statistical distance from uniform": distance,
    }
    return [
        f"Each table is sent once under masks, {tables * others:,} bytes in all; openings take {spent.opened_bytes:,} "
        f"bytes from each party to each other; {terms.dealer} sends {spent.dealt_bytes:,} bytes to {terms.parties[-1]} "
        f"and a seed to all others. The run takes about {total:,} bytes.",
        f"The run has {spent.exchanges:,} exchanges: at a round trip of {ROUND_TRIP * 1000:.0f} ms at most "
        f"{waits:,.0f} s of waiting, and about {computed:,.1f} s of processor time of all parties together.",
        f"Each party and {terms.dealer} hold {8 * terms.rows * width / 1e6:,.1f} MB for all tables under masks.",
        f"The sum of the statistical distances of all that a party receives from uniform words is {distance:.1e} "
        f"(2^{math.log2(distance):.0f}): masks are uniform and used once, what is left is AES-128 in counter mode.",
    ]


def between_two(terms: Terms, columns: Mapping[str, int], figures: dict[str, Any]) -> list[str]:
    """What a training without a dealer costs."""
    spent = two_party.costs(terms, columns)
    each = {name: terms.rows * columns[name] for name in terms.parties}
    cells = sum(each.values())
    held = max(memory(own, cells - own) for own in each.values())
    visited = terms.counts[0] * len(terms.rates) * terms.outputs
    computed = _MET + _PLANTED * cells + visited * (_LOOKED_UP + _DIGITS * sum(columns.values()))
    waits = spent.total.exchanges * ROUND_TRIP
    distance = sum(two_party.distances(terms, columns).values())
    figures |= {
        "exchanges": spent.total.exchanges,
        "bytes of the set-up": spent.setup.bytes,
        "bytes of a step": spent.step.bytes,
        "bytes of memory of a party": held,
        "transfers of a step": spent.step.transfers,
        "bytes of the run": spent.total.bytes,
        "seconds of processor time": round(computed, 3),
        "seconds at a round trip of 20 ms": round(waits + computed, 3),
        "statistical distance from uniform": distance,
    }
    return [
        f"Each meeting begins with {spent.setup.bytes:,} bytes for the trees of both tables; a step takes "
        f"{spent.step.bytes:,} bytes and {spent.step.transfers:,} oblivious transfers, figures "
        f"{spent.figures.bytes:,} bytes. The run takes about {spent.total.bytes:,} bytes.",
        f"The run has {spent.total.exchanges:,} exchanges: at a round trip of {ROUND_TRIP * 1000:.0f} ms at most "
        f"{waits:,.0f} s of waiting, and about {computed:,.1f} s of processor time of both parties together.",
        f"Each party holds up to {held / 1e6:,.1f} MB for the trees of both tables.",
        f"The sum of the statistical distances of all that a party receives from uniform words, and of failures of the "
        f"arithmetic, is {distance:.1e} (2^{math.log2(distance):.0f}): masks are uniform and used once, what is left "
        "are hashes by AES.",
    ]


def _warnings(settings: Settings, terms: Terms | None) -> list[str]:
    active, found = settings.active, []
    judged = settings.figures != "never" and settings.model == "logistic"
    if terms is not None and judged:
        held_out = terms.counts[1]
        if held_out < 2 * LEAST:
            found.append(
                f"{held_out} rows are held out, and figures need {LEAST} of each class: {active} will refuse to begin; "
                "raise train.test, or set shares.figures: never."
            )
        elif held_out < _FEW:
            found.append(
                f"{held_out} rows are held out: figures are made of groups of more than {LEAST} rows, so that "
                f"accuracy, AUC and KS come out too low, and {active} refuses to begin if a class has fewer than "
                f"{LEAST} of them."
            )
    if settings.figures == "epoch" and settings.train.epochs > 1:
        found.append(f"Figures of the same held-out rows are opened to {active} {settings.train.epochs} times.")
    if settings.release == "exact":
        found.append(f"predict.release is exact: a prediction shows {active} what the training hid.")
    if settings.predict.budget is None:
        found.append("predict.budget is not set: any number of rows is answered with one model.")
    if settings.shares.harmonics == 30 and settings.dealer is not None and settings.model == "logistic":
        found.append("shares.harmonics is 30: the sigmoid is off by up to 0.006; 60 takes twice the bytes.")
    return found
