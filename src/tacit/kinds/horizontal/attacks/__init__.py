"""Attacks on a horizontal federation: what its coordinator learns of the clients."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tacit.audit.attacks import wire as network
from tacit.audit.attacks.inversion import Search
from tacit.audit.attacks.mechanisms import Effort, Rows, audit_gaussian, audit_laplace, audit_skellam
from tacit.audit.finding import Cost, Finding
from tacit.audit.steps import Attacks, Proved, Scope, Step, named
from tacit.dp.accounting import Ledger
from tacit.dp.claim import Claim
from tacit.events import Evaluated, Event, RoundFinished
from tacit.kinds.horizontal import evaluation, frames
from tacit.kinds.horizontal.attacks import gradients, own_round
from tacit.kinds.horizontal.attacks.client_canaries import audit_sums, audit_uploads
from tacit.kinds.horizontal.attacks.differences import audit_differences
from tacit.kinds.horizontal.attacks.masks import audit_federation_masks
from tacit.kinds.horizontal.attacks.protocol_rules import audit_fewest, audit_inference, audit_masking, audit_repeats
from tacit.kinds.horizontal.attacks.wire import tap_federation
from tacit.kinds.horizontal.costs import Costs, Spent
from tacit.kinds.horizontal.forecast import most_uploads
from tacit.kinds.horizontal.protection import LocalDP, masked_sum, skellam_encoding
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg import messages

_MOST_CLIENTS = 1000  # of a round that is recorded whole
_SUBTRACTED = 10, 20  # clients whose sums are subtracted, quickly and in full
_TAPPED = 12  # clients of a round over the network
_MOST_ASKED = 64  # clients of a round in which a sum of too few is asked for
_WIDTH = 8  # numbers in a vector whose noise is audited: the noise of each is drawn by itself
_SUMS = 1_200  # of the file's own model: each takes the noise of all its clients
_FEWEST_SUMS, _MOST_SHARES = 8_000, 8_000_000  # of a few numbers, and noise shares in all of them
_WORDS = {
    "NOT_ENCRYPT": "none: updates in the clear",
    "DP_ENCRYPT": "DP_ENCRYPT: each update clipped, with Gaussian noise",
    "PW_ENCRYPT": "PW_ENCRYPT: masks, so that only the sum is seen",
    "DDP_ENCRYPT": "DDP_ENCRYPT: masks, and noise in the sum",
}
_AGAINST = {
    "local": "for each client, for replacing all its data, against everybody who sees its messages",
    "central": "for each client, for leaving its update out, against whoever sees the sums and the model",
    "composed": "for each client, for leaving its data out, against the coordinator, who sees the sums and the vectors",
}


def attacks(settings: Settings, scope: Scope) -> Attacks:
    """What the coordinator recovers, from single messages and from sums; the noise; what it costs."""
    task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    size = Layout.of(task.model()).size
    costs = Costs(settings, size)
    kind = settings.encrypt.encrypt_type
    noised = kind in ("DP_ENCRYPT", "DDP_ENCRYPT")
    laplace = evaluation.inference_event(settings)
    effort = Effort(confidence=scope.confidence(2 * noised + (laplace is not None)))
    layout = Layout.of(task.model())
    scene, many = _scenes(settings, scope)
    encrypt = _of_scene(settings, costs)
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
    for name, asked, find in scenes:
        reason = gradients.unfit(encrypt, asked)
        if reason is None:
            steps.append(Step(name, find))
        else:
            not_tested.append(f"{name}, because {asked.clients} clients cannot have the file's protection: {reason}")
    reason = gradients.unfit(encrypt, gradients.Scene(clients=_TAPPED // 2))
    if reason is None:
        steps.append(Step("the wire", lambda: _wire(encrypt, scope)))
    else:
        not_tested.append(f"the wire, because {_TAPPED // 2} clients cannot have the file's protection: {reason}")
    if settings.masked:
        try:
            nearly = _same_clients(settings, scope)
            Costs(nearly, size)
        except ValueError as error:
            not_tested.append(f"sums over nearly the same clients: few clients cannot have the protection: {error}")
        else:
            steps.append(Step("sums subtracted", lambda: _subtracted(nearly, task)))
            steps.append(Step("masks of two rounds", lambda: [_masking(nearly, task)]))
        few = settings if settings.sampled <= _MOST_ASKED else None
        if few is not None and _complete(few, size):
            steps.append(Step("a sum of too few", lambda: [_too_few(few, layout)]))
        else:
            not_tested.append(f"a sum of too few: more than {_MOST_ASKED} clients, or a sparse graph")
    if settings.clients <= _MOST_CLIENTS:
        once = _one_round(settings, costs, scope)
        if own_round.fits(task):
            steps.append(Step("the file's own round", lambda: _own(once, task, scope)))
        else:
            not_tested.append(f"records of the task {settings.task} itself: it does not tell the audit what they are")
        if settings.masked:
            steps.append(Step("masks", lambda: [audit_federation_masks(once, task)]))
        steps.append(Step("cost in utility", lambda: _utility(settings, task, scope)))
    else:
        not_tested.append(f"a round of all {settings.clients} clients: at most {_MOST_CLIENTS} are recorded")
    if kind != "NOT_ENCRYPT":
        steps.append(Step("a client asked twice", lambda: [_repeats(settings, layout)]))
    if kind == "DP_ENCRYPT":
        steps.append(Step("noise of an upload", lambda: [_local_noise(settings, scope, effort)]))
        steps.append(Step("canaries in each tensor", lambda: [_uploads(settings, layout, scope, effort)]))
    if kind == "DDP_ENCRYPT":
        steps.append(Step("noise of a sum", lambda: [_noise_of_sums(settings, size, scope, effort)]))
        if scope.quick:
            not_tested.append("canaries in each tensor of the model: --full has them")
        else:
            steps.append(Step("canaries in each tensor", lambda: [_sums(settings, layout, scope, effort)]))
    if laplace is not None:
        steps.append(Step("noise of inference vectors", lambda: [_laplace(laplace.epsilon, task, scope, effort)]))
        steps.append(Step("inference vectors of two rounds", lambda: [_inferred(settings, layout, task)]))
    promises = [_proved(spent) for spent in costs.spent(most_uploads(settings), settings.rounds)]
    protection = _WORDS[kind] + ("; Laplace noise on inference vectors" if laplace is not None else "")
    return Attacks(protection, steps, promises, not_tested)


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
    local = settings.encrypt.encrypt_type == "DP_ENCRYPT"
    seed = scope.number("scene") % 10**6
    few = gradients.Scene(
        clients=max(3, min(settings.sampled, 10)),
        federations=scope.pick(1 if local else 2, 4),
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


def _of_scene(settings: Settings, costs: Costs) -> dict[str, Any]:
    """The file's protection for a federation of another size, as a file would have it: the epsilon of one round."""
    encrypt: dict[str, Any] = settings.model_dump()["encrypt"]
    encrypt |= {"privacy_eval_type": "NOT_ENCRYPT", "laplace_eval": None}
    encrypt["dp_encrypt"] |= {"dp_delta": settings.delta, "adaptive": False}
    encrypt["pw_encrypt"] |= {"reconstruct_secrets_threshold": None, "colluders": None, "collusion": False}
    encrypt["pw_encrypt"] |= {"mode": "semi_honest", "graph": "auto"}
    encrypt["ddp_encrypt"] |= {"n_min": None, **_of_one_sum(settings, costs)}
    return encrypt


