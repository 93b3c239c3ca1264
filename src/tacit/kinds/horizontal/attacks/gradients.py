"""Gradient inversion against a horizontal federation: every protection, attacked through the messages that it sends.

    audit_gradients(encrypt, scene)     findings for one protection, the strongest attack first
    audit_unprotected(scene)            the same where nothing protects
    audit_label_inference(...)          the labels of clients with one record each, from their uploads
    audit_clipping_alone(scene)         what clipping without noise hides: nothing, though plain DLG makes it look so

The clients hold digits and take one step of SGD, the case that favours the attacker; the coordinator knows the model
and the learning rate. It attacks single uploads and the sum, honestly or with a model of its own making. If an
attack gives several candidates, the one nearest to the original counts, and the baseline without any information has
as many guesses: images of the coordinator's own. So both numbers are upper bounds; their difference is leaked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks import inversion
from tacit.audit.attacks.inversion import Records, Search
from tacit.audit.bounds import clopper_pearson
from tacit.audit.finding import Finding, Pictures, Score
from tacit.audit.intervals import CONFIDENCE, mean_score
from tacit.audit.similarity import ssim
from tacit.kinds.horizontal.attacks.view import ServerView, record
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.protections import CLEAR, CLIPPING, find, names_with
from tacit.kinds.horizontal.protections.contract import Attack, Target
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork, Task
from tacit.kinds.horizontal.vector import Layout

Encrypt = dict[str, Any]  # as in a file
RECOVERED = 0.01  # mean squared error below which an image counts as recovered: PSNR above 20 dB
_LEARNING_RATE = 0.1
_SHAPE = (8, 8)
_SHOWN = 16  # pictures in a finding
_UPDATES: Encrypt = {"encrypt_type": CLEAR}


@dataclass(frozen=True, slots=True)
class Scene:
    """Who is attacked: `federations` of `clients` with `batch` digits each and a network with `hidden` neurons."""

    clients: int = 10
    batch: int = 1
    hidden: int = 256
    federations: int = 2
    seed: int = 0
    search: Search = field(default_factory=Search)

    def __str__(self) -> str:
        each = "one record" if self.batch == 1 else f"{self.batch} records"
        return f"{self.clients} clients with {each} each, {self.hidden} hidden neurons, one step of SGD"


class Planted:
    """A task whose first model the coordinator chose."""

    def __init__(self, task: Task, model: Arrays) -> None:
        self._task = task
        self._model = model

    def model(self) -> Arrays:
        return {name: array.copy() for name, array in self._model.items()}

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        return self._task.fit(client, model, work)


@dataclass(frozen=True, slots=True, eq=False)
class Inverted:
    """Originals, the nearest candidate for each, and the nearest of as many images that tell nothing."""

    originals: Records
    recovered: Records
    guessed: Records

    def recovery(self) -> Score:
        """The part of images that are recovered. Images are taken as independent in the interval."""
        hits = _errors(self.originals, self.recovered) < RECOVERED
        low, high = clopper_pearson(int(hits.sum()), len(hits), CONFIDENCE)
        baseline = float((_errors(self.originals, self.guessed) < RECOVERED).mean())
        return Score(
            "images recovered (PSNR above 20 dB)", float(hits.mean()), low, high, CONFIDENCE, baseline, len(hits)
        )

    def likeness(self) -> Score:
        guesses = _alike(self.originals, self.guessed)
        return mean_score("SSIM", _alike(self.originals, self.recovered), float(guesses.mean()))

    def error(self) -> Score:
        guesses = _errors(self.originals, self.guessed)
        errors = _errors(self.originals, self.recovered)
        return mean_score("mean squared error", errors, float(guesses.mean()), smaller_is_worse=True)

    def pictures(self) -> Records:
        return self.recovered[:_SHOWN].reshape(-1, *_SHAPE)


def invert(encrypt: Encrypt, scene: Scene, attack: Attack, target: Target) -> Inverted:
    """Attack `federations` and match what was found with what the clients held."""
    parts = [_invert_one(encrypt, scene, attack, target, number) for number in range(scene.federations)]
    return Inverted(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _invert_one(
    encrypt: Encrypt, scene: Scene, attack: Attack, target: Target, number: int
) -> tuple[Records, Records, Records]:
    task, clients, coordinator = _task(scene, scene.seed + number, attack == "imprint")
    view = record(_settings(encrypt, scene, number), task)
    held, public = clients.images, coordinator.images
    if target == "sum":
        originals = held.reshape(-1, held.shape[-1])
        groups = [(originals, _candidates(view, view.mean_update, scene, attack, len(originals)))]
    else:
        uploads = view.uploads()
        groups = [
            (held[client], _candidates(view, uploads[client], scene, attack, scene.batch)) for client in sorted(uploads)
        ]
    rng = np.random.default_rng([scene.seed, number])
    found = []
    for originals, candidates in groups:
        guesses = public[rng.choice(len(public), min(len(candidates), len(public)), replace=False)]
        if len(guesses) == 1:
            guesses = public.mean(axis=0, keepdims=True)  # the best single guess
        found.append((originals, nearest(originals, candidates), nearest(originals, guesses)))
    originals, recovered, guessed = (np.concatenate(column) for column in zip(*found, strict=True))
    return originals, recovered, guessed


def _settings(encrypt: Encrypt, scene: Scene, number: int) -> Settings:
    return Settings(
        task="digits",
        rounds=1,
        clients=scene.clients,
        encrypt=encrypt,  # type: ignore[arg-type]
        train={"epochs": 1, "batch": scene.batch, "learning_rate": _LEARNING_RATE},  # type: ignore[arg-type]
        simulation={"insecure_noise_seed": scene.seed + number},  # type: ignore[arg-type]  # so that an audit repeats
        seed=scene.seed + number,
    )


def unfit(encrypt: Encrypt, scene: Scene) -> str | None:
    """Why a scene cannot have this protection, if it cannot: noise that many clients share may be too much for few."""
    try:
        task, _, _ = _task(scene, scene.seed)
        Costs(_settings(encrypt, scene, 0), Layout.of(task.model()).size)
    except ValueError as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    images: Records
    labels: NDArray[np.int64]


def _task(scene: Scene, seed: int, planted: bool = False) -> tuple[Task, Labelled, Labelled]:
    """The task, each client's records, and records that the coordinator has of its own."""
    from sklearn.datasets import load_digits

    from tacit.kinds.horizontal.tasks.mlp import MlpTask

    images, labels = load_digits(return_X_y=True)
    x, y = (images / 16).astype(np.float32), labels.astype(np.int64)
    order = np.random.default_rng([seed, 1]).permutation(len(y))
    needed = scene.clients * scene.batch
    if needed > len(y) // 2:
        raise ValueError(f"{scene.clients} clients with {scene.batch} records each need {needed} of {len(y)} digits")
    own, rest = order[:needed].reshape(scene.clients, scene.batch), order[needed:]
    task: Task = MlpTask([(x[i], y[i]) for i in own], (x[rest], y[rest]), 10, seed, scene.hidden)
    public = x[rest].astype(np.float64)
    if planted:
        task = Planted(task, inversion.imprinted(task.model(), public))
    return task, Labelled(x[own].astype(np.float64), y[own]), Labelled(public, y[rest])


