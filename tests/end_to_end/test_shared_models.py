"""Models on shares, by one file: as good as the same steps in plain floats, for two, three and five parties."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from tacit.channel import run_parties
from tacit.events import Nowhere
from tacit.kinds.vertical_logistic.party import party
from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.protocol.model import Model
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep import cancer
from tacit.lockstep.run import Place
from tests.kinds.vertical_logistic.parties import labelled, plain
from tests.kinds.vertical_logistic.shared_tables import of_tables
from tests.subprocesses import HANGS

ALLOWED = 0.002  # of AUC


def trained(settings):
    """Each party's part of the model."""
    parts = run_parties({me: party(settings, me, Place(None, Nowhere())) for me in settings.parties}, patience=HANGS)
    return {name: Model.restore(parts[name].model) for name in settings.owners}


@pytest.mark.parametrize(("passives", "dealer"), [(1, True), (2, True), (4, True), (1, False)])
def test_breast_cancer_is_told_as_by_plain_steps(passives, dealer):
    owners = {"bank": {"role": "active"}} | {f"shop{number}": {"role": "passive"} for number in range(passives)}
    settings = Settings.model_validate(
        {
            "kind": "vertical_logistic",
            "parties": owners | ({"notary": {"role": "dealer"}} if dealer else {}),
            "protocol": "shared",
            "task": "cancer",
            "align": False,
            "train": {"epochs": 10, "batch": 128, "learning_rate": 0.5, "l2": 0.002, "test": 0.3},
        }
    )
    models = trained(settings)
    tables = cancer.make_parts(list(settings.owners), settings.active, settings.seed, align=False)
    x, y = np.hstack([tables[name].features for name in settings.owners]), load_breast_cancer().target
    weights, intercept = plain(x, y, settings)
    ours = np.concatenate([models[name].weights for name in settings.owners])
    np.testing.assert_allclose(ours, weights, atol=2e-3 if dealer else 0.03)  # scores are rounded to halves, at random
    training, held_out = batches.hold_out(len(y), settings.train.test, settings.seed)
    scaled = (x - x[training].mean(axis=0)) / x[training].std(axis=0)
    expected = roc_auc_score(y[held_out], scaled[held_out] @ weights[:, 0] + intercept[0])
    scores = np.sum([models[name].score(tables[name].features[held_out]) for name in settings.owners], axis=0)
    assert abs(roc_auc_score(y[held_out], scores[:, 0]) - expected) < ALLOWED
    assert expected > 0.98


@pytest.mark.parametrize(("labels", "changes"), [
    ("three", {}),
    ("linear", {"train": {"learning_rate": 0.2}}),
    ("two", {"train": {"class_weight": "balanced", "l2": 0.01, "schedule": "inverse"}}),
])  # fmt: skip
@pytest.mark.parametrize("dealer", [True, False])
def test_every_model_has_the_weights_of_plain_steps(tmp_path, labels, changes, dealer):
    settings = of_tables(tmp_path, 1 + dealer, labels=labels, align=False, dealer=dealer, **changes)
    close = 2e-3 if dealer or labels == "linear" else 0.03
    x, y = labelled(400, 12, labels)
    weights, intercept = plain(x, y, settings)
    models = trained(settings)
    ours = np.concatenate([models[name].weights for name in settings.owners])
    np.testing.assert_allclose(ours, weights, atol=close)
    np.testing.assert_allclose(models["bank"].intercept, intercept, atol=close)