def _of_one_sum(settings: Settings, costs: Costs) -> dict[str, float]:
    """What one opened sum costs: noise is sized for those of all rounds."""
    if not costs.central:
        return {}
    ledger, (_, delta) = Ledger("client", "zero-out"), settings.central
    ledger.spend(costs.central[0].event)
    return {"ddp_eps": ledger.epsilon(delta, "rdp"), "ddp_delta": delta}


def _inversion(encrypt: dict[str, Any], scene: gradients.Scene) -> list[Finding]:
    if encrypt["encrypt_type"] == "NOT_ENCRYPT":
        return gradients.audit_unprotected(scene)
    return gradients.audit_gradients(encrypt, scene)


def _wider(encrypt: dict[str, Any], scene: gradients.Scene) -> list[Finding]:
    """The same in another scene, which its name tells."""
    where = f"{scene.clients} clients with {scene.batch} record" + "s" * (scene.batch > 1)
    return [replace(found, attack=f"{found.attack}, {where}") for found in _inversion(encrypt, scene)]


def _labels(encrypt: dict[str, Any], scene: gradients.Scene) -> list[Finding]:
    found = gradients.audit_label_inference(encrypt, scene)
    return [replace(found, on=None) if encrypt["encrypt_type"] == "NOT_ENCRYPT" else found]


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


