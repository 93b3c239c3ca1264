"""Whatever goes wrong between the parties: all stop with one sentence that names the reason, and nothing is saved."""

from __future__ import annotations

import re
import threading

import msgspec
import numpy as np
import pytest
from torch import nn
from torch.ao.quantization import FakeQuantize

from tacit.channel import pair
from tacit.errors import BudgetError, PeerError, Unfit
from tacit.kinds.split.common_terms import refuse_mixing, schedule_of
from tacit.kinds.split.messages import Activations, Gradient, Offer, Reached, Start
from tacit.kinds.split.task import Bottom, Rows
from tacit.kinds.split.tensors import take_gradient
from tacit.lockstep.context import Context
from tacit.training import refuse_unfit
from tests.kinds.split.networks import functions, parts_u, parts_v, settings_u, settings_v
from tests.subprocesses import HANGS


def ends(settings, parts, other_settings=None, wrap=lambda name, channels: channels, contexts=None):
    """Run each party on channels of its own, which nobody cuts: what each returned or raised, and saved."""
    channels = {name: {} for name in settings.parties}
    for name in settings.followers:
        channels[settings.leader][name], channels[name][settings.leader] = pair(settings.leader, name, patience=HANGS)
    saved = {name: [] for name in settings.parties}
    contexts = contexts or {name: Context(keep=states.append) for name, states in saved.items()}
    ours = functions(settings, parts, contexts=contexts, wrap=wrap)
    theirs = functions(other_settings or settings, parts, contexts=contexts, wrap=wrap)
    ended = {}

    def live(name):
        try:
            ended[name] = (theirs if name != settings.leader else ours)[name](channels[name])
        except BaseException as error:
            ended[name] = error
            for end in channels[name].values():
                end.close()

    threads = [threading.Thread(target=live, args=(name,), daemon=True) for name in settings.parties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
        assert not thread.is_alive()
    return ended, saved


def assert_all_say(ended, words, kind=PeerError):
    for name, error in ended.items():
        assert isinstance(error, kind), (name, error)
        assert re.search(words, str(error)), (name, str(error))
        assert "\n" not in str(error)


def replaced(part, **changes):
    return type(part)(**{**{f: getattr(part, f) for f in part.__dataclass_fields__}, **changes})


def test_cut_dimensions_that_disagree():
    parts = parts_v()
    parts["west"] = replaced(parts["west"], network=nn.Linear(3, 7), cut=(7,))
    ended, saved = ends(settings_v(), parts)
    assert_all_say(ended, "cut dimensions disagree: [75] at (west|lead), [57] here")
    assert not any(saved.values())


def test_cut_dimensions_of_the_way_back_that_disagree():
    parts = parts_u()
    parts["cloud"] = replaced(parts["cloud"], back_cut=(6, 9))
    ended, _ = ends(settings_u(), parts)
    assert_all_say(ended, "cut dimensions of the way back disagree: 6 x [89] at (cloud|office), 6 x [98] here")


def test_different_batch_counts():
    parts = parts_v()
    east = parts["east"]
    parts["east"] = replaced(east, train=Rows(east.train.features[:30]))
    ended, saved = ends(settings_v(), parts)
    assert_all_say(ended, "batch counts disagree: [49] at (east|lead), [94] here")
    assert not any(saved.values())


def test_different_numbers_of_records_in_as_many_batches():
    parts = parts_v()
    east = parts["east"]
    parts["east"] = replaced(east, train=Rows(east.train.features[:68]))
    assert_all_say(ends(settings_v(), parts)[0], "numbers of records disagree: (68|70) at")
    parts["east"] = replaced(east, test=Rows())
    assert_all_say(ends(settings_v(), parts)[0], "numbers of test records disagree: (0|30) at")


def test_settings_that_disagree():
    other = settings_v(embedding_dp={"eps": 5})
    assert_all_say(ends(settings_v(), parts_v(), other)[0], "settings of embedding_dp disagree")
    assert_all_say(
        ends(settings_v(embedding_dp={"eps": 4}), parts_v(), other)[0], "eps of embedding_dp disagree: [45].0 at"
    )


def test_a_network_that_does_not_fit_its_own_cut():
    parts = parts_v()
    parts["east"] = replaced(parts["east"], network=nn.Linear(4, 9))
    ended, saved = ends(settings_v(), parts)
    assert_all_say(ended, "the bottom network makes 9 of a record, its cut is 6", (Unfit, PeerError))
    assert isinstance(ended["east"], ValueError)
    assert not any(saved.values())


def test_a_network_that_mixes_records_where_each_has_a_price():
    parts = parts_v()
    parts["east"] = replaced(parts["east"], network=nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)))
    words = r"network.1 \(BatchNorm1d\).* mixes the records of a batch: use nn.GroupNorm"
    assert_all_say(ends(settings_v(embedding_dp={"eps": 5}), parts)[0], words, (Unfit, PeerError))
    parts = parts_v()
    lead = parts["lead"]
    lead.network.layers[1] = nn.BatchNorm1d(12)
    noised = settings_v(gradients={"protection": "noised", "noise_multiplier": 1})
    assert_all_say(ends(noised, parts)[0], r"network.layers.1 \(BatchNorm1d\).* mixes the records", (Unfit, PeerError))


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.Sequential(nn.Flatten(), nn.Embedding(4, 6, max_norm=1.0)), "max_norm"),
        (nn.Embedding(4, 6, scale_grad_by_freq=True), "scale_grad_by_freq"),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 6)), "spectral_norm"),
        (nn.utils.spectral_norm(nn.Linear(4, 6)), "spectral_norm"),
        (nn.InstanceNorm1d(4, track_running_stats=True), "running statistics"),
        (nn.SyncBatchNorm(4), "mixes the records"),
        (FakeQuantize(), "range of the values"),
    ],
)
def test_the_list_of_layers_that_mix_is_that_of_private_training(layer, reason):
    with pytest.raises(ValueError, match=reason):
        refuse_unfit(layer)
    with pytest.raises(Unfit, match=rf"bottom.*, because of eps: .*{reason}"):
        refuse_mixing({"bottom": layer}, "because of eps")


