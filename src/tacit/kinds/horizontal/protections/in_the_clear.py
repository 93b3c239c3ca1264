"""Updates in the clear: the trained model, the number of samples and the training loss."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator

from tacit.boundary import CLEAR, Release
from tacit.errors import PeerError
from tacit.kinds.horizontal.messages import Update
from tacit.kinds.horizontal.protections.contract import Alone, Learned, Loss, Price, Protection, Upload
from tacit.kinds.horizontal.record_privacy import largest_weight
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.sums import Group, Sum
from tacit.kinds.horizontal.vector import Flat

LARGEST_NORM = 1e4  # of an update: a longer one is no honest step


@dataclass(frozen=True, slots=True)
class TrainedModels:
    """Models as they were trained, each weighted by its samples. The coordinator refuses bad numbers."""

    largest_weight: int

    @property
    def clip(self) -> None:
        return None

    def upload(self, learned: Learned, clip: float | None, rng: Generator | None) -> Upload:
        return Upload(learned.model, learned.samples, learned.loss)

    def add(self, into: Sum | Group, message: Update) -> Loss | None:
        samples: object = message.samples
        if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples <= self.largest_weight:
            raise PeerError(f"an update whose number of samples is not in 1 .. {self.largest_weight}")
        into.add_model(message.vector, samples)
        return (message.loss, samples) if isinstance(message.loss, float) and abs(message.loss) < 1e30 else None

    def largest_norm(self, clip: float | None) -> float:
        return LARGEST_NORM

    def next_clip(self, clip: float, norm: float) -> float:
        return clip

    def seen(self, message: Update, base: Flat) -> Flat:
        return message.vector - base


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
        private = " (train.privacy bounds what it tells of a record)" if settings.train.privacy is not None else ""
        return [f"{self.name}: the coordinator sees every client's update in the clear{private}"]

    def unprotected(self, settings: Settings) -> list[str]:
        if settings.train.privacy is not None:
            return [
                "Updates are in the clear, without an epsilon for a whole client: they tell what its records share."
            ]
        return ["Updates are in the clear: the coordinator can reconstruct training samples from them."]

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        if settings.train.privacy is not None:
            return (
                Release("Update", "vector", "the trained model", CLEAR),
                Release("Update", "samples", "the number 1 in place of the number of samples", CLEAR),
            )
        return (
            Release("Update", "vector", "the trained model", CLEAR),
            Release("Update", "samples", "the number of samples", CLEAR),
            Release("Update", "loss", "the training loss", CLEAR),
        )

    def noise(self, settings: Settings, size: int) -> list[str]:
        if settings.train.privacy is not None:
            return ["The noise is that of each client's private training."]
        return ["Updates carry no noise."]

    def mechanism(self, settings: Settings, size: int) -> Alone:
        return TrainedModels(largest_weight(settings))


PROTECTION = InTheClear()
