"""What a protection costs."""

from __future__ import annotations

import pytest

from tacit.kinds.horizontal.attacks.utility import accuracy_cost


def test_masks_cost_nothing_and_noise_does():
    masked = accuracy_cost({"encrypt_type": "PW_ENCRYPT"}, clients=20, rounds=5)
    assert masked.off > 0.8
    assert masked.on == pytest.approx(masked.off, abs=0.005)
    noisy = accuracy_cost({"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0}, clients=20, rounds=5)
    assert noisy.off == masked.off
    assert noisy.on < noisy.off - 0.2
