"""A party of a training on shares, or its dealer, that is killed at any moment: all resume together."""

from __future__ import annotations

import shutil
from collections import Counter

import numpy as np
import pytest

from tacit.crypto import ot
from tacit.crypto.punctured import PuncturedTrees, Trees
from tacit.errors import NotResumed
from tacit.kinds.vertical_logistic import kept_rows
from tacit.kinds.vertical_logistic.protocol.label_count_terms import gave_counts
from tacit.kinds.vertical_logistic.shared import meeting
from tacit.kinds.vertical_logistic.shared.messages import Opening
from tacit.kinds.vertical_logistic.two_party.messages import Product
from tacit.oblivious import Columns, Hidden, Sums
from tacit.store.journal_files import RecordFiles
from tests.kinds.vertical_logistic.shared_tables import of_tables
from tests.lockstep.interruptions import Trial

PARTIES = ("bank", "shop0", "notary")
ATOL = 3e-4


def settings_of(folder, passives=1, **changes):
    train = {"epochs": 3, "batch": 40, "learning_rate": 0.5, **changes.pop("train", {})}
    return of_tables(folder, passives, rows=100, align=False, train=train, **changes)


def weights(trial):
    return {name: trial.model(name)["weights"] for name in trial.settings.owners}


def same_training(whole, trial, where):
    for name, expected in weights(whole).items():
        np.testing.assert_allclose(weights(trial)[name], expected, atol=ATOL, err_msg=f"{where} {name}")
    assert most_often_opened(trial) == len(trial.settings.passives), where


def most_often_opened(trial):
    """How often the same words were sent, over all attempts: once to each other party with data, and no more. A few
    words may be equal by chance."""
    words = [m.words for sent in trial.sent.values() for m in sent if isinstance(m, Opening) and len(m.words) > 16]
    return max(Counter(words).values())


def killed(settings, folder, monkeypatch, victim, moments):
    whole = Trial(settings, folder / "whole")
    whole.attempt(monkeypatch)
    count = whole_actions(settings, folder, monkeypatch, victim)
    for at in moments(count):
        trial = Trial(settings, folder / f"{victim}-{at}")
        assert trial.interrupted(monkeypatch, victim, at) or at > count - 9, at
        trial.brought_to_an_end(monkeypatch)
        same_training(whole, trial, f"{victim} at {at}")


@pytest.mark.parametrize("victim", PARTIES)
def test_a_party_or_the_dealer_that_is_killed_at_some_moments(tmp_path, monkeypatch, victim):
    killed(settings_of(tmp_path), tmp_path, monkeypatch, victim, lambda count: range(1, count + 1, 23))


@pytest.mark.slow
@pytest.mark.parametrize("passives", [1, 2])
def test_a_party_or_the_dealer_that_is_killed_at_any_moment(tmp_path, monkeypatch, passives):
    settings = settings_of(tmp_path, passives)
    for victim in settings.parties:
        (tmp_path / victim).mkdir()
        killed(settings, tmp_path / victim, monkeypatch, victim, lambda count: range(1, count + 1))


def two_parties(folder):
    train = {"epochs": 3, "batch": 40, "learning_rate": 0.2}
    return of_tables(folder, 1, rows=100, labels="linear", align=False, dealer=False, train=train)


def words_of_transfers(trial):
    """All that hides something without a dealer, in pieces of 16 bytes, over all attempts."""
    kinds = (Columns, Hidden, Sums, Product)
    sent = [m for messages in trial.sent.values() for m in messages if isinstance(m, kinds)]
    texts = [getattr(m, m.__struct_fields__[0]) for m in sent]
    return [text[place : place + 16] for text in texts for place in range(0, len(text) - 15, 16)]


