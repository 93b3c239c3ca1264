"""`nn.RNN`, `nn.GRU` and `nn.LSTM`: each direction of each layer is one scan over the steps that stores its gates.

Going back, the gradient of the gates before their bends is found step by step. With it all steps of a weight are one
recorded part, as if they were the positions of a sequence in a linear layer. Padded steps of a packed sequence keep
the state as it was and get gradients of zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tacit.training.layers import Forward, Layer, linear_part
from tacit.training.precision import exact_backward, exactly, full
from tacit.training.recorded import Kept

State = tuple[Tensor, ...]  # hidden, and of an LSTM the cell; [B, size]


@dataclass(frozen=True, slots=True)
class Weights:
    """Of one direction of one layer, as constants."""

    enter: Tensor  # from the inputs
    again: Tensor  # from the state
    enter_bias: Tensor | None
    again_bias: Tensor | None
    project: Tensor | None  # of an LSTM with proj_size, from what it shows to the next state


class Cell(Protocol):
    """What happens in a step. `stored` is what `back` needs of all steps, each [T, B, ...], hidden states apart."""

    def run(self, given: Tensor, first: State, keep: Tensor | None, weights: Weights) -> tuple[Tensor, list[Tensor]]:
        """From projected inputs [T, B, gates] the hidden states [T + 1, B, size], the first included, and `stored`."""

    def back(
        self, gradient: Tensor, last: State, hidden: Tensor, stored: list[Tensor], keep: Tensor | None, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor | None, State]:
        """Gradients before the bends, [T, B, gates]: as the inputs add to them, as the state does, of what an LSTM
        shows before its projection; and those of the first state. `gradient` is that of the hidden states [T, B, size]
        and `last` that of the last state."""


class Simple:
    """nn.RNN with tanh or relu."""

    def __init__(self, nonlinearity: str) -> None:
        self._tanh = nonlinearity == "tanh"

    def run(self, given: Tensor, first: State, keep: Tensor | None, weights: Weights) -> tuple[Tensor, list[Tensor]]:
        across, bias = weights.again.t(), weights.again_bias
        hidden = [first[0]]
        for t, step in enumerate(given.unbind(0)):
            total = step + (hidden[-1].mm(across) if bias is None else torch.addmm(bias, hidden[-1], across))
            hidden.append(_kept(total.tanh() if self._tanh else total.relu(), hidden[-1], keep, t))
        return torch.stack(hidden), []

    def back(
        self, gradient: Tensor, last: State, hidden: Tensor, stored: list[Tensor], keep: Tensor | None, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor | None, State]:
        after = hidden[1:]
        before = 1 - after * after if self._tanh else (after > 0).to(after.dtype)
        if keep is not None:
            before = before * keep
        flowing = last[0]
        for t in range(len(before) - 1, -1, -1):
            flowing = flowing + gradient[t]
            before[t] *= flowing
            flowing = before[t].mm(weights.again) + _passed(flowing, keep, t)
        return before, before, None, (flowing,)


class Gated:
    """nn.GRU. Gates: reset, update, candidate."""

    def run(self, given: Tensor, first: State, keep: Tensor | None, weights: Weights) -> tuple[Tensor, list[Tensor]]:
        across, bias, size = weights.again.t(), weights.again_bias, first[0].shape[1]
        hidden, gates, shown = [first[0]], torch.empty_like(given), []
        for t, step in enumerate(given.unbind(0)):
            state = hidden[-1].mm(across) if bias is None else torch.addmm(bias, hidden[-1], across)
            both = torch.sigmoid(step[:, : 2 * size] + state[:, : 2 * size])
            shown.append(state[:, 2 * size :])
            new = torch.addcmul(step[:, 2 * size :], both[:, :size], shown[-1]).tanh_()
            gates[t, :, : 2 * size], gates[t, :, 2 * size :] = both, new
            hidden.append(_kept(torch.lerp(new, hidden[-1], both[:, size:]), hidden[-1], keep, t))
        return torch.stack(hidden), [gates, torch.stack(shown)]

    def back(
        self, gradient: Tensor, last: State, hidden: Tensor, stored: list[Tensor], keep: Tensor | None, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor | None, State]:
        gates, shown = stored
        reset, update, new = gates.unflatten(2, (3, -1)).unbind(2)
        of_new = (1 - update) * (1 - new * new)
        of_update = (hidden[:-1] - new) * update * (1 - update)
        of_reset = of_new * shown * reset * (1 - reset)
        entering = torch.stack([of_reset, of_update, of_new], dim=2)
        if keep is not None:
            entering = entering * keep[..., None]
            update = update * keep
        again = torch.empty_like(gates)
        flowing = last[0]
        for t in range(len(gates) - 1, -1, -1):
            flowing = flowing + gradient[t]
            entering[t] *= flowing[:, None]
            torch.cat([entering[t, :, 0], entering[t, :, 1], entering[t, :, 2] * reset[t]], dim=1, out=again[t])
            flowing = again[t].mm(weights.again) + flowing * update[t] + _passed(flowing, keep, t)
        return entering.flatten(2), again, None, (flowing,)


class Long:
    """nn.LSTM. Gates: input, forget, candidate, output."""

    def run(self, given: Tensor, first: State, keep: Tensor | None, weights: Weights) -> tuple[Tensor, list[Tensor]]:
        across, size = weights.again.t(), first[1].shape[1]
        given = given if weights.again_bias is None else given + weights.again_bias
        hidden, cells, gates, bent = [first[0]], [first[1]], torch.empty_like(given), []
        for t, step in enumerate(given.unbind(0)):
            now = torch.addmm(step, hidden[-1], across, out=gates[t]).unflatten(1, (4, size))
            now[:, :2].sigmoid_()
            now[:, 2].tanh_()
            now[:, 3].sigmoid_()
            enter, forget, new, leave = now.unbind(1)
            cells.append(_kept(torch.addcmul(forget * cells[-1], enter, new), cells[-1], keep, t))
            bent.append(cells[-1].tanh())
            shown = leave * bent[-1]
            shown = shown if weights.project is None else shown.mm(weights.project.t())
            hidden.append(_kept(shown, hidden[-1], keep, t))
        return torch.stack(hidden), [gates, torch.stack(cells), torch.stack(bent)]

    def back(
        self, gradient: Tensor, last: State, hidden: Tensor, stored: list[Tensor], keep: Tensor | None, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor | None, State]:
        gates, cells, bent = stored
        enter, forget, new, leave = gates.unflatten(2, (4, -1)).unbind(2)
        before = torch.stack(  # slopes: of the first three gates over the cell, of the last over what is shown
            [
                new * enter * (1 - enter),
                cells[:-1] * forget * (1 - forget),
                enter * (1 - new * new),
                bent * leave * (1 - leave),
            ],
            dim=2,
        )
        into = leave * (1 - bent * bent)
        if keep is not None:
            before, into, forget = before * keep[..., None], into * keep, forget * keep
        flat, shown = before.flatten(2), list[Tensor]()
        flowing, cell = last
        for t in range(len(gates) - 1, -1, -1):
            flowing = flowing + gradient[t]
            showing = flowing
            if weights.project is not None:
                shown.append(flowing if keep is None else flowing * keep[t])
                showing = flowing.mm(weights.project)
            cell = torch.addcmul(cell, showing, into[t])
            before[t, :, :3] *= cell[:, None]
            before[t, :, 3] *= showing
            cell = cell * forget[t] + _passed(cell, keep, t)
            flowing = flat[t].mm(weights.again) + _passed(flowing, keep, t)
        projected = torch.stack(shown[::-1]) if shown else None
        return flat, flat, projected, (flowing, cell)


def _kept(new: Tensor, old: Tensor, keep: Tensor | None, step: int) -> Tensor:
    return new if keep is None else torch.where(keep[step] > 0, new, old)


def _passed(flowing: Tensor, keep: Tensor | None, step: int) -> Tensor | float:
    """The gradient that a padded step hands to the step before as it is."""
    return 0.0 if keep is None else flowing * (1 - keep[step])


class _Scan(torch.autograd.Function):  # type: ignore[misc]
    """One direction of one layer: inputs [T, B, d] to hidden states [T, B, size] and the last cell of an LSTM."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, scan: _Direction, keep: Tensor | None, *first: Tensor) -> Any:
        weights = scan.weights()
        with exactly(x.device.type):  # the steps write into each other's memory, in one format
            given = F.linear(x, weights.enter, weights.enter_bias)
            hidden, stored = scan.cell.run(given, first, keep, weights)
        ctx.scan, ctx.keep = scan, keep
        ctx.save_for_backward(x, hidden, *stored)
        last = stored[1][-1] if isinstance(scan.cell, Long) else hidden[-1]
        return hidden[1:].clone(), last.clone()

    @staticmethod
    @exact_backward
    def backward(ctx: Any, gradient: Tensor, of_last: Tensor) -> tuple[Tensor | None, ...]:
        x, hidden, *stored = ctx.saved_tensors
        scan, keep = ctx.scan, ctx.keep
        weights = scan.weights()
        if isinstance(scan.cell, Long):
            last: State = torch.zeros_like(hidden[0]), of_last
        else:
            last = (of_last,)
        entering, again, projected, first = scan.cell.back(gradient, last, hidden, stored, keep, weights)
        scan.add("weight_ih", x, entering)
        scan.add("weight_hh", hidden[:-1], again)
        if weights.enter_bias is not None:
            scan.add_bias("bias_ih", entering)
            scan.add_bias("bias_hh", again)
        if projected is not None:
            gates, _, bent = stored
            scan.add("weight_hr", gates.unflatten(2, (4, -1))[:, :, 3] * bent, projected)
        passed = entering.matmul(weights.enter) if ctx.needs_input_grad[0] else None
        return passed, None, None, None, *first