def _candidates(view: ServerView, update: Any, scene: Scene, attack: Attack, count: int) -> Records:
    """What an attack makes of one update, which is a step of SGD on `count` records."""
    gradient = view.arrays(-np.asarray(update, dtype=np.float64) / _LEARNING_RATE)
    layers = inversion.layers_of(gradient)
    match attack:
        case "closed form":
            found = inversion.invert_linear(layers[0])
            return np.vstack([inversion.fit_one_record(layers[0]), found]) if count == 1 else found
        case "imprint":
            return inversion.invert_imprint(layers[0])
        case "DLG" | "cosine DLG":
            labels = [inversion.infer_label(layers[-1])] if count == 1 else inversion.infer_labels(layers[-1], count)
            distance: inversion.Distance = "squared" if attack == "DLG" else "cosine"
            return inversion.dlg(view.arrays(view.model), gradient, labels, distance=distance, search=scene.search)


_SEES = {
    "upload": "the messages of each client; knows the model and the learning rate",
    "sum": "the sum of all updates; knows the model and the learning rate",
}


def audit_gradients(
    encrypt: Encrypt, scene: Scene, attacks: Sequence[tuple[Attack, Target]] | None = None
) -> list[Finding]:
    """Attack a federation without protection, and the same under `encrypt`; the strongest attack first."""
    kind, protecting = encrypt["encrypt_type"], names_with("protects")
    if kind not in protecting:
        raise ValueError(f"encrypt_type must be one of {', '.join(protecting)} to be compared with none, got {kind!r}")
    chosen = attacks or find(kind).inversions
    off = {attack: invert(_UPDATES, scene, attack, "upload") for attack in dict.fromkeys(a for a, _ in chosen)}
    found = [
        _finding(encrypt, scene, attack, target, off[attack], invert(encrypt, scene, attack, target))
        for attack, target in chosen
    ]
    return sorted(found, key=lambda finding: -(finding.on.value if finding.on else 0))


