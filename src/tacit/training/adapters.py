"""Adapters of peft that multiply what a layer computes, recognised by their structure: peft is not imported here.

IA3         scales the inputs or the outputs of a layer, entry by entry.
DoRA        adds B A x to a layer, as LoRA does, and gives each output a magnitude: their sum times m / |W + B A|, with
            a norm that is a constant for gradients. A and B record themselves.

Both are computed here with a row of the vector for each record. Whether that is what the module computes is tried on
the first two records or more (`probe.tried`); if it is not, the module runs once for each record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.training.fallback import named
from tacit.training.layers import Forward, Layer
from tacit.training.rules import Rule

Bypass = Callable[[], Any]


def adapter(module: nn.Module, bypass: Bypass) -> tuple[Rule, str] | None:
    """The rule of an adapter that scales, and the name of the module inside that holds its vectors."""
    if isinstance(getattr(module, "ia3_l", None), nn.ParameterDict) and hasattr(module, "is_feedforward"):
        return (_scaled, "ia3_l") if vectors(module, "ia3_l") else None
    magnitudes = getattr(module, "lora_magnitude_vector", None)
    if isinstance(magnitudes, nn.ModuleDict) and len(magnitudes) > 0 and all(map(_computes_norms, magnitudes.values())):
        base: Any = getattr(module, "base_layer", None)
        if type(base) is nn.Linear and not any(each.requires_grad for each in base.parameters()):
            return (lambda layer: _with_magnitudes(layer, bypass)), "lora_magnitude_vector"
    return None


def vectors(module: nn.Module, inside: str) -> frozenset[str]:
    """The names of the trained parameters that a rule of an adapter records."""
    found = module.get_submodule(inside).named_parameters(prefix=inside)
    return frozenset(name for name, parameter in found if parameter.requires_grad)


def _fitted(layer: Layer, path: str, x: Tensor) -> Tensor:
    """A vector with a row for each record, to be multiplied by `x`; one that is frozen as it is."""
    holder, name = named(layer, path), path.rpartition(".")[2]
    if path not in layer.trained:
        frozen: Tensor = getattr(holder.module, name).detach().flatten()
        return frozen
    rows: Tensor = holder.per_record(name, len(x))
    return rows.reshape(len(x), *[1] * (x.dim() - 2), -1)


def _scaled(layer: Layer) -> Forward:
    """IA3 of a linear layer."""
    module: Any = layer.module
    own = module.forward

    def forward(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        active = [each for each in module.active_adapters if each in module.ia3_l]
        if module.disable_adapters or module.merged or not active:
            return own(x, *args, **kwargs)
        if module.is_feedforward:
            for each in active:
                x = (x * _fitted(layer, f"ia3_l.{each}", x)).to(x.dtype)
            return module.base_layer(x, *args, **kwargs)
        out: Tensor = module.base_layer(x, *args, **kwargs)
        for each in active:
            out = (out * _fitted(layer, f"ia3_l.{each}", out)).to(out.dtype)
        return out

    return forward


def _computes_norms(module: nn.Module) -> bool:
    own = dict(module.named_parameters())
    known = hasattr(module, "get_weight_norm") and getattr(module, "fan_in_fan_out", None) is False
    return known and own.keys() == {"weight"} and own["weight"].dim() == 1


def _with_magnitudes(layer: Layer, bypass: Bypass) -> Forward:
    """DoRA of a linear layer whose own weight is frozen: the module's forward, in which magnitudes are of records."""
    module: Any = layer.module
    own = module.forward
    recorded = {name: _magnitude(layer, name, bypass) for name in module.lora_magnitude_vector}

    def forward(*args: Any, **kwargs: Any) -> Any:
        for name, each in recorded.items():
            module.lora_magnitude_vector[name].forward = each
        try:
            return own(*args, **kwargs)
        finally:
            for name in recorded:
                del module.lora_magnitude_vector[name].forward

    return forward


def _magnitude(layer: Layer, name: str, bypass: Bypass) -> Forward:
    path = f"lora_magnitude_vector.{name}"

    def forward(
        x: Tensor, *, lora_A: Any, lora_B: Any, scaling: float, base_layer: Any, base_result: Any = None, **_: Any
    ) -> Tensor:
        weight, holder = base_layer.weight.detach(), layer.module.get_submodule(path)
        with torch.no_grad(), bypass():
            added = holder.get_lora_weight(lora_A=lora_A, lora_B=lora_B).to(x.dtype)
            norm = holder.get_weight_norm(weight=weight.to(x.dtype), lora_weight=added, scaling=scaling)
        scale = _fitted(layer, f"{path}.weight", x) / norm
        low = lora_B(lora_A(x))
        if base_result is None:
            base_result = F.linear(x, weight.to(x.dtype))
        elif base_layer.bias is not None:
            base_result = base_result - base_layer.bias.detach()
        return (scale - 1) * base_result + scale * low * scaling

    return forward
