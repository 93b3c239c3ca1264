"""The engine: one ordinary backward pass, then the norm of each record's gradient, then the sum of clipped gradients.

    engine = Engine(model)
    loss(model(x), y).backward()                       # records; computes no ordinary gradients of parameters
    engine.add_clipped(engine.factors(engine.norms(), clip=1.0))
    engine.sum                                         # all trainable parameters in order; engine.views, one by one

Nothing here adds noise or is private by itself.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import MethodType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from tacit.training.adapters import adapter, vectors
from tacit.training.arguments import records_of, with_one_record_less
from tacit.training.checks import refuse_unfit
from tacit.training.embedding_rows import shared_ids
from tacit.training.fallback import fallback
from tacit.training.generators import Generators
from tacit.training.layers import Forward, Layer
from tacit.training.libraries import by_structure, runs_whole, takes_ids
from tacit.training.margins import gamma, unit_roundoff
from tacit.training.passes import Pass
from tacit.training.precision import exactly
from tacit.training.probe import probed, tried
from tacit.training.recognition import recognised
from tacit.training.rows import broadcasts, rows
from tacit.training.rules import rule

MEBIBYTE = 1 << 20


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)


class Recorded:
    """The forward of an instrumented layer: `recorded` while the engine listens, otherwise the layer's own.

    A compiler would trace what is recorded and reuse its memory, so that `torch.compile` is kept out of it.
    A copy of the model is of the ordinary kind: its layers get their own forward back, because a copy that called this
    one would compute with the parameters of the first.
    """

    def __init__(self, engine: Engine, module: nn.Module, recorded: Forward) -> None:
        self.replaced: Forward | None = vars(module).get("forward")
        self._engine, self._module, self._recorded = engine, module, recorded
        self._original: Forward = module.forward
        self._uncompiled: Forward | None = None
        if "torch._dynamo" in sys.modules:  # now: what a compiler traces for one model would be missing in the next
            self._uncompiled = torch.compiler.disable(recorded)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._engine.listens():
            return self._original(*args, **kwargs)
        if "torch._dynamo" not in sys.modules:
            return self._recorded(*args, **kwargs)
        if self._uncompiled is None:
            self._uncompiled = torch.compiler.disable(self._recorded)
        return self._uncompiled(*args, **kwargs)

    def __reduce__(self) -> tuple[Callable[..., Forward], tuple[Any, ...]]:
        return _ordinary, (self._module, self.replaced)


def _ordinary(module: nn.Module, replaced: Forward | None) -> Forward:
    return MethodType(type(module).forward, module) if replaced is None else replaced


class Engine:
    """Instruments a model so that a backward pass leaves the gradient of each record, to be clipped and summed.

    `reduction` is that of the loss over records: with "mean" the gradients are multiplied by the number of records in
    their backward pass. `loss_scale` is an additional factor of the loss, which is divided out. Several backward
    passes before `add_clipped` are of different records, in the order of the passes.
    `memory` is how many bytes the gradients of single records may take in one pass; layers that do not fit are
    measured without keeping them and then summed by one more product. Gradients that are written over those of a
    layer's outputs, which nobody else sees (`references`), take none. `announce` hears of layers without a rule.
    With `resize` the model runs once more, with a record less, if an argument of a layer may be of records or shared.
    With `leave_out` a record (an owner) whose gradient is not finite has a gradient of 0, and `left_out` becomes true;
    otherwise the pass is refused.

    Guarantee: with factors of `factors(norms(), clip)`, what one record adds to `sum` has at most norm `clip`: as real
    numbers, for the gradients and factors (x, g) that were recorded. What the sum over records rounds is not counted.
    Assumes: record i is row i of each layer's input, and records meet only in the sum or mean of the loss; see
    `checks.refuse_unfit` for what can be detected. One thread at a time. Parameters are frozen before, not after.

    The model keeps its class and its state_dict. It is recorded while `model.training` and gradients are enabled.
    Gradients that reach a parameter other than through its own layer are refused, because they are not clipped.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        reduction: Literal["mean", "sum"] = "mean",
        memory: int = 512 * MEBIBYTE,
        loss_scale: float = 1.0,
        announce: Callable[[str], None] = _warn,
        resize: bool = False,
        leave_out: bool = False,
    ) -> None:
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction is {reduction!r}: it must be 'mean' or 'sum' over records")
        if not (math.isfinite(loss_scale) and loss_scale > 0):
            raise ValueError(f"loss_scale is {loss_scale}: it must be positive and finite")
        if any(isinstance(vars(module).get("forward"), Recorded) for module in model.modules()):
            raise ValueError("the model has an engine already: detach it first")
        refuse_unfit(model)
        named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        self.names = tuple(name for name, _ in named)
        self.parameters = tuple(parameter for _, parameter in named)
        owners = [name.rpartition(".")[0] for name in self.names]
        self.layers = tuple(list(dict.fromkeys(owners)).index(owner) for owner in owners)  # of each parameter
        first = self.parameters[0]
        wide = torch.promote_types(first.dtype, torch.float32)
        self.sum = torch.zeros(sum(p.numel() for p in self.parameters), dtype=wide, device=first.device)
        pieces = self.sum.split([parameter.numel() for parameter in self.parameters])
        self.views = tuple(piece.view(p.shape) for piece, p in zip(pieces, self.parameters, strict=True))
        self.model = model
        self._mean = reduction == "mean"
        self._scale = float(loss_scale)
        self._announce = announce
        self._resize = resize
        self._leave_out = leave_out
        self.left_out = False  # whether there was a gradient that is not finite; no epsilon covers that
        self._pass = Pass(self.parameters, self.names, memory)
        self._bypassed = False
        self._patched: list[tuple[nn.Module, Forward | None]] = []
        self._instrument(model, "")
        if not isinstance(vars(model).get("forward"), Recorded):
            self._patch(model, model.forward)
        self._hooks = [p.register_hook(self._guard(name)) for name, p in named]

    def norms(self, order: Literal[1, 2] = 2) -> Tensor:
        """The L2 (or L1) norm of each record's gradient over all trainable parameters, in float64.

        Upper bounds: above the real norm by at most a factor of 1 + 1e-5, or 1 + 1e-12 for models in float64, where
        the gradient does not cancel to a millionth of its terms (see `margins`). The L1 norm instantiates each
        record's gradient: for small models. Derived from private data, not covered by any epsilon.
        """
        if order not in (1, 2):
            raise ValueError(f"order is {order!r}: it must be 1 or 2")
        with torch.no_grad(), exactly(self.sum.device.type):
            self._recorded()
            norms = self.whole(self._pass.total(order)).mul_(1 + gamma(4))
            finite = torch.isfinite(norms)
            if not bool(finite.all()):
                if self._leave_out:
                    self.left_out = True
                    self._pass.leave_out(~finite)
                    return self.whole(self._pass.total(order)).mul_(1 + gamma(4))
                raise FloatingPointError(
                    "gradients of single records are not finite: lower the learning rate, or look for log(0), 0/0 or "
                    "overflow in the model and the loss"
                )
            return norms

    def layer_norms(self) -> Tensor:
        """The same norms for each of `layers` by itself: [layers, records]."""
        with torch.no_grad(), exactly(self.sum.device.type):
            self._recorded()
            return self.whole(self._pass.totals(self.layers)).mul_(1 + gamma(4))

    def factors(self, norms: Tensor, clip: float, divisor: float = 1.0, *, stability: float | None = None) -> Tensor:
        """min(1, clip / norm) / divisor for each record, so that rounding cannot lift it above clip / divisor.

        With a `stability`, clip / (norm + stability) / divisor, however small the norm is.

        Why: the factor is lowered by 8u. Divisions, conversion to the sum's dtype, the number of records of a mean over
        the scale of the loss, the product with it and with the gradient round by at most 1 + u each, and
        (1 − 8u)(1 + u)⁶ < 1. A factor below the smallest normal number, where rounding is not relative, becomes 0.
        """
        if not (math.isfinite(clip) and clip > 0):
            raise ValueError(f"clip is {clip}: it must be positive and finite")
        dtype = self.sum.dtype
        lowered = clip * (1 - 8 * unit_roundoff(dtype)) / divisor
        if stability is None:
            factors = (lowered / norms.to(torch.float64)).clamp_(max=1 / divisor)
        else:
            factors = lowered / (norms.to(torch.float64) + stability)
        return factors.mul_(factors >= 2 * torch.finfo(dtype).tiny).to(dtype)

    def gather(self, starts: tuple[int, ...]) -> None:
        """Take the mean gradients of owners in place of those of records, for norms, factors and sums of this pass.

        `starts`: the first record of each owner, and how many records there are; each owner has one or more.
        """
        with torch.no_grad(), exactly(self.sum.device.type):
            records = self._recorded()
            lengths = torch.tensor([end - start for start, end in pairwise(starts)])
            if starts[0] != 0 or starts[-1] != records or bool((lengths < 1).any()):
                raise ValueError(
                    f"the backward pass saw {records} records, the batch has {starts[-1]}: the first dimension of the "
                    "model's input must be that of the records"
                )
            if records == len(lengths):
                return
            weights = self.whole(torch.ones(records, dtype=torch.float64, device=self.sum.device))
            weights = weights / torch.repeat_interleave(lengths, lengths).to(weights)
            self._pass.gather(starts, weights.to(self.sum.dtype))

    def add_clipped(self, factors: Tensor) -> None:
        """Add the sum of factors_i times the gradient of record i to `sum`, and forget the pass.

        `factors` are [records], or [parameters, records]; of owners, if the pass was gathered.
        """
        with torch.no_grad(), exactly(self.sum.device.type):
            records = self._recorded()
            if factors.shape not in ((records,), (len(self.parameters), records)):
                raise ValueError(f"factors have shape {tuple(factors.shape)}, the pass has {records} records")
            self._add(factors, self.views)
        self._pass.clear()

    def weighted(self, factors: Tensor) -> Tensor:
        """The sum of factors_i times the gradient of record i over all parameters, in a row; the pass is kept."""
        with torch.no_grad(), exactly(self.sum.device.type):
            self._recorded()
            total = torch.zeros_like(self.sum)
            pieces = total.split([parameter.numel() for parameter in self.parameters])
            self._add(factors, [piece.view(p.shape) for piece, p in zip(pieces, self.parameters, strict=True)])
            return total

    def whole(self, factors: Tensor) -> Tensor:
        """Times what makes a record's own gradient of what was recorded: the records of its mean over the scale."""
        if self._pass.owners is not None:
            return factors  # the weights of an owner's records have it
        if not self._mean:
            return factors if self._scale == 1 else factors / self._scale
        return factors * (self._pass.counts(factors) / self._scale).to(factors.dtype)

    def _add(self, factors: Tensor, views: Sequence[Tensor]) -> None:
        factors = self.whole(factors.to(self.sum.dtype))
        # A large scale may make a factor too small again.
        factors = factors * (factors.abs() >= torch.finfo(factors.dtype).tiny)
        for part, view, own in zip(self._pass.join(), views, factors.expand(len(views), -1), strict=True):
            if part is not None:
                part.add_to(view, own)

    def discard(self) -> None:
        """Forget the recorded pass, if any."""
        self._pass.clear()

    @property
    def undecided(self) -> str | None:
        """An argument of a layer that may be of records or shared: see `arguments.Arguments`."""
        found = [each.undecided or (each.unknown if self._resize else None) for each in self._pass.arguments]
        return next((each for each in found if each is not None), None)

    @property
    def attached(self) -> bool:
        """Whether the model's layers are recorded: until `detach`."""
        return bool(self._patched)

    def detach(self) -> None:
        """Give the model back as it was."""
        for module, forward in self._patched:
            del module.forward
            if forward is not None:
                module.forward = forward
        for hook in self._hooks:
            hook.remove()
        self._patched, self._hooks = [], []
        self.discard()

    def _recorded(self) -> int:
        if not self._pass.sizes:
            raise RuntimeError("no backward pass is recorded: call model.train() and loss.backward() first")
        return self._pass.records if self._pass.owners is None else self._pass.owners

    def _guard(self, name: str) -> Callable[[Tensor | None], None]:
        def refuse(gradient: Tensor | None) -> None:
            if gradient is not None and self.model.training:
                raise RuntimeError(
                    f"{name} was used outside of the forward of its own layer, so its gradient has no records: call "
                    "the layer, or put the parameter into a module of its own. For a penalty on weights take the "
                    "optimizer's weight_decay"
                )

        return refuse

    def _instrument(self, module: nn.Module, name: str) -> None:
        """Replace the forward of each layer that holds trainable parameters."""
        if not any(parameter.requires_grad for parameter in module.parameters()):
            return
        if any(module is patched for patched, _ in self._patched):
            return
        shown = name or "the model"
        own = Layer(shown, module, _own(module), self._pass)
        found = None if runs_whole(module) else rule(module) or recognised(module)
        if (scaling := adapter(module, self._bypass)) is not None:
            by_rule, holder = scaling
            vector = Layer(shown, module, vectors(module, holder), self._pass)
            self._patch(module, tried(vector, by_rule, *self._instead(module, shown)))
            self._instrument_inside(module, name, leave_out=holder)
        elif found is not None:
            self._patch(module, found.make(own) if found.built_in else probed(own, found.make, self._bypass))
            self._instrument_inside(module, name)
        elif (made := by_structure(own)) is not None:
            self._patch(module, made)
            self._instrument_inside(module, name)
        elif broadcasts(module):
            self._patch(module, rows(own, *self._instead(module, shown)))
            self._instrument_inside(module, name)
        elif _own(module) or runs_whole(module) or _unusual(module):
            self._slow(module, shown)
            self._patch(module, self._fallback(module, shown))
        else:
            self._instrument_inside(module, name)

    def _fallback(self, module: nn.Module, shown: str) -> Forward:
        inside = frozenset(path for path, parameter in module.named_parameters() if parameter.requires_grad)
        layer = Layer(shown, module, inside, self._pass)
        return shared_ids(layer, fallback(layer, self._bypass)) if takes_ids(module) else fallback(layer, self._bypass)

    def _instead(self, module: nn.Module, shown: str) -> tuple[Forward, Callable[[], Any], Callable[[], None]]:
        """What `tried` needs if a rule does not fit."""
        return self._fallback(module, shown), self._bypass, lambda: self._slow(module, shown)

    def _slow(self, module: nn.Module, shown: str) -> None:
        size = sum(each.numel() for each in module.parameters() if each.requires_grad)
        self._announce(
            f"{shown} ({type(module).__name__}) has no rule of its own: it and all inside it run once for each "
            f"record, which is slower and holds {size:,} numbers for each record. If it holds layers, put its own "
            "parameters into a small module"
        )

    def _instrument_inside(self, module: nn.Module, name: str, leave_out: str = "") -> None:
        for child_name, child in module.named_children():
            if child_name != leave_out:
                self._instrument(child, f"{name}.{child_name}" if name else child_name)

    def _patch(self, module: nn.Module, recorded: Forward) -> None:
        forward = Recorded(self, module, self._counted(recorded) if module is self.model else recorded)
        self._patched.append((module, forward.replaced))
        module.forward = forward

    def _counted(self, forward: Forward) -> Forward:
        """The forward of the whole model: how many records it is given tells its layers what is shared by all."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._pass.expected = records_of((args, kwargs))
            out = forward(*args, **kwargs)
            if self._resize and self.undecided is not None and (self._pass.expected or 0) > 1:
                self._decide(forward, (args, kwargs))
            return out

        return counted

    def _decide(self, forward: Forward, given: Any) -> None:
        """Run the model with a record less: what is of records is shorter then. What comes out is thrown away."""
        undecided, records, before = self.undecided, self._pass.expected or 0, Generators.now()
        args, kwargs = with_one_record_less(given, records)
        self._pass.expected = records - 1
        try:
            forward(*args, **kwargs)
        except Exception as error:
            raise ValueError(
                f"{undecided} is as long as the batch of {records}, and it cannot be told whether it has a row for "
                "each record: expand what all records share to one row a record, x.expand(records, *x.shape)"
            ) from error
        finally:
            self._pass.expected = records
            before.restore()

    def listens(self) -> bool:
        """Whether a layer that is called now is to be recorded."""
        if not self.model.training or not torch.is_grad_enabled() or self._bypassed:
            return False
        device = self.sum.device.type
        if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) != torch.bfloat16:
            raise RuntimeError(
                f"autocast to {torch.get_autocast_dtype(device)}: its gradients overflow or vanish without a scaler, "
                "which would change the clipping. Take dtype=torch.bfloat16, or leave autocast out"
            )
        return True

    @contextmanager
    def _bypass(self) -> Iterator[None]:
        self._bypassed, before = True, self._bypassed
        try:
            yield
        finally:
            self._bypassed = before


def _own(module: nn.Module) -> frozenset[str]:
    """Names of the trainable parameters that the module holds itself."""
    return frozenset(name for name, parameter in module.named_parameters(recurse=False) if parameter.requires_grad)


def _unusual(module: nn.Module) -> bool:
    """Whether a module computes with parameters in another way than by calling the layers that hold them."""
    return parametrize.is_parametrized(module) or any(map(_holds_only, module.children()))


def _holds_only(module: nn.Module) -> bool:
    """Whether a module is a list of parameters for its parent to use."""
    return isinstance(module, (nn.ParameterList, nn.ParameterDict)) and bool(_own(module))
