"""How much noise gradients carry, and what a visit of a record costs."""

from __future__ import annotations

from tacit.dp.calibration import noise_multiplier
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.tensors import GradientNoise
from tacit.lockstep.schedule import Schedule


def gradient_noise(settings: Settings, schedule: Schedule) -> GradientNoise | None:
    """The protection of gradients; sized for all visits and all followers where the file names an epsilon."""
    given = settings.gradients
    if given.protection == "none":
        return None
    if given.noise_multiplier is not None:
        return GradientNoise(given.clip, given.noise_multiplier)
    assert given.epsilon is not None  # noqa: S101
    releases = max(1, schedule.visits) * len(settings.followers)
    multiplier = noise_multiplier(given.epsilon, given.delta, steps=releases, relation="replace-one")
    return GradientNoise(given.clip, multiplier)
