"""A network in parts learns what it learns in one piece; its parties go on where they stopped."""

from __future__ import annotations

import contextlib
import copy
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.events import EpochFinished, Kept, Noted, Stepped, TrainingResumed, TrainingStarted
from tacit.kinds.split.common_terms import schedule_of
from tacit.kinds.split.messages import Activations
from tacit.kinds.split.task import Rows, aligned
from tacit.lockstep.context import Context
from tests.kinds.split.networks import (
    RECORDS,
    assert_close,
    parts_u,
    parts_v,
    settings_u,
    settings_v,
    train,
    weights,
    whole_u,
    whole_v,
)

STEPS = 45  # 5 epochs of 9 steps, with a last batch of 6


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("leader_features", [False, True])
def test_v_learns_what_the_network_learns_in_one_piece(leader_features, optimizer):
    settings = settings_v(train={"epochs": 6, "batch": 8, "learning_rate": 0.05, "optimizer": optimizer, "steps": 50})
    parts = parts_v(leader_features)
    expected = whole_v(settings, parts, 50)
    start = {name: copy.deepcopy(part.network.state_dict()) for name, part in parts.items()}
    outcomes = train(settings, parts)
    for name in parts:
        assert outcomes[name].state.step == 50
        assert_close(weights(outcomes[name]), expected[name])
        moved = max(
            float((start[name][key] - torch.from_numpy(outcomes[name].state.arrays[f"network.{key}"])).abs().max())
            for key in start[name]
        )
        assert moved > 1e-2  # the control: it learnt at all


def test_u_learns_what_the_network_learns_in_one_piece():
    settings = settings_u(train={"epochs": 6, "batch": 8, "learning_rate": 0.05, "steps": 50})
    parts = parts_u()
    expected = whole_u(settings, parts, 50)
    outcomes = train(settings, parts)
    for name in parts:
        assert_close(weights(outcomes[name]), expected[name])
    assert outcomes["office"].metrics["loss"] < 1.0


def test_protected_trainings_still_learn():
    settings = settings_v(
        embedding_dp={"eps": 8},
        label_dp={"eps": 5},
        train={"epochs": 40, "batch": 8, "learning_rate": 0.01},
        evaluate=40,
        simulation={"insecure_noise_seed": 1},
    )
    metrics = train(settings, parts_v())["lead"].metrics
    assert metrics["accuracy"] > 0.6  # one of three


def test_noised_gradients_of_8_bits_still_learn():
    settings = settings_v(
        gradients={"protection": "noised", "clip": 1.0, "noise_multiplier": 0.02, "bits": 8},
        train={"epochs": 20, "batch": 8, "learning_rate": 0.01},
        evaluate=20,
        simulation={"insecure_noise_seed": 1},
    )
    assert train(settings, parts_v())["lead"].metrics["accuracy"] > 0.6


def test_what_is_told():
    sinks = {name: Kept() for name in ("lead", "east", "west")}
    settings = settings_v(embedding_dp={"eps": 5})
    outcomes = train(settings, parts_v(), contexts={name: Context(sinks[name], time.perf_counter) for name in sinks})
    lead, east = sinks["lead"].events, sinks["east"].events
    assert lead[0] == TrainingStarted("split", "split", 3, 5, 9, "EmbeddingDP", outcomes_parameters(outcomes["lead"]))
    lines = [event for event in lead if isinstance(event, Stepped)]
    assert [(line.epoch, line.step) for line in lines] == [(1, 1), (2, 2), (3, 3), (4, 4), (4, 9)]
    assert all(line.loss > 0 and line.speed > 0 and line.steps == 9 for line in lines)
    ended = [event for event in lead if isinstance(event, EpochFinished)]
    assert [event.epoch for event in ended] == [0, 1, 2, 3, 4]
    assert all({"loss", "accuracy"} == event.metrics.keys() and event.local["loss"] > 0 for event in ended)
    assert all(event.epsilon is None for event in ended)  # gradients are in the clear
    assert sum(event.bytes_sent for event in ended) <= outcomes["lead"].bytes_sent
    assert outcomes["lead"].bytes_sent == outcomes["east"].bytes_received + outcomes["west"].bytes_received
    notes = [event.text for event in east if isinstance(event, Noted)]
    assert notes[0] == "The embedding is protected by EmbeddingDP with eps 5.000000."
    assert "epsilon 75 (6 bits a record, 5 visits, eps/2 = 2.5 a bit)" in notes[1]
    assert [event.epsilon for event in east if isinstance(event, EpochFinished)] == [15, 30, 45, 60, 75]


def test_noise_that_anybody_can_compute_has_no_epsilon():
    events = Kept()
    settings = settings_v(embedding_dp={"eps": 5}, simulation={"insecure_noise_seed": 1})
    train(settings, parts_v(), contexts={"east": Context(events)})
    assert {event.epsilon for event in events.events if isinstance(event, EpochFinished)} == {None}


def outcomes_parameters(outcome):
    return sum(array.size for array in weights(outcome).values())


def test_speed_of_a_text_is_told_in_tokens():
    events = Kept()
    train(settings_u(), parts_u(), contexts={"office": Context(events)})
    assert {event.unit for event in events.events if isinstance(event, Stepped)} == {"tokens"}


