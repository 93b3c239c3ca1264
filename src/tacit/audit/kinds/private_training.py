"""Attacks on a private training: who was trained on, seen from the finished model. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tacit import tasks
from tacit.audit.canaries import audit_canaries
from tacit.audit.finding import Claim, Cost, Finding
from tacit.audit.mechanisms import Effort, audit_clipping
from tacit.audit.membership import audit_membership, run_trials
from tacit.audit.steps import Attacks, Proved, Scope, Step, named
from tacit.dp.gaussian import gaussian_epsilon
from tacit.dp.release import GaussianEvent
from tacit.training.plan import Plan
from tacit.training.settings import Settings
from tacit.training.task import Task

_TESTS = 5  # lower bounds: the noise, the canaries, and three attacks on membership
_WIDTH = 4
_FEWEST = 40  # records
_GUESSES = 1000  # at least, of canaries, where there are few records
_AGAINST = "for each record, against whoever has the model, and every model stored on the way"


def attacks(settings: Settings, scope: Scope) -> Attacks:
    """Membership of the file's own records, canaries in its own plan, and its noise."""
    task = tasks.make_training(settings.task, settings.seed, settings.task_options)
    if len(task.records) < _FEWEST:
        raise ValueError(f"the task has {len(task.records)} records, an audit needs {_FEWEST} or more")
    plan = settings.plan(len(task.records))
    confidence = scope.confidence(_TESTS)
    steps = [
        Step("canaries", lambda: [_canaries(plan, scope, confidence)]),
        Step("membership inference", lambda: _membership(task, settings, plan, scope, confidence)),
        Step("cost in utility", lambda: _utility(task, settings, plan, scope)),
    ]
    not_tested = [
        "an attacker who sees the model after every step: a proof covers him, these attacks do not use it",
        "floating-point noise, bit by bit, in the tier fast",
    ]
    if plan.noise == "gaussian":
        steps.insert(0, Step("noise and clipping of a step", lambda: [_noise(plan, scope, confidence)]))
    else:
        not_tested.append("a single step of Laplace noise; the canaries cover the whole training")
    ledger, epsilon = plan.ledger(plan.steps), plan.epsilon_after(plan.steps)
    promise = Proved.of("model", ledger, epsilon, plan.delta, against=_AGAINST, method=plan.method)
    words = (
        f"private SGD: gradients clipped to {plan.clip:g}, {plan.noise} noise of {plan.initial_noise:.4g} times that, "
        f"tier {plan.drawn}"
    )
    return Attacks(words, steps, [promise], not_tested)


def _noise(plan: Plan, scope: Scope, confidence: float) -> Finding:
    """One step on a whole sample: its price without the luck of not being in it."""
    from tacit.audit.own_training import noisy_sums

    multiplier = _paid(plan, plan.steps - 1)
    claim = Claim(gaussian_epsilon(multiplier, plan.delta), plan.delta, "record", plan.relation)
    sums = noisy_sums(plan, _WIDTH, scope.number("noise of a step"))
    effort = Effort(scope.pick(24_000, 200_000), confidence)
    found = audit_clipping(sums, claim, clip=plan.clip, width=_WIDTH, sizes=(1, 4), effort=effort)
    words = f"noise of {multiplier:.4g} times the clipping norm on one sum, tier {plan.drawn}"
    return named(found, "Noise and clipping of a step", words, "whoever sees one step's sum")


def _paid(plan: Plan, step: int) -> float:
    """The noise multiplier of a step's sum that the ledger pays for: of the event, less what the noisy count takes."""
    event = plan.event(step)
    assert isinstance(event, GaussianEvent)  # noqa: S101  # Laplace noise is audited as a whole
    if plan.adapt is None:
        return event.noise_multiplier
    return float((event.noise_multiplier**-2 - (2 * plan.count_noise * plan.batch) ** -2) ** -0.5)


