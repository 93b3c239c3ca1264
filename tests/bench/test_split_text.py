"""The benchmark of a split language model trains what it measures."""

import pytest

pytest.importorskip("torch")

from bench import split_text


def test_two_steps_are_trained_and_measured():
    found = split_text._trained(split_text.PROTECTIONS["eps 5"], 2)
    assert len(found.losses) == 2
    assert found.test > 0
    assert found.bytes_embeddings > 0
