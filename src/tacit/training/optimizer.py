"""An optimizer whose steps are private: it clips, adds noise and pays, and then any torch optimizer moves the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from tacit.dp.accounting import Ledger
from tacit.dp.pricing import Method
from tacit.randomness import secure_rng
from tacit.training import checkpoint
from tacit.training.adam import tell_noise
from tacit.training.adaptive_norm import next_norm
from tacit.training.checks import refuse_gradients, refuse_unclipped
from tacit.training.contents import Contents, Versions, contents, refuse_changed, refuse_written, versions
from tacit.training.engine import Engine
from tacit.training.generators import Generators
from tacit.training.independence import Watch
from tacit.training.limits import Limits
from tacit.training.monitor import Monitor
from tacit.training.plan import Plan
from tacit.training.ranks import Alone, plainly
from tacit.training.sampler import Piece, Sampler
from tacit.training.several_optimizers import Settings, before_each_step, each_of, settings_of, step_with
from tacit.training.sums import NoisySum


class PrivateOptimizer(torch.optim.Optimizer):  # type: ignore[misc]
    """Takes the place of the optimizer in the ordinary loop; `inner` is the one that was attached, or all of them.

    `step` after each backward pass; the model moves when a sample is whole. `steps` are the moves so far, `clip_norm`
    is the norm of the next one. `unclipped` is the share of the last sample that flat clipping left: derived from
    private records and covered by no epsilon. `checking` says that the batch at hand is shown again, to see that
    records keep apart, and adds nothing: leave it out of averages, counters and schedulers.

    Guarantee: what the model's parameters show after each move is paid for in `ledger`, before the sample is looked at.
    A sample that was begun and never finished stays paid for, though nothing of it was released.
    """

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        inner: torch.optim.Optimizer,
        sum: NoisySum,
        sampler: Sampler,
        *,
        monitors: Sequence[Monitor] = (),
        watch: Watch | None = None,
        rng: Generator | None = None,
        ranks: Alone | None = None,
    ) -> None:
        # Not that of torch: groups and defaults are those of `inner`, and schedulers ask for nothing else.
        self.plan = plan
        self.engine = engine
        self.inner = inner
        self.steps = 0
        self.clip_norm = float(plan.clip)
        self.unclipped: float | None = None
        self._sum = sum
        self._sampler = sampler
        self._monitors = tuple(monitors)
        self._rng = rng or secure_rng()
        self.checking = False
        self._watch = watch  # None where nothing is checked
        self._versions: Versions = {}
        self._contents: Contents | None = None  # of what is stored and not trained, since the first batch
        self._shown: Contents | None = None  # of all that is stored, while a batch is shown again
        self._abandoned: dict[int, int] = {}  # steps whose samples were begun in vain, and how often
        self._limits = Limits(plan, self._monitors, self._cost)
        self._ranks = ranks or Alone()
        self._piece: Piece | None = None
        self._settings: Settings | None = None  # of `inner`, for a move that waits
        self._whole = False  # the sample, all but what is shown again
        self.under_way = False  # whether a sample was begun that is neither whole nor abandoned
        self._seen = self._below = 0
        self._moving = False  # by `inner`
        before_each_step(inner, self._refuse_direct)

    # --- what the ordinary loop and torch's schedulers use

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.inner.param_groups  # type: ignore[no-any-return]

    @property
    def defaults(self) -> dict[str, Any]:
        return self.inner.defaults  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"PrivateOptimizer({self.inner!r})"

    def zero_grad(self, set_to_none: bool = True) -> None:
        """There is nothing to clear: gradients of records are never kept."""

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """What torch's GradScaler asks for before it steps."""
        raise ValueError(
            "a GradScaler cannot drive a private optimizer: it scales the loss, so each record would be clipped at "
            "another norm than the plan's: leave it out, gradients are float32 here and need no scaling"
        )

    def register_step_post_hook(self, hook: Callable[..., None]) -> Any:
        """Call `hook(inner, args, kwargs)` after each move of the model, which waits while a batch is shown again."""
        return self.inner.register_step_post_hook(hook)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        raise ValueError("the parameters of a private training are fixed: attach an optimizer over all of them")

    def state_dict(self) -> dict[str, Any]:
        """That of `inner`, and under "tacit" what `state()` holds, with tensors for arrays: for `torch.save`."""
        state = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in self.state().items()}
        return {**self.inner.state_dict(), "tacit": state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()` of this class, as `restore` does; one of another optimizer has no ledger."""
        if "tacit" not in state_dict:
            raise ValueError(
                "this is the state of an ordinary optimizer, which does not say what was spent: load what state_dict() "
                "or state() of the private one gave"
            )
        self.restore(state_dict["tacit"])

    def step(self, closure: None = None) -> None:
        """Take up the last backward pass; move the model if the sample is whole."""
        if closure is not None:
            raise ValueError("a closure asks for several gradients in one step, each of which would cost: leave it out")
        piece = self._piece
        if piece is None:
            raise ValueError("step without a batch of the private loader: take batches from the loader of attach()")
        try:
            self._refuse_unprotected()
            if piece.again:
                self._compare(piece)
            else:
                self._take(piece)
        except Exception:
            self._fail()
            raise
        self._piece = None
        if self._watch is None or self._watch.asks() is None:
            self.settle()

    # --- what the loader uses

    def begin(self, piece: Piece) -> None:
        """A piece is about to be handed out. An empty sample is stepped at once: nobody will call `step` for it."""
        if self._piece is not None:
            self._fail()
            raise ValueError("the last batch was not stepped: call loss.backward() and optimizer.step() for each one")
        refuse_unclipped(self.engine.parameters, self.inner, self.engine.model)  # also before empty samples
        self._ranks.refuse_others()
        if not self.under_way:
            self._pay()
        self.checking = piece.again
        for each in (self, *each_of(self.inner)):
            each._opt_called = True  # a move may wait, or be of an empty sample: a scheduler would warn of it
        if len(piece.indices) == 0:
            self._finish()
            return
        self._piece = piece
        if self._watch is not None:
            self._versions = versions(self.engine.model)
            if self._contents is None:
                self._contents = contents(self.engine.model, leave_out=self.engine.parameters)

    def settle(self) -> None:
        """Nothing more is shown of a batch. If the sample is whole, move the model."""
        if self._shown is not None:
            try:
                refuse_changed(self._shown, contents(self.engine.model))
            except ValueError:
                self._fail()
                raise
            self._shown = None
        watch = self._watch
        if watch is not None and watch.after is not None:
            watch.after.restore()  # an optimizer or a hook may draw
        if self._whole:
            self._finish()
        if watch is not None and watch.after is not None:
            watch.after = Generators.now()
        self._settings = None

    def abandon(self) -> None:
        """Forget the sample under way, if any: it stays paid for."""
        if self.under_way:
            self._abandoned[self.steps] = self._abandoned.get(self.steps, 0) + 1
            self._limits.clear()
        self.engine.discard()
        if self._watch is not None:
            self._watch.forget()
        self._forget_sample()

    def _fail(self) -> None:
        """An error is raised: the sample under way is forgotten, and other ranks do not wait for this one."""
        self.abandon()
        self._ranks.failed()

    def _forget_sample(self) -> None:
        self._piece = self._shown = self._settings = None
        self.under_way = self._whole = False
        self._seen = self._below = 0

    # --- one step

    def _pay(self) -> None:
        """Before the sample is looked at: the event of a step is known. Noise comes before any gradient."""
        self._limits.refuse(self.steps + 1, self._abandoned)
        self.under_way = True
        self._sum.begin(self.clip_norm, self.plan.noise_of(self.steps))

    def _refuse_unprotected(self) -> None:
        """All that would leave with the model apart from the noisy sum."""
        refuse_unclipped(self.engine.parameters, self.inner, self.engine.model)
        if self._watch is not None:
            refuse_written(self.engine.model, self._versions)

    def _refuse_direct(self, *_: Any) -> None:
        if not self._moving and self.engine.attached:
            refuse_gradients(self.engine.parameters)

    def refuse_changed_contents(self) -> None:
        """Whatever is stored with the model, is not trained under noise and was written nevertheless."""
        if self._contents is not None:
            refuse_changed(self._contents, contents(self.engine.model, leave_out=self.engine.parameters))

    def _measured(self) -> Tensor:
        try:
            return self.engine.norms(order=self._sum.order)
        except FloatingPointError as error:
            raise ValueError(f"nothing was released, the model is as before: {error}") from error

    def _norms(self, piece: Piece) -> Tensor:
        """Of the records of a piece."""
        norms = self._measured()
        if len(norms) != len(piece.indices):
            raise ValueError(
                f"the backward pass saw {len(norms)} records, the batch has {len(piece.indices)}: the first dimension "
                "of the model's input must be that of the records, and the loss a mean over all of them. Several "
                "passes before a step are of different records, each of them once"
            )
        return norms

    def _take(self, piece: Piece) -> None:
        looked = self._watch is not None and self._watch.armed
        norms = self._norms(piece) if piece.starts is None or looked else torch.empty(0)
        if self._watch is not None:
            self._look(self._watch, norms)
        elif (undecided := self.engine.undecided) is not None:
            raise ValueError(
                f"{undecided} may have a row for each record or be shared by all, which is not looked at with "
                "check=False: call the model as a whole, or give what it takes a row for each record (ids[:, None])"
            )
        if piece.starts is not None:
            self.engine.gather(piece.starts)
            norms = self._measured()
        counted = len(norms) - piece.padding
        self._seen += counted
        self._below += int((norms[:counted] <= self.clip_norm).sum())
        if piece.padding:
            norms = norms.clone()
            norms[counted:] = math.inf  # by which their factors are 0
        self._sum.add(norms, self.clip_norm)
        self._whole = piece.last

    def _look(self, watch: Watch, norms: Tensor) -> None:
        """Decide whether the batch is shown again. The model moves after that, with the settings of now."""
        undecided = self.engine.undecided
        watch.look(norms, self.engine.weighted, resize=undecided is not None)
        if watch.asks() is not None:
            self.refuse_changed_contents()
            self._shown = contents(self.engine.model)
            self._settings = settings_of(self.inner)
        elif undecided is not None:
            raise ValueError(
                f"{undecided} is as long as the batch, and came up after the first step, so it cannot be told whether "
                "it has a row for each record: give the module the same arguments from the first step on"
            )

    def _compare(self, piece: Piece) -> None:
        """What was shown again must leave the gradients of the other records as they were: see `independence`."""
        try:
            norms = self._norms(piece)
        except ValueError as error:
            if not isinstance(error.__cause__, FloatingPointError):
                raise
            norms = None
        assert self._watch is not None  # noqa: S101
        self._watch.take(norms, None if norms is None else self.engine.weighted)
        self.engine.discard()

    def _finish(self) -> None:
        try:
            self._release()
        except Exception:
            self._fail()  # the model may have moved: the next sample is paid for, and gets noise of its own
            raise
        except BaseException:
            self.abandon()
            raise
        finally:
            self._moving = False
            for parameter in self.engine.parameters:
                parameter.grad = None  # the buffer is about to hold another sample
        self.steps += 1
        self._forget_sample()
        if self.steps % self.plan.steps_an_epoch == 0:
            self._ranks.epoch(self.engine.model)
        for monitor in self._monitors:
            if monitor.due(self.steps):
                monitor.tell(self.steps, self._cost(self.steps, monitor.method), monitor.method)

    def _release(self) -> None:
        """Move the model by the noisy gradient, and the clipping norm."""
        engine, clip = self.engine, self.clip_norm
        below, seen = self._ranks.step(self._alike(), [self._below, self._seen])
        self._sum.finish(clip, self.plan.noise_of(self.steps))
        for parameter, view in zip(engine.parameters, engine.views, strict=True):
            parameter.grad = view.to(parameter.dtype)  # the same memory, but for bfloat16
        tell_noise(each_of(self.inner), self.plan.noise, self.plan.noise_of(self.steps), clip, self.plan.batch)
        self._moving = True
        step_with(self.inner, self._settings)
        self.unclipped = below / seen if seen and self.plan.clipping == "flat" else None
        if self.plan.adapt is not None:
            following = next_norm(self.plan, self.plan.adapt, clip, below, seen, self._rng)
            self._ranks.share(norm := torch.tensor(following, dtype=torch.float64))
            self.clip_norm = float(norm)

    def _alike(self) -> dict[str, bytes]:
        """What must be the same on all ranks before their sums are added up."""
        return {
            "the steps that were taken": plainly([self.steps, self.clip_norm, self.abandoned]),
            "the sample": self._sampler.drawn,
            "the settings of the optimizer": plainly(self._settings or settings_of(self.inner)),
        }

    # --- what was spent

    @property
    def epoch(self) -> int:
        """Counted from 0: the epoch in which a training continues after `restore`."""
        return self.steps // self.plan.steps_an_epoch

    @property
    def budgets(self) -> list[tuple[Method, float]]:
        """At which a monitor ends the training."""
        return self._limits.budgets

    @property
    def ledger(self) -> Ledger:
        """What was paid for: all moves, the sample under way, and those that were begun in vain."""
        return self._ledger(self.steps + self.under_way)

    @property
    def abandoned(self) -> list[list[int]]:
        """How often each step was begun in vain, the sample under way included: [step, times]."""
        found = dict(self._abandoned)
        if self.under_way:
            found[self.steps] = found.get(self.steps, 0) + 1
        return [[step, count] for step, count in sorted(found.items())]

    def _ledger(self, steps: int) -> Ledger:
        ledger = self.plan.ledger(steps)
        ledger.budget, budget = None, ledger.budget  # what was spent is spent
        for step, count in self._abandoned.items():
            ledger.spend(self.plan.event(step), count)
        ledger.budget = budget
        return ledger

    def _cost(self, steps: int, method: Method) -> float:
        if not self._abandoned:
            return self.plan.epsilon_after(steps, method)
        return self._ledger(steps).epsilon(self.plan.delta, method)

    def epsilon(self, method: Method | None = None) -> float:
        """What was spent so far, at the plan's delta."""
        return self._cost(self.steps + self.under_way, method or self.plan.method)

    def report(self) -> dict[str, Any]:
        """What was done and what it cost, as plain data. What is under `not_covered` derives from private records."""
        self.refuse_changed_contents()
        plan = self.plan
        return {
            "steps": self.steps,
            "epsilon": self.epsilon(),
            "delta": plan.delta,
            "method": plan.method,
            "tier": plan.drawn,
            "noise": plan.noise,
            "noise_multiplier": plan.initial_noise,
            "sampling": plan.sampling,
            "clip_norm": self.clip_norm,
            "ledger": self.ledger.to_json(),
            "not_covered": {"unclipped": self.unclipped},
        }

    # --- resuming

    def state(self) -> dict[str, Any]:
        """Arrays and plain numbers, all but the model. Taken within a sample, it says that this one was abandoned."""
        self.refuse_changed_contents()
        return {
            "version": checkpoint.VERSION,
            "round": self.epoch,
            "steps": self.steps,
            "clip_norm": self.clip_norm,
            "abandoned": self.abandoned,
            "plan": checkpoint.fixed(self.plan),
            "initial_noise": self.plan.initial_noise,
            "ledger": self.ledger.to_json(),
            **self._sampler.state(),
            **checkpoint.store(self.inner),
        }

    def restore(self, state: dict[str, Any], *, repeated: int = 0) -> None:
        """Continue from `state`, with the model that belongs to it.

        Samples are drawn afresh. `repeated`: how many steps were taken after `state` and seen by others before they
        were lost: they are taken again, and both are paid for.
        """
        if self.steps or self.abandoned:
            raise ValueError("an optimizer is restored before its first step: attach a new one")
        try:
            self._restore(state, repeated)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"this is not the state of a private optimizer: {error!r}") from error

    def _restore(self, state: dict[str, Any], repeated: int) -> None:
        checkpoint.refuse_other(state, self.plan)
        steps, clip_norm = int(state["steps"]), float(state["clip_norm"])
        if not (0 <= steps <= self.plan.steps and math.isfinite(clip_norm) and clip_norm > 0):
            raise ValueError(f"{steps} steps with a clipping norm of {clip_norm} are no state of this plan")
        if not 0 <= repeated <= self.plan.steps - steps:
            raise ValueError(f"repeated must be from 0 to the {self.plan.steps - steps} steps left, got {repeated}")
        abandoned = {int(step): int(count) for step, count in state["abandoned"]}
        for step in range(steps, steps + repeated):
            abandoned[step] = abandoned.get(step, 0) + 1
        self._sampler.restore(state)
        checkpoint.load(self.inner, state)
        self.steps, self.clip_norm, self._abandoned = steps, clip_norm, abandoned
        self._limits.clear()
