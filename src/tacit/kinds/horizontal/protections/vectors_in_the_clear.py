"""Inference vectors in the clear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.random import Generator

from tacit.boundary import Release
from tacit.fixedpoint import Floats
from tacit.kinds.horizontal.protections.contract import Price, VectorProtection

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings


class VectorsInTheClear(VectorProtection):
    name = "NOT_ENCRYPT"
    label = "in the clear"
    summary = ""
    section = ""
    protects = False
    promises = False

    def unprotected(self, settings: Settings) -> list[str]:
        raise NotImplementedError

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        raise NotImplementedError

    def noise(self, settings: Settings, size: int) -> list[str]:
        return []

    def protect(self, settings: Settings, rows: Floats, rng: Generator | None) -> Floats:
        return rows

    def largest(self, settings: Settings) -> None:
        return None


PROTECTION = VectorsInTheClear()
