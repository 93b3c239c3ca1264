"""Inference vectors in the clear."""

from __future__ import annotations

from numpy.random import Generator

from tacit.boundary import CLEAR, Release
from tacit.fixedpoint import Floats
from tacit.kinds.horizontal.protections.contract import Price, VectorProtection, inference_vectors
from tacit.kinds.horizontal.settings import Settings


class VectorsInTheClear(VectorProtection):
    name = "NOT_ENCRYPT"
    label = "in the clear"
    summary = ""
    section = ""
    protects = False
    promises = False

    def notes(self, settings: Settings) -> list[str]:
        if settings.unsupervised is None:
            return []
        return [f"privacy_eval_type {self.name}: the coordinator sees inference results in the clear"]

    def unprotected(self, settings: Settings) -> list[str]:
        if settings.unsupervised is None:
            return []
        return ["Inference results are in the clear: they tell what each client's samples look like to the model."]

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        return inference_vectors(settings, CLEAR)

    def noise(self, settings: Settings, size: int) -> list[str]:
        return []

    def protect(self, settings: Settings, rows: Floats, rng: Generator | None) -> Floats:
        return rows

    def largest(self, settings: Settings) -> None:
        return None

    def scale(self, settings: Settings) -> None:
        return None

    def scored(self, settings: Settings) -> str:
        return "Inference results were sent in the clear: the score is exact, and no ε covers it."


PROTECTION = VectorsInTheClear()