def killed_without_a_dealer(settings, folder, monkeypatch, victim, moments):
    whole = Trial(settings, folder / "whole")
    whole.attempt(monkeypatch)
    count = whole_actions(settings, folder, monkeypatch, victim)
    for at in moments(count):
        trial = Trial(settings, folder / f"{victim}-{at}")
        assert trial.interrupted(monkeypatch, victim, at) or at > count - 9, at
        trial.brought_to_an_end(monkeypatch)
        for name, expected in weights(whole).items():
            np.testing.assert_allclose(weights(trial)[name], expected, atol=ATOL, err_msg=f"{at} {name}")
        words = words_of_transfers(trial)
        assert len(set(words)) == len(words), at


@pytest.mark.parametrize("victim", ["bank", "shop0"])
def test_one_of_two_parties_without_a_dealer_that_is_killed_at_some_moments(tmp_path, monkeypatch, victim):
    killed_without_a_dealer(
        two_parties(tmp_path), tmp_path, monkeypatch, victim, lambda count: range(5, count + 1, count // 5)
    )


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["bank", "shop0"])
def test_one_of_two_parties_without_a_dealer_that_is_killed_at_any_moment(tmp_path, monkeypatch, victim):
    killed_without_a_dealer(two_parties(tmp_path), tmp_path, monkeypatch, victim, lambda count: range(1, count + 1))


@pytest.mark.parametrize("at", [None, "middle"])
def test_two_parties_store_shares_of_weights_and_no_secret_of_transfers(tmp_path, monkeypatch, at):
    """Every file of both parties is searched for their secret bits, seeds of streams and nodes of trees."""
    secrets = []

    def recorded(kind, found):
        begin = kind.__init__

        def kept(self, *given, **named):
            begin(self, *given, **named)
            secrets.extend(found(*given, **named))

        monkeypatch.setattr(kind, "__init__", kept)

    recorded(ot.Sender, lambda delta, seeds, session: [delta, *seeds])
    recorded(ot.Receiver, lambda seeds, session: [key for pair in seeds for key in pair])
    recorded(Trees, lambda session, depth, seeds: [block.tobytes() for block in seeds[0]])
    recorded(PuncturedTrees, lambda session, holes, siblings: [block.tobytes() for block in siblings[0]])
    settings = two_parties(tmp_path)
    trial = Trial(settings, tmp_path / "trial")
    if at is None:
        trial.attempt(monkeypatch)
    else:
        trial.interrupted(monkeypatch, "shop0", 40)
    assert len(secrets) > 4 * (1 + 128)
    stored = [path.read_bytes() for path in (tmp_path / "trial").rglob("*") if path.is_file()]
    assert sum(b"weights" in text for text in stored) >= 2
    for secret in set(secrets):
        assert len(secret) == 16
        for text in stored:
            assert secret not in text
            assert secret.hex().encode() not in text


def test_masks_that_were_used_before_would_be_noticed(tmp_path, monkeypatch):
    """The control of `most_often_opened`: a dealer that draws the same seeds in each meeting."""
    settings = settings_of(tmp_path)
    monkeypatch.setattr(meeting, "_token", lambda rng: bytes(32))
    trial = Trial(settings, tmp_path / "trial")
    assert trial.interrupted(monkeypatch, "shop0", 40)
    trial.brought_to_an_end(monkeypatch)
    assert most_often_opened(trial) > 1


def test_a_training_with_patience_resumes_and_keeps_the_figures_of_its_best_weights(tmp_path, monkeypatch):
    settings = settings_of(tmp_path, train={"patience": 5, "epochs": 4})
    whole, trial = Trial(settings, tmp_path / "whole"), Trial(settings, tmp_path / "trial")
    whole.attempt(monkeypatch)
    at = whole_actions(settings, tmp_path, monkeypatch, "shop0") - 4  # it dies while it stores its last state
    assert trial.interrupted(monkeypatch, "shop0", at)
    assert trial.complete("bank")
    trial.brought_to_an_end(monkeypatch)
    same_training(whole, trial, "shop0")
    edges = trial.model("bank")["deciles"]  # ranks of 20 rows, to within four: made again, they are rounded anew
    assert edges.shape == (9,)
    assert (np.diff(edges) >= 0).all()


def whole_actions(settings, folder, monkeypatch, victim):
    return Trial(settings, folder / f"count-{victim}").attempt(monkeypatch, victim).count


