"""Inference vectors with Laplace noise on each probability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from tacit.boundary import Release
from tacit.dp import mechanisms
from tacit.dp.claim import Claim
from tacit.dp.release import PureEvent, Released
from tacit.fixedpoint import Floats
from tacit.kinds.horizontal.protections.contract import Cost, NoiseTest, Price, VectorProtection, inference_vectors
from tacit.kinds.horizontal.settings import Settings
from tacit.report.numbers import short

if TYPE_CHECKING:
    from tacit.audit.attacks.mechanisms import Effort, Rows
    from tacit.audit.finding import Finding
    from tacit.audit.scope import Scope
    from tacit.kinds.horizontal.task import Task

SENSITIVITY = 2.0  # L1, of two points of the probability simplex
_TAIL = 100.0  # noise above this many times its scale has probability e^-100: no honest vector
_CLASSES = 8  # of a vector whose noise is audited, if the task does not say


class LaplaceVectors(VectorProtection):
    name = "LAPLACE"
    label = "Laplace"
    summary = "Laplace noise on inference vectors"
    section = "laplace_eval"
    protects = True
    promises = True

    def check(self, settings: Settings) -> None:
        if settings.unsupervised is None:
            raise ValueError(
                f"privacy_eval_type is {self.name}, but nothing is evaluated: add unsupervised.cluster_client_num, or "
                "leave it out"
            )

    def unprotected(self, settings: Settings) -> list[str]:
        return []

    def price(self, settings: Settings, size: int) -> Price:
        if settings.unsupervised is None:
            return Price()
        event = PureEvent(_epsilon(settings), "client", "replace-one")
        return Price(local=(Cost("inference vectors", event, settings.unsupervised.vectors),))

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        how = f"with Laplace noise: epsilon {_epsilon(settings):g} for each vector"
        return inference_vectors(settings, how)

    def noise(self, settings: Settings, size: int) -> list[str]:
        scale = self.scale(settings)
        return [
            f"Each of a vector's probabilities, between 0 and 1, carries Laplace noise of scale {scale:.3g}: "
            f"{_within(1e-5, scale)} of it is below 1e-5, {_within(0.1, scale)} below 0.1. {score_under_noise(scale)}"
        ]

    def tests(self, settings: Settings) -> Sequence[NoiseTest]:
        def noise(scope: Scope, effort: Effort, task: Task) -> Finding:
            return _noise_of_vectors(settings, scope, effort, task)

        def two_rounds(scope: Scope, effort: Effort, task: Task) -> Finding:
            return _two_rounds(settings, task)

        return (
            NoiseTest("noise of inference vectors", noise),
            NoiseTest("inference vectors of two rounds", two_rounds, bounds=False),
        )

    def protect(self, settings: Settings, rows: Floats, rng: Generator | None) -> Released[Floats]:
        return protect(rows, _epsilon(settings), rng)

    def largest(self, settings: Settings) -> float:
        return 1 + _TAIL * self.scale(settings)

    def scale(self, settings: Settings) -> float:
        return SENSITIVITY / _epsilon(settings)

    def scored(self, settings: Settings) -> str:
        scale = self.scale(settings)
        return (
            f"Each vector has ε = {short(_epsilon(settings))}, so each of its probabilities gets Laplace noise of "
            f"scale 2/ε = {short(scale, 3)}. {score_under_noise(scale)}"
        )


PROTECTION = LaplaceVectors()


def _epsilon(settings: Settings) -> float:
    """Of each vector."""
    chosen = settings.encrypt.laplace_eval
    if chosen is None:
        raise ValueError("privacy_eval_type is LAPLACE, which needs an epsilon: add laplace_eval_eps")
    return chosen.laplace_eval_eps


def protect(vectors: Floats, epsilon: float, rng: Generator | None) -> Released[Floats]:
    """Add Laplace noise of scale 2 / epsilon to rows of probabilities.

    Guarantee: epsilon-DP for each vector, whatever it is replaced by; a client that sends m of them in each of T rounds
    pays m T epsilon, which is why the event's unit is the client.
    Assumes: rows of the simplex, as `evaluation.on_simplex` makes them: two are up to 2 apart in L1, not 1.
    """
    return mechanisms.laplace(vectors, sensitivity=SENSITIVITY, epsilon=epsilon, unit="client", rng=rng)


def score_under_noise(scale: float) -> str:
    """What a score of vectors with Laplace noise of this scale says about the model.

    The bounds were measured: the silhouette of 600 softmax vectors of 10 classes is within 5% of the clean one up to
    0.01, about half of it at 0.1, and that of pure noise from 0.5.
    """
    if scale <= 0.01:
        return (
            "Compared with probabilities between 0 and 1 that is next to nothing: the score follows the one without "
            "protection, and for the same reason the noise hides nothing of a vector."
        )
    if scale <= 0.1:
        return (
            "Compared with probabilities between 0 and 1 that is visible: the score is pulled towards that of noise. "
            "Compare it with other rounds of this run and not with runs of another ε."
        )
    if scale < 0.5:
        return (
            "That is a large part of a probability's whole range, from 0 to 1: noise often decides to which cluster a "
            "vector counts, and the score follows the model only faintly."
        )
    size = "larger than" if scale > 1 else "comparable to"
    return (
        f"That is {size} the whole range of a probability, from 0 to 1: the score is one of noise and says nothing "
        "about the model."
    )


def _within(bound: float, scale: float) -> str:
    return f"{-math.expm1(-bound / scale):.0%}"


def _noise_of_vectors(settings: Settings, scope: Scope, effort: Effort, task: Task) -> Finding:
    from tacit.audit.attacks.mechanisms import audit_laplace
    from tacit.audit.steps import named

    rng, epsilon = scope.rng("noise of inference vectors"), _epsilon(settings)
    classes = int(getattr(task, "classes", _CLASSES))
    one, other = np.eye(2, classes)
    claim = Claim(epsilon, 0.0, "vector", "replace-one")

    def mechanism(rows: Rows) -> Rows:
        return protect(rows, epsilon, rng).value

    samples = scope.pick(200_000, 1_000_000)
    found = audit_laplace(mechanism, one, other, claim, effort=replace(effort, samples=samples))
    words = f"Laplace noise of scale {PROTECTION.scale(settings):.3g} on each of {classes} probabilities"
    return named(found, "Laplace noise of inference vectors", words, "server")


def _two_rounds(settings: Settings, task: Task) -> Finding:
    from tacit.kinds.horizontal.attacks.protocol_rules import audit_inference
    from tacit.kinds.horizontal.vector import Layout

    classes = int(getattr(task, "classes", _CLASSES))
    protection = "Laplace noise of inference vectors: new in each round"
    return audit_inference(settings, Layout.of(task.model()), classes, protection=protection)