def _one_round(settings: Settings, costs: Costs, scope: Scope) -> Settings:
    """One round as the file has it, with noise that can be drawn again, and nobody who drops out."""
    data = settings.model_dump()
    data |= {"rounds": 1, "budget": None, "unsupervised": None, "engine": {}}
    data["simulation"] = {"insecure_noise_seed": scope.number("own round")}
    data["encrypt"] |= {"privacy_eval_type": "NOT_ENCRYPT", "laplace_eval": None}
    data["encrypt"]["dp_encrypt"]["dp_delta"] = settings.delta
    data["encrypt"]["pw_encrypt"]["mode"] = "semi_honest"  # what is masked is the same; signatures take time
    data["encrypt"]["ddp_encrypt"] |= _of_one_sum(settings, costs)
    return Settings.model_validate(data)


def _own(once: Settings, task: Task, scope: Scope) -> list[Finding]:
    words = _WORDS[once.encrypt.encrypt_type]
    return own_round.audit_own_round(once, task, protection=words, seed=scope.seed)


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
    if settings.encrypt.encrypt_type == "NOT_ENCRYPT" and settings.encrypt.privacy_eval_type == "NOT_ENCRYPT":
        return []
    rounds = min(settings.rounds, scope.pick(5, settings.rounds))
    data = settings.model_dump() | {"budget": None, "engine": {}}
    data["simulation"]["insecure_noise_seed"] = scope.number("utility")
    with_it = _figures(Settings.model_validate(data), task, rounds)
    without = _figures(Settings.model_validate({**data, "encrypt": {}}), task, rounds)
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


def _same_clients(settings: Settings, scope: Scope) -> Settings:
    """The file with few clients, all of them in each round, and what is opened of a round as the file has it."""
    data = settings.model_dump()
    data |= {"clients": min(settings.sampled, scope.pick(*_SUBTRACTED)), "unsupervised": None, "engine": {}}
    data["round"] |= {"start_fl_job_threshold": None, "over_select": 1.0}
    data["encrypt"] |= {"privacy_eval_type": "NOT_ENCRYPT", "laplace_eval": None}
    data["encrypt"]["pw_encrypt"] |= {"reconstruct_secrets_threshold": None, "mode": "semi_honest", "graph": "auto"}
    data["encrypt"]["ddp_encrypt"] |= {"n_min": None, "colluders": None}
    data["simulation"] = {"insecure_noise_seed": scope.number("sums subtracted")}
    return Settings.model_validate(data)


def _subtracted(settings: Settings, task: Task) -> list[Finding]:
    words = _WORDS[settings.encrypt.encrypt_type]
    return [
        audit_differences(settings, task, "same model", protection=words),
        audit_differences(settings, task, "moved model", protection=words),
    ]


# --- the noise


def _local_noise(settings: Settings, scope: Scope, effort: Effort) -> Finding:
    protection, clip = LocalDP.of(settings, _WIDTH), settings.encrypt.dp_encrypt.dp_norm_clip
    rng = scope.rng("noise of an upload")

    def uploads(rows: Rows) -> Rows:
        return np.stack([protection.protect(row.copy(), clip, rng).value for row in rows])

    claim = Claim(settings.encrypt.dp_encrypt.dp_eps, settings.delta, "client", "replace-one")
    longest = np.eye(1, _WIDTH)[0] * 100 * clip  # longer than any clipped update: clipping is audited too
    samples = scope.pick(16_000, 200_000)
    found = audit_gaussian(uploads, -longest, longest, claim, effort=replace(effort, samples=samples))
    return named(found, "Gaussian noise of an upload", f"clipped to {clip:g}, noise of one upload", "server")


