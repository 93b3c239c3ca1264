"""Distributed differential privacy: a share of Skellam noise inside the masks, one epsilon for the sums of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.boundary import Release
from tacit.dp.accounting import Budget
from tacit.kinds.horizontal.protections.contract import Cost, Inside, Price, Protection

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings


class DistributedDifferentialPrivacy(Protection):
    name = "DDP_ENCRYPT"
    label = "distributed differential privacy"
    summary = "DDP_ENCRYPT: masks, and noise in the sum"
    section = "ddp_encrypt"
    protects = True
    promises = True
    masked = True
    weighted = False
    hides_failure = True
    sized_for_rounds = True
    inversions = (("imprint", "sum"), ("closed form", "sum"), ("closed form", "upload"))

    def unprotected(self, settings: Settings) -> list[str]:
        return []

    def price(self, settings: Settings, size: int) -> Price:
        from tacit.kinds.horizontal.protection import skellam_encoding

        event = skellam_encoding(settings, size).event()
        return Price(central=(Cost("updates", event),), limit=Budget(*settings.central, "rdp"))

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        raise NotImplementedError

    def noise(self, settings: Settings, size: int) -> list[str]:
        raise NotImplementedError

    def mechanism(self, settings: Settings, size: int) -> Inside:
        from tacit.kinds.horizontal.protection import masked_sum

        return masked_sum(settings, size)  # type: ignore[return-value]

    def minimum(self, settings: Settings) -> int | None:
        return settings.fewest


PROTECTION = DistributedDifferentialPrivacy()
