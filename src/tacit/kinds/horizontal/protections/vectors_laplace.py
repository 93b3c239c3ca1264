"""Inference vectors with Laplace noise on each probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.random import Generator

from tacit.boundary import Release
from tacit.dp.release import Released
from tacit.fixedpoint import Floats
from tacit.kinds.horizontal.protections.contract import Price, VectorProtection

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings


class LaplaceVectors(VectorProtection):
    name = "LAPLACE"
    label = "Laplace"
    summary = "Laplace noise on inference vectors"
    section = "laplace_eval"
    protects = True
    promises = True

    def unprotected(self, settings: Settings) -> list[str]:
        raise NotImplementedError

    def price(self, settings: Settings, size: int) -> Price:
        raise NotImplementedError

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        raise NotImplementedError

    def noise(self, settings: Settings, size: int) -> list[str]:
        raise NotImplementedError

    def protect(self, settings: Settings, rows: Floats, rng: Generator | None) -> Released[Floats]:
        raise NotImplementedError

    def largest(self, settings: Settings) -> float:
        raise NotImplementedError


PROTECTION = LaplaceVectors()
