"""Sums of encrypted integers by group, beside plain Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto import paillier

KEY = paillier.generate(512, insecure_bits=True)


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=20),
    groupings=st.integers(1, 3),
    count=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_each_group_has_the_sum_of_its_values(values, groupings, count, seed):
    groups = np.random.default_rng(seed).integers(0, count, (groupings, len(values)))
    found = KEY.decrypt(KEY.public.sums(groups, count, KEY.encrypt(values)))
    wanted = [0] * count
    for grouping in groups.tolist():
        for group, value in zip(grouping, values, strict=True):
            wanted[group] += value
    assert found == wanted


def test_an_empty_group_has_the_sum_zero():
    assert KEY.decrypt(KEY.public.sums(np.zeros((1, 2), dtype=np.int64), 3, KEY.encrypt([4, 5]))) == [9, 0, 0]
