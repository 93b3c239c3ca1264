"""Attacks on a horizontal federation: what its coordinator learns of the clients."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from tacit.audit.attacks import wire as network
from tacit.audit.attacks.inversion import Search
from tacit.audit.attacks.mechanisms import Effort
from tacit.audit.finding import Cost, Finding
from tacit.audit.scope import Scope
from tacit.audit.steps import Attacks, Proved, Step
from tacit.events import Evaluated, Event, RoundFinished
from tacit.kinds.horizontal import frames
from tacit.kinds.horizontal.attacks import gradients, own_round, variants
from tacit.kinds.horizontal.attacks.any_promise import test_of_any
from tacit.kinds.horizontal.attacks.differences import audit_differences
from tacit.kinds.horizontal.attacks.masks import audit_federation_masks
from tacit.kinds.horizontal.attacks.participations import audit_participations
from tacit.kinds.horizontal.attacks.protocol_rules import audit_fewest, audit_masking, audit_repeats
from tacit.kinds.horizontal.attacks.wire import tap_federation
from tacit.kinds.horizontal.costs import Costs, Spent
from tacit.kinds.horizontal.forecast import most_uploads
from tacit.kinds.horizontal.masked import inside_of
from tacit.kinds.horizontal.plan_words import samples_of
from tacit.kinds.horizontal.protections import find, is_built_in, price_of, protections_of
from tacit.kinds.horizontal.protections.contract import NoiseTest
from tacit.kinds.horizontal.record_level import RECORDS, against
from tacit.kinds.horizontal.record_privacy import most_answers, weighted
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg import messages

_MOST_CLIENTS = 1000  # of a round that is recorded whole
_TAPPED = 12  # clients of a round over the network
_MOST_ASKED = 64  # clients of a round in which a sum of too few is asked for
_AGAINST = {
    "local": "for each client, for replacing all its data, against everybody who sees its messages",
    "central": "for each client, for leaving its update out, against anyone who sees the sums and the model",
    "composed": "for each client, for leaving its data out, against the coordinator, who sees the sums and the vectors",
}


def attacks(settings: Settings, scope: Scope) -> Attacks:
    """What the coordinator recovers, from single messages and from sums; the noise; what it costs.

    Private training at the clients is audited by itself: all else is asked of the protection of updates alone.
    """
    task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    tasks.check_private_fit(task, settings)
    whole, settings = settings, variants.without_privacy(settings)
    _check_weights(settings, task)
    layout = Layout.of(task.model())
    costs = Costs(settings, layout.size)
    price = price_of(settings.updates, settings, layout.size)
    tests = [test for each in protections_of(settings) for test in each.tests(settings)]
    if settings.updates.promises and not is_built_in(settings.updates.name):
        tests.append(test_of_any(settings, price))
    private = whole.train.privacy is not None
    effort = Effort(confidence=scope.confidence(sum(test.bounds for test in tests) + private))
    steps, not_tested = _in_scenes(settings, scope, variants.of_scene(settings, price))
    if settings.masked:
        more, left_out = _on_sums(settings, task, scope)
        steps += more
        not_tested += left_out
    if settings.clients <= _MOST_CLIENTS:
        once = variants.one_round(settings, price, scope)
        if own_round.fits(task):
            steps.append(Step("the file's own round", lambda: _own(once, task, scope)))
        else:
            not_tested.append(f"records of the task {settings.task} itself: it does not tell the audit what they are")
        if settings.masked:
            steps.append(Step("masks", lambda: [audit_federation_masks(once, task)]))
        steps.append(Step("cost in utility", lambda: _utility(whole, task, scope)))
    else:
        not_tested.append(f"a round of all {settings.clients} clients: at most {_MOST_CLIENTS} are recorded")
    if settings.updates.protects:
        steps.append(Step("a client asked twice", lambda: [_repeats(settings, layout)]))
    for test in tests:
        if scope.quick and test.left_out is not None:
            not_tested.append(test.left_out)
        else:
            steps.append(Step(test.name, partial(_tested, test, scope, effort, task)))
    more, promised, left_out = _of_records(whole, task, scope, effort)
    steps += more
    not_tested += left_out
    promises = [_proved(spent) for spent in costs.spent(most_uploads(settings), settings.most_sums)]
    summaries = [each.summary for each in protections_of(settings) if each.summary]
    return Attacks("; ".join(summaries), steps, [*promises, *promised], not_tested)


def _of_records(
    settings: Settings, task: Task, scope: Scope, effort: Effort
) -> tuple[list[Step], list[Proved], list[str]]:
    """What private training at the clients claims, how it is audited, and what is not."""
    privacy = settings.train.privacy
    if privacy is None:
        return [], [], []
    from tacit.kinds.horizontal.attacks.record_canaries import audit_records  # needs torch, as private training does
    from tacit.kinds.horizontal.torch_tasks.task import TorchTask

    if not isinstance(task, TorchTask):
        return [], [], [f"private training of the task {settings.task}: only that of a TorchTask can be audited"]
    answers = most_answers(settings)
    plan = task.private_plan(0, settings.train, answers)
    ledger = plan.ledger()
    ledger.spend(plan.event(0), plan.steps * answers)
    made = Proved.of(
        RECORDS, ledger, ledger.epsilon(plan.delta, plan.method), plan.delta, against=against(privacy), method="pld"
    )
    return (
        [Step("planted records in whole federations", lambda: [audit_records(settings, task, scope, effort)])],
        [made],
        [],
    )


def _in_scenes(settings: Settings, scope: Scope, encrypt: dict[str, Any]) -> tuple[list[Step], list[str]]:
    """What is tried in scenes that favour the attacker, under the file's protection, and what is not."""
    scene, many = _scenes(settings, scope)
    steps: list[Step] = []
    not_tested = [
        "an attacker who combines the messages of several rounds",
        "clients that lie about their updates, and what the model itself tells those who get it",
    ]
    scenes = [
        ("gradient inversion", scene, partial(_inversion, encrypt, scene)),
        ("label inference", many, partial(_labels, encrypt, many)),
    ]
    if not scope.quick:
        scenes += [(f"gradient inversion, {wide}", wide, partial(_wider, encrypt, wide)) for wide in _axes(scope)]
    for name, asked, attack in scenes:
        reason = gradients.unfit(encrypt, asked)
        if reason is None:
            steps.append(Step(name, attack))
        else:
            not_tested.append(f"{name}, because {asked.clients} clients cannot have the file's protection: {reason}")
    reason = gradients.unfit(encrypt, gradients.Scene(clients=_TAPPED // 2))
    if reason is None:
        steps.append(Step("the wire", lambda: _wire(encrypt, scope)))
    else:
        not_tested.append(f"the wire, because {_TAPPED // 2} clients cannot have the file's protection: {reason}")
    return steps, not_tested


def _check_weights(settings: Settings, task: Task) -> None:
    """Nothing is left to attack where no client may upload: ValueError."""
    samples, most = samples_of(settings, task), settings.encrypt.pw_encrypt.largest_weight
    if weighted(settings) and samples and min(samples) > most:
        raise ValueError(
            f"every client has more samples than pw_encrypt.largest_weight = {most}, from {min(samples)} to "
            f"{max(samples)}, and is refused, so that there is nothing to audit: raise it to {max(samples)}"
        )


def _on_sums(settings: Settings, task: Task, scope: Scope) -> tuple[list[Step], list[str]]:
    """What is tried on masks and the sums that they open, and what is not, with the reason."""
    layout = Layout.of(task.model())
    steps: list[Step] = []
    not_tested = []
    try:
        nearly = variants.same_clients(settings, scope)
        Costs(nearly, layout.size)
    except ValueError as error:
        not_tested.append(f"sums over nearly the same clients: few clients cannot have the protection: {error}")
    else:
        steps.append(Step("sums subtracted", lambda: _subtracted(nearly, task)))
        steps.append(Step("masks of two rounds", lambda: [_masking(nearly, task)]))
    if settings.round.participations is not None:
        try:
            few = variants.few_sampled(settings, scope)
            Costs(few, layout.size)
        except ValueError as error:
            not_tested.append(f"the same clients in every round: few clients cannot have the protection: {error}")
        else:
            steps.append(Step("the same clients in every round", lambda: [_every_round(few, layout)]))
    if settings.sampled <= _MOST_ASKED and _complete(settings, layout.size):
        steps.append(Step("a sum of too few", lambda: [_too_few(settings, layout)]))
    else:
        not_tested.append(f"a sum of too few: more than {_MOST_ASKED} clients, or a sparse graph")
    return steps, not_tested


def _tested(test: NoiseTest, scope: Scope, effort: Effort, task: Task) -> list[Finding]:
    return [test.find(scope, effort, task)]


def _proved(spent: Spent) -> Proved:
    method = "pld" if spent.view == "local" else "rdp"
    what = " and ".join(spent.covers)
    return Proved.of(
        what,
        spent.ledger,
        spent.epsilon,
        spent.delta,
        against=_AGAINST[spent.view],
        method=method,  # type: ignore[arg-type]
    )


# --- the scenes of gradient inversion


def _scenes(settings: Settings, scope: Scope) -> tuple[gradients.Scene, gradients.Scene]:
    """A few clients for images, where a search takes long, and more for labels."""
    searched = any("DLG" in attack for attack, _ in settings.updates.inversions)
    seed = scope.number("scene") % 10**6
    few = gradients.Scene(
        clients=max(3, min(settings.sampled, 10)),
        federations=scope.pick(1 if searched else 2, 4),
        search=Search(scope.pick(60, 150), scope.pick(1, 2), seed=scope.seed),
        seed=seed,
    )
    return few, gradients.Scene(clients=40, hidden=64, federations=scope.pick(1, 4), seed=seed)


def _axes(scope: Scope) -> list[gradients.Scene]:
    """More clients, and more records a client."""
    seed = scope.number("axes") % 10**6
    search = Search(iterations=60, restarts=1, seed=scope.seed)
    return [
        gradients.Scene(clients=clients, batch=batch, federations=1, search=search, seed=seed)
        for clients, batch in ((40, 1), (10, 8), (40, 8))
    ]


def _inversion(encrypt: dict[str, Any], scene: gradients.Scene) -> list[Finding]:
    if not find(encrypt["encrypt_type"]).protects:
        return gradients.audit_unprotected(scene)
    return gradients.audit_gradients(encrypt, scene)


def _wider(encrypt: dict[str, Any], scene: gradients.Scene) -> list[Finding]:
    """The same in another scene, which its name tells."""
    where = f"{scene.clients} clients with {scene.batch} record" + "s" * (scene.batch > 1)
    return [replace(found, attack=f"{found.attack}, {where}") for found in _inversion(encrypt, scene)]


def _labels(encrypt: dict[str, Any], scene: gradients.Scene) -> list[Finding]:
    found = gradients.audit_label_inference(encrypt, scene)
    return [found if find(encrypt["encrypt_type"]).protects else replace(found, on=None)]


def _wire(encrypt: dict[str, Any], scope: Scope) -> list[Finding]:
    """A round over loopback, tapped: few clients, half of which are asked to take part."""
    settings = Settings.model_validate(
        {
            "task": "digits",
            "rounds": 1,
            "clients": _TAPPED,
            "start_fl_job_threshold": _TAPPED // 2,
            "encrypt": encrypt,
            "seed": scope.number("the wire") % 10**6,
        }
    )
    task = tasks.make(settings.task, settings.clients, settings.seed, {})
    off, on = (tap_federation(settings, task, secure=secure) for secure in (False, True))
    return [network.audit_reading(off, on, network.union_of(frames, messages))]


# --- the file's own federation


def _own(once: Settings, task: Task, scope: Scope) -> list[Finding]:
    return own_round.audit_own_round(once, task, protection=once.updates.summary, seed=scope.seed)


class _Rounds:
    """Keeps figures of rounds, and says when there were enough."""

    def __init__(self, most: int) -> None:
        self.figures: dict[str, float] = {}
        self.finished = 0
        self._most = most

    def emit(self, event: Event) -> None:
        match event:
            case RoundFinished():
                self.finished += 1
                self.figures |= event.metrics
            case Evaluated() if event.score is not None:
                self.figures[event.eval_type.lower().replace("_", " ")] = event.score
            case _:
                pass

    def enough(self) -> bool:
        return self.finished >= self._most


def _utility(settings: Settings, task: Task, scope: Scope) -> list[Cost]:
    """Figures after some rounds, without the protection and with it."""
    if not (settings.updates.protects or settings.vectors.protects or settings.train.privacy is not None):
        return []
    rounds = min(settings.rounds, scope.pick(5, settings.rounds))
    data = settings.model_dump() | {"budget": None, "engine": {}}
    data["simulation"]["insecure_noise_seed"] = scope.number("utility")
    with_it = _figures(Settings.model_validate(data), task, rounds)
    data |= {"encrypt": {}, "round": data["round"] | {"participations": None}}
    data["train"].pop("privacy", None)
    without = _figures(Settings.model_validate(data), task, rounds)
    shown = f"after {rounds} round" + "s" * (rounds > 1)
    return [Cost(f"{name} {shown}", without[name], with_it[name]) for name in without if name in with_it]


def _figures(settings: Settings, task: Task, rounds: int) -> dict[str, float]:
    told = _Rounds(rounds)
    try:
        MemoryEngine(settings, task, told).run(should_stop=told.enough)
    except KeyboardInterrupt:
        if not told.enough():
            raise
    return told.figures


def _subtracted(settings: Settings, task: Task) -> list[Finding]:
    words = settings.updates.summary
    return [
        audit_differences(settings, task, "same model", protection=words),
        audit_differences(settings, task, "moved model", protection=words),
    ]


def _repeats(settings: Settings, layout: Layout) -> Finding:
    protection = f"{settings.updates.summary}; each client answers a round once"
    return audit_repeats(variants.unlimited(settings), layout, protection=protection)


def _every_round(settings: Settings, layout: Layout) -> Finding:
    protection = f"{settings.updates.summary}; each client uploads {settings.round.participations} times at most"
    return audit_participations(settings, layout, protection=protection)


def _masking(settings: Settings, task: Task) -> Finding:
    data = settings.model_dump() | {"rounds": 2, "budget": None, "simulation": {}}
    protection = f"{settings.updates.summary}; new masks in each round"
    return audit_masking(Settings.model_validate(data), task.model(), protection=protection)


def _complete(settings: Settings, size: int) -> bool:
    """Whether every client knows all survivors."""
    return settings.secure(*inside_of(settings, size).ring).topology(settings.sampled).complete


def _too_few(settings: Settings, layout: Layout) -> Finding:
    data = settings.model_dump() | {"budget": None, "simulation": {}, "unsupervised": None, "engine": {}}
    data["encrypt"] = variants.without_vectors(data["encrypt"])
    protection = f"{settings.updates.summary}; no sum of too few is opened"
    return audit_fewest(Settings.model_validate(data), layout, protection=protection)
