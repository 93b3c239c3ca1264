"""Which layer is recorded how."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn.utils import parametrize

from tacit.training import recurrent
from tacit.training.layers import Forward, Site, convolution, embedding, linear, normalization

Rule = Callable[[Site], Forward]

_AFFINE = frozenset({"weight", "bias"})
_CELL = frozenset({"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
_RULES: tuple[tuple[type[nn.Module], frozenset[str], Rule], ...] = (
    (nn.Linear, _AFFINE, linear),
    (nn.Conv1d, _AFFINE, convolution),
    (nn.Conv2d, _AFFINE, convolution),
    (nn.Embedding, _AFFINE, embedding),
    (nn.LayerNorm, _AFFINE, normalization),
    (nn.GroupNorm, _AFFINE, normalization),
    (nn.RMSNorm, _AFFINE, normalization),
    (nn.InstanceNorm2d, _AFFINE, normalization),  # all of them share one forward
    (nn.RNNCell, _CELL, recurrent.simple_cell),
    (nn.GRUCell, _CELL, recurrent.gated_cell),
    (nn.LSTMCell, _CELL, recurrent.long_cell),
)


def rule(module: nn.Module) -> Rule | None:
    """The rule for a layer that computes what its class in torch computes, from parameters that it holds itself."""
    if replaces_forward(module) or parametrize.is_parametrized(module) or list(module.children()):
        return None
    for kind, names, made in _RULES:
        if type(module).forward is kind.forward and names >= module._parameters.keys() and module._parameters:
            return made
    return None


def replaces_forward(module: nn.Module) -> bool:
    """Whether a module holds a forward that is not its class's. A copy of a recorded layer holds its class's."""
    return "forward" in vars(module) and getattr(module.forward, "__func__", None) is not type(module).forward
