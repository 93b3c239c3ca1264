"""Local differential privacy: each update clipped, with Gaussian noise, before anything leaves the client."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from tacit.boundary import Release
from tacit.dp import mechanisms
from tacit.dp.claim import Claim
from tacit.dp.clipping import clip_l2
from tacit.dp.gaussian import gaussian_epsilon, gaussian_sigma
from tacit.dp.release import GaussianEvent, Released
from tacit.errors import PeerError
from tacit.kinds.horizontal.messages import Update
from tacit.kinds.horizontal.protections.contract import (
    SMALLEST_CLIP,
    Alone,
    Cost,
    Learned,
    NoiseTest,
    Price,
    Protection,
    Upload,
    noise_on_updates,
)
from tacit.kinds.horizontal.settings import LARGEST_DELTA, Settings
from tacit.kinds.horizontal.sums import Group, Sum
from tacit.kinds.horizontal.vector import Flat

if TYPE_CHECKING:
    from tacit.audit.attacks.mechanisms import Effort, Rows
    from tacit.audit.finding import Finding
    from tacit.audit.scope import Scope
    from tacit.kinds.horizontal.task import Task

_WIDTH = 8  # numbers in an upload whose noise is audited: the noise of each is drawn by itself


@dataclass(frozen=True, slots=True)
class LocalDP:
    """Local differential privacy of one upload.

    Guarantee: (dp_eps, dp_delta) for replacing all data of a client, against everybody: two updates clipped to C are up
    to 2C apart, and the noise is sized for that. Rounds compose per client.
    Source: Balle and Wang 2018 for sigma; see `mechanisms.gaussian` for the grid.
    """

    size: int
    clip: float  # of the first round
    noise_multiplier: float
    adaptive_factor: float | None  # clip to a multiple of the last released update's norm, never growing

    @classmethod
    def of(cls, settings: Settings, size: int) -> LocalDP:
        chosen = settings.encrypt.dp_encrypt
        sigma = gaussian_sigma(chosen.dp_eps, settings.delta)
        return cls(size, chosen.dp_norm_clip, sigma, chosen.adaptive_factor if chosen.adaptive else None)

    def upload(self, learned: Learned, clip: float | None, rng: Generator | None) -> Upload:
        # The clipping norm is the coordinator's to lower, never to raise: the event does not depend on it.
        released = self.protect(learned.update(), min(clip or np.inf, self.clip), rng)
        return Upload(released.value, event=released.event)

    def protect(self, update: Flat, clip: float, rng: Generator | None) -> Released[Flat]:
        """Clip `update` in place and add noise. The value has the update's own type."""
        clip_l2(update, clip)
        released = mechanisms.gaussian(
            update, sensitivity=2 * clip, noise_multiplier=self.noise_multiplier, unit="client", rng=rng
        )
        return Released(released.value.astype(update.dtype), released.event)

    def event(self) -> GaussianEvent:
        """What every upload costs, known before the first."""
        return mechanisms.gaussian_event(self.size, self.noise_multiplier)

    def add(self, into: Sum | Group, message: Update) -> None:
        if message.samples is not None or message.loss is not None:
            raise PeerError("an update with more than its protection lets out")
        into.add_update(message.vector)

    def largest_norm(self, clip: float | None) -> float:
        """No honest upload is longer, but with probability below 2^-70."""
        clip = self.clip if clip is None else clip
        return clip + 2 * clip * self.noise_multiplier * (math.sqrt(self.size) + 10) * 1.001

    def next_clip(self, clip: float, norm: float) -> float:
        if self.adaptive_factor is None:
            return clip
        return min(clip, max(self.adaptive_factor * norm, SMALLEST_CLIP * self.clip))

    def seen(self, message: Update, base: Flat) -> Flat:
        return message.vector


