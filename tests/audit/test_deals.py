"""The audit's own plays of a vertical regression: what they cost in utility, and that cheating shows."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from tacit.audit import deals
from tacit.audit.deals import Deal
from tacit.vertical import batches, logistic_masked
from tests.vertical.parties import deal, key, people, plain, shared_out


def made(passives: int, **train) -> tuple[Deal, np.ndarray]:
    settings = deal(passives, train={"epochs": 3, "batch": 50, "test": 0.25, **train})
    x, y = people(240, 9, seed=4)
    return Deal(settings, shared_out(x, settings), y, key()), x


@pytest.mark.parametrize("passives", [1, 2])
def test_encryption_costs_no_accuracy(passives):
    """Beside the oracle of the tests, and scikit-learn's AUC."""
    played, x = made(passives)
    costs = {cost.metric.split()[0]: cost for cost in deals.cost(played)}
    assert set(costs) == {"loss", "accuracy", "auc", "ks"}
    for cost in costs.values():
        assert cost.on == pytest.approx(cost.off, abs=1e-5)
        assert cost.metric.endswith("on 60 held-out rows after 3 epochs")
    settings = played.changed(epochs=3, test=0.25, batch=50)
    weights, intercept = plain(x, played.labels, settings)
    training, held_out = batches.hold_out(240, 0.25, settings.seed)
    scaled = (x[held_out] - x[training].mean(axis=0)) / x[training].std(axis=0)
    scores = expit(scaled @ weights + intercept)
    assert costs["auc"].off == pytest.approx(roc_auc_score(played.labels[held_out], scores), abs=1e-9)
    assert costs["accuracy"].off == np.mean((scores > 0.5) == played.labels[held_out])


def test_a_protocol_that_learns_otherwise_shows_in_its_cost(monkeypatch):
    """The positive control: gradients that arrive with the wrong sign."""
    played, _ = made(1, epochs=10, learning_rate=0.5)
    unpacked = logistic_masked.checks.unpacked
    monkeypatch.setattr(logistic_masked.checks, "unpacked", lambda *given: [-value for value in unpacked(*given)])
    loss = next(cost for cost in deals.cost(played) if cost.metric.startswith("loss"))
    assert loss.on > loss.off + 0.05


def test_without_rows_held_out_the_training_rows_are_judged():
    played, _ = made(1, test=0.0)
    assert deals.cost(played)[0].metric == "loss on 240 training rows after 3 epochs"
