"""Attacks on a private training: who was trained on, for an observer of every step and for the finished model.

Needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.audit.attacks.mechanisms import Effort, judged
from tacit.audit.attacks.membership import audit_membership, run_trials
from tacit.audit.finding import Cost, Finding
from tacit.audit.scope import Scope
from tacit.audit.steps import Attacks, Proved, Step
from tacit.audit.tradeoff import Curve, gaussian_curve
from tacit.dp.claim import Claim
from tacit.dp.gaussian import gaussian_epsilon
from tacit.dp.release import GaussianEvent
from tacit.kinds.private_training.attacks.few_records import guess_with_few
from tacit.kinds.private_training.attacks.observer import Training
from tacit.kinds.private_training.attacks.plan_sizes import of_each, with_units
from tacit.kinds.private_training.attacks.single_steps import Learned, guess_steps, paid, step_curve
from tacit.kinds.private_training.attacks.truncated import filled, truncated_like
from tacit.kinds.private_training.attacks.whole_training import Work, guess_trainings, training_plan
from tacit.kinds.private_training.owners import Planned, planned
from tacit.kinds.private_training.settings import Settings
from tacit.kinds.private_training.task import Task
from tacit.kinds.private_training.tasks import load as tasks
from tacit.training.ownership import Indices, of_ids
from tacit.training.plan import Plan

_FINDINGS = 7  # that test a claim: single steps, two with few records, whole trainings, three attacks on membership
_FEWEST = 40  # records or owners
_FEWEST_STEPS = 100  # of an experiment
_FEWEST_GUESSES = 100  # in whole trainings
_LARGEST_PASS = 2 * 10**8  # numbers in the gradients of all canaries of a step
_MOST_STEPS = 3_000, 30_000  # of an experiment: a model of few numbers has few canaries a step
_EXACT, _FAST = 2 * 10**6, 10**9  # numbers of noise that a quick experiment draws, by tier
_AGAINST = "against anyone who has the model, and every model stored on the way"
_NOT_TESTED = (
    "floating-point noise, bit by bit, in the tier fast",
    "whether the layers' rules record the true gradient of a record: canaries replace it behind them",
    "gradients along several coordinates of one tensor at once",
    "changes of the model outside its optimizer",
)


def attacks(settings: Settings, scope: Scope) -> Attacks:
    """Canaries under the eyes of an observer of every step, membership of the file's own records, and the cost."""
    task = tasks.make_training(settings.task, settings.seed, settings.task_options)
    if len(task.records) < _FEWEST:
        raise ValueError(f"the task has {len(task.records)} records, an audit needs {_FEWEST} or more")
    made = planned(settings, task.records)
    plan = made.plan
    if plan.units < _FEWEST:
        raise ValueError(f"the task has {plan.units} owners, an audit needs {_FEWEST} or more")
    if not Training(task, settings, 1).sizes():
        raise ValueError(f"the model of {settings.task} has no parameter that is trained: there is nothing to audit")
    confidence = scope.confidence(_FINDINGS + (plan.truncate is not None))
    steps = [
        Step("canaries, every step observed", lambda: _observed(task, settings, plan, scope, confidence)),
        Step("membership inference", lambda: _membership(task, settings, made, scope, confidence)),
        Step("cost in utility", lambda: _utility(task, settings, made, scope)),
    ]
    ledger, epsilon = plan.ledger(plan.steps), plan.epsilon_after(plan.steps)
    promise = Proved.of(
        "model", ledger, epsilon, plan.delta, against=f"for each {plan.unit}, {_AGAINST}", method=plan.method
    )
    words = (
        f"private SGD: gradients of {plan.unit}s clipped to {plan.clip:g}, {plan.noise} noise of "
        f"{plan.initial_noise:.4g} times that, tier {plan.drawn}"
    )
    return Attacks(words, steps, [promise], _NOT_TESTED)


