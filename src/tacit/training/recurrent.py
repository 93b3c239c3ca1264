"""The recurrent cells of torch out of recorded linear maps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tacit.training.layers import Forward, Layer, linear


def simple_cell(layer: Layer) -> Forward:
    from_input, from_state = _maps(layer)
    module: Any = layer.module

    def forward(x: Tensor, state: Tensor | None = None) -> Tensor:
        total = from_input(x) + from_state(_zeros(layer, x) if state is None else state)
        return total.tanh() if module.nonlinearity == "tanh" else total.relu()

    return forward


def gated_cell(layer: Layer) -> Forward:
    """GRUCell."""
    from_input, from_state = _maps(layer)

    def forward(x: Tensor, state: Tensor | None = None) -> Tensor:
        state = _zeros(layer, x) if state is None else state
        reset, update, new = from_input(x).chunk(3, 1)
        reset_state, update_state, new_state = from_state(state).chunk(3, 1)
        candidate = (new + (reset + reset_state).sigmoid() * new_state).tanh()
        return candidate + (update + update_state).sigmoid() * (state - candidate)

    return forward


def long_cell(layer: Layer) -> Forward:
    """LSTMCell."""
    from_input, from_state = _maps(layer)

    def forward(x: Tensor, states: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        hidden, cell = (_zeros(layer, x), _zeros(layer, x)) if states is None else states
        enter, forget, candidate, leave = (from_input(x) + from_state(hidden)).chunk(4, 1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
        return leave.sigmoid() * cell.tanh(), cell

    return forward


def _maps(layer: Layer) -> tuple[Forward, Forward]:
    return linear(layer, "weight_ih", "bias_ih"), linear(layer, "weight_hh", "bias_hh")


def _zeros(layer: Layer, x: Tensor) -> Tensor:
    return torch.zeros(x.shape[0], layer.module.hidden_size, dtype=x.dtype, device=x.device)
