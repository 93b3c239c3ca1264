"""What a split training will cost and reveal, before any training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.dp.accounting import Ledger, strength
from tacit.kinds.split import boundary
from tacit.kinds.split.bits import packed_size
from tacit.kinds.split.common_terms import bits_of, schedule_of
from tacit.kinds.split.costs import gradient_noise
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Bottom, Ends, Part, Top, modules
from tacit.lockstep.schedule import Schedule
from tacit.report.forecast import Forecast, in_sentences

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a plan needs to know of a task."""

    records: int | None  # None: nobody's are here
    test_records: int
    cuts: Mapping[str, Shape]  # by follower: of one record, on its way forward
    back_cut: Shape | None  # topology U: on its way back to the leader
    parameters: Mapping[str, int]  # by party, where it is known
    approximate: bool = False  # records are those of a table: the training has those that all tables have

    @classmethod
    def of(
        cls,
        settings: Settings,
        parts: Mapping[str, Part],
        declared: Mapping[str, Shape] | None = None,
        *,
        approximate: bool = False,
    ) -> Sizes:
        """From the leader's part, and whichever others are known here; without it, from the cuts that are declared."""
        lead = parts.get(settings.leader)
        if lead is None and declared is not None:
            lengths = [len(part.train) for part in parts.values() if isinstance(part, Bottom)]
            return cls(min(lengths, default=None), 0, declared, None, {}, approximate)
        if not isinstance(lead, Top | Ends):
            raise ValueError(f"{settings.leader} has the part of a follower")
        parameters = {
            name: sum(p.numel() for network in modules(part).values() for p in network.parameters())
            for name, part in parts.items()
        }
        if isinstance(lead, Top):
            cuts = dict(lead.cuts)
            for name, part in parts.items():
                if isinstance(part, Bottom):
                    cuts[name] = part.cut
            lengths = [len(part.train) for part in parts.values() if isinstance(part, Bottom | Top)]
            return cls(min(lengths), len(lead.test), cuts, None, parameters, approximate)
        cuts = {settings.followers[0]: lead.cut}
        return cls(len(lead.train), len(lead.test), cuts, lead.back_cut, parameters)


def forecast(settings: Settings, sizes: Sizes) -> Forecast:
    """Claimed and true epsilon, bytes of a step with and without packing, and who sees what."""
    schedule = schedule_of(settings, settings.train.batch if sizes.records is None else sizes.records)
    figures = {**_epsilons(settings, sizes, schedule), **_bytes(settings, sizes)}
    sections = {
        "Epsilon": tuple(_epsilon_sentences(settings, sizes, schedule, figures)),
        "Messages": tuple(_byte_sentences(settings, schedule if sizes.records is not None else None, figures)),
        "Who sees what": tuple(boundary.sentences(settings)),
        "What is not protected": tuple(boundary.unprotected(settings)),
        "Warnings": (*settings.notes(), *_unknown(sizes)),
    }
    title = (
        f"{settings.name}: {settings.leader} leads {', '.join(settings.followers)}, topology {settings.topology}, "
        + (
            "records of tables elsewhere"
            if sizes.records is None
            else f"{sizes.records} records, {schedule.total} steps"
        )
    )
    return in_sentences(title, {name: found for name, found in sections.items() if found}, figures)


def _unknown(sizes: Sizes) -> tuple[str, ...]:
    if sizes.records is None:
        return ("No table is here: how many records and steps there are is not known, and figures are of one step.",)
    if sizes.approximate:
        return ("Records and steps are those of the tables that are here: the training has the rows that all have.",)
    return ()