def audit_unprotected(scene: Scene, attacks: Sequence[tuple[Attack, Target]] | None = None) -> list[Finding]:
    """Attack a federation that has no protection: each update, and their sum."""
    found = []
    for attack, target in attacks or find(CLEAR).inversions:
        bare = invert(_UPDATES, scene, attack, target)
        found.append(replace(_finding(_UPDATES, scene, attack, target, bare, bare), on=None, also=()))
    return [replace(each, pictures=replace(each.pictures, on=None) if each.pictures else None) for each in found]


def audit_clipping_alone(scene: Scene, clip: float = 0.01) -> list[Finding]:
    """Attack updates that are clipped and carry next to no noise: the length of a gradient protects nothing."""
    encrypt = {"encrypt_type": CLIPPING, "dp_eps": 1e10, "dp_norm_clip": clip}
    return audit_gradients(encrypt, scene)


def audit_label_inference(encrypt: Encrypt, scene: Scene) -> Finding:
    """Infer the label of each client's one record from its upload: one of ten is far less than an image to hide."""
    if scene.batch != 1:
        raise ValueError(f"labels are inferred for clients with one record each, got {scene.batch}")
    settings = _settings(encrypt, scene, 0)
    return Finding(
        attack="label inference from each upload",
        adversary="server, honest but curious",
        sees=_SEES["upload"],
        protection=f"{settings.updates.in_brief(settings)}; {scene}",
        proved=settings.updates.claim(settings),
        off=_label_score(_UPDATES, scene),
        on=_label_score(encrypt, scene),
        not_tested=("several records a client", "the sum of all updates, which tells how many of each label there are"),
    )


def _label_score(encrypt: Encrypt, scene: Scene) -> Score:
    right, trials, often = 0, 0, 0.0
    for number in range(scene.federations):
        task, clients, coordinator = _task(scene, scene.seed + number)
        view = record(_settings(encrypt, scene, number), task)
        first = inversion.layers_of(view.arrays(view.model))[0]
        activity = np.maximum(coordinator.images @ first.weights.T + first.bias, 0).mean(axis=0)
        for client, update in view.uploads().items():
            last = inversion.layers_of(view.arrays(-np.asarray(update, dtype=np.float64)))[-1]
            right += int(inversion.infer_label(last, activity) == clients.labels[client][0])
            trials += 1
        often += float(np.bincount(coordinator.labels).max() / len(coordinator.labels)) / scene.federations
    low, high = clopper_pearson(right, trials, CONFIDENCE)
    return Score("labels inferred", right / trials, low, high, CONFIDENCE, often, trials)


def _finding(encrypt: Encrypt, scene: Scene, attack: Attack, target: Target, off: Inverted, on: Inverted) -> Finding:
    settings = Settings(task="digits", rounds=1, clients=scene.clients, encrypt=encrypt)  # type: ignore[arg-type]
    dishonest = attack == "imprint"
    return Finding(
        attack=f"gradient inversion, {attack}, from {'each upload' if target == 'upload' else 'the sum'}",
        adversary="server that sends a model of its own making" if dishonest else "server, honest but curious",
        sees=_SEES[target],
        protection=f"{settings.updates.in_brief(settings)}; {scene}",
        proved=settings.updates.claim(settings),
        off=off.recovery(),
        on=on.recovery(),
        also=((off.likeness(), on.likeness()), (off.error(), on.error())),
        pictures=Pictures(on.originals[:_SHOWN].reshape(-1, *_SHAPE), off.pictures(), on.pictures()),
        not_tested=(
            "several local steps, larger images and deeper networks, which make inversion harder",
            "images known beforehand to an attacker who trained a model of them, which makes it easier",
            "clients that collude with the server",
        ),
    )


def nearest(originals: Records, candidates: Records) -> Records:
    """For each original the candidate with the least squared error."""
    squares = (originals**2).sum(1)[:, None] - 2 * originals @ candidates.T + (candidates**2).sum(1)
    nearest: Records = candidates[squares.argmin(axis=1)]
    return nearest


def _errors(one: Records, other: Records) -> NDArray[np.float64]:
    """The mean squared error of each record."""
    return np.asarray(np.square(one - other).mean(axis=1))


def _alike(one: Records, other: Records) -> NDArray[np.float64]:
    return ssim(one.reshape(-1, *_SHAPE), other.reshape(-1, *_SHAPE))