def _canaries(plan: Plan, scope: Scope, confidence: float) -> Finding:
    from tacit.audit.inversion import one_thread
    from tacit.audit.own_training import canary_plan, canary_training

    small = canary_plan(plan, min(plan.records, scope.pick(1200, 3000)), scope.pick(150, 2000))
    runs = max(scope.pick(8, 16), -(-_GUESSES // small.records))
    train = canary_training(small, scope.number("canaries"))
    rng = scope.rng("coins of canaries")
    with one_thread():
        found = audit_canaries(
            train, canaries=small.records, delta=plan.delta, rng=rng, runs=runs, confidence=confidence
        )
    epsilon = small.epsilon_after(small.steps)
    return Finding(
        attack="Private SGD, end to end: canaries in the finished model",
        adversary="whoever sees the trained model",
        sees="the weights; made the canaries",
        protection=f"Private SGD, end to end: {small.steps} steps with the file's noise, sampling and clipping on "
        f"{small.records} records that are made to be found",
        proved=Claim(epsilon, plan.delta, "record", plan.relation),
        audited=found,
        not_tested=(
            f"epsilons above {math.log(found.samples / 4):.2g} by canaries: {found.samples} guesses cannot show more",
        ),
    )


def _membership(task: Task, settings: Settings, plan: Plan, scope: Scope, confidence: float) -> Sequence[Finding]:
    """Each model is trained on a random half of some of the file's own records, at about the file's epsilon."""
    from tacit.audit.own_training import Subject, resized

    records = min(plan.records, scope.pick(400, 1500))
    pool = np.random.default_rng([scope.seed, 31]).permutation(plan.records)[:records]
    half = _half(plan, records, scope)
    models = scope.pick(12, 24)
    seed = scope.number("membership") % 10**9
    off, on = (Subject(task, settings, half, pool, private=private) for private in (False, True))
    trials = [run_trials(subject.train, records, models=models, seed=seed) for subject in (off, on)]
    trained = [resized(half, int(size)) for size in np.unique(trials[1].took_part.sum(axis=1))]  # as each was
    epsilon = max(each.epsilon_after(each.steps) for each in trained)
    claim = Claim(epsilon, plan.delta, "record", plan.relation)
    words = (
        f"private SGD, {half.steps} steps on half of {records} records of the file's own task, noise of "
        f"{half.initial_noise:.4g}"
    )
    found = audit_membership(trials[0], trials[1], protection=words, proved=claim, confidence=confidence)
    return [replace(each, attack=f"Private SGD: {each.attack}") for each in found]


def _half(plan: Plan, records: int, scope: Scope) -> Plan:
    """The plan for half of the records: smaller batches, and noise for about the file's epsilon."""
    half = max(2, records // 2)
    batch = max(1, min(plan.batch, half // 2))
    small = _smaller(plan, half, batch)
    small = replace(small, epochs=max(1, min(plan.epochs, scope.pick(150, 3000) // small.steps_an_epoch)))
    return replace(small, epsilon=None, noise_multiplier=small.initial_noise)


def _smaller(plan: Plan, records: int, batch: int) -> Plan:
    """With the same noise on the count of unclipped records, whatever the batch."""
    return replace(plan, records=records, batch=batch, physical=None, count_noise=plan.count_noise * plan.batch / batch)


def _utility(task: Task, settings: Settings, plan: Plan, scope: Scope) -> list[Cost]:
    """The task's figures on public data after the file's training, or the first steps of a long one."""
    from tacit.audit.own_training import Subject

    epochs = max(1, min(plan.epochs, scope.pick(200, 100_000) // plan.steps_an_epoch))
    same = replace(plan, epsilon=None, noise_multiplier=plan.initial_noise, epochs=epochs)
    everybody = np.arange(plan.records)
    figures = []
    for private in (False, True):
        subject = Subject(task, settings, same, everybody, private=private)
        subject.train(everybody, scope.number("utility") % 10**9)
        figures.append(subject.figures[0])
    after = f"after {epochs} epoch" + "s" * (epochs > 1)
    return [Cost(f"{name} {after}", figures[0][name], figures[1][name]) for name in figures[0] if name in figures[1]]
