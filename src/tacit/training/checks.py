"""Models that cannot be trained privately, refused before training: all unfit layers by name, with what to use."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, bfloat16, float32, float64, nn
from torch.jit import ScriptModule
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import UninitializedParameter, is_lazy
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torch.optim import Optimizer

from tacit.training.libraries import unsupported
from tacit.training.rules import rule

_OBSERVERS = ("ObserverBase", "FakeQuantizeBase")  # of torch.ao, by name: it takes long to import
_REPLICAS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule")


def refuse_unfit(model: nn.Module) -> None:
    """Raise ValueError if a layer mixes records, keeps statistics of them, or has parameters that cannot be clipped.

    Assumes: the model's own code keeps records apart. A forward that mixes them by hand (a mean over the batch, records
    reshaped into each other, attention across the batch, a loss that compares records) cannot be seen in its layers:
    `independence` looks for it while the model is trained.
    """
    found: dict[str, list[str]] = {}  # the layers by what is wrong with them
    for name, module in model.named_modules():
        reason = mixing(module) or _unrecorded(module)
        if reason is not None:
            found.setdefault(reason, []).append(f"{name or 'the model'} ({type(module).__name__})")
    if found:
        listed = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in found.items())
        replaced = any(replaceable(module) for module in model.modules())
        raise ValueError(listed + ("; or call tacit.training.fix(model) first" if replaced else ""))
    _check_parameters(model)


def replaceable(module: nn.Module) -> bool:
    """Whether `fix` knows a layer that takes this one's place."""
    if any(map(is_lazy, (*module._parameters.values(), *module._buffers.values()))):
        return False
    return isinstance(module, _BatchNorm) or (isinstance(module, _InstanceNorm) and module.track_running_stats)


def mixing(module: nn.Module) -> str | None:
    """Why what a layer makes of a record is not the record's own, and what to use instead."""
    match module:
        case _ if _spectral(module):
            return "spectral_norm rewrites its vectors in each forward: use weight_norm, or the layer without it"
        case _InstanceNorm() if module.track_running_stats:
            return "keeps running statistics of the records: use track_running_stats=False"
        case _InstanceNorm():
            return None
        case _BatchNorm():
            return "mixes the records of a batch: use nn.GroupNorm(groups, channels)"
        case nn.Embedding() | nn.EmbeddingBag() if module.max_norm is not None:
            return "max_norm changes the weight in each forward by which ids are there: use max_norm=None"
        case nn.Embedding() | nn.EmbeddingBag() if module.scale_grad_by_freq:
            return "scale_grad_by_freq divides by counts over the batch: use scale_grad_by_freq=False"
    if any(kind.__name__ in _OBSERVERS for kind in type(module).__mro__):
        return "keeps the range of the values that it sees: prepare for quantization after training"
    if getattr(module, "track_running_stats", False) is True:
        return "keeps running statistics of the records (track_running_stats): use a layer without them"
    return None


def _unrecorded(module: nn.Module) -> str | None:
    """Why the gradients of single records cannot be recorded, and what to use instead."""
    if any(is_lazy(tensor) for tensor in (*module._parameters.values(), *module._buffers.values())):
        return "not initialised: run the model once on a few records that are not private, or state its sizes"
    match module:
        case ScriptModule():
            return "compiled by torch.jit, so its layers cannot be recorded: attach the module that it was made from"
        case _ if type(module).__name__ == "OptimizedModule":  # of torch._dynamo, which takes a second to import
            return "compiled already: attach the model itself first, and compile what attach returns"
        case _ if any(kind.__name__ in _REPLICAS for kind in type(module).__mro__):
            return (
                "replicas would draw samples and noise of their own and diverge: attach the module inside it, with "
                "distributed=True for several processes"
            )
        case _ if any(isinstance(h, WeightNorm | BasePruningMethod) for h in module._forward_pre_hooks.values()):
            return "computes its weight in a hook: use torch.nn.utils.parametrizations, or torch.nn.utils.parametrize"
        case _ if (reason := unsupported(module)) is not None:
            return reason
        case nn.Embedding() | nn.EmbeddingBag() if module.sparse:
            return "sparse gradients: use sparse=False"
        case nn.EmbeddingBag() if rule(module) is None:
            return "takes ids in a forward of its own, which has no rule: use nn.EmbeddingBag as it is"
        case nn.RNNBase() if _trained(module) and rule(module) is None:
            return "runs all steps in one kernel and has no rule: use nn.RNN, nn.GRU or nn.LSTM as they are"
        case nn.MultiheadAttention() if not module._qkv_same_embed_dim or module.bias_k is not None:
            return "kdim, vdim or add_bias_kv: build it of nn.Linear layers and F.scaled_dot_product_attention"
    return None


