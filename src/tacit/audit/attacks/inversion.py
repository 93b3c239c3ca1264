"""Gradient inversion: what records made this gradient?

    invert_linear       closed form for a linear layer with a bias: exact where one record alone moves a neuron
    fit_one_record      the same for one record under noise, from all neurons together
    imprinted           a model that a dishonest server sends instead of an honest one, and `invert_imprint` to read it
    infer_label         the label of one record, exactly, from the sign of the last layer's gradient
    dlg                 search for records whose gradient is the one that was seen; needs torch

The network has one hidden layer with ReLU, or none; arrays are named as in `tacit.kinds.horizontal.tasks.mlp` (torch's
[out, in]) or `tacit.kinds.horizontal.tasks.softmax` ([in, out]). A gradient is known up to its scale where a server
knows only an update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit.store.files import Arrays

Records = NDArray[np.float64]  # [number, features], from 0 to 1
Distance = Literal["squared", "cosine"]
_SHARPNESS = 50.0  # of the softplus that stands for ReLU: the search needs second derivatives
_NO_SIGNAL = 1e-12  # a bias gradient below this part of the largest one is rounding


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A linear layer, or its gradient: weights [out, in] and a bias."""

    weights: NDArray[np.float64]
    bias: NDArray[np.float64]


def layers_of(arrays: Arrays) -> list[Layer]:
    """The linear layers of a model, or of a gradient, of a built-in network."""
    made = {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}
    if "weights" in made:
        return [Layer(made["weights"].T, made["bias"])]
    numbers = sorted({name.partition(".")[0] for name in made}, key=int)
    return [Layer(made[f"{number}.weight"], made[f"{number}.bias"]) for number in numbers]


def invert_linear(gradient: Layer) -> Records:
    """The input of a linear layer, one candidate for each neuron: weight gradient over bias gradient.

    dL/dW_i = (dL/db_i) x for one record, so the ratio is x itself, whatever the loss, the scale or the clipping. For
    several records it is their mean weighted by dL/db_i: one record, where only one moves neuron i.
    Source: Phong, Aono, Hayashi et al. 2018, section 3; Geiping, Bauermeister, Dröge, Moeller 2020, Proposition 3.1.
    """
    largest = float(np.abs(gradient.bias).max())
    moved = np.abs(gradient.bias) > _NO_SIGNAL * largest
    if not moved.any():
        return np.full((1, gradient.weights.shape[1]), 0.5)
    return np.asarray(np.clip(gradient.weights[moved] / gradient.bias[moved, None], 0.0, 1.0))


def fit_one_record(gradient: Layer) -> Records:
    """The one record whose gradient fits best, all neurons together: noise averages out over them.

    For one record the rows [dL/dW_i, dL/db_i] are all multiples of [x, 1]: the leading singular vector.
    """
    joined = np.column_stack([gradient.weights, gradient.bias])
    leading = np.linalg.svd(joined, full_matrices=False)[2][0]
    if abs(leading[-1]) < _NO_SIGNAL:
        return np.full((1, gradient.weights.shape[1]), 0.5)
    return np.asarray(np.clip(leading[None, :-1] / leading[-1], 0.0, 1.0))


def imprinted(model: Arrays, public: Records) -> Arrays:
    """The model of a server that cheats: neuron i is on for records brighter than the i-th quantile of public ones.

    All neurons act alike on what follows, so that the difference of two neighbours' gradients comes from the records
    whose brightness lies between two quantiles: often one record alone.
    Source: Fowl, Geiping, Czaja, Goldblum, Goldstein 2022 (Robbing the Fed), section 3.
    """
    changed = {name: np.array(array) for name, array in model.items()}
    first, last = changed["0.weight"], changed["2.weight"]
    neurons, features = first.shape
    brightness = public.mean(axis=1)
    # Of a normal distribution fitted to the public records, as in the paper: quantiles of few records repeat.
    cuts = brightness.mean() + brightness.std() * ndtri((np.arange(neurons) + 0.5) / neurons)
    first[:] = 1.0 / features
    changed["0.bias"][:] = -cuts
    last[:] = last.mean(axis=1, keepdims=True) + np.linspace(-1, 1, len(last))[:, None].astype(last.dtype) / neurons
    return changed


def invert_imprint(gradient: Layer) -> Records:
    """Candidates from an imprinted layer: differences of neighbouring neurons, weight over bias."""
    weights, bias = -np.diff(gradient.weights, axis=0), -np.diff(gradient.bias)
    last = gradient.weights[-1:], gradient.bias[-1:]
    return invert_linear(Layer(np.vstack([weights, last[0]]), np.concatenate([bias, last[1]])))


