"""Parties that cheat or look too closely: what is stopped, and how much stays open."""

from __future__ import annotations

import random
import re
import threading

import numpy as np
import pytest
from gmpy2 import is_prime, mpz, next_prime
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from tacit.crypto.paillier import Ciphertexts, PublicKey
from tacit.errors import PeerError, Unfit
from tacit.events import Kept, Noted
from tacit.kinds.vertical_logistic.attacks import residues as attacks
from tacit.kinds.vertical_logistic.protocol import batches, checks, decryption_proof, encoding
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.messages import Decrypted, MaskedGradient, Residues, Scores
from tacit.kinds.vertical_logistic.protocol.model import Scaler
from tests.kinds.vertical_logistic.parties import (
    deal,
    errors_of,
    functions,
    key,
    labelled,
    people,
    recorded,
    shared_out,
    train,
)

OPEN = {"decryption": False, "gradient_bound": False, "few_rows": False}


def against(forge, settings, x, y):
    """A run with an active that cheats: what the parties raised, and what the active saw of the first passive."""
    logs = {}
    parts = shared_out(x, settings)
    parties = functions(parts, y, settings, wrap=recorded(logs))
    honest = parties["bank"]
    parties["bank"] = lambda channels: honest(attacks.forged(channels, forge))
    return errors_of(parties), logs["bank", "shop0"]