@dataclass(frozen=True, slots=True)
class _Direction:
    """Where the parameters of one direction of one layer are."""

    layer: Layer
    cell: Cell
    end: str  # of their names

    def weights(self) -> Weights:
        module: Any = self.layer.module
        value = self.layer.value
        return Weights(
            enter=value(f"weight_ih{self.end}"),
            again=value(f"weight_hh{self.end}"),
            enter_bias=value(f"bias_ih{self.end}") if module.bias else None,
            again_bias=value(f"bias_hh{self.end}") if module.bias else None,
            project=value(f"weight_hr{self.end}") if module.proj_size else None,
        )

    def add(self, name: str, inputs: Tensor, outputs: Tensor) -> None:
        """Record a weight from what came in and the gradient of what went out, both [T, B, ...]."""
        if self.layer.wants(f"{name}{self.end}"):
            part = linear_part(full(inputs).transpose(0, 1), full(outputs).transpose(0, 1), self.layer.recorder)
            self.layer.add(f"{name}{self.end}", part)

    def add_bias(self, name: str, outputs: Tensor) -> None:
        if self.layer.wants(f"{name}{self.end}"):
            self.layer.add(f"{name}{self.end}", Kept(full(outputs).sum(0)))

    def run(self, x: Tensor, first: State, keep: Tensor | None) -> tuple[Tensor, Tensor]:
        backwards = self.end.endswith("_reverse")
        if backwards:  # padded steps come first then, and leave the first state as it is
            x, keep = x.flip(0), None if keep is None else keep.flip(0)
        out, last = _Scan.apply(x, self.layer.recorder.anchor, self, keep, *first)
        return (out.flip(0) if backwards else out), last


