"""A party that is killed at any moment: all resume together, and nothing new is shown."""

from __future__ import annotations

import csv
import shutil
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy.special import expit

from tacit.channel import run_parties
from tacit.errors import NotResumed, PeerError
from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.protocol.journal import Entry
from tacit.kinds.vertical_logistic.protocol.messages import (
    Begin,
    Decrypted,
    EpochOver,
    MaskedGradient,
    Residues,
    Scores,
)
from tacit.runs.load import load
from tacit.store import files
from tacit.store.journal_files import RecordFiles
from tacit.wire import decode
from tests.kinds.vertical_logistic.parties import plain
from tests.lockstep.interruptions import Killed, Trial

ROWS = 40
COLUMNS = {"bank": 2, "shop": 3, "post": 2}
ANSWERS = (Residues, MaskedGradient, Decrypted, EpochOver)


def table(parties):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(ROWS, sum(COLUMNS.values())))
    y = (rng.random(ROWS) < expit(x @ rng.normal(size=x.shape[1]))).astype(int)
    parts, first = {}, 0
    for name in parties:
        parts[name] = x[:, first : first + COLUMNS[name]]
        first += COLUMNS[name]
    return parts, y


def vertical(folder: Path, parties=("bank", "shop"), **changes):
    """Settings of a small training: two steps an epoch, two epochs; without secret offsets, so that two of them can be
    compared."""
    parts, y = table(parties)
    for name, own in parts.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *(["y"] if name == "bank" else []), *(f"{name}{k}" for k in range(own.shape[1]))])
            for row in range(ROWS):
                writer.writerow([f"p{row}", *([y[row]] if name == "bank" else []), *map(repr, map(float, own[row]))])
    data = {
        "kind": "vertical_logistic",
        "protocol": "masked",
        "parties": {name: {"role": "active" if name == "bank" else "passive"} for name in parties},
        "data": {name: {"path": str(folder / f"{name}.csv")} for name in parties},
        "align": False,
        "train": {"epochs": 2, "batch": 16, "learning_rate": 0.5, "secret_spread": 0.0},
        "paillier": {"bits": 512},
        "checks": {"row_uses": 3},
    }
    for name, value in changes.items():
        data[name] = {**data.get(name, {}), **value} if isinstance(value, dict) else value
    return load(data)


def weights(trial):
    return {name: trial.model(name)["weights"] for name in trial.settings.parties}


def actions(settings, folder, monkeypatch, victim):
    """How many actions this party takes in a training that nobody interrupts."""
    return Trial(settings, folder / f"count-{victim}").attempt(monkeypatch, victim).count


def points(count, fast):
    """Moments to kill at: all of them, or some in each part."""
    return range(1, count + 1, 7) if fast else range(1, count + 1)


def killed_everywhere(make, folder, monkeypatch, parties, fast, check):
    settings = make(folder, parties)
    whole = Trial(settings, folder / "whole")
    whole.attempt(monkeypatch)
    for victim in parties:
        for at in points(actions(settings, folder, monkeypatch, victim), fast):
            trial = Trial(settings, folder / f"{victim}-{at}")
            trial.interrupted(monkeypatch, victim, at)
            trial.brought_to_an_end(monkeypatch)
            check(whole, trial, f"{victim} at {at}")


def same_training(whole, trial, where):
    for name, expected in weights(whole).items():
        assert np.array_equal(weights(trial)[name], expected), (where, name)
    for name in trial.settings.parties:
        assert trial.state(name)["begun"] == trial.settings.train.epochs, (where, name)  # no repetition counts
    for kind in ANSWERS:
        counts = {name: len(repeated(trial.sent[name], kind)) for name in trial.settings.parties}
        expected = {name: len(repeated(whole.sent[name], kind)) for name in trial.settings.parties}
        assert counts == expected, (where, kind)  # a repeated answer has the same bytes


def repeated(sent, kind):
    """The different messages of a kind."""
    return {repr(message) for message in sent if isinstance(message, kind)}


def test_a_party_that_is_killed_at_some_moments_of_a_vertical_training(tmp_path, monkeypatch):
    killed_everywhere(vertical, tmp_path, monkeypatch, ("bank", "shop"), True, same_training)


@pytest.mark.slow  # 2 minutes
@pytest.mark.parametrize("parties", [("bank", "shop"), ("bank", "shop", "post")], ids=["2", "3"])
def test_a_party_that_is_killed_at_any_moment_of_a_vertical_training(tmp_path, monkeypatch, parties):
    killed_everywhere(vertical, tmp_path, monkeypatch, parties, False, same_training)


