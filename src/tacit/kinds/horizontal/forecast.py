"""What a federation will cost and show, before any client trains.

`plan(settings, size)` prices every release, sets noise against signal, counts messages and bytes, and says who sees
what. It reads the same price list and release boundary as the run itself.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.dp.accounting import HIDES_NOTHING, Reading, strength
from tacit.kinds.horizontal import boundary, participation_forecast
from tacit.kinds.horizontal.bounded_participation import expected_samples
from tacit.kinds.horizontal.costs import Costs, Spent
from tacit.kinds.horizontal.download import download_bytes
from tacit.kinds.horizontal.masked import inside_of
from tacit.kinds.horizontal.messages import HEAD_BYTES
from tacit.kinds.horizontal.participation_forecast import MOST_DRAWS
from tacit.kinds.horizontal.protections.contract import Covers
from tacit.kinds.horizontal.record_forecast import RecordPrices, drowned, record_prices, record_warnings
from tacit.kinds.horizontal.record_privacy import weighted
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.traffic import traffic

_SLACK = 1 << 20  # bytes
_LARGE_PART = 0.1  # of the mean, for one client
_FEWEST_LEVELS = 16  # to which a client's numbers are rounded without a warning
_EXAMPLE = 100  # samples of a client, where nobody knows them


@dataclass(frozen=True, slots=True)
class Price:
    """What one kind of release costs whom."""

    covers: tuple[Covers, ...]
    view: str
    unit: str
    relation: str
    delta: float
    epsilon_round: float
    epsilon_run: float
    times: int  # that it happens in the run, to the one it happens to most often
    epsilon_worst: float  # if the coordinator asks as often as clients answer at all, ...
    times_worst: int  # ... which is so often
    reading: Reading  # of the run

    @property
    def against(self) -> str:
        if self.view == "local":
            return "of each client, against everybody who sees its messages, for replacing all its data"
        if self.view == "composed":
            return "of both together, against the coordinator, who sees both, for leaving out one client's data"
        return "of the sums, against all who see them, for leaving out one client's data"


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one client sends and is sent in a round, in bytes, by message."""

    up: dict[str, int]
    down: dict[str, int]

    @property
    def exchanges(self) -> int:
        """Times that a client answers: what it infers travels with its update."""
        return len(self.up.keys() - {"Inference"})


@dataclass(frozen=True, slots=True)
class Plan:
    title: str
    prices: tuple[Price, ...]
    noise: tuple[str, ...]
    traffic: Traffic
    rounds: int
    sees: tuple[str, ...]
    unprotected: tuple[str, ...]
    warnings: tuple[str, ...]
    laplace_scale: float | None  # of the noise on inference vectors
    records: RecordPrices | None = None  # what private training costs the records of clients


def plan(settings: Settings, layout: Layout, classes: int | None, samples: Sequence[int] | None = None) -> Plan:
    """The plan of a federation with such a model, whose inference vectors have `classes` entries.

    Args:
        samples: how many each client has, if the task tells.
    """
    size = layout.size
    costs = Costs(settings, size)
    most = most_uploads(settings)
    records = record_prices(settings, samples)
    prices = tuple(
        _price(once, whole, worst, settings, most)
        for once, whole, worst in zip(
            costs.spent(1, 1),
            costs.spent(most, settings.most_sums),
            costs.spent(settings.answers, settings.most_sums),  # no client is in more: the noise is sized for them
            strict=True,
        )
    )
    return Plan(
        title=(
            f"{settings.name}: {settings.clients} clients, {settings.sampled} in a round, {settings.rounds} rounds, "
            f"{settings.updates.name}, {size} parameters"
        ),
        prices=prices,
        noise=(
            *settings.updates.noise(settings, size),
            *participation_forecast.cap_in_words(settings),
            *settings.vectors.noise(settings, size),
        ),
        traffic=_traffic(settings, layout, classes or 0),
        rounds=settings.rounds,
        sees=tuple(boundary.sentences(settings)),
        unprotected=(*boundary.unprotected(settings), *_weight(settings, samples)),
        warnings=(
            *_budget(settings, costs),
            *record_warnings(settings),
            *drowned(settings, records, size),
            *participation_forecast.lacking_clients(settings),
            *_weak(prices),
            *_same_clients(settings),
            *_heavy(settings, samples),
            *_coarse(settings, samples),
            *settings.notes(),
        ),
        laplace_scale=settings.vectors.scale(settings),
        records=records,
    )