@dataclass(frozen=True, slots=True)
class _Own:
    """The file's own training, and how hard to try on it."""

    training: Training
    plan: Plan
    tensors: tuple[str, ...]
    size: int
    scope: Scope
    effort: Effort  # of a finding

    def canaries(self, most: int) -> int:
        return max(len(self.tensors), min(self.size, most, _LARGEST_PASS // (self.size * of_each(self.plan))))

    @property
    def affordable(self) -> int:
        """Steps of an experiment whose noise is drawn in reasonable time."""
        drawn = _EXACT if self.plan.drawn == "secure" else _FAST
        return max(_FEWEST_STEPS, min(self.scope.pick(*_MOST_STEPS), drawn * self.scope.pick(1, 10) // self.size))


def _observed(task: Task, settings: Settings, plan: Plan, scope: Scope, confidence: float) -> list[Finding]:
    training = Training(task, settings, plan.batch)
    sizes = training.sizes()
    own = _Own(training, plan, tuple(sizes), sum(sizes.values()), scope, Effort(0, confidence))
    steps, learned = _steps(own)
    return [steps, *_few(own), _trainings(own, learned)]


def _steps(own: _Own) -> tuple[Finding, Learned]:
    """Canaries of every tensor in single steps, against the curve of a step without the luck of not being sampled."""
    plan, scope, rng = own.plan, own.scope, own.scope.rng("single steps")
    canaries = own.canaries(scope.pick(256, 1024))
    largest = scope.pick(4 * 10**9, 4 * 10**10) // (canaries * own.size)
    steps = min(max(_FEWEST_STEPS, min(scope.pick(60_000, 400_000) // canaries, largest)), own.affordable)
    guesses, learned, small = guess_steps(own.training, plan, canaries, steps, rng)
    moved = ("the optimizer receives a second gradient for the same sample",) * (guesses.moves > 1)
    multiplier = paid(small, 0)
    found = judged(
        "Single steps: canaries in each tensor of the file's own model",
        _step_claim(small, multiplier),
        step_curve(small),
        [guesses.of(tensor, rng) for tensor in (None, *range(len(own.tensors)))],
        own.effort,
        gaussian=plan.noise == "gaussian",
        names=("all tensors", *own.tensors),
    )
    words = (
        f"Single steps: {plan.noise} noise of {multiplier:.4g} times the clipping norm, tier {plan.drawn}; {steps} "
        f"steps with {canaries} canaries in {len(own.tensors)} tensors{_filled(small)}"
    )
    return replace(_seen(found, "a step", words), broken=moved, watched=steps), learned


def _few(own: _Own) -> list[Finding]:
    """A canary alone, and among records that oppose it: one guess a step, by the sum and the clipping norm.

    With `truncate` also among as many as a batch holds: if that were cut, another record would make room for it.
    """
    plan, found = own.plan, []
    steps = min(own.scope.pick(800, 4000), own.affordable)
    casts = [(0, "a canary or nobody"), (3, "a canary or not, among three records that oppose it")]
    if plan.truncate is not None:
        casts.append((filled(plan), "a canary or not, among as many records as fill a batch"))
    for opposing, words in casts:
        without, with_it, small = guess_with_few(own.training, plan, opposing, steps, own.scope.rng(words))
        event = small.event(0)
        gaussian = isinstance(event, GaussianEvent)
        multiplier = event.noise_multiplier if isinstance(event, GaussianEvent) else paid(small, 0)
        made = judged(
            f"Single steps: {words}",
            _step_claim(small, multiplier),
            gaussian_curve(multiplier) if gaussian else step_curve(small),
            [(without, with_it)],
            own.effort,
            gaussian=gaussian,
        )
        told = f"Single steps: {words}; {plan.noise} noise of {multiplier:.4g} times the clipping norm, {steps} steps"
        found.append(_seen(made, "a step", told))
    return found


def _step_claim(small: Plan, multiplier: float) -> Claim:
    if small.noise == "gaussian":
        return Claim(gaussian_epsilon(multiplier, small.delta), small.delta, small.unit, small.relation)
    return Claim(1 / multiplier, 0.0, small.unit, small.relation)


def _trainings(own: _Own, learned: Learned) -> Finding:
    """The whole training, or the first steps of a long one, with its sampling."""
    plan, scope = own.plan, own.scope
    longest, canaries = min(scope.pick(150, 600), own.affordable), own.canaries(scope.pick(500, 1000))
    steps = training_plan(plan, canaries, longest).steps
    most = min(scope.pick(3000, 30_000), own.affordable) // steps
    enough = max(2, -(-_FEWEST_GUESSES // canaries))
    work = Work(max(enough, min(-(-scope.pick(2000, 16_000) // canaries), most)), canaries, longest)
    pairs, small = guess_trainings(own.training, plan, learned, work, scope.rng("whole trainings"))
    guesses = sum(map(len, pairs[f"all {plan.unit}s"]))
    found = judged(
        "Private SGD, end to end: canaries, every step observed",
        Claim(small.epsilon_after(small.steps), plan.delta, plan.unit, plan.relation),
        Curve.of(small.ledger(small.steps), small.method),
        list(pairs.values()),
        own.effort,
        names=list(pairs) if len(pairs) > 1 else (),
        not_tested=(f"epsilons above {math.log(guesses / 4):.2g} by canaries: {guesses} guesses cannot show more",),
    )
    words = (
        f"Private SGD, end to end: {small.steps} steps with the file's noise, sampling and clipping; {work.trainings} "
        f"trainings with {canaries} canaries{_filled(small)}"
    )
    return _seen(found, "every step", words)


def _filled(small: Plan) -> str:
    return "" if small.truncate is None else f", batches filled up to {small.truncate} records"


def _seen(found: Finding, when: str, words: str) -> Finding:
    sees = f"what the optimizer receives and the clipping norm, at {when}; made the canaries, knows all other records"
    return replace(found, adversary="an observer of every step", sees=sees, protection=words)


def _membership(task: Task, settings: Settings, made: Planned, scope: Scope, confidence: float) -> Sequence[Finding]:
    """Each model is trained on a random half of some of the file's own records, or of their owners, at about the file's
    epsilon."""
    from tacit.kinds.private_training.attacks.own_training import Subject, resized

    plan = made.plan
    units = min(plan.units, scope.pick(400, 1500))
    chosen = np.random.default_rng([scope.seed, 31]).permutation(plan.units)[:units]
    everybody = _units(made)
    pool = [everybody[each] for each in chosen]
    half = _half(plan, units, scope)
    models = scope.pick(12, 24)
    seed = scope.number("membership") % 10**9
    off, on = (Subject(task, settings, half, pool, private=private) for private in (False, True))
    trials = [run_trials(subject.train, units, models=models, seed=seed) for subject in (off, on)]
    trained = [resized(half, int(size)) for size in np.unique(trials[1].took_part.sum(axis=1))]  # as each was
    epsilon = max(each.epsilon_after(each.steps) for each in trained)
    claim = Claim(epsilon, plan.delta, plan.unit, plan.relation)
    words = (
        f"Private SGD on half of the {plan.unit}s: {half.steps} steps on half of {units} {plan.unit}s of the file's "
        f"own task, noise of {half.initial_noise:.4g}"
    )
    found = audit_membership(trials[0], trials[1], protection=words, proved=claim, confidence=confidence)
    return [replace(each, attack=f"Private SGD: {each.attack}") for each in found]


def _units(made: Planned) -> Sequence[Indices]:
    """The records of each unit."""
    if made.owners is None:
        return list(np.arange(made.plan.records)[:, None])
    return of_ids(made.owners).records


def _half(plan: Plan, units: int, scope: Scope) -> Plan:
    """The plan for half of the records or owners: smaller batches, and noise for about the file's epsilon."""
    half = max(2, units // 2)
    batch = max(1, min(plan.batch, half // 2))
    small = truncated_like(plan, with_units(plan, half, batch, physical=None))
    small = replace(small, epochs=max(1, min(plan.epochs, scope.pick(150, 3000) // small.steps_an_epoch)))
    return replace(small, epsilon=None, noise_multiplier=small.initial_noise)


def _utility(task: Task, settings: Settings, made: Planned, scope: Scope) -> list[Cost]:
    """The task's figures on public data after the file's training, or the first steps of a long one."""
    from tacit.kinds.private_training.attacks.own_training import Subject

    plan = made.plan
    epochs = max(1, min(plan.epochs, scope.pick(200, 100_000) // plan.steps_an_epoch))
    same = replace(plan, epsilon=None, noise_multiplier=plan.initial_noise, epochs=epochs, truncate=None)
    same = truncated_like(plan, same)
    everybody = np.arange(plan.units)
    figures = []
    for private in (False, True):
        subject = Subject(task, settings, same, _units(made), private=private)
        subject.train(everybody, scope.number("utility") % 10**9)
        figures.append(subject.figures[0])
    after = f"after {epochs} epoch" + "s" * (epochs > 1)
    return [Cost(f"{name} {after}", figures[0][name], figures[1][name]) for name in figures[0] if name in figures[1]]
