"""What a private training will cost and do, before it begins."""

from __future__ import annotations

from tacit.dp.accounting import strength
from tacit.kinds.private_training import boundary
from tacit.kinds.private_training.settings import Settings
from tacit.report.forecast import Forecast, in_sentences
from tacit.training.monitor import Monitor
from tacit.training.plan import Plan
from tacit.training.truncation import log2_exceeding

_CLIPPED = {"flat": "", "automatic": " automatically", "per_layer": " layer by layer, together"}


def forecast(settings: Settings, plan: Plan, parameters: int) -> Forecast:
    """What the settings come to by their plan and for a model of so many parameters."""
    Monitor(plan, method=settings.monitor.method, budget=settings.monitor.budget)  # refuses what a run would refuse
    epsilon, first = plan.epsilon_after(plan.steps), plan.epsilon_after(plan.steps_an_epoch)
    ledger = plan.ledger(plan.steps)
    multiplier = plan.noise_of(0)  # of the gradients: with an adaptive norm the count takes its part
    deviation = multiplier * plan.clip / plan.batch
    delta = plan.delta
    figures = {
        "records": plan.records,
        **({} if plan.owners is None else {"owners": plan.owners, "unit": plan.unit}),
        "parameters": parameters,
        "steps": plan.steps,
        "sampling_probability": plan.probability,
        "noise_multiplier": plan.initial_noise,
        "epsilon": epsilon,
        "epsilon_of_first_epoch": first,
        "delta": delta,
        "tier": plan.drawn,
    }
    costs = [
        f"the training: epsilon {epsilon:.4g} at delta {delta:.3g} (unit {plan.unit}, {plan.relation}), "
        f"{strength(epsilon)}",
        f"that is: {ledger.reading(plan.method)}",
        f"after the first epoch: epsilon {first:.4g}",
    ]
    if delta > 1 / plan.units:
        costs.append(f"delta {delta:g} is above 1 / {plan.unit}s = {1 / plan.units:.2g}: choose one well below it")
    noise = [
        f"noise multiplier {multiplier:.4g}: each step adds noise of {multiplier * plan.clip:.4g} to the sum of "
        f"gradients that are clipped{_CLIPPED[plan.clipping]} to {plan.clip:g}; to each of {parameters:,} numbers of "
        f"their mean {deviation:.3g}",
        f"the noise as a whole has a norm of about {deviation * parameters**0.5:.3g}, the mean of clipped gradients "
        f"one of at most {plan.clip:g}",
    ]
    if plan.decay is not None:
        last = plan.noise_of(plan.steps - 1)
        noise.append(f"it falls ({plan.decay}) to {last:.4g} at the last step, and each level is in the ledger")
    return in_sentences(
        f"{settings.name}: private training on {_data(plan)}, {plan.epochs} epochs, {parameters:,} parameters",
        {
            "What it costs in privacy": tuple(costs),
            "What the noise does": tuple(noise),
            "How it samples": _sampling(plan),
            "Who sees what": boundary.sentences(settings),
            "What is not protected": boundary.unprotected(settings),
            "Warnings": tuple(settings.notes()),
        },
        figures,
    )


def _data(plan: Plan) -> str:
    return f"{plan.records:,} records" + (f" of {plan.owners:,} owners" if plan.owners is not None else "")


def _sampling(plan: Plan) -> tuple[str, ...]:
    steps = [
        f"{plan.steps:,} steps, {plan.steps_an_epoch:,} an epoch; each {plan.unit} is in a sample with probability "
        f"{plan.probability:.3g}"
        if plan.sampling == "poisson"
        else f"{plan.steps:,} steps over shuffled batches: no amplification by sampling is claimed",
    ]
    if plan.truncate is not None:
        steps.append(
            f"all batches have {plan.truncate} records: larger samples are cut, with probability "
            f"{2.0 ** log2_exceeding(plan.records + 1, plan.probability, plan.truncate):.2g} a step, which is paid for"
        )
    if plan.sampling == "poisson":
        steps.append(f"samples are {plan.batch} {plan.unit}s on average; empty ones still take a step of noise")
    if plan.unit == "owner":
        steps.append(
            f"an owner in a sample adds the mean gradient of at most {plan.records_per_owner} of its records, drawn "
            "anew for each step and clipped together"
        )
    return tuple(steps)
