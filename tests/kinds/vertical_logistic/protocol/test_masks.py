"""Masks on scores cancel in the sum of one step, and only there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol import masks


@given(st.integers(0, 2**32), st.integers(2, 5))
def test_masks_of_all_passives_cancel_and_none_comes_twice(seed, parties):
    rng = np.random.default_rng(seed)
    shared = {pair: rng.bytes(16) for pair in [(i, j) for j in range(parties) for i in range(j)]}
    hidden = [
        masks.Hidden(tuple((key, 1 if i == me else -1) for (i, j), key in shared.items() if me in (i, j)), parties)
        for me in range(parties)
    ]
    scores = rng.normal(size=(2, parties, 6)) * 100
    words = [{str(me): hidden[me].hide(scores[step, me]) for me in range(parties)} for step in range(2)]
    for step in range(2):
        total = masks.decoded(masks.total(words[step], 6), list(words[step]))
        np.testing.assert_allclose(total[:, 0], scores[step].sum(axis=0), atol=1e-8)
    mixed = words[0] | {"0": words[1]["0"]}
    with pytest.raises(PeerError, match="masks do not cancel"):
        masks.decoded(masks.total(mixed, 6), list(mixed))