def _epsilons(settings: Settings, sizes: Sizes, schedule: Schedule) -> dict[str, Any]:
    found: dict[str, Any] = {"visits": schedule.visits}
    if sizes.records is not None:
        found |= {"steps": schedule.total, "records": sizes.records}
    embedding, insecure = settings.embedding, settings.simulation.insecure_noise_seed is not None
    if embedding is not None and embedding.eps is not None:
        found["embedding_eps_claimed"] = embedding.eps
        for name, cut in sizes.cuts.items():
            bits, vectors = bits_of(cut)
            once, all_visits = embedding.event(bits, 1, vectors), embedding.event(bits, schedule.visits, vectors)
            assert once is not None and all_visits is not None  # noqa: S101, PT018
            owner = name if settings.topology == "V" else settings.leader
            found[f"embedding_epsilon_visit.{owner}"] = math.inf if insecure else once.epsilon
            found[f"embedding_epsilon_training.{owner}"] = math.inf if insecure else all_visits.epsilon
    if settings.label is not None:
        found["label_epsilon"] = math.inf if insecure else settings.label.eps
    noise = gradient_noise(settings, schedule)
    if noise is None:
        found["gradient_epsilon_training"] = None
    else:
        ledger = Ledger("record", "replace-one")
        for cut in sizes.cuts.values() if sizes.back_cut is None else [sizes.back_cut]:
            ledger.spend(noise.event(bits_of(cut)[0]), schedule.visits)
        found["gradient_noise_multiplier"] = noise.noise_multiplier
        found["gradient_epsilon_training"] = math.inf if insecure else ledger.epsilon(settings.gradients.delta)
        found["gradient_delta"] = settings.gradients.delta
    return found


def _epsilon_sentences(settings: Settings, sizes: Sizes, schedule: Schedule, figures: Mapping[str, Any]) -> list[str]:
    found = []
    embedding = settings.embedding
    if embedding is None:
        found.append("Activations have no epsilon: they are in the clear.")
    else:
        for name, cut in sizes.cuts.items():
            owner = name if settings.topology == "V" else settings.leader
            bits, vectors = bits_of(cut)
            claim, truth = embedding.sentences(bits, schedule.visits, vectors)
            found += [f"{owner}: {claim} {truth}"]
    if settings.label is not None:
        found.append(
            f"Labels: epsilon {settings.label.eps:g} for each, {_worth(settings.label.eps)}; it does not grow."
        )
    total = figures["gradient_epsilon_training"]
    if total is None:
        found.append("Gradients that cross back: epsilon none.")
    else:
        delta = settings.gradients.delta
        found.append(
            f"Gradients that cross back: epsilon {total:.4g} at delta {delta:.3g} for a record in the training, "
            f"{_worth(total)}."
        )
    return found


def _worth(epsilon: float) -> str:
    word = strength(epsilon)
    return word if word.startswith("a ") else f"which {word}"


def _bytes(settings: Settings, sizes: Sizes) -> dict[str, int]:
    """Of the tensors of one full step, to and from all followers."""
    batch = settings.train.batch if sizes.records is None else min(settings.train.batch, sizes.records)
    forward = [batch * math.prod(cut) for cut in sizes.cuts.values()]
    back = 0 if sizes.back_cut is None else batch * math.prod(sizes.back_cut)
    plain = 4 * sum(forward)
    packed = plain if settings.embedding is None else sum(packed_size(count) for count in forward)
    numbers = sum(forward) + back
    wide = 4 * numbers
    gradients = wide if settings.gradients.bits == 32 else numbers + 4 * batch * (len(forward) + bool(back))
    return {
        "bytes_step": packed + 4 * back + gradients,
        "bytes_step_unpacked": plain + 4 * back + wide,
        "bytes_activations": packed,
        "bytes_activations_unpacked": plain,
    }


def _byte_sentences(settings: Settings, schedule: Schedule | None, figures: Mapping[str, Any]) -> list[str]:
    step, plain = figures["bytes_step"], figures["bytes_step_unpacked"]
    whole = "" if schedule is None else f", the training {_amount(step * schedule.total)}"
    found = [f"A step moves {_amount(step)}{whole}."]
    if step != plain:
        activations, floats = figures["bytes_activations"], figures["bytes_activations_unpacked"]
        found.append(
            f"In floats it would be {_amount(plain)} a step; activations of private records take "
            f"{_amount(activations)} in place of {_amount(floats)}."
        )
    return found


def _amount(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"
