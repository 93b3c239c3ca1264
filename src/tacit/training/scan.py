"""`nn.RNN`, `nn.GRU` and `nn.LSTM`: each direction of each layer is one scan over the steps that stores its gates.

Going back, the gradient of the gates before their bends is found step by step. With it all steps of a weight are one
recorded part, as if they were the positions of a sequence in a linear layer. Padded steps of a packed sequence keep
the state as it was and get gradients of zero.

What is the same in all steps is computed for all of them at once: the inputs' products, the slopes of the bends, the
gradients of weights. The loop over steps has the fewest calls that leave it a product and a few changes in place,
because with a small batch a call costs more than its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tacit.training.layers import Forward, Layer, linear_part
from tacit.training.linear_products import product
from tacit.training.precision import exact_backward, exactly, full
from tacit.training.recorded import Kept

State = tuple[Tensor, ...]  # hidden, and of an LSTM the cell; [B, size]
sigmoid_slopes = torch.ops.aten.sigmoid_backward.grad_input  # a factor times the slope, from what the bend returned
tanh_slopes = torch.ops.aten.tanh_backward.grad_input


@dataclass(frozen=True, slots=True)
class Weights:
    """Of one direction of one layer, as constants."""

    enter: Tensor  # from the inputs
    again: Tensor  # from the state
    enter_bias: Tensor | None
    again_bias: Tensor | None
    project: Tensor | None  # of an LSTM with proj_size, from what it shows to the next state

    @property
    def both_biases(self) -> Tensor | None:
        return None if self.enter_bias is None or self.again_bias is None else self.enter_bias + self.again_bias


class Cell(Protocol):
    """What happens in a step. `stored` is what `back` needs of all steps, each [T, B, ...], hidden states apart."""

    def bias(self, weights: Weights) -> Tensor | None:
        """What is added to the inputs' products."""

    def run(self, given: Tensor, first: State, keep: Tensor | None, weights: Weights) -> tuple[Tensor, list[Tensor]]:
        """From the inputs' products [T, B, gates], whose memory is used, the hidden states [T + 1, B, size], the first
        included, and `stored`."""

    def back(
        self, gradient: Tensor, last: State, hidden: Tensor, stored: list[Tensor], keep: Tensor | None, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor | None, State]:
        """Gradients before the bends, [T, B, gates]: as the inputs add to them, as the state does, of what an LSTM
        shows before its projection; and those of the first state. `gradient` is that of the hidden states [T, B, size]
        and `last` that of the last state, whose memory is used."""


class Simple:
    """nn.RNN with tanh or relu."""

    def __init__(self, nonlinearity: str) -> None:
        self._tanh = nonlinearity == "tanh"

    def bias(self, weights: Weights) -> Tensor | None:
        return weights.both_biases

    def run(self, given: Tensor, first: State, keep: Tensor | None, weights: Weights) -> tuple[Tensor, list[Tensor]]:
        across, hidden = weights.again.t().contiguous(), _begun(first[0], len(given))
        states = hidden.unbind(0)
        for t, total in enumerate(given.unbind(0)):
            total.addmm_(states[t], across)
            if self._tanh:
                torch.tanh(total, out=states[t + 1])
            else:
                torch.clamp(total, min=0, out=states[t + 1])
            _keep(states[t + 1], states[t], keep, t)
        return hidden, []

    def back(
        self, gradient: Tensor, last: State, hidden: Tensor, stored: list[Tensor], keep: Tensor | None, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor | None, State]:
        after = hidden[1:]
        before = 1 - after * after if self._tanh else (after > 0).to(after.dtype)
        if keep is not None:
            before *= keep
        flowing, steps, shares = last[0], before.unbind(0), gradient.unbind(0)
        for t in range(len(before) - 1, -1, -1):
            flowing.add_(shares[t])
            steps[t].mul_(flowing)
            flowing = _step_back(flowing, steps[t], weights.again, keep, t)
        return before, before, None, (flowing,)


