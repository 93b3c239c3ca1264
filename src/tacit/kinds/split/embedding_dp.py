"""EmbeddingDP: activations become sign bits, and each bit a randomized response (seed: MistNet).

    EmbeddingDP(eps=5)(activations)         0 and 1 in place of numpy or torch numbers; straight-through gradient
    EmbeddingDP(eps=5).pack(activations)    the same as bytes for the wire, eight bits a byte
    EmbeddingDP(eps=5).event(bits, visits)  what that costs one record

The name promises `eps`, and that is what it is for one-hot vectors, two of which differ in two bits. Activations are
free bits: each of them costs eps/2, each time that the record is visited. `sentences` says both.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.dp.accounting import check_count, strength
from tacit.dp.noise import Probability, response_change
from tacit.dp.release import PureEvent, check_choice, check_epsilon
from tacit.kinds.split.bits import Packed, pack, packed_bernoulli, unpack
from tacit.randomness import secure_rng

Domain = Literal["one_hot"]


@dataclass(frozen=True)
class EmbeddingDP:
    """Sign bits under randomized response.

    Guarantee: each bit is eps/2-DP, so that a record of d bits costs d * eps/2 a visit; with domain="one_hot", eps for
        each vector along the last axis. Flips are drawn with q = 1/(e^(eps/2) + 1) rounded up to a multiple of 2^-40.
    Assumes: a record's bits are a function of that record alone. What a network learnt from other records is not
        covered, nor is anything that crosses the cut in the other direction.
    Source: Warner 1965; for one-hot vectors basic RAPPOR, Erlingsson, Pihur, Korolova 2014.

    Args:
        eps: 0 or more; None quantizes only, without any promise.
        domain: "one_hot" declares that each vector along the last axis is one-hot; others raise ValueError.
    """

    eps: float | None = None
    domain: Domain | None = None

    def __post_init__(self) -> None:
        if self.eps is not None:
            object.__setattr__(self, "eps", check_epsilon(self.eps))
        if self.domain is not None:
            check_choice("domain", self.domain, Domain)

    @cached_property
    def _flip(self) -> Probability | None:
        return None if self.eps is None else response_change(self.eps / 2)

    @property
    def flip_probability(self) -> float:
        """q, with which a bit is changed; 1 - q is p."""
        return 0.0 if self._flip is None else float(self._flip)

    def __call__(self, activations: Any, rng: Generator | None = None) -> Any:
        """0 and 1 in the shape and dtype of `activations`, a numpy array or a torch tensor."""
        torch = sys.modules.get("torch")  # a caller with a tensor has imported it
        if torch is not None and isinstance(activations, torch.Tensor):
            from tacit.kinds.split.straight_through import straight_through

            return straight_through(activations, self.bits(as_numpy(activations), rng))
        values = np.asarray(activations)
        return self.bits(values, rng).astype(values.dtype)

    def bits(self, values: NDArray[Any], rng: Generator | None = None) -> Packed:
        """0 and 1 in the shape of `values`, one a byte."""
        return unpack(self.pack(values, rng), values.size).reshape(values.shape)

    def pack(self, activations: Any, rng: Generator | None = None) -> Packed:
        """The randomized bits of all activations in order, eight a byte; the rest of the last byte is 0."""
        values = as_numpy(activations)
        if values.size == 0 or values.dtype.kind not in "fiub":
            raise ValueError(f"activations must be real numbers, one or more, got {values.shape} of {values.dtype}")
        if self.domain == "one_hot":
            _check_one_hot(values)
        packed = pack(values)
        if self._flip is not None:
            packed ^= packed_bernoulli(self._flip, values.size, rng or secure_rng())
        return packed

    def event(self, bits: int, visits: int = 1, vectors: int = 1) -> PureEvent | None:
        """The price for a record of `bits` bits in `vectors` vectors, visited so often; None if nothing is promised.

        Under domain="one_hot" it is eps for each vector, otherwise eps/2 for each bit.
        """
        bits, visits, vectors = (
            check_count("bits", bits),
            check_count("visits", visits),
            check_count("vectors", vectors),
        )
        if self.eps is None:
            return None
        once = vectors * self.eps if self.domain == "one_hot" else bits * (self.eps / 2)
        return PureEvent(visits * once, unit="record", relation="replace-one")

    def sentences(self, bits: int, visits: int = 1, vectors: int = 1) -> tuple[str, str]:
        """What the name promises, in the words of the paper's own log, and then the truth."""
        event = self.event(bits, visits, vectors)
        often = "1 visit" if visits == 1 else f"{visits} visits"
        if self.eps is None or event is None:
            return (
                "The embedding is quantized by EmbeddingDP without eps.",
                f"That promises nothing: {bits} bits of a record cross as they are, each of {often}.",
            )
        first = f"The embedding is protected by EmbeddingDP with eps {self.eps:.6f}."
        if self.domain == "one_hot":
            price = f"{vectors} one-hot vectors a record, {often}, eps {self.eps:g} each"
        else:
            price = f"{bits} bits a record, {often}, eps/2 = {self.eps / 2:g} a bit"
        total = event.epsilon
        return first, f"For a whole record that is epsilon {total:g} ({price}), which is {_worth(total)}."


def _worth(epsilon: float) -> str:
    word = strength(epsilon)
    return word if word.startswith("a ") else f"a promise that {word}"


def as_numpy(values: Any) -> NDArray[Any]:
    """A torch tensor or anything else as a numpy array, without a copy where that is possible."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(values, torch.Tensor):
        return np.asarray(values)
    tensor = values.detach().cpu()
    return np.asarray((tensor.float() if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy())


def _check_one_hot(values: NDArray[Any]) -> None:
    if values.ndim == 0:
        raise ValueError("domain is one_hot, got one number: give vectors")
    wrong = ((values != 0) & (values != 1)).any(axis=-1) | (np.count_nonzero(values, axis=-1) != 1)
    if wrong.any():
        raise ValueError(
            f"domain is one_hot, but {int(wrong.sum())} of {wrong.size} vectors are not: leave domain out, and each "
            "bit costs eps/2"
        )