# --- secret offsets


def with_offsets(folder, parties=("bank", "shop"), **changes):
    return vertical(folder, parties, train={"secret_spread": 1.0}, **changes)


def trained_with_the_offsets_that_are_kept(whole, trial, where):
    """Numbers that were drawn anew at a restart would leave weights that those in the last state do not explain."""
    parties = trial.settings.parties
    parts, y = table(parties)
    offsets = trial.state("bank")["offsets"]
    assert 0.5 < offsets[offsets != 0].std() < 1.5, where
    assert not any(trial.state(name)["offsets"].any() for name in parties if name != "bank"), where
    expected, _ = plain(np.concatenate(list(parts.values()), axis=1), y, trial.settings, offsets)
    np.testing.assert_allclose(np.concatenate(list(weights(trial).values())), expected, atol=1e-5, err_msg=where)
    assert all(trial.state(name)["begun"] == trial.settings.train.epochs for name in parties), where


@pytest.mark.slow
def test_a_party_that_is_killed_at_some_moments_goes_on_with_the_same_secret_offsets(tmp_path, monkeypatch):
    killed_everywhere(
        with_offsets, tmp_path, monkeypatch, ("bank", "shop"), True, trained_with_the_offsets_that_are_kept
    )


# --- rows that are aligned first


def aligned(folder, parties=("bank", "shop"), **changes):
    return vertical(folder, parties, align=True, **changes)


def trained_on_common_rows(whole, trial, where):
    """All parties have the same people in the same order, and the weights of training on these in the clear."""
    parties = trial.settings.parties
    orders = [trial.state(name)["rows"] for name in parties]
    assert all(np.array_equal(order, orders[0]) for order in orders), where  # all tables have the same order here
    parts, y = table(parties)
    x = np.concatenate([parts[name] for name in parties], axis=1)[orders[0]]
    expected, _ = plain(x, y[orders[0]], trial.settings)
    np.testing.assert_allclose(np.concatenate(list(weights(trial).values())), expected, atol=1e-5, err_msg=where)
    assert all(trial.state(name)["begun"] == trial.settings.train.epochs for name in parties), where


@pytest.mark.slow  # 6 s
def test_a_party_that_is_killed_while_rows_are_aligned_or_first_stored(tmp_path, monkeypatch):
    settings = aligned(tmp_path)
    for victim in settings.parties:
        for at in range(1, 40, 3):  # through the alignment, the first save and into the first step
            trial = Trial(settings, tmp_path / f"{victim}-{at}")
            assert trial.interrupted(monkeypatch, victim, at)
            trial.brought_to_an_end(monkeypatch)
            trained_on_common_rows(None, trial, f"{victim} at {at}")


# --- many kills


@pytest.mark.parametrize("victim", ["bank", "shop", "post"])
def test_five_kills_of_one_party_leave_the_same_model_and_count_nothing(tmp_path, monkeypatch, victim):
    parties = ("bank", "shop", "post")
    settings = vertical(tmp_path, parties, train={"epochs": 3}, checks={"row_uses": 4})
    whole, trial = Trial(settings, tmp_path / "whole"), Trial(settings, tmp_path / "killed")
    whole.attempt(monkeypatch)
    for at in (45, 31, 37, 29, 43):  # each time a step or two further, and inside one
        assert trial.interrupted(monkeypatch, victim, at)
    trial.brought_to_an_end(monkeypatch)
    same_training(whole, trial, victim)


# --- parties that lie about a restart


class Dying:
    """A channel whose owner ends where it would send the n-th message of this kind."""

    def __init__(self, channel, kind, last):
        self._channel, self._kind, self._left = channel, kind, last
        self.recv, self.close = channel.recv, channel.close

    def send(self, message):
        self._left -= isinstance(message, self._kind)
        if not self._left:
            raise Killed
        self._channel.send(message)


def dying(party, kind, last=1):
    return lambda me, other, channel: Dying(channel, kind, last) if me == party else channel


def forget(trial, name, position):
    """What a party does that wants to answer a step anew: it loses that page of its journal."""
    for path in (trial.root / name / "journal").glob(f"*-{position}"):
        path.unlink()


def entries(trial, name):
    found = [
        decode(data, Entry, 1 << 30)
        for record, data in RecordFiles(trial.root / name).read().items()
        if "step" in record
    ]
    return {entry.position: entry for entry in found}