def test_layers_that_only_private_training_cannot_record_are_accepted():
    refuse_mixing({"bottom": nn.Sequential(nn.LSTM(4, 4), nn.EmbeddingBag(4, 4), nn.GroupNorm(2, 4))}, "")


def test_a_network_of_doubles():
    parts = parts_v()
    east = parts["east"]
    double = Rows(east.train.features.astype(np.float64))
    parts["east"] = Bottom(nn.Linear(4, 6).double(), (6,), double, Rows(east.test.features.astype(np.float64)))
    assert_all_say(ends(settings_v(), parts)[0], "torch.float32 crosses the cut", (Unfit, PeerError))


class Changing:
    """A channel whose owner sends something else at some step."""

    def __init__(self, channel, change):
        self._channel, self._change = channel, change

    def send(self, message):
        self._channel.send(self._change(message))

    def recv(self, kind, limit=1 << 28):
        return self._channel.recv(kind, limit)

    def close(self):
        self._channel.close()


def changing(who, kind, at, **fields):
    def change(message):
        if isinstance(message, kind) and getattr(message, "step", at) == at:
            made = {key: value(message) if callable(value) else value for key, value in fields.items()}
            return msgspec.structs.replace(message, **made)
        return message

    def wrap(name, channels):
        return {other: Changing(c, change) for other, c in channels.items()} if name == who else channels

    return wrap


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (Activations, {"shape": (8, 7)}, "Activations of shape 8 x 7, 8 x 6 were agreed on"),
        (Activations, {"dtype": "bits"}, "Activations as bits, float32 was agreed on"),
        (Activations, {"body": lambda m: m.body[:-4]}, "Activations of 188 bytes, 192 were agreed on"),
        (Activations, {"body": lambda m: m.body * 9}, "at most [0-9]+ are allowed here"),
        (Activations, {"step": 77}, "Activations of step 77, this side is at step 10"),
        (Activations, {"body": lambda m: b"\xff" * len(m.body)}, "numbers that are not finite"),
    ],
)
def test_a_message_that_does_not_fit(kind, fields, words):
    ended, saved = ends(settings_v(), parts_v(), wrap=changing("east", kind, 10, **fields))
    assert_all_say(ended, words)
    assert {state.step for states in saved.values() for state in states} == {0, 9}  # no half of the second epoch


def test_a_gradient_that_does_not_fit():
    ended, _ = ends(settings_u(), parts_u(), wrap=changing("office", Gradient, 3, shape=(8, 6, 9)))
    assert_all_say(ended, "Gradient of shape 8 x 6 x 9, 8 x 6 x 8 were agreed on")
    ended, _ = ends(settings_u(gradients={"bits": 8}), parts_u(), wrap=changing("cloud", Gradient, 3, scales=b"1234"))
    assert_all_say(ended, "4 bytes of scales for 8 records")


