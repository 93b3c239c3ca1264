"""Layers that mix records, or keep statistics of them, replaced by the nearest ones that do neither."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from tacit.training.checks import replaceable

_MOST_GROUPS = 32  # Wu, He 2018
_FEWEST_CHANNELS = 4  # of a group: a group of one value is always normalized to zero


def fix(model: nn.Module) -> list[str]:
    """Replace, in place, the layers that cannot be private, and return a sentence for each of them.

        for sentence in tacit.training.fix(model):
            print(sentence)

    BatchNorm becomes GroupNorm with the same scale and shift, the very parameters, so that an optimizer of the model
    stays one. A tracked InstanceNorm stops to track. Both lose their running statistics: of a pretrained model the
    outputs change, and it needs some training. Anything else that `refuse_unfit` names is left as it is.
    """
    if isinstance(model, _BatchNorm):
        raise ValueError("the model is a BatchNorm itself, which cannot be replaced in place: use nn.GroupNorm")
    said: list[str] = []
    made: dict[nn.Module, nn.Module] = {}  # a layer that stands in several places stays one
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if module in made:
            _put(model, name, made[module])
        elif isinstance(module, _InstanceNorm) and replaceable(module):
            module.track_running_stats = False
            module._buffers.update(dict.fromkeys(module._buffers))
            said.append(f"{name or 'the model'} ({type(module).__name__}): keeps no running statistics any more")
        elif isinstance(module, _BatchNorm) and replaceable(module):
            group = made[module] = _group_norm(module)
            _put(model, name, group)
            said.append(
                f"{name} ({type(module).__name__}): now GroupNorm({group.num_groups}, {group.num_channels}) with the "
                "same scale and shift; its running statistics are dropped"
            )
    return said


def _put(model: nn.Module, name: str, layer: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, layer)


def _group_norm(layer: _BatchNorm) -> nn.GroupNorm:
    """With as many groups as divide the channels, up to 32; one for BatchNorm1d, whose channels may be all there is."""
    channels = layer.num_features
    most = 1 if isinstance(layer, nn.BatchNorm1d) else max(1, min(_MOST_GROUPS, channels // _FEWEST_CHANNELS))
    groups = next(each for each in range(most, 0, -1) if channels % each == 0)
    made = nn.GroupNorm(groups, channels, eps=layer.eps, affine=layer.affine).train(layer.training)
    if layer.affine:
        made.weight, made.bias = layer.weight, layer.bias
    return made
