"""Updates in the clear: the trained model, the number of samples and the training loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.boundary import CLEAR, Release
from tacit.kinds.horizontal.protections.contract import Alone, Price, Protection

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings


class InTheClear(Protection):
    name = "NOT_ENCRYPT"
    label = "no protection of updates"
    summary = "none: updates in the clear"
    section = ""
    protects = False
    promises = False
    masked = False
    weighted = True
    hides_failure = False
    inversions = (("closed form", "upload"), ("closed form", "sum"))

    def notes(self, settings: Settings) -> list[str]:
        return [f"{self.name}: the coordinator sees every client's update in the clear"]

    def unprotected(self, settings: Settings) -> list[str]:
        return ["Updates are in the clear: the coordinator can reconstruct training samples from them."]

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        return (
            Release("Update", "vector", "the trained model", CLEAR),
            Release("Update", "samples", "the number of samples", CLEAR),
            Release("Update", "loss", "the training loss", CLEAR),
        )

    def noise(self, settings: Settings, size: int) -> list[str]:
        return ["Updates carry no noise."]

    def mechanism(self, settings: Settings, size: int) -> Alone:
        raise NotImplementedError("the carrier of single updates adds them up itself still")


PROTECTION = InTheClear()