def recurrent_layers(layer: Layer) -> Forward:
    """The forward of nn.RNN, nn.GRU and nn.LSTM: layers, directions, dropout, projections and packed sequences."""
    module: Any = layer.module
    long = isinstance(module, nn.LSTM)
    cell: Cell = Long() if long else Gated() if isinstance(module, nn.GRU) else Simple(module.nonlinearity)

    def forward(given: Tensor | PackedSequence, states: Any = None) -> Any:
        x, keep, lengths = _padded(layer, given)
        x = x.to(module.weight_ih_l0.dtype)  # autocast may have shortened it
        keep = None if keep is None else keep.to(x.dtype)
        first = tuple(each.to(x.dtype) for each in _first(layer, x, states, long))
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        for number in range(module.num_layers):
            outs = []
            for way in range(2 if module.bidirectional else 1):
                direction = _Direction(layer, cell, f"_l{number}" + ("_reverse" if way else ""))
                out, last = direction.run(x, tuple(each[len(hidden)] for each in first), keep)
                outs.append(out if keep is None else out * keep)
                hidden.append((out[0] if way else out[-1]) if long else last)
                cells.append(last)
            x = outs[0] if len(outs) == 1 else torch.cat(outs, dim=2)
            if module.dropout and number + 1 < module.num_layers:
                x = F.dropout(x, module.dropout, module.training)
        last_states = (torch.stack(hidden), torch.stack(cells)) if long else torch.stack(hidden)
        if isinstance(given, PackedSequence):
            return _packed(x, lengths, given), last_states
        return (x.transpose(0, 1) if module.batch_first else x), last_states

    return forward


