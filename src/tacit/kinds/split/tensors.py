"""Tensors across the cut: what a party makes of its activations and gradients before they leave, and of what arrives.

Bits arrive as -1 and 1: the mean of what a linear layer makes of them is then near 0, whatever eps is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from tacit.dp.clipping import clip_l2
from tacit.dp.mechanisms import gaussian, gaussian_event
from tacit.dp.release import GaussianEvent
from tacit.errors import PeerError
from tacit.kinds.split.bits import packed_size, unpack
from tacit.kinds.split.embedding_dp import EmbeddingDP, as_numpy
from tacit.kinds.split.messages import OVERHEAD, Activations, Gradient

Shape = tuple[int, ...]
Floats = NDArray[np.float32]
FLOAT, BITS, BYTE = "float32", "bits", "int8"
_LEVELS = 127  # of 8 bits, on each side of 0


def activations_message(
    step: int, activations: Tensor, protection: EmbeddingDP | None, rng: Generator | None
) -> Activations:
    """What crosses forward: randomized bits under a protection, floats without one."""
    shape = tuple(activations.shape)
    if protection is None:
        return Activations(step, shape, FLOAT, _floats(activations).tobytes())
    return Activations(step, shape, BITS, protection.pack(activations, rng).tobytes())


def activations_limit(shape: Shape) -> int:
    """Bytes of the largest message for such a tensor."""
    return 4 * math.prod(shape) + 4 * shape[0] + OVERHEAD


def take_activations(message: Activations, step: int, shape: Shape, quantized: bool, sender: str) -> Tensor:
    """The activations that arrived, as a leaf that collects its gradient."""
    dtype = BITS if quantized else FLOAT
    count = math.prod(shape)
    _check(message, step, shape, dtype, packed_size(count) if quantized else 4 * count, sender)
    if quantized:
        values = 2 * unpack(np.frombuffer(message.body, np.uint8), count).astype(np.float32) - 1
    else:
        values = _received(message.body, sender)
    return torch.from_numpy(values.reshape(shape)).requires_grad_()


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """Clipping and Gaussian noise on the gradient of each record.

    Guarantee: that of Gaussian noise of `noise_multiplier` times 2 * clip for replacing a record, each time that it is
        visited; 8 bits cost nothing more, as they are made of what is noised already.
    Assumes: a record's gradient is a function of that record and of what its receiver may know. What the network learnt
        from other records is not covered.
    """

    clip: float
    noise_multiplier: float

    def protect(self, gradient: Floats, rng: Generator | None) -> Floats:
        """The noised gradient of the batch's mean loss: each record's own gradient is clipped, and noised."""
        records = len(gradient)
        rows = gradient.reshape(records, -1).astype(np.float64) * records
        for row in rows:
            clip_l2(row, self.clip)
        noised = gaussian(
            rows, sensitivity=2 * self.clip, noise_multiplier=self.noise_multiplier, unit="record", rng=rng
        ).value
        return (noised / records).astype(np.float32).reshape(gradient.shape)

    def event(self, size: int) -> GaussianEvent:
        """The price of one visit, for gradients of `size` numbers a record."""
        return gaussian_event(size, self.noise_multiplier, unit="record")


def gradient_message(step: int, gradient: Tensor, bits: int, rng: Generator | None) -> Gradient:
    """What crosses backward: floats, or 8 bits a number with one scale a record, rounded at random without bias."""
    values = _floats(gradient)
    shape = tuple(gradient.shape)
    if bits == 32:
        return Gradient(step, shape, FLOAT, b"", values.tobytes())
    rows = values.reshape(len(values), -1)
    scales = np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.float32(1e-30)) / np.float32(_LEVELS)
    uniform = (rng or np.random.default_rng()).random(rows.shape, dtype=np.float32)  # protects nothing
    rounded = np.clip(np.floor(rows / scales + uniform), -_LEVELS, _LEVELS).astype(np.int8)
    return Gradient(step, shape, BYTE, scales.astype(np.float32).tobytes(), rounded.tobytes())


def take_gradient(message: Gradient, step: int, shape: Shape, bits: int, sender: str) -> Tensor:
    count = math.prod(shape)
    dtype, size = (FLOAT, 4 * count) if bits == 32 else (BYTE, count)
    _check(message, step, shape, dtype, size, sender)
    if len(message.scales) != (0 if bits == 32 else 4 * shape[0]):
        raise PeerError(f"{sender} sent {len(message.scales)} bytes of scales for {shape[0]} records")
    if bits == 32:
        return torch.from_numpy(_received(message.body, sender).reshape(shape))
    rows = np.frombuffer(message.body, np.int8).reshape(shape[0], -1).astype(np.float32)
    with np.errstate(over="ignore"):
        rows *= _received(message.scales, sender).reshape(-1, 1)
    _check_finite(rows, sender)  # a scale near the largest float is finite, 127 of it are not
    return torch.from_numpy(rows.reshape(shape))


def _check(message: Any, step: int, shape: Shape, dtype: str, size: int, sender: str) -> None:
    name = type(message).__name__
    if message.step != step:
        raise PeerError(f"{sender} sent {name} of step {message.step}, this side is at step {step}")
    if message.shape != shape:
        raise PeerError(f"{sender} sent {name} of shape {_words(message.shape)}, {_words(shape)} were agreed on")
    if message.dtype != dtype:
        raise PeerError(f"{sender} sent {name} as {message.dtype}, {dtype} was agreed on")
    if len(message.body) != size:
        raise PeerError(f"{sender} sent {name} of {len(message.body)} bytes, {size} were agreed on")


def _words(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "nothing"


def _floats(tensor: Tensor) -> Floats:
    return np.ascontiguousarray(as_numpy(tensor), dtype="<f4")


def _received(body: bytes, sender: str) -> Floats:
    values = np.frombuffer(bytearray(body), dtype="<f4")
    _check_finite(values, sender)
    return values


def _check_finite(values: Floats, sender: str) -> None:
    if not np.isfinite(values).all():
        raise PeerError(f"{sender} sent numbers that are not finite: lower the learning rate, or look at its data")