def test_a_party_that_leaves():
    parts = parts_v()

    class Leaving(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = nn.Linear(3, 5), 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 12:
                raise RuntimeError("out of memory")
            return self.inner(x)

    parts["west"] = replaced(parts["west"], network=Leaving())
    ended, saved = ends(settings_v(), parts)
    assert isinstance(ended["west"], RuntimeError)
    for name in ("lead", "east"):
        assert "west left" in str(ended[name])
    assert {state.step for states in saved.values() for state in states} <= {0, 9}


def test_saves_that_nobody_else_has():
    settings = settings_v()
    saved = ends(settings, parts_v())[1]
    contexts = {
        "lead": Context(saved=tuple(saved["lead"][-1:])),
        "east": Context(saved=tuple(saved["east"][-2:-1])),
        "west": Context(),
    }
    assert_all_say(
        ends(settings, parts_v(), contexts=contexts)[0], "no step at which all parties have saved their part"
    )


def test_a_budget_that_is_reached():
    settings = settings_v(embedding_dp={"eps": 1}, budget={"epsilon": 6})  # 3 an epoch at east, 2.5 at west
    ended, saved = ends(settings, parts_v())
    assert_all_say(ended, "the budget is 6: stop here", (BudgetError, PeerError))
    assert isinstance(ended["east"], BudgetError)
    assert {state.step for state in saved["lead"]} == {0, 9, 18}


def test_a_start_that_this_party_has_no_part_for():
    ended, _ = ends(settings_u(), parts_u(), wrap=changing("office", Start, 0, step=9))
    assert_all_say(ended, "office begins at step 9, of which this party has saved nothing")


def test_a_start_that_would_forget_what_was_spent():
    """Resumed from step 9, a leader says 0: a follower that began there would do so with an empty ledger."""
    settings = settings_v(embedding_dp={"eps": 1}, budget={"epsilon": 15})
    _, saved = ends(settings, parts_v())
    contexts = {
        name: Context(saved=tuple(state for state in states if state.step == 9)) for name, states in saved.items()
    }
    ended, _ = ends(settings, parts_v(), contexts=contexts, wrap=changing("lead", Start, 9, step=0))
    assert "lead begins at step 0, of which this party has saved nothing" in str(ended["east"])


@pytest.mark.parametrize(
    ("kind", "make", "who", "fields"),
    [
        (settings_v, parts_v, "lead", {"test_records": 10}),
        (settings_v, parts_v, "lead", {"test_records": 1 << 39}),
        (settings_v, parts_v, "lead", {"records": 0}),
        (settings_u, parts_u, "office", {"records": 0}),
        (settings_u, parts_u, "office", {"test_records": 1 << 39}),
    ],
)
def test_a_start_with_other_numbers_of_records_than_were_offered(kind, make, who, fields):
    ended, _ = ends(kind(), make(), wrap=changing(who, Start, 0, **fields))
    assert_all_say(ended, "numbers of records disagree")


@pytest.mark.parametrize("who", ["lead", "east"])
def test_a_party_that_says_it_reached_another_step(who):
    ended, saved = ends(settings_v(), parts_v(), wrap=changing(who, Reached, 9, step=8))
    assert_all_say(ended, "says that it reached step 8, this side is at step 9")
    assert {state.step for state in saved["west" if who == "lead" else "lead"]} <= {0, 9}


def test_a_scale_that_makes_numbers_infinite():
    gradient = Gradient(0, (1, 2), "int8", np.float32(3e38).tobytes(), np.array([127, 1], np.int8).tobytes())
    with pytest.raises(PeerError, match="not finite"):
        take_gradient(gradient, 0, (1, 2), 8, "lead")


def test_a_leader_that_claims_very_many_records_costs_no_memory():
    schedule = schedule_of(settings_u(), 1 << 40)
    step, batch = next(schedule.sizes_from(5))
    assert (step, len(batch)) == (5, 8)
    ended, _ = ends(settings_u(), parts_u(), wrap=changing("office", Start, 0, records=1 << 40))
    assert all(isinstance(error, PeerError) for error in ended.values())


def test_offers_are_bounded():
    ended, _ = ends(settings_v(), parts_v(), wrap=changing("east", Offer, 0, cut=(1,) * 9))
    assert_all_say({name: ended[name] for name in ("lead", "west")}, "Offer")
