"""Differential privacy: exact noise, mechanisms that return what they cost, calibration and accounting.

A release is a value plus an event (`mechanisms`); a `Ledger` adds up events and says what they cost (`accounting`);
`calibration` goes the other way, from a wanted (epsilon, delta) to a noise level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.door import door

if TYPE_CHECKING:
    from tacit.dp import accounting, calibration, clipping, mechanisms, noise, release, schedules

__all__ = ["accounting", "calibration", "clipping", "mechanisms", "noise", "release", "schedules"]
__getattr__, __dir__ = door(__name__, __all__, {})
