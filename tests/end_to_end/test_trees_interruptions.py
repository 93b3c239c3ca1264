"""A party of boosted trees that is killed at any moment: all resume together, and grow the same trees."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.config.source import ConfigError
from tacit.errors import NotResumed
from tacit.kinds.vertical_trees.part import Part
from tacit.kinds.vertical_trees.party import binned_tables
from tacit.kinds.vertical_trees.protocol.messages import Begun, Corrections, Described, Prepared, Rounds
from tacit.store.files import Damaged
from tests.kinds.vertical_trees.trees_tables import of_tables
from tests.lockstep.interruptions import Killed, Trial

PARTIES = ("bank", "shop0")


def grown(trial):
    return {name: array for name, array in trial.model("bank").items() if name != "about"}


def same_trees(whole, trial, where):
    expected = grown(whole)
    assert expected.keys() == grown(trial).keys()
    for name, array in grown(trial).items():
        np.testing.assert_array_equal(array, expected[name], err_msg=f"{where} {name}")
    won = [Part.of(each.model("shop0")).won for each in (whole, trial)]
    assert won[0].keys() == won[1].keys(), where


def tweaks(trial):
    return [message.tweak for message in trial.sent["bank"] if isinstance(message, Begun)]


def actions(settings, folder, monkeypatch, victim):
    return Trial(settings, folder / f"count-{victim}").attempt(monkeypatch, victim).count


def killed(settings, folder, monkeypatch, victim, moments):
    whole = Trial(settings, folder / "whole")
    whole.attempt(monkeypatch)
    count = actions(settings, folder, monkeypatch, victim)
    for at in moments(count):
        trial = Trial(settings, folder / f"{victim}-{at}")
        assert trial.interrupted(monkeypatch, victim, at) or at > count - 9, at
        trial.brought_to_an_end(monkeypatch)
        same_trees(whole, trial, f"{victim} at {at}")
        assert len(set(tweaks(trial))) == len(tweaks(trial)), at
        words = [message.words for message in trial.sent["bank"] if isinstance(message, Corrections)]
        assert len(set(words)) == len(words), at


@pytest.mark.parametrize("victim", [PARTIES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in PARTIES[1:])])
def test_a_party_that_is_killed_at_some_moments(tmp_path, monkeypatch, victim):
    killed(of_tables(tmp_path), tmp_path, monkeypatch, victim, lambda count: range(3, count + 1, count // 12))


@pytest.mark.slow
@pytest.mark.parametrize("victim", PARTIES)
@pytest.mark.parametrize("partition", ["shown", "hidden"])
def test_a_party_that_is_killed_at_any_moment(tmp_path, monkeypatch, victim, partition):
    settings = of_tables(tmp_path, privacy={"partition": partition}, train={"trees": 2})
    killed(settings, tmp_path, monkeypatch, victim, lambda count: range(1, count + 1))


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["bank", "shop1"])
def test_one_of_three_parties_that_is_killed_at_any_moment(tmp_path, monkeypatch, victim):
    settings = of_tables(tmp_path, 2, objective="softmax", train={"trees": 2, "depth": 2})
    whole = Trial(settings, tmp_path / "whole")
    whole.attempt(monkeypatch)
    for at in range(1, actions(settings, tmp_path, monkeypatch, victim) + 1):
        trial = Trial(settings, tmp_path / f"{victim}-{at}")
        trial.interrupted(monkeypatch, victim, at)
        trial.brought_to_an_end(monkeypatch)
        same_trees(whole, trial, f"{victim} at {at}")


def test_trees_with_patience_resume_and_end_at_the_best(tmp_path, monkeypatch):
    settings = of_tables(tmp_path, train={"trees": 40, "patience": 2, "learning_rate": 1.0})
    whole, trial = Trial(settings, tmp_path / "whole"), Trial(settings, tmp_path / "trial")
    whole.attempt(monkeypatch)
    state = whole.state("bank")
    assert state["ended"]
    assert state["round"] < 40
    trees = len(Part.of(whole.model("bank")).ensemble.trees)
    assert trees == state["round"] - 2
    assert trial.interrupted(monkeypatch, "shop0", actions(settings, tmp_path, monkeypatch, "shop0") - 4)
    trial.brought_to_an_end(monkeypatch)
    same_trees(whole, trial, "shop0")
    tables, known = binned_tables(settings)
    scores = Part.of(trial.model("bank")).ensemble.scores([tables[name][1] for name in settings.order])
    for found in (trial.state("bank")["best"], state["best"]):  # the rows that the best trees are judged on
        np.testing.assert_allclose(found, scores[known.held_out])


def test_a_passive_stores_its_splits_before_the_active_stores_the_trees(tmp_path, monkeypatch):
    settings = of_tables(tmp_path)
    whole, trial = Trial(settings, tmp_path / "whole"), Trial(settings, tmp_path / "trial")
    whole.attempt(monkeypatch)

    class Dies:
        """The passive's channel, which ends when two rounds are told."""

        def __init__(self, channel):
            self._channel, self.send, self.close = channel, channel.send, channel.close

        def recv(self, *arguments):
            message = self._channel.recv(*arguments)
            if isinstance(message, Rounds) and message.done == 2:
                raise Killed
            return message

    with pytest.raises(Killed):
        trial.attempt(monkeypatch, wrap=lambda name, other, channel: Dies(channel) if name == "shop0" else channel)
    assert [trial.state(name)["round"] for name in PARTIES] == [1, 1]
    trial.brought_to_an_end(monkeypatch)
    same_trees(whole, trial, "shop0")


