"""Training between two parties follows the same steps in floats, and resumes after an interruption."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tacit.channel import run_parties
from tacit.crypto.fixed_key import Permutation
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.shared import ring
from tacit.kinds.vertical_logistic.shared.masked_table import Given
from tacit.kinds.vertical_logistic.shared.messages import Revealed
from tacit.kinds.vertical_logistic.shared.progress import Snapshot
from tacit.kinds.vertical_logistic.shared.training import SharedContext
from tacit.kinds.vertical_logistic.two_party import cell_trees
from tacit.kinds.vertical_logistic.two_party.lookup import Grid
from tacit.kinds.vertical_logistic.two_party.messages import Product
from tacit.kinds.vertical_logistic.two_party.training import train
from tacit.oblivious import Columns, Hidden, Sums
from tests.kinds.vertical_logistic.shared.trainings import (
    NAMES,
    PATIENCE,
    aucs,
    cancer,
    functions,
    people,
    plain,
    run,
    whole,
)
from tests.kinds.vertical_logistic.two_party.sessions import terms_of

CLOSE = 0.03  # scores are rounded to halves, at random: the mean is right, and a batch of 64 rows is off by so much
EXACT = 5e-4


@pytest.mark.parametrize("active", [0, 1])
def test_weights_are_those_of_plain_steps(active):
    x, y = people(300, 7)
    terms = terms_of(300, active=NAMES[active])
    weights, intercept = whole(run(x, y, terms), terms)
    expected, expected_intercept = plain(x, y, terms)
    assert np.abs(expected).max() > 0.3
    np.testing.assert_allclose(weights, expected, atol=CLOSE)
    np.testing.assert_allclose(intercept, expected_intercept, atol=CLOSE)


def test_the_error_is_random_and_vanishes_on_average():
    x, y = people(200, 4)
    terms = terms_of(200, epochs=2)
    expected = plain(x, y, terms)[0]
    errors = np.array([whole(run(x, y, terms), terms)[0] - expected for _ in range(8)])
    assert np.abs(errors.mean(axis=0)).max() < 0.003 + 4 * errors.std() / np.sqrt(8)


@pytest.mark.parametrize(
    "changes",
    [
        {"l2": 0.1},
        {"batch": 1000},
        {"held_out": 0.0, "rate": 0.01},
        {"rate": 0.1, "epochs": 4, "l2": 0.5},
    ],
)
def test_rates_batches_and_l2_do_not_change_that(changes):
    x, y = people(200, 5)
    terms = terms_of(200, **changes)
    weights, intercept = whole(run(x, y, terms), terms)
    expected, expected_intercept = plain(x, y, terms)
    np.testing.assert_allclose(weights, expected, atol=CLOSE)
    np.testing.assert_allclose(intercept, expected_intercept, atol=CLOSE)


def test_l2_alone_shrinks_weights_as_it_should():
    """The residues are exact in a linear regression, so that the decay is seen without rounding of scores."""
    x, _ = people(200, 4)
    y = x @ np.array([1.0, -2.0, 0.5, 0.0])
    terms = terms_of(200, model="linear", rate=0.3, l2=0.7)
    np.testing.assert_allclose(whole(run(x, y, terms), terms)[0], plain(x, y, terms)[0], atol=EXACT)
    without = plain(x, y, terms_of(200, model="linear", rate=0.3))[0]
    assert np.abs(plain(x, y, terms)[0] - without).max() > 0.3


@pytest.mark.parametrize("active", [0, 1])
def test_linear_regression_of_several_targets(active):
    x, _ = people(300, 5)
    y = x @ np.random.default_rng(1).normal(size=(5, 2)) + 0.3
    terms = terms_of(300, model="linear", outputs=2, rate=0.2, l2=0.01, active=NAMES[active])
    weights, intercept = whole(run(x, y, terms), terms)
    expected, expected_intercept = plain(x, y, terms)
    np.testing.assert_allclose(weights, expected, atol=EXACT)
    np.testing.assert_allclose(intercept, expected_intercept, atol=EXACT)


def test_several_classes_are_learned_one_against_the_rest():
    x, _ = people(300, 4)
    y = np.eye(3)[np.argmax(x @ np.random.default_rng(1).normal(size=(4, 3)), axis=1)]
    terms = terms_of(300, outputs=3)
    np.testing.assert_allclose(whole(run(x, y, terms), terms)[0], plain(x, y, terms)[0], atol=CLOSE)


def test_class_weights_count():
    x, y = people(300, 5)
    terms = terms_of(300, weighted=True)
    row_weights = np.where(y > 0.5, 1.0, 0.1)
    weights, _ = whole(run(x, y, terms, row_weights=row_weights), terms)
    expected, _ = plain(x, y, terms, row_weights)
    np.testing.assert_allclose(weights, expected, atol=CLOSE)
    assert np.abs(expected - plain(x, y, terms)[0]).max() > 3 * CLOSE


@pytest.mark.parametrize("clipped", [True, False])
def test_scores_far_beyond_the_table_are_clipped(monkeypatch, clipped):
    """One step from weights that give large scores. They wrap around if cells are not moved."""
    x, y = people(400, 4)
    before = np.array([[300.0], [-50.0], [80.0], [10.0], [0.0]])
    terms = terms_of(400, rate=1.0, batch=400, epochs=2, held_out=0.0)
    scores = x @ before[:-1]
    assert 500 < np.abs(scores).max() < 2000
    words = ring.encode(before, 24)
    shares = {"bank": words - np.uint64(7), "shop": np.full_like(words, 7)}
    contexts = {
        name: SharedContext(saved=(Snapshot(b"s" * 16, terms.agreed(), 1, share, share, mark=b"m"),))
        for name, share in shares.items()
    }
    if not clipped:
        monkeypatch.setattr(Grid, "moves", property(lambda grid: np.zeros(256, dtype=np.uint64)))
    weights = whole(run(x, y, terms, contexts=contexts), terms)[0]
    step = x.T @ ((scores > 0) - y[:, None]) / len(x)
    assert (np.abs(weights - (before[:-1] - step)).max() < 0.02) == clipped


def test_a_batch_in_several_blocks_is_the_same_batch(monkeypatch):
    x, _ = people(100, 5)
    y = x[:, 0] - x[:, 3]
    terms = terms_of(100, model="linear")
    monkeypatch.setattr(cell_trees, "_BLOCK_TREES", 100)
    monkeypatch.setattr(cell_trees, "_KEPT_TREES", 0)
    np.testing.assert_allclose(whole(run(x, y, terms), terms)[0], plain(x, y, terms)[0], atol=EXACT)


def test_auc_on_breast_cancer_is_that_of_plain_steps():
    x, y = cancer()
    found, expected = aucs(x, y, terms_of(len(x), epochs=5, batch=128))
    assert expected > 0.98
    assert abs(found - expected) < 0.002


def test_each_party_receives_its_own_weights_and_only_the_active_the_intercept():
    x, y = people(100, 5)
    terms, recorders = terms_of(100, epochs=1), {}
    models = run(x, y, terms, recorders=recorders)
    assert [models[name].intercept is None for name in terms.parties] == [False, True]
    for name in terms.parties:
        (other,) = recorders[name]
        revealed = [m for m in recorders[name][other].seen if isinstance(m, Revealed)]
        assert [len(m.words) for m in revealed] == [8 * (models[name].weights.size + (name == terms.active))]


def test_patience_ends_a_training_and_it_can_be_opened_again():
    x, y = people(300, 3)
    terms = terms_of(300, epochs=12, rate=16.0, batch=16, figures="epoch", patience=1)
    kept, told = {name: [] for name in terms.parties}, []
    contexts = {name: SharedContext(keep=kept[name].append) for name in terms.parties}
    contexts["bank"] = SharedContext(
        keep=kept["bank"].append, told=lambda position, figures: told.append((figures.loss, position))
    )
    models = run(x, y, terms, contexts=contexts)
    assert len(told) < 12
    assert min(told)[1] == told[-2][1]
    assert kept["bank"][-1].stopped
    contexts = {name: SharedContext(saved=tuple(kept[name][-2:])) for name in terms.parties}
    np.testing.assert_array_equal(whole(run(x, y, terms, contexts=contexts), terms)[0], whole(models, terms)[0])


class Killed(Exception):
    pass


def _dying(channel, messages):
    """A channel whose party is killed before it sends or after it received so many messages."""

    class Dying:
        left = messages

        def send(self, message):
            self._count()
            channel.send(message)

        def recv(self, kind, limit=1 << 28):
            message = channel.recv(kind, limit)
            self._count()
            return message

        def close(self):
            channel.close()

        def _count(self):
            if self.left == 0:
                raise Killed
            self.left -= 1

    return Dying()


def _keeping(terms, kept):
    """Contexts that begin with the last two snapshots of each party in `kept`, and add to them."""

    def context(name):
        snapshots = kept.setdefault(name, [])
        return SharedContext(saved=tuple(snapshots[-2:]), keep=snapshots.append)

    return {name: context(name) for name in terms.parties}


def _killed_run(x, y, terms, victim, messages, kept, recorders):
    """Resume from what was kept; whether the victim was killed before the end."""
    contexts = _keeping(terms, kept)
    made = functions(x, y, terms, contexts=contexts, recorders=recorders)
    whole_party = made[victim]
    made[victim] = lambda channels: whole_party({name: _dying(channel, messages) for name, channel in channels.items()})
    try:
        run_parties(made, patience=PATIENCE)
    except (Killed, PeerError):
        return True
    return False


def _random_words(recorders) -> list[bytes]:
    """Every 16 bytes that were sent as columns, words of products, hidden entries or sums of nodes."""
    found = []
    for channels in recorders.values():
        for channel in channels.values():
            for message in channel.sent:
                if isinstance(message, Columns | Product | Hidden | Sums):
                    (data,) = (getattr(message, name) for name in message.__struct_fields__)
                    found += [data[place : place + 16] for place in range(0, len(data) - 15, 16)]
    return found


@pytest.fixture
def hashed(monkeypatch):
    """By party the inputs of the hash in all meetings: the secret block with its tweak, plus the public key.

    Blocks that a party lacks are zero in its arrays, and what it computes of them is not used.
    """
    found = {name: [] for name in NAMES[:2]}
    begin, keyed = Permutation.__init__, Permutation.keyed

    def kept(self, key):
        begin(self, key)
        self.key = np.frombuffer(key, dtype="<u8")

    def recorded(self, keys, inputs):
        mixed = keys ^ np.stack(np.broadcast_arrays(np.asarray(inputs, dtype=np.uint64), np.uint64(0)), axis=-1)
        found[threading.current_thread().name].append((mixed + self.key)[keys.any(axis=-1)])
        return keyed(self, keys, inputs)

    monkeypatch.setattr(Permutation, "__init__", kept)
    monkeypatch.setattr(Permutation, "keyed", recorded)
    return found


@pytest.mark.parametrize("model", ["linear", pytest.param("logistic", marks=pytest.mark.slow)])
@pytest.mark.parametrize("victim", [NAMES[0], pytest.param(NAMES[1], marks=pytest.mark.slow)])
def test_a_party_killed_at_any_message_resumes_and_nothing_is_used_twice(victim, model, hashed):
    x, _ = people(60, 4)
    y = x[:, 0] - x[:, 2] if model == "linear" else np.arange(60) % 2.0
    changes = {"batch": 24} if model == "linear" else {"batch": 30, "held_out": 0.5, "figures": "end"}
    terms = terms_of(60, model=model, epochs=2, **changes)
    kept, sent, kills, killed = {}, [], 0, True
    while killed:
        recorders = {}
        killed = _killed_run(x, y, terms, victim, 3 + 2 * kills, kept, recorders)
        sent += _random_words(recorders)
        kills += killed
    assert kills > 5
    saved = {name: tuple(Snapshot.restore(s.state()) for s in kept[name][-2:]) for name in terms.parties}
    recorders, met = {}, []
    contexts = {
        name: SharedContext(saved=saved[name], met=lambda _, position: met.append(position)) for name in terms.parties
    }
    models = run(x, y, terms, contexts=contexts, recorders=recorders)
    sent += _random_words(recorders)
    sessions = {models[name].session for name in terms.parties}
    assert len(sessions) == 1
    assert met[0] == met[1] > 0
    np.testing.assert_allclose(
        whole(models, terms)[0], plain(x, y, terms)[0], atol=EXACT if model == "linear" else 2 * CLOSE
    )
    assert len(set(sent)) == len(sent)
    for party in terms.parties:
        inputs = np.concatenate(hashed[party])
        inputs = inputs[np.lexsort(inputs.T)]
        assert len(inputs) > 100_000
        assert (inputs[1:] != inputs[:-1]).any(axis=1).all(), party


@pytest.mark.parametrize("model", ["linear", "logistic"])
def test_what_a_party_stores_of_small_weights_are_large_random_words(model):
    """One in 2^23 words would be as small as a weight of 2^16, by chance."""
    x, y = people(60, 4)
    terms, kept = terms_of(60, model=model, epochs=1, batch=100), {}
    models = run(x, y, terms, contexts=_keeping(terms, kept))
    assert np.abs(whole(models, terms)[0]).max() < 1
    for party in terms.parties:
        stored = kept[party][-1]
        for words in (stored.weights, stored.best):
            assert (np.abs(words.view(np.int64).astype(float)) > 2.0**40).mean() > 0.5
    np.testing.assert_array_equal(
        ring.decode(kept["bank"][-1].weights + kept["shop"][-1].weights, 24)[:-1], whole(models, terms)[0]
    )


def test_shares_of_a_step_that_was_done_twice_are_never_mixed():
    x, _ = people(100, 4)
    y = x[:, 0]
    terms = terms_of(100, model="linear", epochs=2)

    def kept(saved):
        snapshots = {name: {} for name in terms.parties}

        def keep(name):
            return lambda snapshot: snapshots[name].update({snapshot.position: snapshot})

        contexts = {name: SharedContext(keep=keep(name), saved=saved.get(name, ())) for name in terms.parties}
        run(x, y, terms, contexts=contexts)
        return snapshots

    first = kept({})
    second = kept({name: (first[name][1],) for name in terms.parties})
    saved = {"bank": (first["bank"][1], first["bank"][2]), "shop": (first["shop"][1], second["shop"][2])}
    met = []
    contexts = {
        name: SharedContext(saved=saved[name], met=lambda _, position: met.append(position)) for name in terms.parties
    }
    models = run(x, y, terms, contexts=contexts)
    assert met == [1, 1]
    np.testing.assert_allclose(whole(models, terms)[0], plain(x, y, terms)[0], atol=EXACT)


@pytest.mark.parametrize(
    ("bank", "shop", "resumed"),
    [
        ((3, 4), (0, 1), "no step that all parties can begin after"),  # a backup was restored at one party
        ((0, 1), (3, 4), "no step that all parties can begin after"),
        ((3, 4), (2, 3), 3),  # of the save before
        ((0, 1), (0, 1), 1),  # at both
        ((), (3, 4), "shop resume a training that the others do not"),
        ((0, 1), (), 0),
    ],
)
def test_a_restored_folder_resumes_at_a_step_that_both_have_or_not_at_all(bank, shop, resumed, hashed):
    x, _ = people(60, 4)
    y = x[:, 0]
    terms = terms_of(60, model="linear", epochs=4, batch=100)
    kept = {}
    run(x, y, terms, contexts=_keeping(terms, kept))
    met = []
    contexts = {
        name: SharedContext(
            saved=tuple(kept[name][step] for step in steps), met=lambda _, position: met.append(position)
        )
        for name, steps in (("bank", bank), ("shop", shop))
    }
    if isinstance(resumed, str):
        with pytest.raises(PeerError, match=resumed):
            run(x, y, terms, contexts=contexts)
        return
    models = run(x, y, terms, contexts=contexts)
    assert met == [resumed, resumed]
    np.testing.assert_allclose(whole(models, terms)[0], plain(x, y, terms)[0], atol=EXACT)
    for party in terms.parties:
        inputs = np.concatenate(hashed[party])
        assert len(np.unique(inputs, axis=0)) == len(inputs), party


def test_a_snapshot_of_other_terms_is_refused():
    x, y = people(60, 4)
    kept = {}
    terms = terms_of(60, model="linear", epochs=1)
    run(x, y, terms, contexts=_keeping(terms, kept))
    contexts = {name: SharedContext(saved=tuple(kept[name][-2:])) for name in terms.parties}
    with pytest.raises(ValueError, match="other terms"):
        run(x, y, terms_of(60, model="linear", epochs=1, rate=0.1), contexts=contexts)


def test_a_column_that_does_not_fit_is_named():
    x, y = people(60, 4)
    x[5, 1] = 300.0
    with pytest.raises(ValueError, match=r"bank, feature 2 of 4: its largest absolute value is 300"):
        train({}, Given(x, y), terms_of(60), "bank")
    with pytest.raises(ValueError, match=r"bank, feature 'city = Rome': its largest absolute value is 300"):
        train({}, Given(x, y, names=("age", "city = Rome", "debt", "job")), terms_of(60), "bank")


def test_three_parties_without_a_dealer_are_refused():
    with pytest.raises(ValueError, match="two parties, or two or more and a dealer"):
        type(terms_of(60))(("a", "b", "c"), "", "a", 60, (0.1,), (0,))
