"""Training on shares gives what the same steps in floats give, for any parties, and resumes after an interruption."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.channel import run_parties
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.shared import deals
from tacit.kinds.vertical_logistic.shared.dealer import deal
from tacit.kinds.vertical_logistic.shared.messages import Opening, Revealed
from tacit.kinds.vertical_logistic.shared.progress import Snapshot
from tacit.kinds.vertical_logistic.shared.scales import Scales
from tacit.kinds.vertical_logistic.shared.training import SharedContext
from tests.kinds.vertical_logistic.shared.trainings import (
    NAMES,
    PATIENCE,
    aucs,
    cancer,
    functions,
    people,
    plain,
    run,
    terms_of,
    whole,
)

CLOSE = 5e-5


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("active", [0, -1])
def test_weights_are_those_of_plain_steps(parties, active):
    x, y = people(300, 11)
    terms = terms_of(parties, 300, active=NAMES[:parties][active])
    weights, intercept = whole(run(x, y, terms), terms)
    expected, expected_intercept = plain(x, y, terms)
    assert np.abs(expected).max() > 0.3
    np.testing.assert_allclose(weights, expected, atol=CLOSE)
    np.testing.assert_allclose(intercept, expected_intercept, atol=CLOSE)


@pytest.mark.parametrize(
    "changes",
    [
        {"l2": 0.1},
        {"batch": 1000},
        {"held_out": 0.0, "rate": 0.01},
        {"rate": 3.0, "batch": 16},
        {"rate": 0.1, "epochs": 6, "l2": 0.5},
    ],
)
def test_rates_batches_and_l2_do_not_change_that(changes):
    x, y = people(200, 7)
    terms = terms_of(3, 200, **changes)
    weights, intercept = whole(run(x, y, terms), terms)
    expected, expected_intercept = plain(x, y, terms)
    close = CLOSE * max(1, 4 * terms.rates[0])  # the series is off by 6e-5, times the rate in each step
    np.testing.assert_allclose(weights, expected, atol=close)
    np.testing.assert_allclose(intercept, expected_intercept, atol=close)


def test_several_classes_are_learned_one_against_the_rest():
    x, _ = people(300, 6)
    y = np.eye(3)[np.argmax(x @ np.random.default_rng(1).normal(size=(6, 3)), axis=1)]
    terms = terms_of(3, 300, outputs=3)
    weights, intercept = whole(run(x, y, terms), terms)
    expected, expected_intercept = plain(x, y, terms)
    np.testing.assert_allclose(weights, expected, atol=CLOSE)
    np.testing.assert_allclose(intercept, expected_intercept, atol=CLOSE)


def test_class_weights_count():
    x, y = people(300, 6)
    terms = terms_of(3, 300, weighted=True)
    row_weights = np.where(y > 0.5, 1.0, 0.25)
    weights, intercept = whole(run(x, y, terms, row_weights=row_weights), terms)
    expected, expected_intercept = plain(x, y, terms, row_weights)
    np.testing.assert_allclose(weights, expected, atol=5e-4)
    np.testing.assert_allclose(intercept, expected_intercept, atol=5e-4)
    assert np.abs(expected - plain(x, y, terms)[0]).max() > 0.05


@pytest.mark.parametrize("parties", [2, 4])
def test_linear_regression_of_several_targets(parties):
    x, _ = people(300, 6)
    y = x @ np.random.default_rng(1).normal(size=(6, 2)) + 0.3
    terms = terms_of(parties, 300, model="linear", outputs=2, rate=0.2, l2=0.01)
    weights, intercept = whole(run(x, y, terms), terms)
    expected, expected_intercept = plain(x, y, terms)
    np.testing.assert_allclose(weights, expected, atol=5e-4)  # the rate's factor has 12 bits
    np.testing.assert_allclose(intercept, expected_intercept, atol=5e-4)


def test_a_step_in_several_blocks_is_the_same_step(monkeypatch):
    x, y = people(200, 5)
    terms = terms_of(2, 200, epochs=2, weighted=True)
    monkeypatch.setattr(deals, "BLOCK_WORDS", 20 * 124)
    assert len(next(deals.steps(terms, Scales(16, 20, 8), 0)).blocks) == 3
    weights, intercept = whole(run(x, y, terms, row_weights=np.ones(200)), terms)
    expected, expected_intercept = plain(x, y, terms)
    np.testing.assert_allclose(weights, expected, atol=5e-4)
    np.testing.assert_allclose(intercept, expected_intercept, atol=5e-4)


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_auc_on_breast_cancer_is_that_of_plain_steps(parties):
    x, y = cancer()
    found, expected = aucs(x, y, terms_of(parties, len(x), epochs=5, batch=128))
    assert expected > 0.98
    assert abs(found - expected) < 0.002


def test_each_party_receives_its_own_weights_and_only_the_active_the_intercept():
    x, y = people(100, 7)
    terms = terms_of(3, 100, epochs=1)
    recorders = {}
    models = run(x, y, terms, recorders=recorders)
    assert [models[name].intercept is None for name in terms.parties] == [False, True, True]
    for name in terms.parties:
        words = 8 * (models[name].weights.size + (name == terms.active))
        for other in terms.parties:
            if other != name:
                revealed = [m for m in recorders[name][other].seen if isinstance(m, Revealed)]
                assert [len(message.words) for message in revealed] == [words]


def test_the_dealer_receives_no_words():
    x, y = people(100, 5)
    recorders = {}
    run(x, y, terms_of(2, 100, epochs=1), recorders=recorders)
    seen = {type(m).__name__ for channel in recorders["dealer"].values() for m in channel.seen}
    assert seen == {"Greeting", "Used"}


class Killed(Exception):
    pass


def _interrupt(x, y, terms, victim, after, kept, **options):
    """Run until `victim` ends without having kept the snapshot after so many steps. All keep every snapshot."""

    def keep(name):
        def store(snapshot):
            if name == victim and snapshot.position == after:
                raise Killed
            kept[name] = [*kept.get(name, []), snapshot][-2:]

        return store

    contexts = {name: SharedContext(keep=keep(name)) for name in terms.parties}
    with pytest.raises(Killed):
        run_parties(functions(x, y, terms, contexts=contexts, **options), patience=PATIENCE)


@pytest.mark.parametrize("victim", NAMES[:3])
def test_a_killed_party_resumes_after_the_last_step_that_all_know(victim):
    x, y = people(200, 7)
    terms = terms_of(3, 200, epochs=2)
    kept, before, after = {}, {}, {}
    _interrupt(x, y, terms, victim, 5, kept, recorders=before)
    saved = {
        name: tuple(Snapshot.restore(snapshot.state()) for snapshot in snapshots) for name, snapshots in kept.items()
    }
    assert saved[victim][-1].position == 4
    contexts = {name: SharedContext(saved=saved[name]) for name in terms.parties}
    models = run(x, y, terms, contexts=contexts, recorders=after, seed=2)
    np.testing.assert_allclose(whole(models, terms)[0], plain(x, y, terms)[0], atol=CLOSE)
    assert not _words(before) & _words(after)  # a repeated step and the tables are opened under new masks


def test_shares_of_a_step_that_was_done_twice_are_never_mixed():
    """bank has the step of the first time, the others that of the second: together they are no weights."""
    x, y = people(200, 7)
    terms = terms_of(3, 200, epochs=2)

    def kept(saved, seed):
        snapshots = {name: {} for name in terms.parties}

        def keep(name):
            return lambda snapshot: snapshots[name].update({snapshot.position: snapshot})

        contexts = {name: SharedContext(keep=keep(name), saved=saved.get(name, ())) for name in terms.parties}
        run(x, y, terms, contexts=contexts, seed=seed)
        return snapshots

    first = kept({}, 1)
    second = kept({name: (first[name][4],) for name in terms.parties}, 2)
    times = {"bank": first, "shop": second, "phone": second}
    saved = {name: (first[name][4], times[name][name][5]) for name in terms.parties}
    met = []
    contexts = {
        name: SharedContext(saved=saved[name], met=lambda _, position: met.append(position)) for name in terms.parties
    }
    models = run(x, y, terms, contexts=contexts, seed=3)
    assert met == [4, 4, 4]
    np.testing.assert_allclose(whole(models, terms)[0], plain(x, y, terms)[0], atol=CLOSE)


def _words(recorders) -> set[bytes]:
    """All 64-bit words that were opened."""
    messages = [
        m.words for channels in recorders.values() for c in channels.values() for m in c.sent if type(m) is Opening
    ]
    return {text[i : i + 8] for text in messages for i in range(0, len(text), 8)}


def test_seeds_are_new_in_each_meeting():
    x, y = people(100, 5)
    terms = terms_of(2, 100, epochs=1)
    first, second = {}, {}
    for recorders in (first, second):
        made = functions(x, y, terms, recorders=recorders, seed=3)
        made["dealer"] = lambda channels: deal(channels, terms)  # from the operating system
        run_parties(made, patience=PATIENCE)
    assert not _words(first) & _words(second)


def test_parties_that_do_not_resume_the_same_training_say_so():
    x, y = people(200, 7)
    terms = terms_of(3, 200, epochs=2)
    kept = {}
    _interrupt(x, y, terms, "shop", 5, kept)
    contexts = {name: SharedContext(saved=tuple(kept[name])) for name in ("bank", "shop")}
    with pytest.raises(PeerError, match="start all parties alike"):
        run(x, y, terms, contexts=contexts)


def test_a_snapshot_of_other_terms_is_refused():
    x, y = people(200, 7)
    kept = {}
    _interrupt(x, y, terms_of(2, 200, epochs=2), "shop", 5, kept)
    contexts = {name: SharedContext(saved=tuple(kept[name])) for name in NAMES[:2]}
    with pytest.raises(ValueError, match="other terms"):
        run(x, y, terms_of(2, 200, epochs=2, rate=0.1), contexts=contexts)


def test_patience_ends_a_training_and_keeps_the_best_weights():
    x, y = people(400, 5)
    terms = terms_of(3, 400, epochs=12, rate=8.0, batch=16, figures="epoch", patience=2)
    told = []
    contexts = {"bank": SharedContext(told=lambda position, figures: told.append((position, figures.loss)))}
    models = run(x, y, terms, contexts=contexts)
    assert len(told) < 12
    best = min(told, key=lambda entry: entry[1])[0]
    assert best == told[-3][0]
    np.testing.assert_allclose(whole(models, terms)[0], plain(x, y, terms, steps=best)[0], atol=5e-3)


def test_a_training_that_ended_early_can_be_opened_again():
    x, y = people(400, 5)
    terms = terms_of(2, 400, epochs=12, rate=8.0, batch=16, figures="epoch", patience=1)
    kept = {name: [] for name in terms.parties}
    contexts = {name: SharedContext(keep=kept[name].append) for name in terms.parties}
    models = run(x, y, terms, contexts=contexts)
    contexts = {name: SharedContext(saved=tuple(kept[name][-2:])) for name in terms.parties}
    assert kept["bank"][-1].stopped
    np.testing.assert_array_equal(whole(run(x, y, terms, contexts=contexts), terms)[0], whole(models, terms)[0])
