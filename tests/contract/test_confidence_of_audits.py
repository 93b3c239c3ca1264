"""Of a whole audit: a true claim is called false in at most one of a hundred, however many tests a file has."""

from __future__ import annotations

import pytest

from tacit.audit.finding import Finding, LowerBound
from tacit.audit.scope import CONFIDENCE, Scope
from tacit.audit.tradeoff import Curve, CurveTest
from tacit.dp.claim import Claim
from tacit.kind import kind_of
from tacit.runs.load import load

FLEET = {"kind": "horizontal", "task": "digits_unsupervised", "rounds": 2, "clients": 6}
VECTORS = {"unsupervised": {"cluster_client_num": 4, "vectors": 4}}
LAPLACE = {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": 1}
PARTIES = {"clinic": {"role": "leader"}, "laboratory": {"role": "follower"}, "scanner": {"role": "follower"}}
SPLIT = {"kind": "split", "task": "split_cancer", "topology": "V", "parties": PARTIES, "embedding_dp": {"eps": 5}}
NOISED = {"gradients": {"protection": "noised", "noise_multiplier": 1.0}}
FILES = {
    "vectors": {**FLEET, **VECTORS, "encrypt": LAPLACE},
    "uploads": {
        **FLEET,
        **VECTORS,
        "encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 8, "dp_delta": 1e-5, **LAPLACE},
    },
    "sums": {**FLEET, **VECTORS, "encrypt": {"encrypt_type": "DDP_ENCRYPT", "ddp_eps": 8, **LAPLACE}},
    "bits and labels": {**SPLIT, "label_dp": {"eps": 3}},
    "bits and gradients": {**SPLIT, **NOISED},
    "all": {**SPLIT, **NOISED, "label_dp": {"eps": 3}},
}
MECHANISMS, CANARIES, CUT = (
    "tacit.audit.attacks.mechanisms",
    "tacit.kinds.horizontal.attacks.client_canaries",
    "tacit.kinds.split.attacks",
)
AUDITS = {
    "horizontal": (
        *(f"{MECHANISMS}.{name}" for name in ("audit_gaussian", "audit_laplace", "audit_skellam")),
        *(f"{CANARIES}.{name}" for name in ("audit_uploads", "audit_sums")),
    ),
    "split": tuple(f"{CUT}.{name}" for name in ("audit_bits", "audit_gaussian", "audit_labels")),
}


def found(confidence):
    """What an auditor of a mechanism returns: its two tests together fail as rarely as it was told."""
    half = 1 - (1 - confidence) / 2
    test = CurveTest(1.0, 1.0, 0.0, half, 40, Curve())
    bound = LowerBound(0.0, 0.1, half, "m", 40)
    return Finding("a", "b", "c", "d", Claim(1.0, 0.1, "vector", "replace-one"), bound, curve=test)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name == "sums" else name for name in FILES],  # 9 s: noise is sized
)
def test_failures_of_all_tests_add_up_to_one_in_a_hundred(name, monkeypatch):
    """In a full audit; a quick one leaves out some of its tests."""
    pytest.importorskip("torch")
    settings = load({"name": "file", **FILES[name]})
    given = lambda *arguments, effort=None, **keys: found((effort or arguments[-1]).confidence)  # noqa: E731
    for audit in AUDITS[settings.kind]:
        monkeypatch.setattr(audit, given)
    monkeypatch.setattr("tacit.kinds.split.attacks.gradient_canaries.audit_gradients", given)
    monkeypatch.setattr(
        "tacit.kinds.split.attacks.labels.audit_labels", lambda *arguments, confidence, **keys: [found(confidence)]
    )
    plan = kind_of(settings).attacks(settings, Scope(quick=False))
    names = ("noise of", "canaries", "randomized", "labels from gradients")
    steps = [step for step in plan.steps if step.name.startswith(names)]
    failures = [finding.failure for step in steps for finding in step.find()]
    assert len(failures) >= 1
    assert sum(failures) <= 1 - CONFIDENCE + 1e-12
    assert CONFIDENCE == 0.99