@pytest.mark.parametrize("position", [0, 1])
def test_an_active_that_claims_restarts_and_sends_other_residues_gets_counted_answers_and_then_none(
    tmp_path, monkeypatch, position
):
    settings = vertical(tmp_path, checks={"row_uses": 5, "restarts": 1})
    trial = Trial(settings, tmp_path / "trial")
    masks, answers = [], []
    for repetition in range(5):
        with pytest.raises(Killed):
            trial.attempt(monkeypatch, wrap=dying("bank", Decrypted, position + 1))
        entry = entries(trial, "shop")[position]
        assert entry.uses == 1 + repetition  # the first of an epoch counts, and each that differs
        masks.append(entry.masks)
        answers.append(entry.answer)
        forget(trial, "bank", position)  # encrypts other residues, or the same ones anew
    assert len(set(masks)) == len(set(answers)) == 5  # no mask meets two inputs
    with pytest.raises(PeerError, match="each row would be part of 6 steps, 5 are allowed"):
        trial.attempt(monkeypatch)
    sent = repeated(trial.sent["shop"], MaskedGradient)
    assert len(sent) == 5 + position  # nothing was sent in reply to the sixth


def test_a_passive_that_claims_restarts_gets_the_same_ciphertexts_and_counted_decryptions(tmp_path, monkeypatch):
    settings = vertical(tmp_path, checks={"row_uses": 4, "restarts": 1})
    trial = Trial(settings, tmp_path / "trial")
    for _ in range(4):
        with pytest.raises(Killed):
            trial.attempt(monkeypatch, wrap=lambda me, other, c: Deaf(c) if me == "shop" else c)
        forget(trial, "shop", 0)  # and so draws another mask, or has something else decrypted
    sent = trial.sent["bank"]
    assert len(repeated(sent, Residues)) == 1
    assert len([message for message in sent if isinstance(message, Residues)]) == 4
    assert len(repeated(sent, Decrypted)) == 4  # 1 for the epoch, and 3 that count
    with pytest.raises(PeerError, match="each row would be part of 5 steps, 4 are allowed"):
        trial.attempt(monkeypatch)
    assert len([message for message in trial.sent["bank"] if isinstance(message, Decrypted)]) == 4


class Deaf:
    """A channel whose owner ends once it has received a decryption."""

    def __init__(self, channel):
        self._channel = channel
        self.send, self.close = channel.send, channel.close

    def recv(self, kind, *arguments):
        message = self._channel.recv(kind, *arguments)
        if kind is Decrypted:
            raise Killed
        return message


def test_passives_that_are_sent_back_to_different_steps_show_noise(tmp_path, monkeypatch):
    settings = vertical(tmp_path, ("bank", "shop", "post"))
    trial = Trial(settings, tmp_path / "trial")
    with pytest.raises(Killed):
        trial.attempt(monkeypatch, wrap=dying("shop", Scores, 3))

    def lying(me, other, channel):
        return Elsewhere(channel) if (me, other) == ("bank", "post") else channel

    assert len(entries(trial, "post")) == 2
    with pytest.raises(PeerError, match="their masks do not cancel"):
        trial.attempt(monkeypatch, wrap=lying)


class Elsewhere:
    """A channel whose owner has the other begin one step earlier."""

    def __init__(self, channel):
        self._channel = channel
        self.recv, self.close = channel.recv, channel.close

    def send(self, message):
        if isinstance(message, Begin):
            message = msgspec.structs.replace(message, position=message.position - 1)
        self._channel.send(message)


def test_a_party_without_its_part_is_told_to_resume_and_harms_nobody(tmp_path, monkeypatch):
    settings = vertical(tmp_path)
    for victim in settings.parties:
        trial = Trial(settings, tmp_path / victim)
        assert trial.interrupted(monkeypatch, victim, 60)
        (trial.root / victim).rename(tmp_path / f"{victim}-elsewhere")
        (trial.root / victim).mkdir()
        with pytest.raises(NotResumed, match=f"{victim} holds no part of the training that .* resume"):
            trial.attempt(monkeypatch)
        shutil.rmtree(trial.root / victim)
        (tmp_path / f"{victim}-elsewhere").rename(trial.root / victim)
        trial.brought_to_an_end(monkeypatch)


