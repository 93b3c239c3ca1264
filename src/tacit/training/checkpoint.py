"""What a training is resumed from: the state of a torch optimizer as arrays and plain numbers, without pickle; and
whether it is of the same plan."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tacit.training.plan import Plan
from tacit.training.several_optimizers import kind_of

VERSION = 2
_PREFIX = "inner/"
_LATER = {"clipping": "flat", "truncate": None, "unit": "record", "owners": None, "records_per_owner": None}


def refuse_other(state: Mapping[str, Any], plan: Plan) -> None:
    """Raise ValueError if a state is not of this plan."""
    if state["version"] != VERSION:
        raise ValueError(f"a state of version {state['version']!r} is not known here, only {VERSION}")
    kept, given = fixed(plan), state["plan"]
    differing = {key for key in kept.keys() | given.keys() if given.get(key) != kept.get(key)}
    if differing:
        raise ValueError(f"the state is of a plan with another {', '.join(sorted(differing))}: make the same plan")
    begun = float(state["initial_noise"])
    if not math.isclose(begun, plan.initial_noise, rel_tol=1e-4):  # calibration leaves 1e-5
        raise ValueError(
            f"the training began with a noise of {begun:.6g} times the clipping norm, this plan has "
            f"{plan.initial_noise:.6g}: resume it with the release that began it"
        )


def fixed(plan: Plan) -> dict[str, Any]:
    """What must not change between two parts of one training: all that the noise of a step depends on.

    A noise that is calibrated, or falls in levels, depends on the number of epochs.
    """
    kept = asdict(plan)
    del kept["physical"]
    for name, default in _LATER.items():  # states of earlier releases do not have them
        if kept[name] == default:
            del kept[name]
    if plan.noise_multiplier is not None and plan.decay is None:
        del kept["epochs"]
    return kept


def store(inner: torch.optim.Optimizer) -> dict[str, Any]:
    """Momentum and the like under `inner/parameter/name`, and what is no array, as plain data, under `inner`."""
    whole = inner.state_dict()
    arrays: dict[str, Any] = {}
    plain: dict[str, dict[str, Any]] = {}
    for parameter, values in whole["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                plainly = value.detach().cpu().to(torch.float32 if value.dtype == torch.bfloat16 else value.dtype)
                arrays[f"{_PREFIX}{parameter}/{name}"] = plainly.numpy().copy()
            else:
                plain.setdefault(str(parameter), {})[name] = value
    groups = [{name: _plain(value) for name, value in group.items()} for group in whole["param_groups"]]
    kept = {"kind": kind_of(inner), "groups": groups, "values": plain}
    try:
        return {"inner": json.loads(json.dumps(kept, allow_nan=False)), **arrays}
    except (TypeError, ValueError) as error:
        raise ValueError(f"a setting of {kind_of(inner)} cannot be stored as plain data: {error}") from error


def load(inner: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Give an optimizer over the same parameters its state back."""
    kind = state["inner"]["kind"]
    if kind != kind_of(inner):
        raise ValueError(f"the state is of {kind}, the optimizer is {kind_of(inner)}: make it as it was made before")
    current = inner.state_dict()["param_groups"]
    groups = state["inner"]["groups"]
    if [group["params"] for group in groups] != [group["params"] for group in current]:
        raise ValueError("the stored optimizer has other groups of parameters: make it as it was made before")
    shapes = [parameter.shape for group in inner.param_groups for parameter in group["params"]]
    restored: dict[int, dict[str, Any]] = {}
    for key, value in state.items():
        if key.startswith(_PREFIX):
            parameter, _, name = key.removeprefix(_PREFIX).partition("/")
            array = np.asarray(value)
            if array.ndim and array.shape != tuple(shapes[int(parameter)]):
                raise ValueError(f"{key} has shape {array.shape}, the parameter {tuple(shapes[int(parameter)])}")
            restored.setdefault(int(parameter), {})[name] = torch.from_numpy(array.copy())
    for parameter, values in state["inner"]["values"].items():
        restored.setdefault(int(parameter), {}).update(values)
    known = [
        {name: _like(old[name], value) if name in old else value for name, value in group.items()}
        for group, old in zip(groups, current, strict=True)
    ]
    inner.load_state_dict({"state": restored, "param_groups": known})


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value


def _like(old: Any, value: Any) -> Any:
    """JSON has no tuples, and no tensors for a learning rate."""
    if isinstance(old, Tensor):
        return torch.as_tensor(value, dtype=old.dtype, device=old.device)
    return tuple(value) if isinstance(old, tuple) else value
