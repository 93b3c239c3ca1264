"""Masks alone: the coordinator learns the sum of all updates, exactly, and no single one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.boundary import Release
from tacit.kinds.horizontal.protections.contract import Inside, Price, Protection

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings


class SecureAggregation(Protection):
    name = "PW_ENCRYPT"
    label = "secure aggregation"
    summary = "PW_ENCRYPT: masks, so that only the sum is seen"
    section = "pw_encrypt"
    protects = True
    promises = False
    masked = True
    weighted = True
    hides_failure = False
    inversions = (("imprint", "sum"), ("closed form", "sum"), ("closed form", "upload"))

    def unprotected(self, settings: Settings) -> list[str]:
        raise NotImplementedError

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        raise NotImplementedError

    def noise(self, settings: Settings, size: int) -> list[str]:
        raise NotImplementedError

    def mechanism(self, settings: Settings, size: int) -> Inside:
        from tacit.kinds.horizontal.protection import masked_sum

        return masked_sum(settings, size)  # type: ignore[return-value]


PROTECTION = SecureAggregation()
