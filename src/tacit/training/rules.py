"""Which layer is recorded how: torch's own, and those that `register_layer` adds from outside.

A rule is given a `Layer` and returns the forward that runs in place of the layer's own while a model is trained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn
from torch.nn.utils import parametrize

from tacit.training import recurrent
from tacit.training.attention import attention
from tacit.training.convolution import convolution, transposed_convolution
from tacit.training.embedding_rows import embedding, embedding_bag
from tacit.training.layers import Forward, Layer, linear
from tacit.training.normalization import normalization
from tacit.training.scan import parameters as scanned
from tacit.training.scan import recurrent_layers

Rule = Callable[[Layer], Forward]
Names = Callable[[nn.Module], frozenset[str]]  # of a module's own parameters

_AFFINE = frozenset({"weight", "bias"})
_CELL = frozenset({"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
_PROJECTED = frozenset(f"{name}_proj_weight" for name in ("in", "q", "k", "v")) | {"in_proj_bias", "bias_k", "bias_v"}


@dataclass(frozen=True, slots=True)
class Registered:
    """A rule for all layers that run the forward of `kind`."""

    kind: type[nn.Module]
    make: Rule
    parameters: Names = lambda _: _AFFINE  # of built-in rules: those that they record
    inside: frozenset[str] = frozenset()  # of built-in rules: the layers inside, each with a built-in rule
    built_in: bool = True

    def fits(self, module: nn.Module) -> bool:
        if type(module).forward is not self.kind.forward or not module._parameters:
            return False
        if not self.built_in:
            return True
        children = dict(module.named_children())
        return (
            self.parameters(module) >= module._parameters.keys()
            and self.inside == children.keys()
            and all((found := rule(child)) is not None and found.built_in for child in children.values())
        )


_rules: list[Registered] = [
    Registered(nn.Linear, linear),
    *(Registered(kind, convolution) for kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d)),
    *(
        Registered(kind, transposed_convolution)
        for kind in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    ),
    Registered(nn.Embedding, embedding),
    Registered(nn.EmbeddingBag, embedding_bag),
    Registered(nn.LayerNorm, normalization),
    Registered(nn.GroupNorm, normalization),
    Registered(nn.RMSNorm, normalization),
    Registered(nn.InstanceNorm2d, normalization),  # all of them share one forward
    Registered(nn.RNNCell, recurrent.simple_cell, lambda _: _CELL),
    Registered(nn.GRUCell, recurrent.gated_cell, lambda _: _CELL),
    Registered(nn.LSTMCell, recurrent.long_cell, lambda _: _CELL),
    Registered(nn.MultiheadAttention, attention, lambda _: _PROJECTED, frozenset({"out_proj"})),
    *(Registered(kind, recurrent_layers, scanned) for kind in (nn.RNN, nn.GRU, nn.LSTM)),
]


def register_layer(module_type: type[nn.Module], rule: Rule) -> None:
    """Record the layers of a class by a rule of one's own, in every model that is attached from now on.

    `rule(layer)` returns a function of what `module_type.forward` takes, and of the same value. It takes the
    parameters that the layer holds itself from `layer`: as `layer.per_record(name, records)`, one copy for each record,
    of which ordinary autograd finds one gradient each; or as `layer.value(name)`, a constant, whose gradients it
    records itself by `layer.add(name, Kept(gradients))` in a backward pass of its own. Layers inside record themselves
    when they are called. Subclasses that do not replace `forward` share the rule; a second rule replaces the first.

    Guarantee: none by itself. What a record adds is clipped as the rule recorded it, so a rule that records too little
    breaks the privacy of the training. In each model the rule is tried on the first records, against the layer's own
    forward, and ValueError is raised if outputs or gradients differ (`probe`).
    Assumes: record i is row i of what the layer is given, and of what it returns first.
    """
    given: object = module_type  # whatever the caller passes
    if not (isinstance(given, type) and issubclass(given, nn.Module)):
        raise ValueError(f"{module_type!r} is not a class of layers: give a subclass of torch.nn.Module")
    if module_type.forward is nn.Module.forward:
        raise ValueError(f"{module_type.__name__} has no forward, so there is nothing to record: define one")
    if not callable(rule):
        raise ValueError(
            f"the rule for {module_type.__name__} is {rule!r}: give a function of a layer that returns its forward"
        )
    for place, known in enumerate(_rules):
        if known.kind.forward is not module_type.forward:
            continue
        if known.built_in:
            raise ValueError(
                f"{module_type.__name__} runs the forward of {known.kind.__name__}, which has a built-in rule: "
                "register a class with a forward of its own"
            )
        del _rules[place]
        break
    _rules.append(Registered(module_type, rule, built_in=False))


def rule(module: nn.Module) -> Registered | None:
    """The rule for a layer that runs the forward of its class, on parameters that it holds itself."""
    if replaces_forward(module) or parametrize.is_parametrized(module):
        return None
    return next((each for each in _rules if each.fits(module)), None)


def replaces_forward(module: nn.Module) -> bool:
    """Whether a module holds a forward that is not its class's. A copy of a recorded layer holds its class's."""
    return "forward" in vars(module) and getattr(module.forward, "__func__", None) is not type(module).forward
