"""One value for each record, against torch's cross entropy of that record alone."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.training import record_loss


@settings(max_examples=40)
@given(st.integers(1, 5), st.lists(st.integers(1, 4), max_size=2), st.booleans(), st.sampled_from([-100, 0]),
       st.integers(0, 2**16))  # fmt: skip
def test_a_loop_over_records_gives_the_same(records, places, weighted, ignored, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(records, *places, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, 3, (records, *places), generator=generator)
    labels = torch.where(torch.rand(labels.shape, generator=generator) < 0.4, ignored, labels)
    weight = torch.tensor([0.5, 1.0, 7.0]).double() if weighted else None
    found = record_loss(logits, labels, ignore_index=ignored, weight=weight)
    wanted = []
    for one, own in zip(logits, labels, strict=True):
        kept = own.flatten() != ignored
        each = F.cross_entropy(one.reshape(-1, 3)[kept], own.flatten()[kept], weight, reduction="none")
        wanted.append(each.mean() if len(each) else torch.zeros(()).double())
    assert torch.allclose(found, torch.stack(wanted), rtol=1e-12, atol=1e-14)
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    assert bool(torch.isfinite(gradient).all())


def test_one_label_a_record_is_torchs_loss():
    logits, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 0, -100])
    assert torch.allclose(record_loss(logits, labels), F.cross_entropy(logits, labels, reduction="none"))


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        ((2, 5, 3), (2, 3), r"\(2, 5, 3\) do not fit labels of \(2, 3\): give logits\.movedim\(1, -1\)"),
        ((2, 3), (3,), "the last dimension of logits is that of classes"),
        ((3,), (), "the last dimension of logits is that of classes"),
    ],
)
def test_shapes_that_do_not_fit(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        record_loss(torch.zeros(logits), torch.zeros(labels, dtype=torch.int64))
