"""Local differential privacy: each update clipped, with Gaussian noise, before anything leaves the client."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.boundary import Release
from tacit.dp.claim import Claim
from tacit.dp.gaussian import gaussian_epsilon, gaussian_sigma
from tacit.kinds.horizontal.protections.contract import Alone, Cost, NoiseTest, Price, Protection, noise_on_updates
from tacit.kinds.horizontal.settings import LARGEST_DELTA, Settings

if TYPE_CHECKING:
    from tacit.audit.attacks.mechanisms import Effort, Rows
    from tacit.audit.finding import Finding
    from tacit.audit.scope import Scope
    from tacit.kinds.horizontal.task import Task

_WIDTH = 8  # numbers in an upload whose noise is audited: the noise of each is drawn by itself


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
        from tacit.kinds.horizontal.protection import LocalDP

        return Price(local=(Cost("updates", LocalDP.of(settings).event(size)),))

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        local = settings.encrypt.dp_encrypt
        how = (
            f"clipped to norm {local.dp_norm_clip:g}, with Gaussian noise: epsilon {local.dp_eps:g} at delta "
            f"{settings.delta:.3g} for each upload"
        )
        return (Release("Update", "vector", "the update", how),)

    def noise(self, settings: Settings, size: int) -> list[str]:
        from tacit.kinds.horizontal.protection import LocalDP

        clip = settings.encrypt.dp_encrypt.dp_norm_clip
        one = 2 * clip * LocalDP.of(settings).noise_multiplier * math.sqrt(size)
        return [noise_on_updates(clip, one, settings.sampled)]

    def tests(self, settings: Settings) -> Sequence[NoiseTest]:
        def noise(scope: Scope, effort: Effort, task: Task) -> Finding:
            return _noise_of_an_upload(settings, scope, effort)

        def canaries(scope: Scope, effort: Effort, task: Task) -> Finding:
            return _canaries(settings, scope, effort, task)

        return NoiseTest("noise of an upload", noise), NoiseTest("canaries in each tensor", canaries)

    def mechanism(self, settings: Settings, size: int) -> Alone:
        from tacit.kinds.horizontal.protection import LocalDP

        return LocalDP.of(settings)  # type: ignore[return-value]

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
    from tacit.kinds.horizontal.protection import LocalDP

    protection, clip = LocalDP.of(settings), settings.encrypt.dp_encrypt.dp_norm_clip
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
    found = audit_uploads(unlimited(settings), layout, scope.rng("canaries of uploads"), brief)
    return named(found, "Uploads of a client", "its own clipping and noise, the file's own model", "server")