def test_a_resumed_training_uses_the_trees_of_its_cells_again(tmp_path, monkeypatch):
    settings = of_tables(tmp_path)
    trial = Trial(settings, tmp_path / "trial")
    assert trial.interrupted(monkeypatch, "bank", actions(settings, tmp_path, monkeypatch, "bank") - 20)
    assert trial.state("bank")["round"] > 0
    trial.brought_to_an_end(monkeypatch)
    described = [message.session for message in trial.sent["shop0"] if isinstance(message, Described)]
    prepared = [message.session for message in trial.sent["bank"] if isinstance(message, Prepared)]
    assert described[0] == prepared[0] == b""
    assert described[1] == prepared[1] != b""


@pytest.mark.parametrize("loser", PARTIES)
def test_cells_that_one_party_lost_are_made_anew(tmp_path, monkeypatch, loser):
    settings = of_tables(tmp_path)
    whole, trial = Trial(settings, tmp_path / "whole"), Trial(settings, tmp_path / "trial")
    whole.attempt(monkeypatch)
    assert trial.interrupted(monkeypatch, "bank", actions(settings, tmp_path, monkeypatch, "bank") - 20)
    (cells,) = (tmp_path / "trial" / loser / "journal").glob("cells-*")
    cells.write_bytes(cells.read_bytes()[:-1] + b"?")
    trial.brought_to_an_end(monkeypatch)
    assert [message.session for message in trial.sent["bank"] if isinstance(message, Prepared)] == [b"", b""]
    same_trees(whole, trial, loser)
    assert len(set(tweaks(trial))) == len(tweaks(trial))


def test_a_lost_counter_of_used_tweaks_ends_the_run(tmp_path, monkeypatch):
    settings = of_tables(tmp_path)
    trial = Trial(settings, tmp_path / "trial")
    assert trial.interrupted(monkeypatch, "bank", actions(settings, tmp_path, monkeypatch, "bank") - 20)
    for path in (tmp_path / "trial/shop0/journal").glob("tweaks-*"):
        path.unlink()
    with pytest.raises(Damaged, match="counter of used tweaks is missing"):
        trial.attempt(monkeypatch)


def test_a_party_without_its_folder_does_not_resume(tmp_path, monkeypatch):
    settings = of_tables(tmp_path)
    trial = Trial(settings, tmp_path / "trial")
    assert trial.interrupted(monkeypatch, "bank", actions(settings, tmp_path, monkeypatch, "bank") - 20)
    for path in sorted((tmp_path / "trial/shop0").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(NotResumed, match="shop0 holds no part of the training that bank resumes"):
        trial.attempt(monkeypatch)


@pytest.mark.parametrize("mixed", PARTIES)
def test_a_model_of_another_training_is_not_resumed_with(tmp_path, monkeypatch, mixed):
    settings = of_tables(tmp_path)
    trials = [Trial(settings, tmp_path / name) for name in ("one", "other")]
    at = actions(settings, tmp_path, monkeypatch, "bank") - 20
    for trial in trials:
        assert trial.interrupted(monkeypatch, "bank", at)
    assert trials[0].state(mixed)["round"] == trials[1].state(mixed)["round"] > 0
    one, other = (trial.root / mixed / "model.safetensors" for trial in trials)
    one.write_bytes(other.read_bytes())
    with pytest.raises(ConfigError, match=f"state and model of {mixed} are of different trainings"):
        trials[0].attempt(monkeypatch)
    trials[1].brought_to_an_end(monkeypatch)


def test_a_party_that_is_killed_while_all_begin_anew_begins_anew(tmp_path, monkeypatch):
    """Its new state is stored, and its model is that of the first beginning."""
    settings = of_tables(tmp_path)
    whole, trial = Trial(settings, tmp_path / "whole"), Trial(settings, tmp_path / "trial")
    whole.attempt(monkeypatch)
    assert any(trial.interrupted(monkeypatch, "shop0", at) and trial.state("bank") for at in range(1, 40))
    state, model = trial.store("bank").stored()
    trial.store("bank").save(model, {**state, "session": bytes(16).hex()}, {"version": 1, "ledgers": []})
    trial.brought_to_an_end(monkeypatch)
    same_trees(whole, trial, "begun anew")
