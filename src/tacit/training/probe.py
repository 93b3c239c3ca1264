"""A rule from outside is tried on the first records that a layer is given, beside the layer's own forward.

Compared are outputs, gradients of inputs and, for each parameter, the sum of what is recorded, the gradients of the
first and the last record, and the bounds of their norms. What is computed here is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree

from tacit.training.arguments import Arguments, records_of
from tacit.training.fallback import Inside
from tacit.training.generators import Generators
from tacit.training.layers import Forward, Layer
from tacit.training.precision import exactly, full
from tacit.training.recorded import Part, join

_DIFFERENCE = 1e-3  # of a gradient's norm: far above what rounding does, far below a wrong rule
_CANCELLED = 1e-5  # of all gradients together: what cancels to less is rounding


def probed(layer: Layer, rule: Callable[[Layer], Forward], bypass: Callable[[], Any]) -> Forward:
    """The forward that a rule from outside makes, tried on the first batch, and on the first of two or more records."""
    own, recorded = Inside(layer.module, layer.module.forward), rule(layer)
    if not callable(recorded):
        raise _wrong(layer, f"returned {recorded!r}: it must return the forward to run in place of the layer's own")
    if any(isinstance(child, nn.ParameterList | nn.ParameterDict) for child in layer.module.children()):
        raise _wrong(layer, "cannot record a list of parameters: hold each of them as an attribute of the layer")
    largest = 0  # batch that it was tried on

    def forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal largest
        records = next((len(leaf) for leaf in pytree.tree_leaves((args, kwargs)) if _rows(leaf)), 0)
        if largest < min(records, 2):
            with bypass(), _undisturbed(layer):
                _try(layer, rule, own, records, (args, kwargs))
            largest = records
        return recorded(*args, **kwargs)

    return forward


def agrees(
    layer: Layer, rule: Callable[[Layer], Forward], own: Forward, records: int, given: Any, bypass: Callable[[], Any]
) -> bool:
    """Whether a rule computes and records for these arguments what the layer's own forward computes."""
    try:
        with bypass(), _undisturbed(layer):
            _try(layer, rule, Inside(layer.module, own), records, given)
    except (ValueError, RuntimeError, TypeError, IndexError, AttributeError, KeyError):
        return False
    return True


def tried(
    layer: Layer,
    rule: Callable[[Layer], Forward],
    instead: Forward,
    bypass: Callable[[], Any],
    announce: Callable[[], None],
) -> Forward:
    """What a rule makes of a layer, if it agrees with the layer's own forward on the first two records or more.

    Until then, and if it does not, `instead`. `announce` is called when it is known that it does not.
    """
    own, recorded = layer.module.forward, rule(layer)
    fits: bool | None = None

    def forward(*args: Any, **kwargs: Any) -> Any:
        nonlocal fits
        records = records_of((args, kwargs)) or 0
        if fits is None and records > 1:
            fits = agrees(layer, rule, own, records, (args, kwargs), bypass)
            if not fits:
                announce()
        return (recorded if fits else instead)(*args, **kwargs)

    return forward


def _wrong(layer: Layer, reason: str) -> ValueError:
    return ValueError(f"{layer.name}: the rule registered for {type(layer.module).__name__} {reason}")


@dataclass(slots=True)
class _Recorder:
    """Takes the parts of the passes that are thrown away."""

    memory: int
    anchor: Tensor
    names: dict[nn.Parameter, str]
    expected: int | None
    arguments: list[Arguments] = field(default_factory=list)
    parts: dict[str, list[Part]] = field(default_factory=dict)

    def add(self, name: str, parameter: nn.Parameter, part: Part) -> None:
        self.parts.setdefault(self.names[parameter], []).append(part)

    def takes(self, parameter: Tensor) -> bool:
        return True  # copies stand in the places of parameters

    def take(self, like: Tensor, *shape: int) -> Tensor:
        return like.new_empty(shape)

    def scratch(self, like: Tensor, size: int) -> Tensor:
        return like.new_empty(size)

    def reserve(self, size: int) -> bool:
        return True


@dataclass(frozen=True, slots=True, eq=False)
class _Both:
    """Outputs of the layer's own forward and of the rule's, for the same inputs and the same copies of parameters."""

    layer: Layer
    records: int
    own: list[Tensor]
    made: list[Tensor]
    recorded: dict[str, Tensor]  # the parameters that the rule records
    passed: list[Tensor]  # inputs, and parameters of layers inside: the rule passes gradients on to these
    recorder: _Recorder


def _try(layer: Layer, rule: Callable[[Layer], Forward], own: Inside, records: int, given: Any) -> None:
    names = {parameter: name for name, parameter in layer.module.named_parameters()}
    anchor = torch.zeros_like(layer.recorder.anchor, requires_grad=True)
    recorder = _Recorder(layer.recorder.memory, anchor, names, layer.recorder.expected)
    made = Inside(layer.module, rule(Layer(layer.name, layer.module, layer.trained, recorder)))
    copies = {name: full(p.detach().clone()).requires_grad_(p.requires_grad) for p, name in names.items()}
    inputs, arguments = _copied(given)
    expected, found = _outputs(own, copies, arguments), _outputs(made, copies, arguments)
    if not all(bool(torch.isfinite(each).all()) for each in expected):
        return  # the norms of this pass will not be finite either, which the engine says
    _compare_outputs(layer, expected, found)
    pairs = [(ours, theirs) for ours, theirs in zip(expected, found, strict=True) if ours.requires_grad]
    if not pairs:
        return
    trained = {name: copy for name, copy in copies.items() if copy.requires_grad}
    both = _Both(
        layer, records, [ours for ours, _ in pairs], [theirs for _, theirs in pairs],
        {name: copy for name, copy in trained.items() if name in layer.trained},
        [*inputs, *(copy for name, copy in trained.items() if name not in layer.trained)], recorder,
    )  # fmt: skip
    directions = _directions(both.own)
    _compare_gradients(both, directions)
    _compare_records(both, directions[0])


