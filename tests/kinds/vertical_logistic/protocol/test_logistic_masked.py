"""Training gives what plaintext training gives, for any number of parties, and goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

from tacit.channel import Recorder, run_parties
from tacit.crypto.paillier import Workers
from tacit.events import EpochFinished, Kept, Noted, Stepped, TrainingResumed, TrainingStarted
from tacit.kinds.vertical_logistic.protocol import batches, metrics, predict
from tacit.kinds.vertical_logistic.protocol.journal import Course, InMemory, Journal
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.messages import Residues
from tacit.kinds.vertical_logistic.protocol.model import Model, Saved
from tacit.randomness import seeded_rng
from tests.kinds.vertical_logistic.parties import (
    BITS,
    deal,
    errors_of,
    functions,
    key,
    labelled,
    people,
    plain,
    recorded,
    shared_out,
    train,
    whole,
)
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
    assert not any(models[name].intercept.any() for name in settings.passives)


@pytest.mark.parametrize("passives", [1, 2, 3])
@pytest.mark.parametrize("schedule", ["constant", "inverse", "step", "cosine"])
@pytest.mark.parametrize(
    ("model", "class_weight"), [("three", None), ("three", {"1": 0.3, "2": 5.0}), ("two", "balanced"), ("linear", None)]
)
def test_every_model_is_that_of_plaintext_training(model, class_weight, schedule, passives):
    """Against gradients of scikit-learn's losses on the same batches."""
    x, y = labelled(110, 9, model)
    changes = {"epochs": 3, "learning_rate": 0.4, "l2": 0.02, "decay_every": 1, "class_weight": class_weight}
    settings = deal(
        passives,
        model="linear" if model == "linear" else "logistic",
        train={**changes, "schedule": schedule, "test": 0.1, "batch": 50},
    )
    models = train(x, y, settings)
    weights, intercept = plain(x, y, settings)
    assert weights.shape == (9, 3 if model == "three" else 1)
    assert np.abs(weights).max() > 0.05
    np.testing.assert_allclose(whole(models), weights, atol=1e-5)
    np.testing.assert_allclose(models["bank"].intercept, intercept, atol=1e-5)
    assert models["bank"].classes == {"three": ("0", "1", "2"), "two": ("0", "1"), "linear": ()}[model]
    assert (models["bank"].target is not None) == (model == "linear")
    assert all(not models[name].classes and models[name].target is None for name in settings.passives)


@pytest.mark.parametrize("passives", [1, 2])
@pytest.mark.parametrize(("model", "class_weight"), [("two", None), ("two", "balanced"), ("three", None)])
def test_secret_offsets_are_added_to_the_score_of_every_training_row_in_every_step(model, class_weight, passives):
    """The oracle adds the offsets that the active kept. What is measured, and the model, are without them."""
    x, y = labelled(110, 9, model)
    changes = {"epochs": 3, "learning_rate": 0.4, "test": 0.1, "batch": 50, "class_weight": class_weight}
    settings = deal(passives, train={**changes, "secret_spread": 1.0})
    kept: list[Saved] = []
    events, judged = Kept(), []
    context = PaillierContext(
        sink=events, key=key(), keep=kept.append, judged=lambda scores, *rest: judged.append(scores)
    )
    models = train(x, y, settings, {"bank": context})
    weights, intercept = plain(x, y, settings, kept[0].offsets)
    np.testing.assert_allclose(whole(models), weights, atol=1e-5)
    np.testing.assert_allclose(models["bank"].intercept, intercept, atol=1e-5)
    without, _ = plain(x, y, settings)
    assert np.abs(whole(models) - without).max() > 0.01
    training, held_out = batches.hold_out(110, 0.1, settings.seed)
    scaled = (x[held_out] - x[training].mean(axis=0)) / x[training].std(axis=0)
    np.testing.assert_allclose(judged[0], scaled @ weights + intercept, atol=1e-5)
    assert all(np.array_equal(saved.offsets, kept[0].offsets) for saved in kept)


