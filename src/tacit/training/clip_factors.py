"""How the gradient of a record is made short enough: all of it, each layer by itself, or to one length.

    flat            by min(1, C / norm)
    automatic       by C / (norm + 0.01): nearly all records count alike, and C is only a part of the learning rate
    per_layer       each of L layers by min(1, (C / √L) / norm of the layer)

Guarantee: what one record adds has at most norm C, of `Engine.factors` and, layer by layer, √(L (C / √L)²) = C.
Source: Abadi et al. 2016; Bu, Wang, Zha, Karypis 2022 (AUTO-S); McMahan, Ramage, Talwar, Zhang 2018, section 2.2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tacit.training.engine import Engine
from tacit.training.plan import Clipping

STABILITY = 0.01  # of automatic clipping: gradients far below it do not count
_ROUNDING = 1 - 1e-15  # of the root and the division


def factors(engine: Engine, clipping: Clipping, norms: Tensor, clip: float, divisor: float = 1.0) -> Tensor:
    """By what each record's recorded gradient is multiplied: [records], or [parameters, records] layer by layer.

    `norms` are those of whole records. A record whose norm is infinite is left out: its factors are 0.
    """
    if clipping == "flat":
        return engine.factors(norms, clip, divisor)
    if clipping == "automatic":
        return engine.factors(norms, clip, divisor, stability=STABILITY)
    count = max(engine.layers) + 1
    rows = engine.factors(engine.layer_norms(), share(clip, count), divisor)
    rows = rows.mul_(torch.isfinite(norms))
    return rows[torch.tensor(engine.layers, device=rows.device)]


def share(clip: float, layers: int) -> float:
    """The norm of one layer of so many."""
    return clip / math.sqrt(layers) * _ROUNDING