def test_a_dealer_of_another_training_is_refused(tmp_path, monkeypatch):
    settings = settings_of(tmp_path)
    first, second = Trial(settings, tmp_path / "first"), Trial(settings, tmp_path / "second")
    for trial in (first, second):
        assert trial.interrupted(monkeypatch, "bank", 2 * whole_actions(settings, trial.root, monkeypatch, "bank") // 3)
    assert first.state("shop0")["round"] > 0
    shutil.rmtree(first.root / "notary")
    shutil.copytree(second.root / "notary", first.root / "notary")
    with pytest.raises(NotResumed, match="notary holds no part of the training that bank resumes"):
        first.attempt(monkeypatch)


def test_a_dealer_that_lost_its_folder_deals_on(tmp_path, monkeypatch):
    """It keeps no seed, so there is nothing that it must know."""
    settings = settings_of(tmp_path)
    whole, trial = Trial(settings, tmp_path / "whole"), Trial(settings, tmp_path / "trial")
    whole.attempt(monkeypatch)
    assert trial.interrupted(monkeypatch, "bank", 2 * whole_actions(settings, tmp_path, monkeypatch, "bank") // 3)
    assert trial.state("shop0")["round"] > 0
    shutil.rmtree(trial.root / "notary")
    (trial.root / "notary").mkdir()
    trial.brought_to_an_end(monkeypatch)
    same_training(whole, trial, "notary")
    assert bytes(trial.model("notary")["session"]) == bytes(trial.model("bank")["session"])


@pytest.mark.parametrize("victim", PARTIES)
def test_labels_are_counted_over_the_same_rows_after_a_kill(tmp_path, monkeypatch, victim):
    settings = of_tables(tmp_path, 1, rows=300, woe=True, train={"epochs": 1, "batch": 150, "test": 0.3})
    given = 0
    for at in range(3, min(80, whole_actions(settings, tmp_path, monkeypatch, victim) - 9), 7):
        trial = Trial(settings, tmp_path / f"{victim}-{at}")
        assert trial.interrupted(monkeypatch, victim, at)
        records = RecordFiles(trial.root / "bank")
        before = kept_rows.kept(records)
        counted = before is not None and gave_counts(records, before.session)
        trial.brought_to_an_end(monkeypatch)
        if counted:
            given += 1
            assert np.array_equal(before.rows, trial.state("bank")["rows"]), at
    assert given  # times that counts of labels had been given before the kill


def test_a_party_that_is_killed_twice_before_the_same_state(tmp_path, monkeypatch):
    """bank stores the second epoch both times, and shop0 never does: all resume after the first."""
    settings = settings_of(tmp_path, train={"epochs": 3, "batch": 200})
    whole, trial = Trial(settings, tmp_path / "whole"), Trial(settings, tmp_path / "trial")
    whole.attempt(monkeypatch)
    actions = whole_actions(settings, tmp_path, monkeypatch, "shop0")
    for moments in (range(actions // 2 - 5, actions), range(actions // 4, actions)):
        trial = left_behind(trial, monkeypatch, "shop0", moments)
    trial.brought_to_an_end(monkeypatch)
    same_training(whole, trial, "shop0")


def left_behind(trial, monkeypatch, victim, moments):
    """A copy of the trial, in which the victim is killed once bank has stored the second epoch, and before it does."""
    before = trial.state("bank")
    for at in moments:
        copy = Trial(trial.settings, trial.root.with_name(f"{trial.root.name}-{at}"))
        shutil.copytree(trial.root, copy.root, dirs_exist_ok=True)
        copy.sent = {name: list(messages) for name, messages in trial.sent.items()}
        copy.interrupted(monkeypatch, victim, at)
        after = copy.state("bank")
        new = before is None or not np.array_equal(before["now.weights"], after["now.weights"])
        if new and after["round"] == 2 and copy.state(victim)["round"] == 1:
            return copy
    raise AssertionError(f"{victim} was never left behind")