def test_the_loss_of_training_rows_is_that_of_scores_without_offsets():
    """One epoch from weights of 0 in one batch: every score is 0, whatever is added to it for the residue."""
    x, y = people(100, 6)
    events = Kept()
    settings = deal(1, train={"epochs": 1, "batch": 100, "secret_spread": 3.0})
    train(x, y, settings, {"bank": PaillierContext(sink=events, key=key())})
    (finished,) = (event for event in events.events if isinstance(event, EpochFinished))
    assert finished.local["training loss"] == pytest.approx(np.log(2))
    assert finished.local["loss"] == pytest.approx(np.log(2))


def test_all_parties_tell_the_size_of_the_whole_model():
    x, y = labelled(90, 9, "three")
    settings = deal(2, train={"epochs": 1})
    sinks = {name: Kept() for name in settings.parties}
    train(x, y, settings, {name: PaillierContext(sink=sink, key=key()) for name, sink in sinks.items()})
    for sink in sinks.values():
        (started,) = (event for event in sink.events if isinstance(event, TrainingStarted))
        assert started.parameters == 9 * 3 + 3


def test_a_linear_model_that_diverges_says_so_before_residues_leave():
    x, y = labelled(100, 6, "linear")
    settings = deal(1, model="linear", train={"learning_rate": 50.0, "epochs": 5})
    logs = {}
    errors = errors_of(functions(shared_out(x, settings), y, settings, wrap=recorded(logs)))
    assert isinstance(errors["bank"], ValueError)
    assert "the training diverged: lower train.learning_rate" in str(errors["bank"])
    assert str(errors["shop0"]) == "bank failed (Diverged)"  # no word on labels


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
    events, judged = Kept(), []
    context = PaillierContext(sink=events, key=key(), judged=lambda *given: judged.append(given))
    models = train(x, y, settings, {"bank": context})
    losses = [event.local["loss"] for event in events.events if isinstance(event, EpochFinished)]
    assert 3 <= len(losses) < 30
    best = int(np.argmin(losses))
    assert best == len(losses) - 3
    weights, intercept = plain(x, y, deal(1, train={"epochs": best + 1, **changes}))
    np.testing.assert_allclose(whole(models), weights, atol=1e-5)
    ((scores, labels, held_out),) = judged
    training, rows = batches.hold_out(80, 0.3, settings.seed)
    scaled = (x[rows] - x[training].mean(axis=0)) / x[training].std(axis=0)
    np.testing.assert_allclose(scores, scaled @ weights + intercept, atol=1e-5)  # of the weights that are kept
    assert np.array_equal(labels, y[rows])
    assert held_out
    assert log_loss(labels, expit(scores[:, 0])) == pytest.approx(losses[best])
    assert any(isinstance(event, Noted) and "ended after epoch" in event.text for event in events.events)


def test_events_of_a_training():
    x, y = people(100, 6)
    events, ticks = Kept(), iter(np.arange(0, 1e6, 0.6))
    judged = []
    context = PaillierContext(events, lambda: float(next(ticks)), key=key(), judged=lambda *given: judged.append(given))
    train(x, y, deal(2, train={"test": 0.2}), {"bank": context})
    kinds = [type(event) for event in events.events]
    assert kinds[0] is TrainingStarted
    assert kinds.count(EpochFinished) == 2
    assert Stepped in kinds
    finished = [event for event in events.events if isinstance(event, EpochFinished)]
    assert [event.epoch for event in finished] == [0, 1]
    assert finished[0].local.keys() == {"loss", "accuracy", "auc", "ks", "training loss"}
    assert finished[0].bytes_sent > 80 * BITS // 4
    assert finished[0].bytes_received > 100 * 2 * 8
    assert finished[0].stages["encrypting residues"] > 0
    ((scores, labels, held_out),) = judged
    assert held_out
    assert scores.shape == (20, 1)
    assert roc_auc_score(labels, scores) == pytest.approx(finished[-1].local["auc"])


