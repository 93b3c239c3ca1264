"""The networks of the benchmark of split steps train, cut and whole."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from bench import split_networks


@pytest.mark.parametrize("made", [lambda: split_networks.cnn(1), lambda: split_networks.gpt(1, layers=1, batch=2)])
def test_both_ways_train(made):
    split, whole = made()
    assert set(split()) == {"lead", "far"}
    whole()
