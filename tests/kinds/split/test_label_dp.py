"""LabelDP: frequencies of kept and changed labels, and its price."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.kinds.split.label_dp import LabelDP
from tacit.randomness import seeded_rng

COUNT = 200_000


@pytest.mark.parametrize("eps", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_binary_labels_are_flipped(eps, dtype):
    labels = np.tile(np.array([0, 1], dtype=dtype), COUNT // 2)
    out = LabelDP(eps)(labels, rng=seeded_rng(1))
    assert out.dtype == dtype
    for label in (0, 1):
        flipped = int((out[labels == label] != label).sum())
        assert stats.binomtest(flipped, COUNT // 2, 1 / (1 + math.exp(eps))).pvalue > 1e-4


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize(("eps", "classes"), [(0.0, 3), (1.0, 10), (4.0, 3)])
def test_labels_of_several_classes_are_kept_or_become_any_other(eps, classes, one_hot):
    labels = np.arange(COUNT) % classes
    if one_hot:
        rows = LabelDP(eps)(np.eye(classes, dtype=np.float32)[labels], rng=seeded_rng(2))
        assert (rows.sum(axis=1) == 1).all()
        out = rows.argmax(axis=1)
    else:
        out = LabelDP(eps)(labels, classes=classes, rng=seeded_rng(2))
    keep = math.exp(eps) / (math.exp(eps) + classes - 1)
    moved = np.bincount((out - labels) % classes, minlength=classes)
    expected = COUNT * np.array([keep] + [(1 - keep) / (classes - 1)] * (classes - 1))
    assert stats.chisquare(moved, expected).pvalue > 1e-4


def test_tensors_stay_tensors():
    import torch

    labels = torch.tensor([0, 2, 1])
    assert torch.equal(LabelDP(60.0)(labels, classes=3), labels)
    assert LabelDP(60.0)(torch.eye(3)).tolist() == torch.eye(3).tolist()


def test_the_price_is_eps_for_each_label():
    released = LabelDP(2.0).release(np.array([0, 1, 1]))
    assert released.event == LabelDP(2.0).event
    assert (released.event.epsilon, released.event.unit) == (2.0, "label")


@pytest.mark.parametrize("eps", [-1.0, math.nan, math.inf])
def test_no_promise_can_be_made_of_that(eps):
    with pytest.raises(ValueError, match="epsilon must be finite"):
        LabelDP(eps)


@pytest.mark.parametrize("labels", [[0, 2], [0.5, 1.0], [-1, 0]])
def test_labels_that_are_none_are_refused(labels):
    with pytest.raises(ValueError, match="labels must be"):
        LabelDP(1.0)(np.array(labels))


def test_rows_that_are_not_one_hot_are_refused():
    with pytest.raises(ValueError, match="one-hot"):
        LabelDP(1.0)(np.ones((2, 3)))