def _compare_outputs(layer: Layer, expected: list[Tensor], found: list[Tensor]) -> None:
    alike = [each.shape for each in found] == [each.shape for each in expected]
    if not alike or not all(_alike(a, b, _norm([a])) for a, b in zip(expected, found, strict=True)):
        raise _wrong(layer, "returns something else than the layer's own forward: it must compute the same")
    if any(a.requires_grad and not b.requires_grad for a, b in zip(expected, found, strict=True)):
        raise _wrong(layer, "records no gradient: take the parameters from layer.per_record or layer.value")


def _compare_gradients(both: _Both, directions: list[Tensor]) -> None:
    """The sum of what was recorded of a parameter, and what is passed on, are the gradients of the batch."""
    expected = _gradients(both.own, [*both.recorded.values(), *both.passed], directions)
    found = _gradients(both.made, [*both.passed, both.recorder.anchor], directions)
    scale = _norm([*directions, *expected])
    for name, sought in zip(both.recorded, expected, strict=False):
        parts = both.recorder.parts.get(name, [])
        total = torch.zeros_like(sought)
        for part in parts:
            if part.records != both.records:
                reason = (
                    f"records {part.records} gradients of {name} for {both.records} records: one for each, in order"
                )
                raise _wrong(both.layer, reason)
            part.add_to(total, torch.ones(part.records, dtype=total.dtype, device=total.device))
        if not _alike(sought, total, scale):
            what = "other gradients" if parts else "no gradient"
            raise _wrong(both.layer, f"records {what} of {name}: their sum must be the gradient of the batch")
    if not all(_alike(a, b, scale) for a, b in zip(expected[len(both.recorded) :], found, strict=False)):
        raise _wrong(both.layer, "passes on another gradient to its inputs than the layer's own forward")


def _compare_records(both: _Both, direction: Tensor) -> None:
    """What was recorded of the first and the last record is the gradient of its row of the first output."""
    if len(direction) != both.records:
        shape = tuple(direction.shape)
        raise _wrong(both.layer, f"cannot be tried: an output of shape {shape} has no row for each record")
    both.recorder.parts.clear()
    _gradients(both.made[:1], [*both.passed, both.recorder.anchor], [direction])
    for record in sorted({0, both.records - 1}):
        row = torch.zeros_like(direction)
        row[record] = direction[record]
        expected = _gradients(both.own[:1], list(both.recorded.values()), [row])
        scale = _norm([row, *expected])
        for (name, copy), sought in zip(both.recorded.items(), expected, strict=True):
            if name not in both.recorder.parts:
                continue  # its gradient is zero: the sums agreed
            with torch.no_grad():
                part = join(both.recorder.parts[name], copy.numel(), copy.dtype, both.recorder)
                found = part.instantiate(record, record + 1, torch.float64).view(copy.shape)
                bound = float(part.squared_norms()[record])
            if not _alike(sought, found, scale):
                reason = (
                    f"records another gradient of {name} for record {record}: row i must be the gradient of record i"
                )
                raise _wrong(both.layer, reason)
            if bound < float(found.square().sum()) * (1 - 1e-6):
                raise _wrong(both.layer, f"bounds the norm of a gradient of {name} by less than it is")


def _gradients(outputs: Sequence[Tensor], of: Sequence[Tensor], directions: Sequence[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(
        outputs, of, directions, retain_graph=True, allow_unused=True, materialize_grads=True,
    )) if of else []  # fmt: skip


def _alike(expected: Tensor, found: Tensor, scale: float) -> bool:
    return _norm([expected.double() - found.double()]) <= _DIFFERENCE * _norm([expected]) + _CANCELLED * scale


def _norm(tensors: Sequence[Tensor]) -> float:
    return float(torch.stack([each.detach().double().norm() for each in tensors]).norm())


def _directions(outputs: Sequence[Tensor]) -> list[Tensor]:
    """A gradient for each output, drawn apart from all generators that the training draws from."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(each.shape, generator=generator).to(each) for each in outputs]


def _copied(given: Any) -> tuple[list[Tensor], Any]:
    """Tensors of numbers that are given, outside of the graph, and the arguments made of them."""
    copies: dict[int, Tensor] = {}  # a tensor that is given twice stays one

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
            return leaf
        return copies.setdefault(id(leaf), full(leaf.detach().clone()).requires_grad_())

    arguments = pytree.tree_map(copied, given)
    return list(copies.values()), arguments


def _outputs(inside: Inside, parameters: dict[str, Tensor], arguments: Any) -> list[Tensor]:
    named = {f"module.{name}": value for name, value in parameters.items()}
    returned = torch.func.functional_call(inside, named, *arguments)
    return [leaf for leaf in pytree.tree_leaves(returned) if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def _rows(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dim() > 0


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor


@contextmanager
def _undisturbed(layer: Layer) -> Iterator[None]:
    """Without dropout and autocast, and so that the training draws the random numbers that it would draw without it.

    What is saved here is kept from `torch.utils.checkpoint`, which counts what a forward saves.
    """
    before, modes = Generators.now(), [(each, each.training) for each in layer.module.modules()]
    try:
        for each, _ in modes:
            each.training = False
        with exactly(layer.recorder.anchor.device.type), saved_tensors_hooks(_as_it_is, _as_it_is):
            yield
    finally:
        for each, mode in modes:
            each.training = mode
        before.restore()
