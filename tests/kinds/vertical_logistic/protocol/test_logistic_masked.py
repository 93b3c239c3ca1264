"""Training gives what plaintext training gives, for any number of parties, and goes on where it stopped."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from tacit.channel import run_parties
from tacit.crypto.paillier import Workers
from tacit.events import Curve, EpochFinished, Kept, Noted, Stepped, TrainingResumed, TrainingStarted
from tacit.kinds.vertical_logistic.protocol import batches, predict
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.model import Model, Saved
from tests.kinds.vertical_logistic.parties import BITS, deal, functions, key, people, plain, shared_out, train, whole
from tests.subprocesses import HANGS


@pytest.mark.parametrize("passives", [1, 2, 3])
def test_weights_are_those_of_plaintext_training(passives):
    x, y = people(150, 14)
    settings = deal(passives, train={"epochs": 3, "learning_rate": 0.5, "l2": 0.01})
    models = train(x, y, settings)
    weights, intercept = plain(x, y, settings)
    assert np.abs(weights).max() > 0.1
    np.testing.assert_allclose(whole(models), weights, atol=1e-5)
    assert models["bank"].intercept == pytest.approx(intercept, abs=1e-5)
    assert all(models[name].intercept == 0 for name in settings.passives)


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": "inverse", "batch_order": "permuted"},
        {"schedule": "step", "decay_every": 1, "batch_order": "hashed"},
        {"test": 0.25, "batch": 1000},
    ],
)
def test_schedules_orders_and_rows_held_out_do_not_change_that(changes):
    x, y = people(120, 6)
    settings = deal(2, train={"epochs": 3, "learning_rate": 0.3, **changes})
    weights, _ = plain(x, y, settings)
    np.testing.assert_allclose(whole(train(x, y, settings)), weights, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_without_scaling_any_unit_will_do(scale):
    x, y = people(100, 4)
    x = (x - x.mean(axis=0)) / x.std(axis=0) * scale
    settings = deal(1, scale=False, train={"epochs": 2, "learning_rate": 0.5 / scale**2})
    weights, _ = plain(x, y, settings)
    np.testing.assert_allclose(whole(train(x, y, settings)) * scale, weights * scale, atol=1e-4)


def test_constant_columns_count_for_nothing():
    x, y = people(100, 6)
    x[:, 4] = 0.1
    models = train(x, y, deal(1))
    assert models["shop0"].weights[1] == 0
    assert np.all(models["shop0"].weights[[0, 2]] != 0)


def test_an_active_without_features():
    x, y = people(100, 5)
    settings = deal(1)
    models = run_parties(functions({"bank": x[:, :0], "shop0": x}, y, settings), patience=HANGS)
    weights, intercept = plain(x, y, settings)
    np.testing.assert_allclose(models["shop0"].weights, weights, atol=1e-5)
    assert models["bank"].intercept == pytest.approx(intercept, abs=1e-5)


@pytest.mark.parametrize("passives", [1, 2])
def test_auc_on_breast_cancer_is_that_of_scikit_learn(passives):
    """With the checks of a file that says nothing about them."""
    x, y = load_breast_cancer(return_X_y=True)
    train_settings = {"epochs": 12, "batch": 512, "learning_rate": 2.0, "l2": 0.002, "test": 0.3}
    settings = deal(passives, train=train_settings, checks={"row_uses": None})
    kept, held_out = batches.hold_out(len(x), 0.3, settings.seed)
    scaler = StandardScaler().fit(x[kept])
    peer = LogisticRegression(max_iter=1000).fit(scaler.transform(x[kept]), y[kept])
    theirs = roc_auc_score(y[held_out], peer.decision_function(scaler.transform(x[held_out])))
    events = Kept()
    train(x, y, settings, {"bank": PaillierContext(sink=events, key=key())})
    ours = [event for event in events.events if isinstance(event, EpochFinished)][-1].local
    assert theirs > 0.98
    assert abs(ours["auc"] - theirs) <= 0.005


@pytest.mark.slow
def test_a_key_of_2048_bits_and_two_workers():
    x, y = people(300, 20)
    settings = deal(2, bits=2048, train={"epochs": 1, "batch": 100})
    workers = Workers(2)
    contexts = {name: PaillierContext(workers=workers) for name in settings.parties}
    models = train(x, y, settings, contexts)
    workers.close()
    np.testing.assert_allclose(whole(models), plain(x, y, settings)[0], atol=1e-5)


def test_early_stopping_keeps_the_best_weights():
    x, y = people(80, 8)
    y = np.random.default_rng(1).integers(0, 2, 80)  # nothing to learn: the held-out loss soon rises
    changes = {"learning_rate": 2.0, "batch": 20, "test": 0.3}
    settings = deal(1, train={"epochs": 30, "patience": 2, **changes})
    events = Kept()
    models = train(x, y, settings, {"bank": PaillierContext(sink=events, key=key())})
    losses = [event.local["loss"] for event in events.events if isinstance(event, EpochFinished)]
    assert 3 <= len(losses) < 30
    best = int(np.argmin(losses))
    assert best == len(losses) - 3
    weights, _ = plain(x, y, deal(1, train={"epochs": best + 1, **changes}))
    np.testing.assert_allclose(whole(models), weights, atol=1e-5)
    assert any(isinstance(event, Noted) and "ended after epoch" in event.text for event in events.events)


def test_events_of_a_training():
    x, y = people(100, 6)
    events, ticks = Kept(), iter(np.arange(0, 1e6, 0.6))
    context = PaillierContext(events, lambda: float(next(ticks)), key=key())
    train(x, y, deal(2, train={"test": 0.2}), {"bank": context})
    kinds = [type(event) for event in events.events]
    assert kinds[0] is TrainingStarted
    assert kinds.count(EpochFinished) == 2
    assert kinds.count(Curve) == 1
    assert Stepped in kinds
    finished = [event for event in events.events if isinstance(event, EpochFinished)]
    assert [event.epoch for event in finished] == [0, 1]
    assert finished[0].local.keys() == {"loss", "accuracy", "auc", "ks", "training loss"}
    assert finished[0].bytes_sent > 80 * BITS // 4
    assert finished[0].bytes_received > 100 * 2 * 8
    assert finished[0].stages["encrypting residues"] > 0
    (curve,) = (event for event in events.events if isinstance(event, Curve))
    assert curve.points[0] == [0.0, 0.0]
    assert curve.points[-1] == [1.0, 1.0]


@pytest.mark.parametrize("behind", [None, "bank", "shop1"])
def test_a_training_that_stopped_goes_on_as_if_it_had_not(behind):
    x, y = people(100, 9)
    settings = deal(2, train={"epochs": 4, "patience": 3})
    kept: dict[str, list[Saved]] = {name: [] for name in settings.parties}
    full = train(x, y, settings, {name: PaillierContext(keep=kept[name].append, key=key()) for name in kept})
    at = {name: next(saved for saved in states if saved.now.epoch == 2) for name, states in kept.items()}
    if behind:
        at[behind] = [saved for saved in kept[behind] if saved.now.epoch == 1][-1]
    states = {name: Saved.restore(saved.state()) for name, saved in at.items()}
    events = Kept()
    contexts = {name: PaillierContext(events, saved=(state,), key=key()) for name, state in states.items()}
    resumed = train(x, y, settings, contexts)
    np.testing.assert_allclose(whole(resumed), whole(full), atol=1e-12)
    assert resumed["bank"].session == full["bank"].session
    first = 1 if behind else 2
    assert TrainingResumed(first, 0) in events.events


@pytest.mark.parametrize("passives", [1, 2])
def test_prediction_by_all_parties(passives):
    x, y = people(130, 9)
    settings = deal(passives)
    models = {name: Model.restore(model.state()) for name, model in train(x[:100], y[:100], settings).items()}
    fresh = shared_out(x[100:], settings)

    def party(name):
        if name == "bank":
            return lambda channels: predict.active(channels, fresh[name], models[name], settings)
        return lambda channels: predict.passive(channels, fresh[name], models[name], settings, name)

    found = run_parties({name: party(name) for name in settings.parties}, patience=HANGS)["bank"]
    weights, intercept = plain(x[:100], y[:100], settings)
    scores = (x[100:] - x[:100].mean(axis=0)) / x[:100].std(axis=0) @ weights + intercept
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-scores)), atol=1e-5)