def test_an_optimizer_or_its_options_that_do_not_exist_are_named():
    for change, words in (({"optimizer": "newton"}, "take one of"), ({"optimizer_options": {"a": 1}}, "do not fit")):
        with pytest.raises(ValueError, match=words):
            train(settings_v(train={"epochs": 1, "batch": 8, **change}), parts_v())


@pytest.mark.parametrize(("kind", "make"), [(settings_v, parts_v), (settings_u, parts_u)], ids=["V", "U"])
@pytest.mark.parametrize("stop", [9, 20])
def test_going_on_gives_what_an_uninterrupted_training_gives(kind, make, stop):
    """Saved at the end of an epoch and in the middle of one; parties whose saves differ meet at the last common one."""
    settings = kind(label_dp={"eps": 60}, train={"epochs": 5, "batch": 8, "learning_rate": 0.02, "save": 4})
    whole = train(settings, make())
    saved = {name: [] for name in settings.parties}
    train(settings, make(), contexts={name: Context(keep=states.append) for name, states in saved.items()})
    late = {name: max(s.step for s in states if s.step <= stop) for name, states in saved.items()}
    follower = settings.followers[0]
    kept = {
        name: [s for s in states if s.step in (late[name], late[name] - 4)] + [s for s in states if s.step == 0]
        for name, states in saved.items()
    }
    kept[follower] += [s for s in saved[follower] if s.step > stop][:1]
    sinks = {name: Kept() for name in saved}
    contexts = {name: Context(sinks[name], saved=tuple(states)) for name, states in kept.items()}
    resumed = train(settings, make(weights_seed=5), contexts=contexts)
    for name in settings.parties:
        assert resumed[name].state.step == STEPS
        for key, array in whole[name].state.arrays.items():
            np.testing.assert_allclose(resumed[name].state.arrays[key], array, atol=1e-6, err_msg=key)
        (told,) = [event for event in sinks[name].events if isinstance(event, TrainingResumed)]
        assert told.epoch * 9 + told.step == late[name]


def test_randomized_labels_survive_an_interruption():
    settings = settings_v(label_dp={"eps": 0.5})
    first = []
    train(settings, parts_v(), contexts={"lead": Context(keep=first.append)})
    assert first[0].step == 0
    labels = first[0].arrays["extra.labels"]
    assert (labels != parts_v()["lead"].train.labels).any()
    assert all((state.arrays["extra.labels"] == labels).all() for state in first)


class Killed(Exception):
    pass


class Counting:
    """A channel that counts how often each step's activations left, and kills its party before the save."""

    def __init__(self, channel, sent, kill_at):
        self.channel, self.sent, self.kill_at = channel, sent, kill_at
        self.recv, self.close = channel.recv, channel.close

    def send(self, message):
        if isinstance(message, Activations):
            if message.step == self.kill_at:
                raise Killed
            self.sent.append(message.step)
        self.channel.send(message)


@pytest.mark.parametrize("kills", [(13, 13, 13), (9, 11, 10, 20), (12,), (8, 9, 17, 18)])
@pytest.mark.parametrize("save", [None, 4])
def test_the_ledger_never_says_less_than_was_sent_however_often_it_is_killed(kills, save):
    """East's records: each epoch or rest of one that was begun is a visit, which was paid for before it left."""
    settings = settings_v(embedding_dp={"eps": 1}, train={"epochs": 3, "batch": 8, "learning_rate": 0.02, "save": save})
    saved, last, sent = {name: [] for name in settings.parties}, {name: {} for name in settings.parties}, []
    for kill_at in (*kills, None):

        def wrap(name, channels, kill_at=kill_at):
            return {n: Counting(c, sent, kill_at) for n, c in channels.items()} if name == "east" else channels

        contexts = {
            name: Context(saved=tuple(states[-2:]), keep=states.append, paid=last[name].update, spent=dict(last[name]))
            for name, states in saved.items()
        }
        with contextlib.suppress(Killed):
            parts = {name: replace(part, test=Rows()) for name, part in parts_v().items()}
            outcomes = train(settings, parts, contexts=contexts, wrap=wrap)
    often = Counter()
    for step in sent:
        for record in schedule_of(settings, RECORDS).order(step // 9)[step % 9 * 8 : step % 9 * 8 + 8]:
            often[int(record)] += 1
    visits = outcomes["east"].ledgers["records"].pure_epsilon() / 3  # 6 bits of eps/2
    assert max(often.values()) <= visits <= 3 + len(kills)
    assert last["east"]["records"] == outcomes["east"].ledgers["records"].to_json()


def test_aligned_parts_hold_the_common_records_in_their_order():
    rows = Rows(np.arange(10.0).reshape(5, 2), np.arange(5), tuple("abcde"))
    part = aligned(replace(parts_v()["lead"], train=rows), np.array([3, 1]))
    assert part.train.labels.tolist() == [3, 1]
    assert part.train.features.tolist() == [[6, 7], [2, 3]]
    assert part.train.ids == ("d", "b")
    with pytest.raises(ValueError, match="differ in length: 2, 5"):
        Rows(rows.features, rows.labels[:2])


def test_a_party_saves_its_own_part_only():
    outcomes = train(settings_v(), parts_v())
    assert {key.split(".")[0] for key in outcomes["lead"].state.arrays} == {"network", "bottom", "optimizer"}
    assert {key.split(".")[0] for key in outcomes["east"].state.arrays} == {"network", "optimizer"}
    assert outcomes["east"].state.arrays["network.0.weight"].shape == (6, 4)
