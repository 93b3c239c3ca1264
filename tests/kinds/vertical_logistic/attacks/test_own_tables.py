"""The audit's own plays of a vertical regression: what they cost in utility, and that cheating shows."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import Lasso
from sklearn.metrics import roc_auc_score

from tacit.audit.scope import Scope
from tacit.kinds.vertical_logistic import attacks
from tacit.kinds.vertical_logistic.attacks import own_tables, residues
from tacit.kinds.vertical_logistic.attacks.own_tables import Deal
from tacit.kinds.vertical_logistic.protocol import batches, checks
from tacit.kinds.vertical_logistic.protocol.messages import Scores
from tacit.kinds.vertical_logistic.protocol.model import Scaler
from tests.kinds.vertical_logistic.parties import deal, key, labelled, people, plain, shared_out


def made(passives: int, **train) -> tuple[Deal, np.ndarray]:
    settings = deal(passives, train={"epochs": 3, "batch": 50, "test": 0.25, **train})
    x, y = people(240, 9, seed=4)
    return Deal(settings, shared_out(x, settings), y, key()), x


@pytest.mark.parametrize("passives", [1, 2])
def test_encryption_costs_no_accuracy(passives):
    """Beside the oracle of the tests, and scikit-learn's AUC."""
    played, x = made(passives)
    costs = {cost.metric.split()[0]: cost for cost in own_tables.cost(played, epochs=50)}
    assert set(costs) == {"loss", "accuracy", "auc", "ks"}
    for cost in costs.values():
        assert cost.on == pytest.approx(cost.off, abs=1e-5)
        assert cost.metric.endswith("on 60 held-out rows after 3 epochs")
    settings = played.changed(epochs=3, test=0.25, batch=50)
    weights, intercept = plain(x, played.labels, settings)
    training, held_out = batches.hold_out(240, 0.25, settings.seed)
    scaled = (x[held_out] - x[training].mean(axis=0)) / x[training].std(axis=0)
    scores = expit(scaled @ weights + intercept)[:, 0]
    assert costs["auc"].off == pytest.approx(roc_auc_score(played.labels[held_out], scores), abs=1e-9)
    assert costs["accuracy"].off == np.mean((scores > 0.5) == played.labels[held_out])


def test_a_protocol_that_learns_otherwise_shows_in_its_cost(monkeypatch):
    """The positive control: gradients that arrive with the wrong sign."""
    played, _ = made(1, epochs=10, learning_rate=0.5)
    unpacked = checks.unpacked
    monkeypatch.setattr(checks, "unpacked", lambda *given: [-value for value in unpacked(*given)])
    loss = next(cost for cost in own_tables.cost(played, epochs=50) if cost.metric.startswith("loss"))
    assert loss.on > loss.off + 0.05


def test_without_rows_held_out_the_training_rows_are_judged():
    played, _ = made(1, test=0.0)
    assert own_tables.cost(played, epochs=50)[0].metric == "loss on 240 training rows after 3 epochs"


@pytest.mark.parametrize(("passives", "columns"), [(1, 6), (2, 9), (3, 8)])
def test_sums_of_scores_give_away_the_rows_of_each_passive(passives, columns):
    """Masks hide whose score is whose. The sum spans the columns of all, and rows known of one do the rest."""
    settings = deal(passives, train={"epochs": 40, "batch": 64, "learning_rate": 2.0})
    x, y = people(120, columns, seed=4)
    found = own_tables.audit_scores(Deal(settings, shared_out(x, settings), y, key()))
    assert found.off.value < 0.01 < 0.5 < found.off.baseline
    if passives == 1:
        assert found.on is None
    else:
        assert found.on.high < 0.6 * found.on.baseline


def test_what_the_active_reads_is_the_sum():
    """Against the passives' own scores, which no message shows when there are two."""
    played, _ = made(2, test=0.0)
    settings = played.changed(epochs=2, batch=240)
    seen = played.play(settings)
    assert not seen.errors
    first, second = seen.scores()
    assert np.array_equal(first, np.zeros((240, 1)))
    x = np.hstack([Scaler.fit(played.features[name]).apply(played.features[name]) for name in settings.passives])
    order = batches.schedule(240, settings).batches(0)[0]
    y = played.labels.astype(float)
    gradient = x[order].T @ (0.5 - y[order, None])
    weights = -settings.train.rate(0) * gradient / 240
    assert second == pytest.approx(x[batches.schedule(240, settings).batches(1)[0]] @ weights, abs=1e-6)
    for recorder in seen.seen.values():
        words = [np.frombuffer(message.words, "<i8") for message in recorder.seen if isinstance(message, Scores)]
        assert np.abs(words[0].astype(float)).mean() > 2**60  # masked


def test_least_squares_stays_small_for_large_tables():
    settings = deal(1, train={"epochs": 200, "batch": 512})
    x, y = people(1200, 20, seed=1)
    found = own_tables.audit_gradients(Deal(settings, shared_out(x, settings), y, key()), seed=0)
    assert found.off.value > 0.95


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_rare_labels_are_told_sooner_than_frequent_ones(spread):
    """1000 × 10, batches of 250, 9 epochs, as the checks accept them. With offsets too: what they do not stop."""
    settings = deal(1, train={"epochs": 9, "batch": 250, "learning_rate": 0.3, "secret_spread": spread})
    rng = np.random.default_rng(0)
    features = {"bank": rng.normal(size=(1000, 3)), "shop0": rng.normal(size=(1000, 10))}
    areas = {}
    for positives in (20, 500):
        y = (np.arange(1000) < positives).astype(int)
        areas[positives] = own_tables.audit_gradients(Deal(settings, features, y, key()), seed=0).on
    assert areas[20].value > 0.86
    assert areas[20].value > areas[500].high
    assert areas[500].low > 0.55, areas


