"""Claims about functions that add noise: dictionaries are checked, ε is recomputed, false claims are found."""

import math

import numpy as np
import pytest

from tacit.audit.claims.mechanism import Mechanism, audit_mechanism
from tacit.audit.claims.samples import Effort
from tacit.dp.gaussian import gaussian_epsilon

EFFORT = Effort(learn=100, choose=500, judge=2000, seconds=1e6)


def noisy(kind, scale, *, seed=0, **more):
    rng = np.random.default_rng(seed)
    draw = {"gaussian": rng.normal, "laplace": rng.laplace}[kind]
    given = {"release": lambda x: x + draw(0, scale), "one": 0.0, "other": 1.0}
    return given | {"noise": kind, "scale": scale, "sensitivity": 1.0} | more


def audited(made, epsilon, delta):
    made = Mechanism.of(made)
    found = audit_mechanism(made, epsilon=epsilon, delta=delta, subject="it", confidence=0.95, effort=EFFORT)
    return found, found.judged


def test_laplace_noise_is_recomputed_and_its_claim_stands():
    _, row = audited(noisy("laplace", 0.5), 2.0, 0.0)
    assert row.recomputed.epsilon == pytest.approx(2.0)
    assert row.verdict == "holds"
    assert 1.5 < row.measured[0].epsilon <= 2.0


def test_laplace_noise_for_half_the_sensitivity_is_refuted_both_ways():
    _, row = audited(noisy("laplace", 1.0, other=2.0, sensitivity=2.0), 1.0, 0.0)
    assert row.verdict == "refuted"
    assert row.recomputed.epsilon == pytest.approx(2.0)
    assert row.measured[0].epsilon > 1.0


def test_noise_that_is_smaller_than_stated_is_refuted_by_samples_alone():
    claimed = gaussian_epsilon(1.0, 1e-5)
    made = noisy("gaussian", 0.3) | {"scale": 1.0}
    found, row = audited(made, claimed, 1e-5)
    assert row.recomputed.epsilon == pytest.approx(claimed)
    assert row.verdict == "refuted"
    assert any("not the stated 1" in said for said in found.warnings)


def test_inputs_that_are_further_apart_than_stated_are_told():
    found, _ = audited(noisy("gaussian", 1.0, other=3.0), gaussian_epsilon(1.0, 1e-5), 1e-5)
    assert any("stated sensitivity" in said for said in found.warnings)


def test_releases_are_measured_and_recomputed_together():
    claimed = gaussian_epsilon(2.0, 1e-5)  # of one release
    _, row = audited(noisy("gaussian", 2.0, releases=16), claimed, 1e-5)
    assert row.recomputed.epsilon == pytest.approx(gaussian_epsilon(0.5, 1e-5), rel=1e-3)
    assert row.verdict == "refuted"
    assert row.measured[1].epsilon > claimed


def test_code_without_parameters_is_only_measured():
    made = {key: value for key, value in noisy("laplace", 0.5).items() if key in ("release", "one", "other")}
    found, row = audited(made, 2.0, 0.0)
    assert row.recomputed is None
    assert row.verdict == "not refuted"
    assert any("parameters" in said for said in found.not_tested)


def test_gaussian_noise_has_no_epsilon_at_delta_0():
    _, row = audited(noisy("gaussian", 1.0), 3.0, 0.0)
    assert math.isinf(row.recomputed.epsilon)
    assert row.verdict == "refuted"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ([1, 2], "dictionary"),
        ({"release": abs, "one": 0}, "lacks other"),
        ({"release": 1, "one": 0, "other": 1}, "must be a function"),
        ({"release": abs, "one": 0, "other": 1, "sigma": 1}, "unknown keys sigma"),
        ({"release": abs, "one": 0, "other": 1, "scale": 1}, "need noise"),
        ({"release": abs, "one": 0, "other": 1, "noise": "uniform"}, "noise must be one of"),
        ({"release": abs, "one": 0, "other": 1, "noise": "laplace"}, "scale must be"),
        ({"release": abs, "one": 0, "other": 1, "releases": 0}, "releases must be"),
        ({"release": abs, "one": 0, "other": 1, "unit": "person"}, "unit must be one of"),
        (noisy("gaussian", 1.0, sampling_probability=0.5, relation="replace-one"), "Poisson sampling"),
    ],
)
def test_a_dictionary_that_does_not_fit_is_refused_in_a_sentence(made, words):
    with pytest.raises(ValueError, match=words):
        Mechanism.of(made)


def test_a_delta_of_1_is_refused():
    with pytest.raises(ValueError, match="delta must be in"):
        audited(noisy("laplace", 1.0), 1.0, 1.0)
