"""Distributed differential privacy: a share of Skellam noise inside the masks, one epsilon for the sums of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from numpy.random import Generator

from tacit.boundary import Release
from tacit.dp.accounting import Ledger
from tacit.dp.claim import Claim
from tacit.kinds.horizontal.protections.contract import (
    Cost,
    Inside,
    Limit,
    NoiseTest,
    Price,
    Protection,
    noise_on_updates,
)
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Flat
from tacit.secagg.skellam import SkellamEncoding
from tacit.secagg.unmask import Words

if TYPE_CHECKING:
    from tacit.audit.attacks.mechanisms import Effort
    from tacit.audit.finding import Finding
    from tacit.audit.scope import Scope
    from tacit.kinds.horizontal.task import Task

_WIDTH = 8  # numbers in a sum whose noise is audited: the noise of each is drawn by itself
_SUMS = 1_200  # of the file's own model: each takes the noise of all its clients
_FEWEST_SUMS, _MOST_SHARES = 8_000, 8_000_000  # of a few numbers, and noise shares in all of them


def central(settings: Settings) -> tuple[float, float]:
    """The epsilon and delta of a run, for which its noise is sized."""
    given, limit = settings.encrypt.ddp_encrypt, settings.budget
    epsilon = given.ddp_eps or (limit.epsilon if limit else 8.0)
    return epsilon, given.ddp_delta or (limit.delta if limit else None) or settings.usual_delta


def fewest(settings: Settings) -> int:
    """Survivors for whom the noise is sized: no smaller sum is opened."""
    return settings.encrypt.ddp_encrypt.n_min or max(min(settings.needed, settings.sharing), settings.colluders + 2)


@dataclass(frozen=True, slots=True)
class NoisySum:
    """Clipped updates with noise shares inside the masks, equal weights: the coordinator learns a noisy mean.

    Guarantee: see `SkellamEncoding.event`.
    """

    encoding: SkellamEncoding

    @property
    def ring(self) -> tuple[int, int]:
        return self.encoding.columns, self.encoding.modulus_bits

    def encode(self, update: Flat, samples: int, rotation: bytes, rng: Generator | None) -> Words:
        return self.encoding.encode(update, rotation, rng)

    def decode(self, words: Words, survivors: int, rotation: bytes) -> Flat:
        return self.encoding.decode(words, survivors, rotation)

    def weight(self, words: Words, survivors: int) -> float:
        return float(survivors)

    def seen(self, words: Words, rotation: bytes) -> Flat:
        survivors = self.encoding.fewest  # decode divides by their number, which is undone
        return self.decode(words, survivors, rotation) * survivors


def skellam_encoding(settings: Settings, size: int) -> SkellamEncoding:
    """The encoding with the least noise for which all sums that one client may be in stay within the run's epsilon.

    Guarantee: that of `SkellamEncoding.event`, so often: see `bounded_participation`.
    """
    (epsilon, delta), sums = central(settings), settings.most_sums
    try:
        return _for_sums(settings, size, sums)
    except ValueError as error:
        raise ValueError(
            f"ddp_eps {epsilon:g} at delta {delta:g} over {sums} rounds cannot be reached here ({error}): "
            "take a larger ddp_eps, fewer rounds or more clients"
        ) from None


def _for_sums(settings: Settings, size: int, sums: int) -> SkellamEncoding:
    clip = settings.encrypt.ddp_encrypt.ddp_norm_clip
    bits = settings.encrypt.pw_encrypt.bits
    return _skellam(size, clip, settings.sampled, fewest(settings), settings.colluders, *central(settings), sums, bits)


@lru_cache(maxsize=16)  # the search takes half a second, and each of thousands of simulated clients asks
def _skellam(
    values: int,
    clip: float,
    clients: int,
    fewest: int,
    colluders: int,
    epsilon: float,
    delta: float,
    rounds: int,
    bits: int | Literal["exact"] | None,
) -> SkellamEncoding:
    return SkellamEncoding.for_budget(
        values=values,
        clip=clip,
        clients=clients,
        fewest=fewest,
        colluders=colluders,
        epsilon=epsilon,
        delta=delta,
        rounds=rounds,
        bits=bits,
    )


class DistributedDifferentialPrivacy(Protection):
    name = "DDP_ENCRYPT"
    label = "distributed differential privacy"
    summary = "DDP_ENCRYPT: masks, and noise in the sum"
    section = "ddp_encrypt"
    protects = True
    promises = True
    masked = True
    weighted = False
    hides_failure = True
    sized_for_rounds = True
    inversions = (("imprint", "sum"), ("closed form", "sum"), ("closed form", "upload"))

    def least_release(self, settings: Settings) -> str | None:
        return "0.3" if isinstance(settings.encrypt.pw_encrypt.bits, int) else None  # before: in 2^k columns

    def check(self, settings: Settings) -> None:
        epsilon, _ = central(settings)
        if settings.budget is not None and settings.budget.epsilon < epsilon:
            raise ValueError(
                f"ddp_eps is {epsilon:g}, above the budget of {settings.budget.epsilon:g}: lower it, or leave out one"
            )
        if (clip := settings.encrypt.pw_encrypt.clip) is not None:
            raise ValueError(f"pw_encrypt.clip is {clip:g}, and DDP_ENCRYPT clips to ddp_norm_clip: leave it out")
        least, sharing = fewest(settings), settings.sharing
        if not settings.colluders + 2 <= least <= sharing:
            raise ValueError(
                f"n_min is {least} and colluders is {settings.colluders}: n_min must be at least colluders + 2, and at "
                f"most the {sharing} clients with which a round of {settings.sampled} continues (share_secrets_ratio)"
            )

    def unprotected(self, settings: Settings) -> list[str]:
        most = settings.round.participations
        if most is None:
            return []
        return [
            f"epsilon holds for a client that uploads {most} times at most (round.participations). Each client counts "
            "its own uploads, also over restarts: one that is started anew without its folder, or with an old copy of "
            "it, counts fewer than it sent."
        ]

    def price(self, settings: Settings, size: int) -> Price:
        return Price(central=(Cost("updates", skellam_encoding(settings, size).event()),))

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        epsilon, delta = central(settings)
        how = (
            f"clipped to norm {settings.encrypt.ddp_encrypt.ddp_norm_clip:g}, with a share of Skellam noise, masked: "
            f"the coordinator learns only the noisy sum over {fewest(settings)} or more survivors, epsilon {epsilon:g} "
            f"at delta {delta:.3g} for the run"
        )
        if (most := settings.round.participations) is not None:
            how += f", in which a client uploads {most} times at most"
        return (Release("Masked", "words", "the update", how),)

    def noise(self, settings: Settings, size: int) -> list[str]:
        encoding = skellam_encoding(settings, size)
        share = _share(encoding, size)
        found = [
            noise_on_updates(encoding.clip, share, settings.sampled)
            + f" That of one upload alone is not what protects it: its masks are, and the noise of all together is "
            f"sized for {encoding.fewest} survivors, {encoding.colluders} of whom may tell theirs."
        ]
        if isinstance(encoding.bits, int):
            more = encoding.l2_sensitivity / (encoding.scale * encoding.clip) - 1
            found.append(
                f"With {encoding.bits} bits a number of typical size has {encoding.fineness:.3g} rounding steps, for "
                f"which the noise is {more:.2g} of itself larger."
            )
        if settings.most_sums < settings.rounds:
            found.append(_saved(settings, size, share))
        return found

    def tests(self, settings: Settings) -> Sequence[NoiseTest]:
        def noise(scope: Scope, effort: Effort, task: Task) -> Finding:
            return _noise_of_a_sum(settings, scope, effort, task)

        def canaries(scope: Scope, effort: Effort, task: Task) -> Finding:
            return _canaries(settings, scope, effort, task)

        skipped = "canaries in each tensor of the model: --full has them"
        return NoiseTest("noise of a sum", noise), NoiseTest("canaries in each tensor", canaries, left_out=skipped)

    def mechanism(self, settings: Settings, size: int) -> Inside:
        return NoisySum(skellam_encoding(settings, size))

    def limit(self, settings: Settings) -> Limit:
        return Limit("ddp_eps", *central(settings))

    def minimum(self, settings: Settings) -> int:
        return fewest(settings)

    def claim(self, settings: Settings) -> Claim:
        return Claim(*central(settings), "client", "zero-out")

    def one_round(self, settings: Settings, price: Price) -> dict[str, Any]:
        """What one opened sum costs: noise is sized for those of all rounds."""
        ledger, (_, delta) = Ledger("client", "zero-out"), central(settings)
        ledger.spend(price.central[0].event)
        return {"ddp_eps": ledger.epsilon(delta, "rdp"), "ddp_delta": delta}

    def in_brief(self, settings: Settings) -> str:
        return f"{self.name}, clipped to {settings.encrypt.ddp_encrypt.ddp_norm_clip:g}"


PROTECTION = DistributedDifferentialPrivacy()


def _share(encoding: SkellamEncoding, size: int) -> float:
    """The norm of the noise on one upload."""
    return math.sqrt(encoding.share_variance) / encoding.scale * math.sqrt(size)


def _saved(settings: Settings, size: int, share: float) -> str:
    """What the cap on participations saves, as a sentence."""
    most, rounds = settings.most_sums, settings.rounds
    said = f"It is sized for the {most} sums that one client may be in (round.participations), not for {rounds}: "
    try:
        uncapped = _share(_for_sums(settings, size, rounds), size)
    except ValueError:
        return f"{said}for {rounds}, ddp_eps {central(settings)[0]:g} could not be reached."
    mean = uncapped / math.sqrt(settings.sampled)
    return f"{said}for {rounds}, that on the mean would be about {mean:.3g}, {uncapped / share:.2f} times as much."


def _noise_of_a_sum(settings: Settings, scope: Scope, effort: Effort, task: Task) -> Finding:
    """The file's own noise multiplier, in vectors of a few numbers: the noise of each column is drawn by itself."""
    from tacit.audit.attacks.mechanisms import audit_skellam
    from tacit.audit.steps import named
    from tacit.kinds.horizontal.vector import Layout

    encoding = replace(skellam_encoding(settings, Layout.of(task.model()).size), values=_WIDTH, bits=None)
    least = fewest(settings)
    honest = least - settings.colluders
    most = max(_FEWEST_SUMS, _MOST_SHARES // honest)
    brief = replace(effort, samples=min(most, scope.pick(16_000, 400_000)))
    rng = scope.rng("noise of a sum")
    found = audit_skellam(encoding, delta=central(settings)[1], honest=honest, effort=brief, rng=rng)
    words = f"noise shares of {least} survivors, {settings.colluders} of whom collude"
    return named(found, "Skellam noise of an opened sum", words, "server")


def _canaries(settings: Settings, scope: Scope, effort: Effort, task: Task) -> Finding:
    from tacit.audit.steps import named
    from tacit.kinds.horizontal.attacks.client_canaries import audit_sums
    from tacit.kinds.horizontal.vector import Layout

    layout = Layout.of(task.model())
    clip, rng = settings.encrypt.ddp_encrypt.ddp_norm_clip, scope.rng("canaries of sums")
    found = audit_sums(settings, layout, rng, replace(effort, samples=_SUMS), clip=clip)
    return named(found, "Opened sums", "clients' own clipping and noise shares, the file's own model", "server")
