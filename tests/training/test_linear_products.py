"""Products of inputs and weights: the numbers of F.linear, by whichever library."""

import pytest
import torch
import torch.nn.functional as F

from tacit.training import linear_products
from tacit.training.linear_products import product


@pytest.fixture(params=[True, False], ids=["as torch has it", "without oneDNN"])
def _library(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(linear_products, "_one_dnn", lambda: False)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 7), (0, 7), (2, 0, 7), (1, 7), (300, 7)])
def test_products_are_those_of_linear(shape, bias, dtype):
    torch.manual_seed(0)
    rows, weight = torch.randn(shape).to(dtype), torch.randn(6, 7).to(dtype)
    added = torch.randn(6).to(dtype) if bias else None
    expected = F.linear(rows.double(), weight.double(), None if added is None else added.double())
    before = rows.clone()
    for each in (weight, weight.t().contiguous().t()):  # also of a weight with its rows as columns
        found = product(rows, each, added)
        assert found.dtype == dtype
        assert found.untyped_storage().data_ptr() != rows.untyped_storage().data_ptr() or not rows.numel()
        torch.testing.assert_close(
            found.double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=16 * torch.finfo(dtype).eps
        )
    assert torch.equal(rows, before)


def test_torch_has_the_product_that_is_asked_for():
    """As in the release that is installed: without it recurrent layers are slower, and as right."""
    assert linear_products._one_dnn() == torch.backends.mkldnn.is_available()