def _spectral(module: nn.Module) -> bool:
    """Either of torch's two ways."""
    return isinstance(module, _SpectralNorm) or any(
        isinstance(hook, SpectralNorm) for hook in module._forward_pre_hooks.values()
    )


def _check_parameters(model: nn.Module) -> None:
    trained = {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}
    if not trained:
        raise ValueError("the model has no trainable parameters: unfreeze one with requires_grad_()")
    kinds: dict[tuple[object, object], str] = {}
    for name, tensor in trained.items():
        if tensor.dtype not in (bfloat16, float32, float64):
            raise ValueError(
                f"{name} has dtype {tensor.dtype}: trainable parameters must be float32, float64 or bfloat16"
            )
        _refuse_hook(name, tensor, own=0)
        kinds.setdefault((tensor.dtype, tensor.device), name)
    if len(kinds) > 1:
        found = ", ".join(f"{name} is {dtype} on {device}" for (dtype, device), name in kinds.items())
        raise ValueError(f"trainable parameters differ in dtype or device ({found}): move the model with model.to()")


def _refuse_hook(name: str, parameter: Tensor, own: int) -> None:
    """ValueError for a hook besides so many of the engine: it would never be called, and its mask have no effect."""
    if len(parameter._backward_hooks or ()) > own or parameter._post_accumulate_grad_hooks:
        name = name or f"a parameter of shape {tuple(parameter.shape)}"
        raise ValueError(
            f"{name} has a hook of its gradient (register_hook), which would never be called, because gradients are of "
            "single records: remove it, and mask or scale in the model's forward, or what was noised by "
            "optimizer.inner.register_step_pre_hook"
        )


def refuse_unclipped(trained: Collection[Tensor], optimizer: Optimizer, model: nn.Module) -> None:
    """Raise ValueError if a parameter would be moved by a gradient that was neither clipped nor noised.

    That is one that was unfrozen, added to the model or given to the optimizer, after it was attached. One that only
    the model holds is refused as well: another optimizer may move it. So is a hook that was made meanwhile.
    """
    for parameter in trained:
        _refuse_hook("", parameter, own=1)
    known = {id(parameter) for parameter in trained}
    moved = {id(parameter): parameter for group in optimizer.param_groups for parameter in group["params"]}
    for parameter in (*moved.values(), *model.parameters()):
        left_over = parameter.grad is not None and id(parameter) in moved  # frozen, with a gradient of earlier times
        if id(parameter) not in known and (parameter.requires_grad or left_over):
            raise ValueError(
                f"a parameter of shape {tuple(parameter.shape)} that was not trained when the optimizer was "
                "attached is trainable now, or has a gradient: clear it (parameter.grad = None) and freeze the "
                "parameter with requires_grad_(False), or unfreeze it and attach again"
            )


def refuse_gradients(trained: Collection[Tensor]) -> None:
    """Raise ValueError if an attached optimizer that is stepped by itself would move a trained parameter."""
    if any(parameter.grad is not None for parameter in trained):
        raise ValueError(
            "an optimizer that was attached is stepped by itself, with gradients that were neither clipped nor noised "
            "(of a backward pass in eval mode, or set by hand): step the private optimizer, which steps it. For public "
            "data take another optimizer"
        )


def refuse_replicas() -> None:
    """Raise ValueError in a group of processes: each would draw its own samples and noise, and their models diverge."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        raise ValueError(
            f"{distributed.get_world_size()} processes train together, and each would draw samples and noise of its "
            "own, so that their models diverge: take plan.attach(..., distributed=True), or train in one process, "
            "without init_process_group"
        )


def _trained(module: nn.Module) -> bool:
    return any(_requires_gradient(tensor) for tensor in module.parameters())


def _requires_gradient(tensor: Tensor) -> bool:
    return bool(tensor.requires_grad) and not isinstance(tensor, UninitializedParameter)
