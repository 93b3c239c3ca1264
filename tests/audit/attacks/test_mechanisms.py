"""Each auditor: a correct mechanism passes, and a faulty one is caught."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tacit.audit.attacks.mechanisms import (
    Effort,
    audit_bits,
    audit_clipping,
    audit_gaussian,
    audit_labels,
    audit_laplace,
    audit_skellam,
    opened_sums,
)
from tacit.audit.finding import Finding, LowerBound
from tacit.dp import mechanisms
from tacit.dp.claim import Claim
from tacit.dp.clipping import clip_l2
from tacit.dp.gaussian import gaussian_sigma
from tacit.kinds.horizontal.protections.local_dp import LocalDP
from tacit.randomness import seeded_rng
from tacit.secagg.skellam import SkellamEncoding

DELTA = 1e-5
VECTOR = Claim(1.0, 0.0, "vector", "replace-one")
LONGEST = np.eye(1, 4)[0]


def laplace_of(sensitivity, seed=0):
    rng = seeded_rng(seed)
    return lambda rows: mechanisms.laplace(rows, sensitivity=sensitivity, epsilon=1.0, rng=rng).value


def test_laplace_on_the_simplex():
    """Two points of the simplex are 2 apart: noise for 1 is claimed to be epsilon 1 and is epsilon 2."""
    one, other = np.eye(2, 5)
    honest = audit_laplace(laplace_of(2.0), one, other, VECTOR)
    assert 0.9 < honest.audited.epsilon <= 1.0
    assert not honest.refuted
    faulty = audit_laplace(laplace_of(1.0), one, other, VECTOR)
    assert 1.9 <= faulty.audited.epsilon <= 2.0
    assert faulty.refuted
    assert "FALSE" in str(faulty)


def test_laplace_noise_of_floats():
    """The textbook's float noise with the seed's sensitivity: its scores have atoms only up to rounding."""
    rng = np.random.default_rng(1)
    one, other = np.eye(2, 5)
    found = audit_laplace(lambda rows: rows + rng.laplace(0, 1.0, rows.shape), one, other, VECTOR)
    assert found.audited.epsilon >= 1.9


def local_dp(sigma_for, epsilon, seed):
    """Clip to 1 and add the noise that would be right for updates `sigma_for` apart."""
    rng = seeded_rng(seed)
    multiplier = gaussian_sigma(epsilon, DELTA)

    def protect(rows):
        return mechanisms.gaussian(rows, sensitivity=sigma_for, noise_multiplier=multiplier, rng=rng).value

    return protect


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_gaussian_noise_for_updates_2c_apart(epsilon):
    claim = Claim(epsilon, DELTA, "client", "replace-one")
    honest = audit_gaussian(local_dp(2.0, epsilon, 0), -LONGEST, LONGEST, claim)
    assert 0.85 * epsilon <= honest.audited.epsilon <= epsilon
    faulty = audit_gaussian(local_dp(1.0, epsilon, 1), -LONGEST, LONGEST, claim)
    assert faulty.refuted
    assert faulty.audited.epsilon > 1.9 * epsilon


@pytest.mark.slow  # 10 s; test_client_canaries.py asks a client in the fast tests
def test_local_dp_as_a_client_runs_it():
    protection = LocalDP(8, 1.0, gaussian_sigma(4.0, DELTA), None)
    rng = seeded_rng(2)

    def upload(clip):
        return lambda rows: np.stack([protection.protect(row.copy(), clip, rng).value for row in rows])

    claim = Claim(4.0, DELTA, "client", "replace-one")
    effort = Effort(samples=4_000)
    update = 100 * LONGEST
    honest = audit_gaussian(upload(1.0), -update, update, claim, effort=effort)
    assert 1.8 < honest.audited.epsilon <= 4.0
    # noise for C where the updates are 2C apart
    unclipped = replace(protection, noise_multiplier=protection.noise_multiplier / 2)
    faulty = audit_gaussian(
        lambda rows: np.stack([unclipped.protect(row.copy(), 1.0, rng).value for row in rows]),
        -update, update, claim, effort=effort,
    )  # fmt: skip
    assert faulty.refuted


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_gaussian_noise_in_twenty_repeats(epsilon):
    claim = Claim(epsilon, DELTA, "client", "replace-one")
    found = [
        audit_gaussian(local_dp(1.0, epsilon, seed), np.zeros(1), np.ones(1), claim).audited.epsilon
        for seed in range(20)
    ]
    assert max(found) <= epsilon
    assert min(found) >= 0.85 * epsilon


def flipped(epsilon_per_bit, seed=0):
    rng = seeded_rng(seed)
    return lambda rows: mechanisms.randomized_response(rows, epsilon_per_bit=epsilon_per_bit, rng=rng).value


def test_bits():
    """Sign bits flipped at epsilon / 2 each: epsilon holds for one-hot input, d epsilon / 2 for d free bits."""
    five, ten = (Claim(epsilon, 0.0, "vector", "replace-one") for epsilon in (5.0, 10.0))
    for seed in range(3):
        free = audit_bits(flipped(2.5, seed), five, width=4)
        assert free.audited.epsilon >= 9
        assert free.refuted
    assert not audit_bits(flipped(2.5), ten, width=4).refuted
    one_hot = audit_bits(flipped(2.5), five, width=4, inputs="one-hot")
    assert 4.5 < one_hot.audited.epsilon <= 5.0


def labels_of(epsilon, classes, seed=0):
    rng = seeded_rng(seed)
    return lambda labels: mechanisms.k_ary_randomized_response(labels, k=classes, epsilon=epsilon, rng=rng).value


@pytest.mark.parametrize("classes", [2, 10])
def test_labels(classes):
    claim = Claim(2.0, 0.0, "label", "replace-one")
    honest = audit_labels(labels_of(2.0, classes), claim, classes=classes)
    assert 1.8 < honest.audited.epsilon <= 2.0
    assert audit_labels(labels_of(2.5, classes), claim, classes=classes).refuted


def test_a_label_that_is_never_changed_is_found():
    """A fault in one class of ten: label 7 goes through as it is."""
    mechanism = labels_of(1.0, 10)
    found = audit_labels(
        lambda labels: np.where(labels == 7, labels, mechanism(labels)),
        Claim(1.0, 0.0, "label", "replace-one"),
        classes=10,
    )
    assert found.refuted


def test_shares_of_skellam_noise():
    """The noise is sized for 8 of 10 survivors, one of whom colludes. A sum of 3 must not be opened: it would tell."""
    encoding = SkellamEncoding.for_budget(
        values=3, clip=1.0, clients=10, fewest=8, colluders=1, epsilon=2.0, delta=DELTA
    )
    effort = Effort(samples=8_000)
    honest = audit_skellam(encoding, delta=DELTA, effort=effort, rng=seeded_rng(0))
    assert honest.proved.epsilon == pytest.approx(2.0, rel=1e-4)
    assert 0.8 < honest.audited.epsilon <= 2.0
    assert audit_skellam(encoding, delta=DELTA, honest=2, effort=effort, rng=seeded_rng(1)).refuted


def test_the_audited_sums_are_those_that_the_noise_is_sized_for():
    encoding = SkellamEncoding(3, 1.0, clients=6, fewest=4, noise_multiplier=2.0, colluders=1)
    sums = opened_sums(encoding, 0.0, 3, 2000, seeded_rng(5))
    assert sums.var() == pytest.approx(encoding.central_variance, rel=0.08)
    long = opened_sums(encoding, 1.0, 3, 2000, seeded_rng(6))
    assert long.shape == sums.shape == (2000, encoding.columns)
    assert (long.mean(axis=0) > 0).all()
    assert np.linalg.norm(long.mean(axis=0)) == pytest.approx(encoding.scale, rel=0.1)
    with pytest.raises(ValueError, match="leave no client"):
        opened_sums(encoding, 0.0, 0, 10)


def noisy_sums(micro_batch, noise_multiplier):
    """Sums of clipped means of micro-batches; of one record each: of clipped records."""
    rng = seeded_rng(3)

    def sums(gradients, count):
        total = np.zeros(gradients.shape[1])
        for start in range(0, len(gradients), micro_batch):
            mean = gradients[start : start + micro_batch].mean(axis=0)
            clip_l2(mean, 1.0)
            total += mean
        released = mechanisms.gaussian(
            np.tile(total, (count, 1)), sensitivity=1.0, noise_multiplier=noise_multiplier, rng=rng
        )
        return released.value

    return sums


def test_clipping_of_records_and_of_micro_batches():
    claim = Claim(2.0, DELTA, "record", "add-remove")
    multiplier = gaussian_sigma(2.0, DELTA)
    effort = Effort(samples=400_000)
    honest = audit_clipping(noisy_sums(1, multiplier), claim, clip=1.0, width=2, effort=effort)
    assert 1.6 < honest.audited.epsilon <= 2.0
    for size in (2, 4, 8):
        faulty = audit_clipping(noisy_sums(size, multiplier), claim, clip=1.0, width=2, effort=effort)
        assert faulty.refuted
        assert faulty.audited.epsilon > 3.5


def test_clipping_in_the_engine_of_private_training():
    torch = pytest.importorskip("torch")
    from tacit.training import Engine

    multiplier = gaussian_sigma(2.0, DELTA)
    model = torch.nn.Linear(3, 1, bias=False).double()
    engine = Engine(model, reduction="sum")
    rng = seeded_rng(4)

    def sums(gradients, count):
        engine.sum.zero_()
        model(torch.from_numpy(gradients)).sum().backward()  # the gradient of a record is the record
        engine.add_clipped(engine.factors(engine.norms(), 1.0))
        total = np.tile(engine.sum.numpy(), (count, 1))
        return mechanisms.gaussian(total, sensitivity=1.0, noise_multiplier=multiplier, rng=rng).value

    claim = Claim(2.0, DELTA, "record", "add-remove")
    found = audit_clipping(sums, claim, clip=1.0, width=3, effort=Effort(samples=100_000))
    assert 1.4 < found.audited.epsilon <= 2.0


def test_a_bound_at_a_smaller_delta_refutes_nothing():
    with pytest.raises(ValueError, match="delta"):
        Finding(
            "a",
            "b",
            "c",
            "d",
            proved=Claim(1.0, 1e-5, "record", "add-remove"),
            audited=LowerBound(2.0, 0.0, 0.9, "m", 1),
        )


@pytest.mark.parametrize("width", [0, 1])
def test_inputs_that_do_not_exist_are_refused(width):
    with pytest.raises(ValueError, match="width"):
        audit_bits(flipped(1.0), VECTOR, width=width, inputs="one-hot" if width else "free")
    with pytest.raises(ValueError, match="classes"):
        audit_labels(labels_of(1.0, 2), VECTOR, classes=width)
    assert math.isfinite(audit_bits(flipped(1.0), VECTOR, width=1, effort=Effort(1000)).audited.epsilon)
