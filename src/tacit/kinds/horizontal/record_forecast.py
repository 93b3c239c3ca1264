"""What private training at clients will cost, by how many records a client has: for the plan."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tacit.dp.accounting import HIDES_NOTHING, reading, strength
from tacit.kinds.horizontal.record_level import RECORDS, against
from tacit.kinds.horizontal.record_plan import round_plan
from tacit.kinds.horizontal.record_privacy import most_answers
from tacit.kinds.horizontal.settings import Settings
from tacit.report.forecast import Priced

_MANY = 1.25  # times the rounds, for which noise is sized
_SIZES = (100, 1_000, 10_000)  # of clients, if nobody knows them


@dataclass(frozen=True, slots=True)
class SizePrice:
    """Of a client with so many records, or owners."""

    units: int
    steps: int  # of private SGD in a round
    sampling_probability: float
    noise_multiplier: float
    noise_of_mean: float  # deviation of each number of a mean gradient
    epsilon_round: float
    epsilon_run: float  # if it trains in each round, and none is abandoned


@dataclass(frozen=True, slots=True)
class RecordPrices:
    """What it costs each record of a client, or each owner, over the whole run."""

    unit: str
    relation: str
    epsilon: float
    delta: float
    answers: int  # for which the noise is sized
    rounds: int  # in which a client trains at most, if none is abandoned
    against: str
    sizes: tuple[SizePrice, ...]

    def in_words(self) -> Priced:
        """As a part of a forecast."""
        rows = [
            (
                "the run",
                f"epsilon {self.epsilon:.4g} at delta {self.delta:.3g} at most: the noise is sized for {self.answers} "
                "trainings, as often as a client answers",
            ),
            ("that is", str(reading(self.epsilon, self.delta))),
        ]
        rows += [
            (
                f"{each.units:,}",
                f"{self.unit}s at a client: noise multiplier {each.noise_multiplier:.4g}, {each.steps} steps a round "
                f"on samples of {each.sampling_probability:.3g}, {each.noise_of_mean:.3g} on each number of a mean "
                f"gradient; epsilon {each.epsilon_round:.4g} after one round, {each.epsilon_run:.4g} after "
                f"{self.rounds}",
            )
            for each in self.sizes
        ]
        return Priced(f"{RECORDS}: {self.against} (unit {self.unit}, {self.relation})", tuple(rows))


def record_prices(settings: Settings, samples: Sequence[int] | None = None) -> RecordPrices | None:
    """Prices for clients of several sizes; None without `train.privacy`. `samples`: how many each has, if known."""
    privacy = settings.train.privacy
    if privacy is None:
        return None
    known = None if privacy.unit == "owner" or not samples else [count for count in samples if count]
    sizes = sorted({min(known), int(statistics.median(known)), max(known)}) if known else _SIZES
    answers = most_answers(settings)
    rounds = min(settings.most_sums, answers)
    return RecordPrices(
        privacy.unit,
        "add-remove",
        privacy.epsilon,
        privacy.delta,
        answers,
        rounds,
        against(privacy),
        tuple(_of_size(settings, size, answers, rounds) for size in sizes),
    )


def _of_size(settings: Settings, size: int, answers: int, rounds: int) -> SizePrice:
    owned = settings.train.privacy is not None and settings.train.privacy.unit == "owner"
    plan = round_plan(settings.train, answers, size, size if owned else None)
    event, steps = plan.event(0), plan.steps
    ledger = plan.ledger()
    ledger.spend(event, steps)
    once = ledger.epsilon(plan.delta, plan.method)
    if rounds > 1:
        ledger.spend(event, steps * (rounds - 1))
    return SizePrice(
        size,
        steps,
        plan.probability,
        plan.initial_noise,
        plan.initial_noise * plan.clip / plan.batch,
        once,
        ledger.epsilon(plan.delta, plan.method),
    )


def record_warnings(settings: Settings) -> list[str]:
    """If the promise hides nothing, and if much of the noise is for rounds that may never come."""
    privacy = settings.train.privacy
    if privacy is None:
        return []
    found = []
    if privacy.epsilon > HIDES_NOTHING:
        found.append(f"train.privacy.epsilon {privacy.epsilon:g} for each {privacy.unit} {strength(privacy.epsilon)}.")
    answers, rounds = most_answers(settings), min(settings.most_sums, most_answers(settings))
    if answers > _MANY * rounds:
        found.append(
            f"train.privacy: the noise is sized for {answers} trainings of a client, and a run without abandoned "
            f"rounds takes {rounds}: with a smaller round.abandoned_rounds there is less noise for the same epsilon."
        )
    return found