@pytest.mark.parametrize("behind", [None, "bank", "shop1"])
@pytest.mark.parametrize("model", ["two", "three", "linear"])
def test_a_training_that_stopped_goes_on_as_if_it_had_not(model, behind):
    """With secret offsets: the active resumes with those that it kept."""
    x, y = labelled(100, 9, model)
    kind = "linear" if model == "linear" else "logistic"
    settings = deal(2, model=kind, train={"epochs": 4, "patience": 3, "test": 0.2, "secret_spread": 1.0})
    kept: dict[str, list[Saved]] = {name: [] for name in settings.parties}
    judged: list[tuple] = []

    def context(name, **given):
        return PaillierContext(key=key(), judged=lambda *seen: judged.append(seen), **given)

    full = train(x, y, settings, {name: context(name, keep=kept[name].append) for name in kept})
    at = {name: next(saved for saved in states if saved.now.epoch == 2) for name, states in kept.items()}
    if behind:
        at[behind] = [saved for saved in kept[behind] if saved.now.epoch == 1][-1]
    states = {name: Saved.restore(saved.state()) for name, saved in at.items()}
    events = Kept()
    contexts = {name: context(name, sink=events, saved=(state,)) for name, state in states.items()}
    resumed = train(x, y, settings, contexts)
    np.testing.assert_allclose(whole(resumed), whole(full), atol=1e-12)
    assert resumed["bank"].target == full["bank"].target
    first, second = judged
    np.testing.assert_allclose(first[0], second[0], atol=1e-12)
    assert np.array_equal(first[1], second[1])
    assert resumed["bank"].session == full["bank"].session
    assert TrainingResumed(1 if behind else 2, 0) in events.events


@pytest.mark.parametrize("model", ["two", "three", "linear"])
def test_a_step_that_was_interrupted_is_repeated_with_any_number_of_outputs(model):
    """With secret offsets, which both trainings draw from the same seed, and the second draws once."""
    x, y = labelled(100, 9, model)
    changes = {"epochs": 2, "batch": 25, "secret_spread": 1.0}
    settings = deal(2, model="linear" if model == "linear" else "logistic", train=changes)
    judged: list[tuple] = []
    context = PaillierContext(key=key(), rng=seeded_rng(3), judged=lambda *seen: judged.append(seen))
    full = train(x, y, settings, {"bank": context})
    records: dict[str, InMemory] = {name: InMemory() for name in settings.parties}
    kept: dict[str, list[Saved]] = {name: [] for name in settings.parties}
    sent = []

    class Cut(Recorder):
        def send(self, message):
            sent.extend([message] if isinstance(message, Residues) else [])
            if len(sent) == 13:  # to the first of two passives, in the third step of the second epoch
                raise KeyError("the power went")
            super().send(message)

    contexts = {
        name: PaillierContext(
            keep=kept[name].append,
            records=records[name],
            session=bytes(16),
            key=key(),
            rng=seeded_rng(3) if name == "bank" else None,
            judged=lambda *seen: judged.append(seen),
        )
        for name in settings.parties
    }
    parties = functions(
        shared_out(x, settings), y, settings, contexts, lambda me, other, c: Cut(c) if me == "bank" else c
    )
    assert isinstance(errors_of(parties)["bank"], KeyError)
    assert {"step-6", "step-7"} <= records["bank"].kept.keys()
    events = Kept()
    resumed = train(
        x, y, settings, {name: replace(contexts[name], saved=(kept[name][-1],), sink=events) for name in contexts}
    )
    assert any(isinstance(event, TrainingResumed) and event.step > 0 for event in events.events)
    np.testing.assert_allclose(whole(resumed), whole(full), atol=1e-12)
    np.testing.assert_allclose(resumed["bank"].intercept, full["bank"].intercept, atol=1e-12)
    np.testing.assert_allclose(judged[1][0], judged[0][0], atol=1e-12)  # those from before the restart included
    assert all(
        Journal(records[n], Course(4, lambda e: e), kept[n][-1]).uses == 2 for n in kept
    )  # nothing counted twice