def test_a_journal_that_is_damaged_is_refused(tmp_path, monkeypatch):
    trial = Trial(vertical(tmp_path), tmp_path / "trial")
    assert trial.interrupted(monkeypatch, "bank", 60)
    path = next((trial.root / "shop" / "journal").glob("step-*"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert (trial.root / "bank" / "journal" / "key").stat().st_mode & 0o777 == 0o600
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match="this file is damaged"):
        trial.attempt(monkeypatch)


def test_more_epochs_on_another_order_of_rows_are_not_resumed_inside_an_epoch(tmp_path, monkeypatch):
    """With batch_order permuted the order depends on the number of epochs: the steps in the journal are of another."""
    settings = vertical(tmp_path, train={"batch_order": "permuted", "epochs": 4}, checks={"row_uses": 9})
    trial = Trial(settings, tmp_path / "trial")
    with pytest.raises(Killed):
        trial.attempt(monkeypatch, wrap=dying("bank", Decrypted, 2))
    shutil.copytree(trial.root, tmp_path / "same")
    same = Trial(settings, tmp_path / "same")
    same.attempt(monkeypatch)
    assert {(event.epoch, event.step) for event in same.resumed} == {(0, 1)}
    assert all(same.state(name)["begun"] == 4 for name in settings.parties)
    more = vertical(tmp_path, train={"batch_order": "permuted", "epochs": 5}, checks={"row_uses": 9})
    assert [batches.epoch_seed(k, settings) for k in range(4)] != [batches.epoch_seed(k, more) for k in range(4)]
    resumed = Trial(more, tmp_path / "trial")
    resumed.attempt(monkeypatch)
    assert {(event.epoch, event.step) for event in resumed.resumed} == {(0, 0)}
    assert all(resumed.state(name)["begun"] == 6 for name in more.parties)  # the first epoch counts twice


# --- split networks


def split(folder, parties=("lead", "east"), **changes):
    pytest.importorskip("torch")
    data = {
        "kind": "split",
        "topology": "V",
        "task": "tests.lockstep.small_parts:make_parts",
        "parties": {name: {"role": "leader" if name == "lead" else "follower"} for name in parties},
        "train": {"epochs": 2, "batch": 10, "learning_rate": 0.05, "save": 1},
        **changes,
    }
    return load(data)


def same_networks(whole, trial, where):
    for name in trial.settings.parties:
        expected, found = whole.model(name), trial.model(name)
        for key in expected:
            np.testing.assert_allclose(found[key], expected[key], atol=1e-6, err_msg=f"{where} {name} {key}")


@pytest.mark.slow  # 6 s; of a vertical training it is fast
def test_a_party_that_is_killed_at_some_moments_of_a_split_training(tmp_path, monkeypatch):
    killed_everywhere(split, tmp_path, monkeypatch, ("lead", "east"), True, same_networks)


@pytest.mark.slow  # 2 minutes
@pytest.mark.parametrize("parties", [("lead", "east"), ("lead", "east", "west")], ids=["2", "3"])
def test_a_party_that_is_killed_at_any_moment_of_a_split_training(tmp_path, monkeypatch, parties):
    killed_everywhere(split, tmp_path, monkeypatch, parties, False, same_networks)


@pytest.mark.parametrize("align", [False, True])
def test_a_crash_in_the_first_save_of_a_split_training_begins_anew_and_forgets_nothing_that_was_paid(
    tmp_path, monkeypatch, align
):
    settings = split(tmp_path, align=align, embedding_dp={"eps": 1}, label_dp={"eps": 3})
    trial = Trial(settings, tmp_path / "trial")
    replace_file = files.replace_file

    def crashing(path, *data):
        if path.name.startswith("state-0") and path.parent.name == "lead":
            deadline = time.monotonic() + 300
            while not spent(trial, "east"):  # which pays before it sends its first activations
                assert time.monotonic() < deadline
                time.sleep(0.01)
            raise Killed
        replace_file(path, *data)

    with monkeypatch.context() as patched:
        patched.setattr(files, "replace_file", crashing)
        with pytest.raises(Killed):
            run_parties({name: trial.party(name) for name in settings.parties}, patience=300)
    visit = 4 * 0.5  # bits, and eps/2
    assert spent(trial, "east") == visit
    trial.brought_to_an_end(monkeypatch)
    assert spent(trial, "east") == 3 * visit  # two epochs, and what the interrupted one sent


def spent(trial, name):
    ledger = trial.store(name).ledger()
    found = {} if ledger is None else {each["covers"][0]: each["epsilon"] for each in ledger["ledgers"]}
    return found.get("records", 0)


def test_any_moment_of_the_alignment_and_first_save_of_a_split_training(tmp_path, monkeypatch):
    settings = split(tmp_path, align=True)
    for victim in settings.parties:
        for at in range(1, 60, 5):
            trial = Trial(settings, tmp_path / f"{victim}-{at}")
            assert trial.interrupted(monkeypatch, victim, at)
            trial.brought_to_an_end(monkeypatch)
