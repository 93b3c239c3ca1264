"""EmbeddingDP: its bits, their frequencies, its price and its words."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats

from tacit.kinds.split.bits import unpack
from tacit.kinds.split.embedding_dp import EmbeddingDP
from tacit.randomness import seeded_rng


@given(arrays(np.float32, array_shapes(max_dims=4), elements=st.floats(-2, 2, width=32)))
def test_without_eps_it_quantizes_numpy_and_torch_of_any_dimension(values):
    import torch

    protected = EmbeddingDP()
    expected = np.where(values > 0, 1, 0)
    assert (protected(values) == expected).all()
    assert protected(values).dtype == values.dtype
    tensor = protected(torch.from_numpy(values))
    assert (tensor.numpy() == expected).all()
    assert tensor.dtype == torch.float32
    assert protected.pack(values).nbytes == math.ceil(values.size / 8)


@pytest.mark.parametrize("eps", [0, 0.5, 1, 5, 10])
def test_ones_and_zeros_are_kept_and_flipped_as_often_as_p_and_q_say(eps):
    p = math.exp(eps / 2) / (math.exp(eps / 2) + 1)
    q = 1 / (math.exp(eps / 2) + 1)
    values = np.tile(np.array([1.0, -1.0], dtype=np.float32), 1 << 19)
    out = EmbeddingDP(eps)(values, seeded_rng(11))
    ones, zeros = out[0::2], out[1::2]
    observed = [ones.sum(), len(ones) - ones.sum(), zeros.sum(), len(zeros) - zeros.sum()]
    expected = [len(ones) * p, len(ones) * (1 - p), len(zeros) * q, len(zeros) * (1 - q)]
    assert stats.chisquare(observed, expected, ddof=1).pvalue > 1e-4
    assert EmbeddingDP(eps).flip_probability == pytest.approx(q, rel=1e-14)


def test_positions_and_calls_are_independent():
    protected, rng = EmbeddingDP(1.0), seeded_rng(3)
    values = np.ones(64, dtype=np.float32)
    draws = np.stack([protected(values, rng) for _ in range(4096)])
    assert len({draw.tobytes() for draw in draws}) == len(draws)
    centred = (draws - draws.mean()) / draws.std()
    across = centred.T @ centred / np.sqrt(len(draws))
    off = across[~np.eye(64, dtype=bool)]
    assert np.abs(off).max() < 5
    between = (centred[:-1] * centred[1:]).sum() / np.sqrt(centred[1:].size)
    assert abs(between) < 4.5


def test_fresh_randomness_where_none_is_given():
    values = np.ones(4096, dtype=np.float32)
    assert (EmbeddingDP(0)(values) != EmbeddingDP(0)(values)).any()


def test_packed_and_plain_draw_the_same():
    values = np.random.default_rng(0).standard_normal((3, 5, 7)).astype(np.float32)
    protected = EmbeddingDP(2.0)
    packed = protected.pack(values, seeded_rng(1))
    assert (unpack(packed, values.size).reshape(values.shape) == protected(values, seeded_rng(1))).all()


@pytest.mark.parametrize("eps", [-1, -1e-9, math.nan, math.inf, -math.inf, "5", True])
def test_no_promise_can_be_made_of_that(eps):
    with pytest.raises(ValueError, match="epsilon must be finite and at least 0"):
        EmbeddingDP(eps)


def test_the_gradient_goes_straight_through():
    import torch

    activations = torch.tensor([[-1.0, 2.0], [0.5, -3.0]], requires_grad=True)
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    (EmbeddingDP(3.0)(activations) * weights).sum().backward()
    assert torch.equal(activations.grad, weights)


def test_halves_and_views_of_tensors():
    import torch

    values = torch.tensor([[1.0, -1.0, 2.0], [0.0, 3.0, -2.0]], dtype=torch.bfloat16).T
    assert EmbeddingDP()(values).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert EmbeddingDP()(values).dtype == torch.bfloat16


def test_numpy_does_not_need_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np; from tacit.kinds.split.embedding_dp import EmbeddingDP\n"
        "from tacit.kinds.split.label_dp import LabelDP\n"
        "print(EmbeddingDP()(np.array([1., -1.])).tolist(), LabelDP(50.)(np.array([1, 0])).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1.0, 0.0] [1, 0]"


def test_the_price_is_that_of_all_bits_of_all_visits():
    assert EmbeddingDP(5).event(bits=128).epsilon == 320
    assert EmbeddingDP(5).event(bits=128, visits=3).epsilon == 960
    event = EmbeddingDP(5, domain="one_hot").event(bits=128)
    assert (event.epsilon, event.unit, event.relation) == (5, "record", "replace-one")
    assert EmbeddingDP(5, domain="one_hot").event(bits=128, visits=2, vectors=3).epsilon == 30
    assert EmbeddingDP().event(bits=128) is None
    assert EmbeddingDP(0).event(bits=128).epsilon == 0


def test_only_one_hot_input_has_the_price_of_one_hot_input():
    protected = EmbeddingDP(50.0, domain="one_hot")
    rows = np.eye(4, dtype=np.float32)[[2, 0, 3]]
    assert (protected(rows) == rows).all()
    for wrong in (np.zeros((2, 4)), np.ones((1, 4)), np.eye(4) * 0.5, np.array([[1.0, 0.5, 0, 0]]), np.float64(1)):
        with pytest.raises(ValueError, match="one_hot"):
            protected(wrong)
    with pytest.raises(ValueError, match="must be one of one_hot"):
        EmbeddingDP(1.0, domain="two_hot")


def test_the_realised_loss_of_one_hot_input_is_at_most_eps():
    """The oracle: all outputs of a vector of three bits, by their exact probabilities."""
    eps = 1.3
    q = 1 / (math.exp(eps / 2) + 1)
    outputs = [np.array(list(np.binary_repr(number, 3)), dtype=int) for number in range(8)]

    def mass(vector, output):
        return float(np.prod(np.where(vector == output, 1 - q, q)))

    def loss(one, other):
        return max(abs(math.log(mass(one, output) / mass(other, output))) for output in outputs)

    one_hot = np.eye(3, dtype=int)
    assert loss(one_hot[0], one_hot[1]) == pytest.approx(EmbeddingDP(eps, domain="one_hot").event(3).epsilon)
    assert loss(np.zeros(3, int), np.ones(3, int)) == pytest.approx(EmbeddingDP(eps).event(3).epsilon)


def test_the_line_of_the_paper_is_followed_by_the_truth():
    line, truth = EmbeddingDP(5).sentences(bits=128, visits=2)
    assert line == "The embedding is protected by EmbeddingDP with eps 5.000000."
    assert "epsilon 640 (128 bits a record, 2 visits, eps/2 = 2.5 a bit)" in truth
    assert "hides nothing" in truth
    assert "promises nothing" in EmbeddingDP().sentences(bits=8)[1]
    assert "epsilon 1 " in EmbeddingDP(1, domain="one_hot").sentences(bits=8)[1]


@pytest.mark.parametrize("wrong", [np.zeros((0, 3)), np.array(["a"]), np.array([1 + 2j])])
def test_what_has_no_sign_is_refused(wrong):
    with pytest.raises(ValueError, match="real numbers, one or more"):
        EmbeddingDP(1)(wrong)