@pytest.mark.parametrize(("spread", "named"), [(0.0, 20), (1.0, 5)])
def test_sparse_recovery_names_rare_labels(spread, named):
    """The fewest residues below all others that explain the gradients: all 20 of 1000 without offsets, some with: by
    chance it would be 0.4 of 20."""
    settings = deal(1, train={"epochs": 9, "batch": 250, "learning_rate": 0.3, "secret_spread": spread})
    rng = np.random.default_rng(0)
    own, others, y = rng.normal(size=(1000, 10)), rng.normal(size=(1000, 3)), rng.permutation(1000) < 20
    offsets = spread * rng.normal(size=(1000, 1))
    steps = residues.gradients_seen(own, others, y.astype(int), settings, offsets=offsets)
    x = Scaler.fit(own).apply(own)
    blocks, values = [], []
    for step in steps:
        shared = x[step.batch].T @ np.ones(len(step.batch))  # what all residues of a batch have in common drops out
        free = np.linalg.svd(shared[None])[2][1:]
        block = np.zeros((9, 1000))
        block[:, step.batch] = free @ x[step.batch].T
        blocks.append(block)
        values.append(-free @ step.gradient[:, 0])
    equations, wanted = np.vstack(blocks), np.concatenate(values)
    penalty = 0.02 * np.abs(equations.T @ wanted).max() / len(wanted)
    found = Lasso(alpha=penalty, positive=True, fit_intercept=False, max_iter=20_000).fit(equations, wanted).coef_
    first = np.argsort(-found)[:20]
    assert y[first].sum() >= named


@pytest.mark.parametrize(("model", "names"), [("three", {"loss", "accuracy", "auc"}), ("linear", {"loss", "rmse"})])
@pytest.mark.parametrize("passives", [1, 2])
def test_several_classes_and_numbers_cost_no_accuracy(model, names, passives):
    played = of_model(model, passives, class_weight="balanced" if model == "three" else None)
    costs = {cost.metric.split()[0]: cost for cost in own_tables.cost(played, epochs=50)}
    assert names <= costs.keys()
    for cost in costs.values():
        assert cost.on == pytest.approx(cost.off, abs=1e-4)


def of_model(model: str, passives: int = 1, columns: int = 18, **train) -> Deal:
    kind = "linear" if model == "linear" else "logistic"
    settings = deal(passives, model=kind, train={"epochs": 3, "batch": 100, "test": 0.25, **train})
    x, y = labelled(200, columns, model, seed=4)
    return Deal(settings, shared_out(x, settings), y, key())


@pytest.mark.parametrize("model", ["three", "linear"])
def test_forged_residues_of_any_model_are_refused(model):
    for found in own_tables.audit_forgeries(of_model(model), trials=2, seed=0):
        assert found.on.value == 0, found.attack
        assert found.off is None or found.off.value == 1, found.attack


@pytest.mark.parametrize("model", ["three", "linear"])
def test_scores_of_any_model_give_rows_to_an_active_that_knows_some(model):
    played = of_model(model, columns=10, epochs=40, learning_rate=0.3)
    found = own_tables.audit_scores(played)
    assert found.off.value < 0.05 < 0.5 < found.off.baseline


@pytest.mark.parametrize("model", ["three", "linear"])
def test_labels_of_any_model_are_solved_for_in_small_batches(model):
    found = own_tables.audit_gradients(of_model(model), seed=0)
    assert found.off.value > 0.9
    assert found.on.value < found.off.value


@pytest.mark.parametrize("model", ["three", "linear"])
def test_a_passive_reads_labels_of_any_model_by_having_residues_decrypted(model):
    played = of_model(model)
    found = own_tables.audit_oracle(played)
    read = int(found.off.metric.split(", ")[1].split()[0])
    assert read == 19  # as a key of 512 bits has place for
    others = (found.off.value * 200 - read) / (200 - read)  # right where nothing was read, if all that was is right
    assert others == pytest.approx(found.off.baseline, abs=0.03)


def test_weights_of_one_class_are_steered_as_those_of_two():
    found = own_tables.audit_steering(of_model("three"))
    assert found.off.value < 0.01
    assert found.on.value == pytest.approx(found.on.baseline, rel=0.01)


@pytest.mark.parametrize(
    ("model", "words"), [("three", "gradients of the 3 classes jointly"), ("linear", "steers the passive's weights")]
)
def test_what_is_not_tested_of_a_model_is_listed(model, words, monkeypatch):
    played = of_model(model)
    monkeypatch.setattr(attacks, "tables", lambda settings: (played.features, played.labels))
    found = attacks.attacks(played.settings, Scope(quick=True))
    assert any(words in each for each in found.not_tested)
    assert {"forged residues", "scores w·x", "gradients of a passive", "decryption oracle"} <= {
        step.name for step in found.steps
    }


def test_few_rows_of_an_audit_have_every_class():
    labels = np.repeat([0, 1, 2], [500, 498, 2])
    order = attacks._each_class_first(np.random.default_rng(0).permutation(1000), labels)
    assert sorted(order) == list(range(1000))
    assert set(labels[order[:40]]) == {0, 1, 2}