def largest_part(settings: Settings, typical: float) -> float:
    """Of the mean, that one client can claim by its weight among others of `typical` samples, if all stay."""
    most = settings.encrypt.pw_encrypt.largest_weight
    return most / (most + (settings.sampled - 1) * typical)


def _weight(settings: Settings, samples: Sequence[int] | None) -> list[str]:
    """What one client can claim of the mean, as a sentence; nothing where all weigh the same."""
    if not weighted(settings):
        return []
    most, others = settings.encrypt.pw_encrypt.largest_weight, settings.sampled - 1
    said = f"A client weighs as much as the samples that it says it has, up to largest_weight {most}: "
    if samples is None:
        example = largest_part(settings, _EXAMPLE)
        return [
            f"{said}among {others} others of s samples each it can claim {most} / ({most} + {others} s) of the mean, "
            f"{example:.1%} if s is {_EXAMPLE}."
        ]
    typical = statistics.median(samples)
    part = largest_part(settings, typical)
    return [f"{said}among {others} others of {typical:g} samples it can claim {part:.1%} of the mean."]


def _heavy(settings: Settings, samples: Sequence[int] | None) -> list[str]:
    if not weighted(settings) or settings.sampled == 1:
        return []
    most = settings.encrypt.pw_encrypt.largest_weight
    if samples is not None and (above := sum(count > most for count in samples)):
        return [
            f"largest_weight {most}: {above} of {settings.clients} clients have more samples, up to {max(samples)}, "
            "and are refused in every round: raise it to that."
        ]
    remedy = "lower it to the most samples that a client may have"
    if samples is None:
        least = math.ceil(most * (1 / _LARGE_PART - 1) / (settings.sampled - 1))
        if least <= 1:
            return []
        return [
            f"largest_weight {most}: one client can claim more than {_LARGE_PART:.0%} of the mean unless the others "
            f"have {least} samples each: {remedy}."
        ]
    part = largest_part(settings, statistics.median(samples))
    if part <= _LARGE_PART:
        return []
    return [f"largest_weight {most}: one client can claim {part:.1%} of the mean: {remedy}, {max(samples)} here."]


def _coarse(settings: Settings, samples: Sequence[int] | None) -> list[str]:
    """A typical client whose numbers are rounded to few levels, because it has few samples."""
    bits, most = settings.encrypt.pw_encrypt.bits, settings.encrypt.pw_encrypt.largest_weight
    if samples is None or not isinstance(bits, int) or not weighted(settings):
        return []
    typical = statistics.median(samples)
    levels = 2 ** (bits - 1) * typical / most
    if levels >= _FEWEST_LEVELS:
        return []
    return [
        f"bits {bits} with largest_weight {most}: a client of {typical:g} samples rounds to {levels:.1f} levels up to "
        f"the clip: lower largest_weight, to {max(samples)} here, or take more bits."
    ]


def most_uploads(settings: Settings) -> int:
    """How often the client is sampled that is sampled most; sampling is drawn from the seed, so that it is known."""
    if settings.sampled == settings.clients or settings.clients * settings.rounds > MOST_DRAWS:
        return settings.most_sums
    asked: Counter[int] = Counter()
    for sampled in expected_samples(settings):
        asked.update(sampled)
    return max(asked.values())