def _padded(layer: Layer, given: Tensor | PackedSequence) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Inputs [T, B, d]; of a packed sequence, which steps [T, B, 1] are no padding, and the lengths of records."""
    if isinstance(given, PackedSequence):
        x, lengths = pad_packed_sequence(given)
        steps = torch.arange(len(x), device=x.device)[:, None]
        return x, (steps < lengths.to(x.device)).to(x.dtype)[..., None], lengths
    if given.dim() != 3:
        raise ValueError(
            f"{layer.name}: an input of shape {tuple(given.shape)} has no dimension of records: add it first"
        )
    return (given.transpose(0, 1) if layer.module.batch_first else given), None, None


def _packed(x: Tensor, lengths: Tensor | None, given: PackedSequence) -> PackedSequence:
    order = given.sorted_indices
    if order is not None and lengths is not None:
        x, lengths = x.index_select(1, order), lengths[order.to(lengths.device)]
    data = pack_padded_sequence(x, lengths).data
    return PackedSequence(data, given.batch_sizes, given.sorted_indices, given.unsorted_indices)


def _first(layer: Layer, x: Tensor, states: Any, long: bool) -> State:
    """The states to begin with, [layers × directions, B, size] each."""
    module: Any = layer.module
    rows = module.num_layers * (2 if module.bidirectional else 1)
    sizes = [module.proj_size or module.hidden_size, *([module.hidden_size] if long else [])]
    shapes = [(rows, x.shape[1], size) for size in sizes]
    if states is None:
        return tuple(x.new_zeros(shape) for shape in shapes)
    given = tuple(states) if long else (states,)
    if [tuple(each.shape) for each in given] != shapes:
        found = ", ".join(str(tuple(each.shape)) for each in given)
        raise ValueError(f"{layer.name}: states of shape {found}, expected {', '.join(map(str, shapes))}")
    return given


def parameters(module: Any) -> frozenset[str]:
    """The names of all weights and biases that the rule records."""
    kinds = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if module.bias else [])]
    kinds += ["weight_hr"] if module.proj_size else []
    ends = [""] + (["_reverse"] if module.bidirectional else [])
    return frozenset(f"{kind}_l{n}{end}" for kind in kinds for n in range(module.num_layers) for end in ends)