class LocalDifferentialPrivacy(Protection):
    name = "DP_ENCRYPT"
    label = "local differential privacy"
    summary = "DP_ENCRYPT: each update clipped, with Gaussian noise"
    section = "dp_encrypt"
    protects = True
    promises = True
    masked = False
    weighted = False
    hides_failure = True
    inversions = (("closed form", "upload"), ("cosine DLG", "upload"), ("DLG", "upload"))

    def notes(self, settings: Settings) -> list[str]:
        found = []
        local, delta, usual = settings.encrypt.dp_encrypt, settings.delta, 1 / settings.clients
        if local.dp_eps <= 50:
            found.append(f"dp_eps {local.dp_eps:g}: MindSpore Federated advises more than 50, for accuracy's sake")
        if local.dp_eps > 10:
            found.append(f"dp_eps {local.dp_eps:g} for each upload is a weak promise; the run's total is in the ledger")
        if not 0.5 <= local.dp_norm_clip <= 2:
            found.append(f"dp_norm_clip {local.dp_norm_clip:g}: MindSpore Federated advises 0.5 to 2")
        if delta > usual:
            found.append(f"dp_delta {delta:g} is above 1 / clients = {usual:.3g}")
        if delta > LARGEST_DELTA:
            same = gaussian_epsilon(gaussian_sigma(local.dp_eps, delta), LARGEST_DELTA)
            found.append(
                f"dp_delta {delta:g}: dp_eps {local.dp_eps:g} at this delta is {same:.3g} at {LARGEST_DELTA:g}"
            )
        if local.dp_delta is None and delta < usual:
            found.append(
                f"dp_delta is {delta:g} by default; MindSpore Federated advises 1 / clients = {usual:.3g}, at which "
                "the same dp_eps needs less noise and promises less"
            )
        return found

    def unprotected(self, settings: Settings) -> list[str]:
        return [
            "Each client's total epsilon grows with every answer; a coordinator that breaks the protocol can ask each "
            f"client up to {settings.answers} times, which only a budget forbids."
        ]

    def price(self, settings: Settings, size: int) -> Price:
        return Price(local=(Cost("updates", LocalDP.of(settings, size).event()),))

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        local = settings.encrypt.dp_encrypt
        how = (
            f"clipped to norm {local.dp_norm_clip:g}, with Gaussian noise: epsilon {local.dp_eps:g} at delta "
            f"{settings.delta:.3g} for each upload"
        )
        return (Release("Update", "vector", "the update", how),)

    def noise(self, settings: Settings, size: int) -> list[str]:
        clip = settings.encrypt.dp_encrypt.dp_norm_clip
        one = 2 * clip * LocalDP.of(settings, size).noise_multiplier * math.sqrt(size)
        return [noise_on_updates(clip, one, settings.sampled)]

    def tests(self, settings: Settings) -> Sequence[NoiseTest]:
        def noise(scope: Scope, effort: Effort, task: Task) -> Finding:
            return _noise_of_an_upload(settings, scope, effort)

        def canaries(scope: Scope, effort: Effort, task: Task) -> Finding:
            return _canaries(settings, scope, effort, task)

        return NoiseTest("noise of an upload", noise), NoiseTest("canaries in each tensor", canaries)

    def mechanism(self, settings: Settings, size: int) -> Alone:
        return LocalDP.of(settings, size)

    def claim(self, settings: Settings) -> Claim:
        return Claim(settings.encrypt.dp_encrypt.dp_eps, settings.delta, "client", "replace-one")

    def one_round(self, settings: Settings, price: Price) -> dict[str, Any]:
        return {"dp_delta": settings.delta, "adaptive": False}

    def in_brief(self, settings: Settings) -> str:
        return f"{self.name}, clipped to {settings.encrypt.dp_encrypt.dp_norm_clip:g}"


PROTECTION = LocalDifferentialPrivacy()


def _noise_of_an_upload(settings: Settings, scope: Scope, effort: Effort) -> Finding:
    from tacit.audit.attacks.mechanisms import audit_gaussian
    from tacit.audit.steps import named

    protection, clip = LocalDP.of(settings, _WIDTH), settings.encrypt.dp_encrypt.dp_norm_clip
    rng = scope.rng("noise of an upload")

    def uploads(rows: Rows) -> Rows:
        return np.stack([protection.protect(row.copy(), clip, rng).value for row in rows])

    longest = np.eye(1, _WIDTH)[0] * 100 * clip  # longer than any clipped update: clipping is audited too
    samples = scope.pick(16_000, 200_000)
    claim = PROTECTION.claim(settings)
    found = audit_gaussian(uploads, -longest, longest, claim, effort=replace(effort, samples=samples))
    return named(found, "Gaussian noise of an upload", f"clipped to {clip:g}, noise of one upload", "server")


def _canaries(settings: Settings, scope: Scope, effort: Effort, task: Task) -> Finding:
    from tacit.audit.steps import named
    from tacit.kinds.horizontal.attacks.client_canaries import audit_uploads
    from tacit.kinds.horizontal.attacks.variants import unlimited
    from tacit.kinds.horizontal.vector import Layout

    brief = replace(effort, samples=scope.pick(1_200, 24_000))
    layout = Layout.of(task.model())
    clip, rng = settings.encrypt.dp_encrypt.dp_norm_clip, scope.rng("canaries of uploads")
    found = audit_uploads(unlimited(settings), layout, rng, brief, clip=clip)
    return named(found, "Uploads of a client", "its own clipping and noise, the file's own model", "server")