def test_a_training_that_ended_is_judged_once_more_when_it_is_resumed():
    """Killed after its last epoch was stored, and before anything was told of it."""
    x, y = people(60, 6)
    settings = deal(1, train={"test": 0.2})
    kept: dict[str, list[Saved]] = {name: [] for name in settings.parties}
    judged: list[tuple] = []
    contexts = {
        name: PaillierContext(key=key(), keep=kept[name].append, judged=lambda *seen: judged.append(seen))
        for name in kept
    }
    train(x, y, settings, contexts)
    train(x, y, settings, {name: replace(contexts[name], saved=(kept[name][-1],)) for name in kept})
    first, second = judged
    assert np.array_equal(first[0], second[0])


def test_other_classes_than_before_are_refused():
    x, y = labelled(60, 6, "three")
    settings = deal(1)
    kept: dict[str, list[Saved]] = {name: [] for name in settings.parties}
    train(x, y, settings, {name: PaillierContext(keep=kept[name].append, key=key()) for name in kept})
    contexts = {name: PaillierContext(saved=(kept[name][1],), key=key()) for name in kept}
    errors = errors_of(functions(shared_out(x, settings), y % 2, settings, contexts))
    assert "labels have the classes 0, 1, and had 0, 1, 2 when" in str(errors["bank"])


def test_without_rows_held_out_training_rows_are_judged():
    x, y = people(60, 6)
    judged: list[tuple] = []
    train(x, y, deal(1), {"bank": PaillierContext(key=key(), judged=lambda *seen: judged.append(seen))})
    ((scores, labels, held_out),) = judged
    assert scores.shape == (60, 1)
    assert np.array_equal(labels, y)
    assert not held_out


@pytest.mark.parametrize("passives", [1, 2])
@pytest.mark.parametrize("model", ["two", "three", "linear"])
def test_a_row_is_predicted_the_same_alone_and_among_others_to_the_last_bit(model, passives):
    x, y = labelled(1100, 60, model, seed=2)
    settings = deal(passives, model="linear" if model == "linear" else "logistic", train={"batch": 100})
    models = train(x[:100], y[:100], settings)
    fresh = x[100:]
    among = predicted(fresh, models, settings)
    assert among.shape == (1000, models["bank"].outputs)
    for rows in ([7], [0, 999], list(range(500, 617))):
        assert np.array_equal(predicted(fresh[rows], models, settings), among[rows])


def predicted(x, models, settings):
    """Raw scores by the whole protocol."""
    fresh = shared_out(x, settings)

    def party(name):
        if name == "bank":
            return lambda channels: predict.active(channels, fresh[name], models[name], settings)
        return lambda channels: predict.passive(channels, fresh[name], models[name], settings, name)

    return run_parties({name: party(name) for name in settings.parties}, patience=HANGS)["bank"]


@pytest.mark.parametrize("passives", [1, 2])
def test_prediction_by_all_parties(passives):
    x, y = people(130, 9)
    settings = deal(passives)
    models = {name: Model.restore(model.state()) for name, model in train(x[:100], y[:100], settings).items()}
    found = predicted(x[100:], models, settings)
    weights, intercept = plain(x[:100], y[:100], settings)
    scores = (x[100:] - x[:100].mean(axis=0)) / x[:100].std(axis=0) @ weights + intercept
    np.testing.assert_allclose(found, scores, atol=1e-5)
    np.testing.assert_allclose(metrics.probabilities(found, "logistic"), expit(scores[:, 0]), atol=1e-5)