def infer_label(gradient: Layer, activity: NDArray[np.float64] | None = None) -> int:
    """The label of a single record: the one class whose score should have been larger.

    Under noise it helps to know the `activity` of the last layer's inputs, as public records show it: row c of the
    gradient is (p_c - 1[c is the label]) times [activity, 1].
    Source: Zhao, Mopuri, Bilen 2020 (iDLG), section 3: under cross-entropy dL/db_c = p_c - 1[c is the label].
    """
    slopes = gradient.bias if activity is None else gradient.bias + gradient.weights @ activity
    return int(np.argmin(slopes))


def infer_labels(gradient: Layer, count: int) -> list[int]:
    """Labels of `count` records, a guess: the classes with the most negative gradients, again and again.

    Each record takes 1 / count from its own class and gives it to all, evenly for a network that knows nothing yet.
    Source: after Yin, Mallya, Vahdat et al. 2021, section 3.2.
    """
    left = gradient.bias / max(float(-gradient.bias.min()), 1e-300)
    step = float(np.abs(gradient.bias).sum()) / 2 / max(float(-gradient.bias.min()), 1e-300) / count
    labels = []
    for _ in range(count):
        label = int(np.argmin(left))
        labels.append(label)
        left[label] += step
    return sorted(labels)


@dataclass(frozen=True, slots=True)
class Search:
    """How long DLG searches."""

    iterations: int = 150
    restarts: int = 2
    seed: int = 0


SEARCH = Search()


def dlg(model: Arrays, gradient: Arrays, labels: list[int], *, distance: Distance, search: Search = SEARCH) -> Records:
    """Records with these labels whose gradient comes closest to the one that was seen.

    `squared` compares gradients as they are (Zhu, Liu, Han 2019, algorithm 1), which fails once the gradient was
    clipped: no record has a gradient of that length. `cosine` compares their directions only (Geiping et al. 2020,
    equation 4), so that clipping protects nothing.
    """
    import torch

    layers = [tuple(torch.from_numpy(a.copy()) for a in (layer.weights, layer.bias)) for layer in layers_of(model)]
    wanted = [torch.from_numpy(a.copy()) for layer in layers_of(gradient) for a in (layer.weights, layer.bias)]
    parameters = [tensor.requires_grad_() for layer in layers for tensor in layer]
    target = torch.tensor(labels)
    generator = torch.Generator().manual_seed(search.seed)

    def difference(records: Any) -> Any:
        hidden = records
        for weights, bias in layers[:-1]:
            hidden = torch.nn.functional.softplus(hidden @ weights.T + bias, beta=_SHARPNESS)
        loss = torch.nn.functional.cross_entropy(hidden @ layers[-1][0].T + layers[-1][1], target)
        made = torch.autograd.grad(loss, parameters, create_graph=True)
        if distance == "squared":
            return sum(((a - b) ** 2).sum() for a, b in zip(made, wanted, strict=True))
        product = sum((a * b).sum() for a, b in zip(made, wanted, strict=True))
        lengths = [sum((a**2).sum() for a in arrays).sqrt() for arrays in (made, wanted)]
        return 1 - product / (lengths[0] * lengths[1] + 1e-300)

    tried = []
    with one_thread():
        for _ in range(search.restarts):
            records = torch.rand((len(labels), wanted[0].shape[1]), generator=generator, dtype=torch.float64)
            tried.append(_descend(records, difference, search.iterations))
    closest, _ = min(tried, key=lambda found: found[1])
    return np.clip(closest, 0.0, 1.0)


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrices are small: threads that wait for each other cost more than they give, on a busy machine 20 times."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _descend(records: Any, difference: Callable[[Any], Any], iterations: int) -> tuple[Records, float]:
    """Where L-BFGS ends, and how far the gradients are apart there; infinitely where it left the numbers."""
    import torch

    records.requires_grad_()
    optimizer = torch.optim.LBFGS(
        [records], max_iter=iterations, tolerance_grad=1e-14, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def closure() -> Any:
        optimizer.zero_grad()
        value = difference(records)
        value.backward(inputs=[records])
        return value

    optimizer.step(closure)
    found, apart = records.detach().numpy().copy(), float(difference(records).detach())
    if not (np.isfinite(found).all() and np.isfinite(apart)):
        return np.full_like(found, 0.5), float("inf")
    return found, apart
