"""Truncation drops low bits exactly, up to one unit, for any number of parties and every value in range."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.shared import low_bits

LIMIT = 2**62 - 1


def _truncate(value: int, shift: int, mask: int, parties: int, rng) -> int:
    def shares(number):
        parts = rng.integers(0, 2**64, size=parties - 1, dtype=np.uint64)
        return [*parts, np.uint64((number - sum(map(int, parts))) % 2**64)]

    low, top = np.empty(1, np.uint64), np.empty(1, np.uint64)
    low_bits.write_parts(np.array([mask], dtype=np.uint64), shift, low, top)
    values, masks = shares(value), shares(mask)
    lows, tops = shares(int(low[0])), shares(int(top[0]))
    as_array = lambda word: np.array([word], dtype=np.uint64)  # noqa: E731
    opened: Any = sum(low_bits.masked(as_array(values[p]), as_array(masks[p]), first=p == 0) for p in range(parties))
    assert int(opened[0]) == (value + 2**62 + mask) % 2**64  # nothing but the masked value is opened
    found: Any = sum(
        low_bits.truncated(opened, shift, as_array(lows[p]), as_array(tops[p]), first=p == 0) for p in range(parties)
    )
    return int(found.view(np.int64)[0])


@given(
    st.integers(-LIMIT, LIMIT), st.integers(1, 61), st.integers(0, 2**64 - 1), st.integers(2, 5), st.integers(0, 2**32)
)
@example(LIMIT, 1, 2**64 - 1, 3, 0)
@example(-LIMIT, 61, 2**63, 2, 0)
@example(0, 30, 2**63 - 1, 5, 0)
def test_it_is_the_quotient_rounded_down_or_up(value, shift, mask, parties, seed):
    found = _truncate(value, shift, mask, parties, np.random.default_rng(seed))
    assert found in (value >> shift, (value >> shift) + 1)
    if value % 2**shift == 0:
        assert found == value >> shift


def test_it_is_right_in_expectation():
    rng = np.random.default_rng(0)
    value, shift = 5 * 2**20 + 2**18, 20  # 5.25
    found = [_truncate(value, shift, int(rng.integers(0, 2**64, dtype=np.uint64)), 3, rng) for _ in range(2000)]
    assert abs(np.mean(found) - 5.25) < 0.05