FORGERIES = {
    "one row": (attacks.one_hot(key()), "made of one of its rows alone"),
    "three rows": (attacks.one_hot(key(), (3, 8, 21)), "of its rows alone"),
    "scaled": (attacks.scaled(key(), 16), "times the largest"),
    "scaled far": (attacks.scaled(key(), 1 << 20), "overran its place"),
    "positional": (attacks.positional(key()), "overran its place"),
    "steered": (attacks.steered(key(), lambda step: [1 << 30], encoding.slot_bits(60)), "not the decryption"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_an_active_that_cheats_is_caught_before_anything_depends_on_it(name):
    forge, words = FORGERIES[name]
    x, y = people(120, 24)
    settings = deal(1, train={"batch": 60})
    errors, seen = against(forge, settings, x, y)
    assert isinstance(errors["shop0"], PeerError)
    assert words in str(errors["shop0"])
    assert str(errors["bank"]) == "shop0 failed (PeerError)"  # no word on what was seen
    assert [type(message) for message in seen.seen].count(Scores) == 1  # those of zero weights, before the attack
    ((first,),) = ([m for m in seen.seen if isinstance(m, Scores)],)
    assert not any(first.words)


@pytest.mark.parametrize("output", [0, 1, 2])
def test_one_class_of_several_whose_residues_single_out_a_row_is_enough(output):
    """All other classes are honest."""
    x, y = labelled(120, 24, "three")
    one = 1 << encoding.RESIDUE_BITS

    def chosen(honest):
        return [one * (place == 15 + output) if place % 3 == output else r for place, r in enumerate(honest)]

    errors, seen = against(attacks._residues(key(), chosen), deal(1, train={"batch": 60}), x, y)
    assert "made of one of its rows alone (number 5 of" in str(errors["shop0"])
    assert [type(message) for message in seen.seen].count(Scores) == 1

    def large(honest):
        return [16 * r if place % 3 == output else r for place, r in enumerate(honest)]

    errors, _ = against(attacks._residues(key(), large), deal(1, train={"batch": 60}), x, y)
    assert "times the largest" in str(errors["shop0"])


@pytest.mark.parametrize("name", FORGERIES)
def test_the_same_with_checks_off_goes_through_or_breaks_down(name):
    x, y = people(120, 24)
    errors, _ = against(FORGERIES[name][0], deal(1, train={"batch": 60}, checks=OPEN), x, y)
    assert bool(errors) == (name in ("positional", "scaled far"))  # whose sums no longer can be taken apart


def test_each_check_refuses_alone():
    x, y = people(120, 24)
    for name, check in {"one row": "few_rows", "scaled": "gradient_bound", "steered": "decryption"}.items():
        settings = deal(1, train={"batch": 60}, checks={**OPEN, check: True})
        assert FORGERIES[name][1] in str(against(FORGERIES[name][0], settings, x, y)[0]["shop0"])


def test_steered_weights_read_columns_where_nothing_checks_the_decryption():
    x, y = people(120, 24)
    settings = deal(1, train={"batch": 120, "epochs": 6, "learning_rate": 1.0}, checks=OPEN)
    parts = shared_out(x, settings)
    truth = encoding.Columns.encode(Scaler.fit(parts["shop0"]).apply(parts["shop0"]))
    bits, one = encoding.slot_bits(120), 1 << encoding.RESIDUE_BITS + 10

    def wanted(step: int) -> list[int]:  # a unit vector, less the one before
        return [one * ((column == step) - (column == step - 1)) for column in range(12)]

    errors, seen = against(attacks.steered(key(), wanted, bits), settings, x, y)
    assert not errors
    sent = [np.frombuffer(m.words, "<i8") / 2**32 for m in seen.seen if isinstance(m, Scores)]
    weights = [-np.ldexp(float(one), int(truth.exponents[j]) - encoding.RESIDUE_BITS) / 120 for j in range(5)]
    columns = attacks.columns_from_steering(sent[1:], weights)
    for epoch, column in enumerate(columns):
        order = batches.schedule(120, settings).batches(epoch + 1)[0]
        np.testing.assert_allclose(column, truth.values[order, epoch], atol=1e-4)


def test_a_row_hidden_among_others_passes_and_that_is_said():
    """The check has a tolerance: residues spread a little above it pass. docs/vertical.md says what this leaves."""
    x, y = people(120, 24)
    settings = deal(1, train={"batch": 60, "epochs": 1})
    assert "made of one of its rows" in str(against(attacks.hidden_one_hot(key(), 5, 1e-6), settings, x, y)[0]["shop0"])
    assert not against(attacks.hidden_one_hot(key(), 5, 0.05), settings, x, y)[0]


def test_with_few_features_the_exposure_is_stated():
    x, y = people(100, 8)
    events = Kept()
    train(x, y, deal(1), {"shop0": PaillierContext(sink=events)})
    (note,) = (event.text for event in events.events if isinstance(event, Noted))
    assert "rank 4, below 8" in note


def test_honest_runs_trip_no_check():
    x, y = load_breast_cancer(return_X_y=True)
    train(x, y, deal(2, train={"epochs": 6, "batch": 48, "learning_rate": 0.5}))


def test_few_rows_are_found_in_correlated_features():
    x, _ = load_breast_cancer(return_X_y=True)
    x = Scaler.fit(x).apply(x)
    whitening = checks.Whitening.fit(x)
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(60):
        count = rng.integers(1, 4)
        chosen = rng.choice(128, count, replace=False)
        gradient = rng.uniform(-1, 1, count) @ x[chosen]
        got = checks.nearest_rows(gradient @ whitening.basis, x[:128] @ whitening.basis)
        found += got is not None and set(got) <= set(chosen.tolist())
    assert found == 60
    for _ in range(60):
        gradient = rng.uniform(-1, 1, 128) @ x[:128]
        assert checks.nearest_rows(gradient @ whitening.basis, x[:128] @ whitening.basis) is None


# --- the mask on the gradient


COLUMNS = 12


def views(x, y, buckets, monkeypatch, mask=PublicKey.uniform):
    """How often the active's view of a masked gradient falls into each part of Z_n.

    Each view is a mask of its own and a gradient: numbers that fill less than a thousandth of Z_n.
    """
    draw, lock, masks = random.Random(5), threading.Lock(), []

    def below(limit):
        with lock:
            return draw.randrange(limit)

    monkeypatch.setattr("tacit.crypto.paillier.public.secrets.randbelow", below)

    def noted(self, count):
        masks.extend(mask(self, count))
        return masks[-count:]

    monkeypatch.setattr(PublicKey, "uniform", noted)
    settings = deal(1, scale=False, train={"epochs": 100, "batch": 12, "learning_rate": 1e-9})
    logs = {}
    errors = errors_of(functions({"bank": x[:, :1], "shop0": x[:, 1:]}, y, settings, wrap=recorded(logs)))
    assert not errors
    found = []
    for message in logs["bank", "shop0"].seen:
        if isinstance(message, MaskedGradient):
            sent = Ciphertexts.from_bytes(key().public, message.ciphertexts, 2)
            found += key().decrypt_unsigned(sent)
    n = key().public.n
    assert len(found) == len(set(masks)) == 400
    assert all(abs(key().public.signed(view - own)) < n // 1000 for view, own in zip(found, masks, strict=True))
    return np.bincount([value * buckets // n for value in found], minlength=buckets)


def test_the_active_sees_uniform_numbers_whatever_the_gradient(monkeypatch):
    y = np.arange(24) > 0
    empty, full = np.zeros((24, COLUMNS)), 1e5 + np.random.default_rng(0).normal(size=(24, COLUMNS))
    empty[0] = 1e-3  # one row says anything; in the other table all say as much as they can
    for x in (empty, full):
        assert chisquare(views(x, y, 16, monkeypatch)).pvalue > 1e-7  # true randomness fails once in ten million times


def test_a_masked_gradient_does_not_confirm_a_guess_of_the_rows():
    x, y = people(60, 8)
    settings = deal(1, train={"epochs": 1})
    parts, logs = shared_out(x, settings), {}
    assert not errors_of(functions(parts, y, settings, wrap=recorded(logs)))
    public, log = key().public, logs["bank", "shop0"]
    (residues,) = (m.ciphertexts for m in log.sent if isinstance(m, Residues))
    (masked,) = (m.ciphertexts for m in log.seen if isinstance(m, MaskedGradient))
    residues, masked = (Ciphertexts.from_bytes(public, data, len(data) // 128) for data in (residues, masked))
    (order,) = batches.schedule(60, settings).batches(0)
    truth = encoding.Columns.encode(Scaler.fit(parts["shop0"]).apply(parts["shop0"])).integers[order].T.copy()
    bits = encoding.slot_bits(60)
    assert not attacks.confirms_guess(residues, truth, bits, masked)
    careless = public.add_plain(public.pack(public.multiply(truth, residues), bits), public.uniform(1))
    assert attacks.confirms_guess(residues, truth, bits, careless)
    assert not attacks.confirms_guess(residues, truth + 1, bits, careless)


def test_under_a_mask_from_0_to_1_it_does_not(monkeypatch):
    unit = 2 ** (encoding.RESIDUE_BITS + encoding.FEATURE_BITS)
    draw = random.Random(6)

    def in_unit_interval(self, count):
        return [draw.randrange(unit) for _ in range(count)]

    x = np.random.default_rng(0).normal(size=(24, COLUMNS))
    found = views(x, np.tile([0, 1], 12), 16, monkeypatch, in_unit_interval)
    assert chisquare(found).pvalue < 1e-100


def test_a_mask_from_0_to_1_hides_no_row():
    rng = np.random.default_rng(0)
    row = rng.normal(size=30)
    masked = 1000.0 * row + rng.random(30)  # the gradient of one-hot residues of 1000, under a mask in [0, 1)
    assert np.abs(attacks.row_from_unit_mask(masked, 1000.0) - row).max() < 1e-3


# --- the proofs of the active


def test_a_modulus_that_is_not_sound_has_no_certificate():
    sound = key()
    decryption_proof.check_certificate(sound.public, decryption_proof.certify(sound))
    with pytest.raises(PeerError, match="not certified"):
        decryption_proof.check_certificate(sound.public, bytes(decryption_proof.CHALLENGES * sound.public.bits // 8))


def test_a_modulus_that_divides_its_totient_has_no_roots():
    p = next_prime(mpz(1) << 101)
    q = next(k * p + 1 for k in range(2, 10**6, 2) if is_prime(k * p + 1) and (k * p * p + p).bit_length() % 8 == 0)
    unsound = PublicKey(int(p * q))  # p divides q - 1: two plaintexts can share a ciphertext
    roots = [pow(c, int((q - 1) // p), int(q)) == 1 for c in decryption_proof._challenges(unsound)]
    assert not all(roots)


def test_an_opening_holds_for_one_plaintext_only():
    sound = key()
    sent = sound.public.encrypt([7, -3])
    honest = decryption_proof.opened(sound, sent, sound.decrypt_unsigned(sent))
    assert decryption_proof.verify(sound.public, sent, honest) == [7, sound.public.n - 3]
    size = sound.public.bits // 8
    other = Decrypted((8).to_bytes(size, "big") + honest.values[size:], honest.roots)
    with pytest.raises(PeerError, match="not the decryption"):
        decryption_proof.verify(sound.public, sent, other)
    assert decryption_proof.verify(sound.public, sent, other, proof=False)[0] == 8
    for values, roots in ((honest.values[1:], honest.roots), (honest.values, honest.roots + b"0")):
        with pytest.raises(PeerError, match="bytes"):
            decryption_proof.verify(sound.public, sent, Decrypted(values, roots))
    with pytest.raises(PeerError, match="not below n"):
        decryption_proof.verify(sound.public, sent, Decrypted(b"\xff" * 2 * size, honest.roots))


# --- what stays open, measured; the figures are in docs/vertical.md


def test_scores_of_a_single_passive_give_its_rows_to_who_knows_some():
    x, y = load_breast_cancer(return_X_y=True)
    settings = deal(1, train={"epochs": 20, "batch": 128, "test": 0.2, "learning_rate": 0.5})
    parts = {"bank": x[:, :26], "shop0": x[:, 26:]}
    logs = {}
    assert not errors_of(functions(parts, y, settings, wrap=recorded(logs)))
    training, held_out = batches.hold_out(len(x), 0.2, settings.seed)
    truth = Scaler.fit(parts["shop0"][training]).apply(parts["shop0"][held_out])
    words = [m.words for m in logs["bank", "shop0"].seen if isinstance(m, Scores)]
    seen = [np.frombuffer(w, "<i8") / 2**32 for w in words[4::5]]  # after four batches those held out
    assert {len(scores) for scores in seen} == {len(held_out)}
    guess = attacks.rows_from_scores(np.stack(seen, axis=1), range(8), truth[:8])
    error = np.sqrt(np.mean((guess[8:] - truth[8:]) ** 2))
    assert error < 0.01  # of a standard deviation


def test_with_two_passives_the_sum_does_not_give_one_of_them():
    x, y = people(600, 9)
    logs = {}
    assert not errors_of(functions(shared_out(x, deal(2)), y, deal(2), wrap=recorded(logs)))
    for name in ("shop0", "shop1"):
        words = [np.frombuffer(m.words, "<u8") for m in logs["bank", name].seen if isinstance(m, Scores)]
        assert words[0].any()  # the scores of zero weights are zero, what was sent is not
        top = np.concatenate(words) >> np.uint64(60)
        assert len(top) == 1200
        assert chisquare(np.bincount(top.astype(int), minlength=16)).pvalue > 1e-7  # fails once in 10^7 times
    one, other = (
        np.frombuffer(next(m.words for m in logs["bank", name].seen if isinstance(m, Scores)), "<u8")
        for name in ("shop0", "shop1")
    )
    assert not (one + other).any()


@pytest.mark.parametrize(
    ("batch", "epochs", "low", "high"),
    [(10, 1, 0.99, 1.0), (100, 9, 0.98, 1.0), (100, 5, 0.85, 0.96), (100, 1, 0.65, 0.75), (300, 1, 0.55, 0.68)],
)
def test_labels_that_nothing_explains_from_gradients(batch, epochs, low, high):
    """Labels by lot, so that whatever is found out comes from gradients. Nobody can predict them: 0.5 is chance."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 20)), rng.integers(0, 2, 600)
    own = Scaler.fit(x[:, 10:]).apply(x[:, 10:])
    settings = deal(1, train={"epochs": epochs, "batch": batch, "learning_rate": 0.1})
    steps = attacks.gradients_seen(x[:, 10:], x[:, :10], y.astype(float), settings)
    assert low <= roc_auc_score(y, attacks.infer_labels(own, steps)[:, 0]) <= high
    smallest = batches.smallest(600, batch)
    refused = smallest <= 10 or epochs > checks.row_uses(10, smallest)
    assert refused == (low >= 0.98)  # what the active refuses is what gives everything away


@given(rows=st.integers(10, 5000), batch=st.integers(2, 2000), features=st.integers(1, 60), epochs=st.integers(1, 40))
def test_a_refusal_names_settings_that_pass(rows, batch, features, epochs):
    """Each of the remedies is tried, with the settings that it names; a smaller batch than that is refused."""
    settings = deal(1, train={"batch": batch, "epochs": epochs}, checks={"row_uses": None})
    try:
        checks.check_counts("shop0", features, rows, settings)
        return
    except Unfit as error:
        remedy = str(error).partition("; take ")[2].partition(";")[0]
    if "too few for one epoch" in remedy:
        with pytest.raises(Unfit):
            checks.check_counts("shop0", features, rows, with_train(settings, batch=max(2, rows), epochs=1))
        return
    for each in remedy.split(", or "):
        named = {key: int(value) for key, value in re.findall(r"train\.(batch|epochs): (\d+)", each)}
        assert named
        checks.check_counts("shop0", features, rows, with_train(settings, **named))
        for setting, step in (("batch", -1), ("epochs", 1)):
            if setting in named and (setting == "epochs" or len(named) == 1):
                with pytest.raises(Unfit):
                    checks.check_counts(
                        "shop0", features, rows, with_train(settings, **named | {setting: named[setting] + step})
                    )


def with_train(settings, **changes):
    return settings.model_copy(update={"train": settings.train.model_copy(update=changes)})


def test_a_refusal_is_one_sentence_with_numbers_to_take():
    settings = deal(1, train={"batch": 512, "epochs": 20}, checks={"row_uses": None})
    with pytest.raises(
        Unfit, match=r"49 features of shop0: .* take train.batch: 2171 or more, or train.epochs: 4; or "
    ):
        checks.check_counts("shop0", 49, 26049, settings)
    with pytest.raises(
        Unfit, match=r"; take train.batch: 800 \(all rows\) with train.epochs: 13; or set checks.row_uses"
    ):
        checks.check_counts("shop0", 28, 800, settings)
    assert checks.check_counts("shop0", 49, 26049, with_train(settings, batch=2171)) >= 21


def test_a_passive_that_cheats_reads_labels_and_is_not_noticed():
    x, y = people(120, 16)
    settings = deal(1, train={"batch": 60, "epochs": 1})
    parts = shared_out(x, settings)
    stolen = {}

    def thief(channels):
        stolen.update(attacks.oracle_passive(channels, parts["shop0"], settings, "shop0"))

    honest = functions(parts, y, settings)["bank"]
    assert not errors_of({"bank": honest, "shop0": thief})
    packed = encoding.ciphertexts(8, 60, 512)
    assert len(stolen) == 2 * packed * (511 // (encoding.RESIDUE_BITS + 2)) == 38
    assert all((residue < 0) == y[row] for row, (residue,) in stolen.items())