class Gated:
    """nn.GRU. Gates: reset, update, candidate. That the state adds to the candidate is what reset multiplies."""

    def bias(self, weights: Weights) -> Tensor | None:
        if weights.enter_bias is None or weights.again_bias is None:
            return None
        bias, size = weights.enter_bias.clone(), weights.again.shape[1]
        bias[: 2 * size] += weights.again_bias[: 2 * size]
        return bias

    def run(self, given: Tensor, first: State, keep: Tensor | None, weights: Weights) -> tuple[Tensor, list[Tensor]]:
        size, hidden = first[0].shape[1], _begun(first[0], len(given))
        across = weights.again[: 2 * size].t().contiguous()
        to_candidate = weights.again[2 * size :].t().contiguous()
        bias = given.new_zeros(size) if weights.again_bias is None else weights.again_bias[2 * size :]
        states, shown = hidden.unbind(0), torch.empty_like(hidden[1:])
        resets, updates, candidates = (gate.unbind(0) for gate in given.unflatten(2, (3, size)).unbind(2))
        boths = given[:, :, : 2 * size].unbind(0)
        for t, from_state in enumerate(shown.unbind(0)):
            boths[t].addmm_(states[t], across).sigmoid_()
            torch.addmm(bias, states[t], to_candidate, out=from_state)
            new = candidates[t].addcmul_(resets[t], from_state).tanh_()
            torch.lerp(new, states[t], updates[t], out=states[t + 1])
            _keep(states[t + 1], states[t], keep, t)
        return hidden, [given, shown]

    def back(
        self, gradient: Tensor, last: State, hidden: Tensor, stored: list[Tensor], keep: Tensor | None, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor | None, State]:
        gates, shown = stored
        again = torch.empty_like(gates)
        parts = again.unflatten(2, (3, -1))
        reset, update, new = gates.unflatten(2, (3, -1)).unbind(2)
        of_new = torch.ops.aten.tanh_backward(1 - update, new)
        sigmoid_slopes(of_new * shown, reset, grad_input=parts[:, :, 0])
        sigmoid_slopes(hidden[:-1] - new, update, grad_input=parts[:, :, 1])
        torch.mul(of_new, reset, out=parts[:, :, 2])
        if keep is not None:
            again *= keep
            of_new *= keep
            update = torch.where(keep > 0, update, 1)
        flows = torch.empty_like(shown)
        flowing, shares, steps, passing = last[0], gradient.unbind(0), again.unbind(0), update.unbind(0)
        by_gate, before = parts.unbind(0), flows.unbind(0)
        for t in range(len(gates) - 1, -1, -1):
            torch.add(flowing, shares[t], out=before[t])
            by_gate[t].mul_(before[t][:, None])
            torch.mul(before[t], passing[t], out=flowing).addmm_(steps[t], weights.again)
        entering = again.clone()
        torch.mul(of_new, flows, out=entering.unflatten(2, (3, -1))[:, :, 2])
        return entering, again, None, (flowing,)


class Long:
    """nn.LSTM. Gates: input, forget, candidate, output."""

    def bias(self, weights: Weights) -> Tensor | None:
        return weights.both_biases

    def run(self, given: Tensor, first: State, keep: Tensor | None, weights: Weights) -> tuple[Tensor, list[Tensor]]:
        across, size = weights.again.t().contiguous(), first[1].shape[1]
        project = None if weights.project is None else weights.project.t().contiguous()
        hidden, cells = _begun(first[0], len(given)), _begun(first[1], len(given))
        bent = torch.empty_like(cells[1:])
        states, inside = hidden.unbind(0), cells.unbind(0)
        enters, forgets, news, leaves = (gate.unbind(0) for gate in given.unflatten(2, (4, size)).unbind(2))
        gates, boths, out = given.unbind(0), given[:, :, : 2 * size].unbind(0), torch.empty_like(bent[0])
        for t, shown in enumerate(bent.unbind(0)):
            gates[t].addmm_(states[t], across)
            boths[t].sigmoid_()
            news[t].tanh_()
            leaves[t].sigmoid_()
            torch.mul(forgets[t], inside[t], out=inside[t + 1]).addcmul_(enters[t], news[t])
            _keep(inside[t + 1], inside[t], keep, t)
            torch.tanh(inside[t + 1], out=shown)
            if project is None:
                torch.mul(leaves[t], shown, out=states[t + 1])
            else:
                torch.mm(torch.mul(leaves[t], shown, out=out), project, out=states[t + 1])
            _keep(states[t + 1], states[t], keep, t)
        return hidden, [given, cells, bent]

    def back(
        self, gradient: Tensor, last: State, hidden: Tensor, stored: list[Tensor], keep: Tensor | None, weights: Weights
    ) -> tuple[Tensor, Tensor, Tensor | None, State]:
        gates, cells, bent = stored
        before = torch.empty_like(gates)
        parts = before.unflatten(2, (4, -1))
        enter, forget, new, leave = gates.unflatten(2, (4, -1)).unbind(2)
        # Slopes: of the first three gates over the cell, of the last over what is shown.
        sigmoid_slopes(new, enter, grad_input=parts[:, :, 0])
        sigmoid_slopes(cells[:-1], forget, grad_input=parts[:, :, 1])
        tanh_slopes(enter, new, grad_input=parts[:, :, 2])
        sigmoid_slopes(bent, leave, grad_input=parts[:, :, 3])
        into = torch.ops.aten.tanh_backward(leave, bent)
        if keep is not None:
            before *= keep
            into *= keep
            forget = torch.where(keep > 0, forget, 1)
        shown = None if weights.project is None else torch.empty_like(gradient)
        flowing, cell = last
        of_cell = cell[:, None]  # the same memory
        steps, over_cell, over_shown = before.unbind(0), parts[:, :, :3].unbind(0), parts[:, :, 3].unbind(0)
        shares, intos, passing = gradient.unbind(0), into.unbind(0), forget.unbind(0)
        for t in range(len(gates) - 1, -1, -1):
            showing = flowing.add_(shares[t])
            if shown is not None and weights.project is not None:
                shown[t] = flowing if keep is None else flowing * keep[t]
                showing = flowing.mm(weights.project)
            cell.addcmul_(showing, intos[t])
            over_cell[t].mul_(of_cell)
            over_shown[t].mul_(showing)
            cell.mul_(passing[t])
            flowing = _step_back(flowing, steps[t], weights.again, keep, t)
        return before, before, shown, (flowing, cell)


