"""Local differential privacy: each update clipped, with Gaussian noise, before anything leaves the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.boundary import Release
from tacit.kinds.horizontal.protections.contract import Alone, Cost, Price, Protection

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings


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

    def unprotected(self, settings: Settings) -> list[str]:
        raise NotImplementedError

    def price(self, settings: Settings, size: int) -> Price:
        from tacit.kinds.horizontal.protection import LocalDP

        return Price(local=(Cost("updates", LocalDP.of(settings).event(size)),))

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        raise NotImplementedError

    def noise(self, settings: Settings, size: int) -> list[str]:
        raise NotImplementedError

    def mechanism(self, settings: Settings, size: int) -> Alone:
        from tacit.kinds.horizontal.protection import LocalDP

        return LocalDP.of(settings)  # type: ignore[return-value]


PROTECTION = LocalDifferentialPrivacy()
