"""Small deals in memory, and plain mini-batch regression to compare them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn._loss.loss import HalfBinomialLoss, HalfSquaredError
from sklearn.preprocessing import label_binarize
from sklearn.utils.class_weight import compute_class_weight

from tacit.channel import Channel, Recorder, run_parties
from tacit.crypto.paillier import PrivateKey, generate
from tacit.kinds.vertical_logistic.protocol import batches, logistic_masked
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.model import Model
from tacit.kinds.vertical_logistic.settings import Settings
from tests.subprocesses import HANGS

BITS = 512
_keys: dict[int, PrivateKey] = {}


def key(bits: int = BITS) -> PrivateKey:
    """One key for all tests: making them is slow, and tested elsewhere."""
    if bits not in _keys:
        _keys[bits] = generate(bits, insecure_bits=bits < 2048)
    return _keys[bits]


def deal(passives: int = 1, bits: int = BITS, **changes: Any) -> Settings:
    """Settings of `bank` and some passives under masks, without secret offsets: results can be compared with plain
    training."""
    parties = {"bank": {"role": "active"}} | {f"shop{i}": {"role": "passive"} for i in range(passives)}
    data = {
        "protocol": "masked",
        "parties": parties,
        "paillier": {"bits": bits},
        "train": {"epochs": 2, "batch": 64, "test": 0.0, "secret_spread": 0.0},
        "checks": {"row_uses": 1000},
    }
    for name, value in changes.items():
        data[name] = {**data.get(name, {}), **value} if isinstance(value, dict) else value
    return Settings.model_validate(data)


def people(rows: int, columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features with correlations and different units, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.3 * rng.normal(size=(columns, columns)))
    y = rng.random(rows) < expit(x @ rng.normal(size=columns))
    return x * 10.0 ** rng.integers(-2, 3, size=columns) + rng.normal(size=columns), y.astype(int)


def labelled(rows: int, columns: int, model: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The same with labels for a model of `two` or `three` classes, or `linear`."""
    x, y = people(rows, columns, seed)
    if model == "two":
        return x, y
    rng = np.random.default_rng([seed, 1])
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    scores = scaled @ rng.normal(size=(columns, 3)) + rng.normal(size=(rows, 3))
    return x, scores.argmax(axis=1) if model == "three" else 1000 + 30 * scores[:, 0]


def shared_out(x: np.ndarray, settings: Settings) -> dict[str, np.ndarray]:
    return dict(zip(settings.parties, np.array_split(x, len(settings.parties), axis=1), strict=True))


def functions(
    parts: Mapping[str, np.ndarray],
    y: np.ndarray,
    settings: Settings,
    contexts: Mapping[str, PaillierContext] | None = None,
    wrap: Callable[[str, str, Channel], Channel] = lambda me, other, channel: channel,
) -> dict[str, Callable[[Mapping[str, Channel]], Model]]:
    """Each party as a function of its channels; `wrap` may put something around those."""
    contexts = contexts or {}

    def party(me: str) -> Callable[[Mapping[str, Channel]], Model]:
        def live(channels: Mapping[str, Channel]) -> Model:
            own = {other: wrap(me, other, channel) for other, channel in channels.items()}
            context = contexts.get(me, PaillierContext(key=key(settings.paillier.bits)))
            if me == settings.active:
                return logistic_masked.active(own, parts[me], y, settings, context)
            return logistic_masked.passive(own, parts[me], settings, me, context)

        return live

    return {me: party(me) for me in settings.parties}


def train(
    x: np.ndarray,
    y: np.ndarray,
    settings: Settings,
    contexts: Mapping[str, PaillierContext] | None = None,
    wrap: Callable[[str, str, Channel], Channel] = lambda me, other, channel: channel,
) -> dict[str, Model]:
    return run_parties(functions(shared_out(x, settings), y, settings, contexts, wrap), patience=HANGS)


def recorded(logs: dict[tuple[str, str], Recorder]) -> Callable[[str, str, Channel], Channel]:
    """For `wrap`: keeps what every party sent and saw."""

    def wrap(me: str, other: str, channel: Channel) -> Channel:
        logs[me, other] = Recorder(channel)
        return logs[me, other]

    return wrap


def errors_of(parties: Mapping[str, Callable[..., Any]]) -> dict[str, BaseException]:
    """What each party raised."""
    found: dict[str, BaseException] = {}

    def catching(name: str, party: Callable[..., Any]) -> Callable[..., Any]:
        def live(channels: Mapping[str, Channel]) -> Any:
            try:
                return party(channels)
            except BaseException as error:
                found[name] = error
                raise

        return live

    try:
        run_parties({name: catching(name, party) for name, party in parties.items()}, patience=HANGS)
    except Exception:
        return found
    return found


def rate_of(settings: Settings, epoch: int) -> float:
    """The learning rate of an epoch, as the file's words say it."""
    train = settings.train
    match train.schedule:
        case "constant":
            return train.learning_rate
        case "inverse":
            return train.learning_rate / (1 + train.decay * epoch)
        case "step":
            return train.learning_rate * train.decay ** (epoch // train.decay_every)
        case "cosine":
            return train.learning_rate * np.cos(np.pi / 2 * epoch / train.epochs) ** 2


def wanted(y: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray | None]:
    """What each output should say, (rows, K), and the weight of each row: by scikit-learn."""
    if settings.model == "linear":
        return ((y - y.mean()) / (2 * np.abs(y - y.mean()).max()))[:, None], None
    classes = np.unique(y)
    given = settings.train.class_weight
    by_value = {value: given.get(str(value), 1.0) for value in classes} if isinstance(given, dict) else given
    weights = None
    if given is not None:
        each = compute_class_weight(by_value, classes=classes, y=y)
        weights = (each / each.max())[np.searchsorted(classes, y)]
    return label_binarize(y, classes=classes).astype(float), weights


def plain(
    x: np.ndarray, y: np.ndarray, settings: Settings, offsets: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The oracle: mini-batch gradient descent on the whole table, with the same batches and gradients of scikit-learn's
    losses; `offsets` (rows, K) are added to scores in every step. Weights (columns, K) and intercepts (K,)."""
    train = settings.train
    kept, _ = batches.hold_out(len(x), train.test, settings.seed)
    x, y = x[kept], y[kept]
    if settings.scale:
        x = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), np.inf)
    targets, row_weights = wanted(y, settings)
    added = np.zeros(targets.shape) if offsets is None else offsets[kept]
    loss = HalfSquaredError() if settings.model == "linear" else HalfBinomialLoss()
    weights, intercept = np.zeros((x.shape[1], targets.shape[1])), np.zeros(targets.shape[1])
    for epoch in range(train.epochs):
        rate = rate_of(settings, epoch)
        for batch in batches.schedule(len(x), settings).batches(epoch):
            scores = x[batch] @ weights + intercept + added[batch]
            given = None if row_weights is None else row_weights[batch]
            residues = np.stack(
                [
                    loss.gradient(targets[batch, k].copy(), scores[:, k].copy(), sample_weight=given)
                    for k in range(targets.shape[1])
                ],
                axis=1,
            )
            weights = weights - rate * (x[batch].T @ residues / len(batch) + train.l2 * weights)
            intercept = intercept - rate * residues.mean(axis=0)
    return weights, intercept


def whole(models: Mapping[str, Model]) -> np.ndarray:
    return np.concatenate([models[name].weights for name in sorted(models)])