def _price(once: Spent, whole: Spent, worst: Spent, settings: Settings, most: int) -> Price:
    local = once.view != "central"
    limit = settings.budget.epsilon if settings.budget and local else math.inf
    return Price(
        once.covers,
        once.view,
        once.ledger.unit,
        once.ledger.relation,
        once.delta,
        once.epsilon,
        whole.epsilon,
        most if local else settings.most_sums,
        min(worst.epsilon, limit),
        settings.answers if local else settings.most_sums,
        whole.reading(),
    )


def _traffic(settings: Settings, layout: Layout, classes: int) -> Traffic:
    model = layout.size * np.dtype(layout.dtype).itemsize + HEAD_BYTES
    sent = download_bytes(layout, settings.round.down) + HEAD_BYTES
    up: dict[str, int] = {}
    if settings.unsupervised is not None:
        up["Inference"] = settings.unsupervised.vectors * classes * 8 + HEAD_BYTES
    if settings.masked:
        masked_up, masked_down = traffic(settings.secure(*inside_of(settings, layout.size).ring))
        return Traffic(up | masked_up, {"Work": sent} | masked_down)
    return Traffic(up | {"Update": model}, {"Work": sent})


def largest_frames(settings: Settings, layout: Layout, classes: int | None) -> tuple[int, int]:
    """Bytes of the largest message that a client may send, and be sent: what is larger is refused unread."""
    sizes = _traffic(settings, layout, classes or 0)
    return max(sizes.up.values()) + _SLACK, max(sizes.down.values()) + _SLACK


def _budget(settings: Settings, costs: Costs) -> list[str]:
    """How far the budget reaches, if not to the end."""
    if settings.budget is None:
        return []
    asked: Counter[int] = Counter()
    known = settings.clients * settings.rounds <= MOST_DRAWS
    for attempt, sampled in enumerate(expected_samples(settings) if known else [()] * settings.rounds):
        asked.update(sampled)
        most = max(asked[client] for client in sampled) if known else min(attempt + 1, settings.most_sums)
        sums = attempt + 1 if settings.round.participations is None else most
        if (beyond := costs.beyond(most, sums)) is not None:
            paid = f"pays for {attempt} of {settings.rounds} rounds" if attempt else "does not pay for a single round"
            sized = costs.limit if beyond.view == "composed" else None
            remedy = f"; with a smaller {sized.key} it reaches further" if sized else ""
            return [
                f"The budget of epsilon {settings.budget.epsilon:g} {paid} of {' and '.join(beyond.covers)}: the run "
                f"stops there{remedy}."
            ]
    return []


def _same_clients(settings: Settings) -> list[str]:
    """Where two honest sums differ only by who dropped out."""
    everybody, least = settings.sampled == settings.clients, settings.round.least_difference
    if least is not None and not everybody:
        usual = 2 * settings.sampled * (settings.clients - settings.sampled) / settings.clients
        if least <= usual:
            return []
        return [
            f"round.least_difference {least}: two samples of {settings.sampled} among {settings.clients} clients "
            f"usually differ by {usual:.0f}, so that most rounds are aborted: lower it."
        ]
    if not settings.unpaid_sums or not everybody or least is not None:
        return []
    return [
        f"All {settings.clients} clients are in each round, so that sums of two rounds differ by those that dropped "
        "out, and a coordinator can choose them. With round.least_difference: 3, say, clients refuse to open a sum "
        "whose survivors differ from those of an earlier one by one or two clients; ordinary dropouts abort rounds "
        "then. It needs the complete graph (mode: active, or graph: complete)."
    ]


def _weak(prices: tuple[Price, ...]) -> list[str]:
    return [
        f"The {price.view} epsilon of {' and '.join(price.covers)}, {price.epsilon_run:.4g} over the run, "
        f"{strength(price.epsilon_run)}."
        for price in prices
        if price.epsilon_run > HIDES_NOTHING
    ]