def _begun(first: Tensor, steps: int) -> Tensor:
    """Memory for the states [T + 1, B, size], of which the first is given."""
    states = first.new_empty(steps + 1, *first.shape)
    states[0] = first
    return states


def _keep(new: Tensor, old: Tensor, keep: Tensor | None, step: int) -> None:
    """A padded step leaves the state as it was."""
    if keep is not None:
        torch.where(keep[step] > 0, new, old, out=new)


def _step_back(flowing: Tensor, before: Tensor, again: Tensor, keep: Tensor | None, step: int) -> Tensor:
    """The gradient of the state before a step, from that after it, whose memory may be used: a padded step hands it
    on."""
    if keep is None:
        return product(before, again.t())
    return flowing.mul_(1 - keep[step]).addmm_(before, again)


class _Scan(torch.autograd.Function):  # type: ignore[misc]
    """One direction of one layer: inputs [T, B, d] to hidden states [T, B, size] and the last cell of an LSTM."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, scan: _Direction, keep: Tensor | None, *first: Tensor) -> Any:
        weights = scan.weights()
        with exactly(x.device.type):  # the steps write into each other's memory, in one format
            given = product(x.contiguous(), weights.enter, scan.cell.bias(weights))
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
        of_last = of_last.clone()  # `back` uses its memory
        last: State = (torch.zeros_like(hidden[0]), of_last) if isinstance(scan.cell, Long) else (of_last,)
        entering, again, projected, first = scan.cell.back(gradient, last, hidden, stored, keep, weights)
        passed = product(entering, weights.enter.t()) if ctx.needs_input_grad[0] else None
        from_inputs = _by_record(entering)
        from_state = from_inputs if again is entering else _by_record(again)
        scan.add("weight_ih", _by_record(x), from_inputs)
        scan.add("weight_hh", _by_record(hidden[:-1]), from_state)
        if weights.enter_bias is not None:
            summed = from_inputs.sum(1)
            scan.add_bias("bias_ih", summed)
            scan.add_bias("bias_hh", summed if again is entering else from_state.sum(1))
        if projected is not None:
            gates, _, bent = stored
            leave = gates.unflatten(2, (4, -1))[:, :, 3]
            scan.add("weight_hr", _by_record(leave * bent), _by_record(projected))
        return passed, None, None, None, *first


def _by_record(steps: Tensor) -> Tensor:
    """[T, B, ...] as [B, T, ...], each record's steps in a row: products of strided ones take twice the time."""
    return full(steps).transpose(0, 1).contiguous()


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
        """Record a weight from what came in and the gradient of what went out, both [B, T, ...]."""
        if self.layer.wants(f"{name}{self.end}"):
            self.layer.add(f"{name}{self.end}", linear_part(inputs, outputs, self.layer.recorder))

    def add_bias(self, name: str, gradients: Tensor) -> None:
        if self.layer.wants(f"{name}{self.end}"):
            self.layer.add(f"{name}{self.end}", Kept(gradients))

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