def _uploads(settings: Settings, layout: Layout, scope: Scope, effort: Effort) -> Finding:
    brief = replace(effort, samples=scope.pick(1_200, 24_000))
    found = audit_uploads(_unlimited(settings), layout, scope.rng("canaries of uploads"), brief)
    return named(found, "Uploads of a client", "its own clipping and noise, the file's own model", "server")


def _sums(settings: Settings, layout: Layout, scope: Scope, effort: Effort) -> Finding:
    found = audit_sums(settings, layout, scope.rng("canaries of sums"), replace(effort, samples=_SUMS))
    return named(found, "Opened sums", "clients' own clipping and noise shares, the file's own model", "server")


def _unlimited(settings: Settings) -> Settings:
    """Without a budget, and with noise from the operating system as in a real run."""
    data = settings.model_dump() | {"budget": None, "engine": {}, "unsupervised": None}
    data["simulation"] = {}
    data["encrypt"] |= {"privacy_eval_type": "NOT_ENCRYPT", "laplace_eval": None}
    data["encrypt"]["dp_encrypt"]["dp_delta"] = settings.delta
    return Settings.model_validate(data)


def _repeats(settings: Settings, layout: Layout) -> Finding:
    protection = f"{_WORDS[settings.encrypt.encrypt_type]}; each client answers a round once"
    return audit_repeats(_unlimited(settings), layout, protection=protection)


def _masking(settings: Settings, task: Task) -> Finding:
    data = settings.model_dump() | {"rounds": 2, "budget": None, "simulation": {}}
    protection = f"{_WORDS[settings.encrypt.encrypt_type]}; new masks in each round"
    return audit_masking(Settings.model_validate(data), task.model(), protection=protection)


def _complete(settings: Settings, size: int) -> bool:
    """Whether every client knows all survivors."""
    return settings.secure(*masked_sum(settings, size).ring).topology(settings.sampled).complete


def _too_few(settings: Settings, layout: Layout) -> Finding:
    data = settings.model_dump() | {"budget": None, "simulation": {}, "unsupervised": None, "engine": {}}
    data["encrypt"] |= {"privacy_eval_type": "NOT_ENCRYPT", "laplace_eval": None}
    protection = f"{_WORDS[settings.encrypt.encrypt_type]}; no sum of too few is opened"
    return audit_fewest(Settings.model_validate(data), layout, protection=protection)


def _inferred(settings: Settings, layout: Layout, task: Task) -> Finding:
    classes = int(getattr(task, "classes", _WIDTH))
    protection = "Laplace noise of inference vectors: new in each round"
    return audit_inference(settings, layout, classes, protection=protection)


def _noise_of_sums(settings: Settings, size: int, scope: Scope, effort: Effort) -> Finding:
    """The file's own noise multiplier, in vectors of a few numbers: the noise of each column is drawn by itself."""
    encoding = replace(skellam_encoding(settings, size), values=_WIDTH)
    honest = settings.fewest - settings.colluders
    most = max(_FEWEST_SUMS, _MOST_SHARES // honest)
    brief = replace(effort, samples=min(most, scope.pick(16_000, 400_000)))
    rng = scope.rng("noise of a sum")
    found = audit_skellam(encoding, delta=settings.central[1], honest=honest, effort=brief, rng=rng)
    words = f"noise shares of {settings.fewest} survivors, {settings.colluders} of whom collude"
    return named(found, "Skellam noise of an opened sum", words, "server")


def _laplace(epsilon: float, task: Task, scope: Scope, effort: Effort) -> Finding:
    rng = scope.rng("noise of inference vectors")
    classes = int(getattr(task, "classes", _WIDTH))
    one, other = np.eye(2, classes)
    claim = Claim(epsilon, 0.0, "vector", "replace-one")

    def mechanism(rows: Rows) -> Rows:
        return evaluation.protect(rows, epsilon, rng).value

    samples = scope.pick(200_000, 1_000_000)
    found = audit_laplace(mechanism, one, other, claim, effort=replace(effort, samples=samples))
    scale = evaluation.SENSITIVITY / epsilon
    words = f"Laplace noise of scale {scale:.3g} on each of {classes} probabilities"
    return named(found, "Laplace noise of inference vectors", words, "server")
