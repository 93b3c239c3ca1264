"""Laplace noise on each update, clipped in L1: an epsilon without a delta, for each upload."""

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
from tacit.dp.release import PureEvent
from tacit.errors import PeerError
from tacit.kinds.horizontal.messages import Update
from tacit.kinds.horizontal.protections.contract import (
    Alone,
    Cost,
    Learned,
    Loss,
    NoiseTest,
    Price,
    Protection,
    Upload,
    noise_on_updates,
)
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.sums import Group, Sum
from tacit.kinds.horizontal.vector import Flat
from tacit.sections import Positive, Section

if TYPE_CHECKING:
    from tacit.audit.attacks.mechanisms import Effort, Rows
    from tacit.audit.finding import Finding
    from tacit.audit.scope import Scope
    from tacit.kinds.horizontal.task import Task

_TAIL = 100.0  # noise above this many times its scale has probability e^-100


class Options(Section):
    epsilon: Positive = 4.0  # of each upload
    clip: Positive = 1.0  # in L1


def options_of(settings: Settings) -> Options:
    return Options.model_validate(settings.encrypt.options)


@dataclass(frozen=True, slots=True)
class LaplaceMechanism:
    size: int
    epsilon: float
    largest_sum: float  # of the magnitudes of an update

    @property
    def clip(self) -> None:  # it does not follow the coordinator's
        return None

    @property
    def event(self) -> PureEvent:
        return PureEvent(self.epsilon, "client", "replace-one")

    def protect(self, update: Flat, rng: Generator | None) -> Flat:
        clipped = update * min(1.0, self.largest_sum / (float(np.abs(update).sum()) or 1.0))
        released = mechanisms.laplace(
            clipped, sensitivity=2 * self.largest_sum, epsilon=self.epsilon, unit="client", rng=rng
        )
        return released.value.astype(update.dtype)

    def upload(self, learned: Learned, clip: float | None, rng: Generator | None) -> Upload:
        return Upload(self.protect(learned.update(), rng), event=self.event)

    def add(self, into: Sum | Group, message: Update) -> Loss | None:
        if message.samples is not None or message.loss is not None:
            raise PeerError("an update with more than its protection lets out")
        into.add_update(message.vector)
        return None

    def largest_norm(self, clip: float | None) -> float:
        return self.largest_sum + _TAIL * math.sqrt(self.size) * 2 * self.largest_sum / self.epsilon

    def next_clip(self, clip: float, norm: float) -> float:
        return clip

    def seen(self, message: Update, base: Flat) -> Flat:
        return message.vector


class LaplaceUpdates(Protection):
    name = "LAPLACE_UPDATES"
    label = "Laplace noise on updates"
    summary = "LAPLACE_UPDATES: each update clipped, with Laplace noise"
    section = "options"
    protects = True
    promises = True
    options = Options
    masked = False
    weighted = False
    hides_failure = True
    inversions = (("closed form", "upload"),)

    def check(self, settings: Settings) -> None:
        if (epsilon := options_of(settings).epsilon) > 1000:
            raise ValueError(f"encrypt.options.epsilon is {epsilon:g}, which hides nothing: take 1000 or less")

    def notes(self, settings: Settings) -> list[str]:
        return [f"{self.name}: a toy, for tests"]

    def unprotected(self, settings: Settings) -> list[str]:
        return [f"A coordinator can ask each client up to {settings.answers} times."]

    def price(self, settings: Settings, size: int) -> Price:
        return Price(local=(Cost("updates", self.mechanism(settings, size).event),))

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        how = f"with Laplace noise: epsilon {options_of(settings).epsilon:g} for each upload"
        return (Release("Update", "vector", "the update", how),)

    def noise(self, settings: Settings, size: int) -> list[str]:
        given = options_of(settings)
        one = math.sqrt(2 * size) * 2 * given.clip / given.epsilon
        return [noise_on_updates(given.clip, one, settings.sampled)]

    def tests(self, settings: Settings) -> Sequence[NoiseTest]:
        def noise(scope: Scope, effort: Effort, task: Task) -> Finding:
            from tacit.audit.attacks.mechanisms import audit_laplace
            from tacit.audit.steps import named

            made, rng = self.mechanism(settings, 4), scope.rng("toy")

            def uploads(rows: Rows) -> Rows:
                return np.stack([made.protect(row, rng) for row in rows])

            longest = np.eye(1, 4)[0] * 10 * made.largest_sum
            claim = self.claim(settings)
            found = audit_laplace(uploads, -longest, longest, claim, effort=replace(effort, samples=4_000))
            return named(found, "Laplace noise of an upload", "noise of one upload", "server")

        return (NoiseTest("noise of an upload", noise),)

    def mechanism(self, settings: Settings, size: int) -> LaplaceMechanism:
        given = options_of(settings)
        return LaplaceMechanism(size, given.epsilon, given.clip)

    def claim(self, settings: Settings) -> Claim:
        return Claim(options_of(settings).epsilon, 0.0, "client", "replace-one")

    def one_round(self, settings: Settings, price: Price) -> dict[str, Any]:
        return {}  # noise is sized for one upload, whatever the number of rounds


PROTECTION = LaplaceUpdates()
_: Alone = LaplaceMechanism(1, 1.0, 1.0)
