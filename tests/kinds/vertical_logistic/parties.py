"""Small deals in memory, and plain mini-batch logistic regression to compare them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import expit

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
    """Settings of `bank` and some passives."""
    parties = {"bank": {"role": "active"}} | {f"shop{i}": {"role": "passive"} for i in range(passives)}
    data = {
        "parties": parties,
        "paillier": {"bits": bits},
        "train": {"epochs": 2, "batch": 64, "test": 0.0},
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


def plain(x: np.ndarray, y: np.ndarray, settings: Settings) -> tuple[np.ndarray, float]:
    """The oracle: ordinary mini-batch gradient descent on the whole table, with the same batches."""
    train_settings = settings.train
    kept, _ = batches.hold_out(len(x), train_settings.test, settings.seed)
    x, y = x[kept], y[kept]
    if settings.scale:
        x = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), np.inf)
    weights, intercept = np.zeros(x.shape[1]), 0.0
    for epoch in range(train_settings.epochs):
        match train_settings.schedule:
            case "constant":
                rate = train_settings.learning_rate
            case "inverse":
                rate = train_settings.learning_rate / (1 + train_settings.decay * epoch)
            case "step":
                rate = train_settings.learning_rate * train_settings.decay ** (epoch // train_settings.decay_every)
        for batch in batches.schedule(len(x), settings).batches(epoch):
            residue = expit(x[batch] @ weights + intercept) - y[batch]
            weights = weights - rate * (x[batch].T @ residue / len(batch) + train_settings.l2 * weights)
            intercept -= rate * residue.mean()
    return weights, intercept


def whole(models: Mapping[str, Model]) -> np.ndarray:
    return np.concatenate([models[name].weights for name in sorted(models)])
