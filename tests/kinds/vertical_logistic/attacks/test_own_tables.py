"""The audit's own plays of a vertical regression: what they cost in utility, and that cheating shows."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from tacit.kinds.vertical_logistic.attacks import own_tables
from tacit.kinds.vertical_logistic.attacks.own_tables import Deal
from tacit.kinds.vertical_logistic.protocol import batches, checks
from tacit.kinds.vertical_logistic.protocol.messages import Scores
from tacit.kinds.vertical_logistic.protocol.model import Scaler
from tests.kinds.vertical_logistic.parties import deal, key, people, plain, shared_out


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
