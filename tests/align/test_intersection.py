"""Alignment: what the parties have in common, in one order; what leaves them; peers that break the rules."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.align import intersection as module
from tacit.align.intersection import ALIGN_RELEASES, align, normalised, order_digest
from tacit.align.messages import CHUNK, MAXIMUM, Blinded, Common, Evaluated, Joining, Roster, Store, Tags
from tacit.channel import Recorder, run_parties
from tacit.crypto import key_value
from tacit.crypto.curve import PRIME, Scalar, hash_all, multiply
from tacit.errors import PeerError
from tests.subprocesses import HANGS

NAMES = ("bank", "shop", "clinic", "telco")


def aligned(sets, **options):
    """Each party's alignment; the first is the active."""
    parties = {name: partial(party, name, ids, options) for name, ids in zip(NAMES, sets, strict=False)}
    return run_parties(parties, patience=HANGS)


def party(name, ids, options, channels):
    return align(channels, name, NAMES[0], ids, **options)


def common_ids(sets, results):
    """The common ids as each party reads them off its rows."""
    return [[sets[index][row] for row in results[NAMES[index]].rows] for index in range(len(sets))]


ids = st.lists(st.sampled_from([f"id {index}" for index in range(12)]), unique=True, min_size=1, max_size=12)


@given(st.lists(ids, min_size=2, max_size=4))
@settings(max_examples=30)
def test_every_party_ends_with_the_common_ids_in_one_order(sets):
    expected = set.intersection(*map(set, sets))
    if not expected:
        with pytest.raises(ValueError, match="no ids in common"):
            aligned(sets)
        return
    results = aligned(sets)
    first, *others = common_ids(sets, results)
    assert set(first) == expected
    assert len(first) == len(expected)
    assert all(other == first for other in others)
    for name, own in zip(NAMES, sets, strict=False):
        assert results[name].own == len(own)
        assert results[name].common == len(expected)
        assert results[name].rows.dtype == np.int64


def test_sets_of_several_chunks_and_unequal_size():
    sets = [[f"c{index}" for index in range(CHUNK + 20)], [f"c{index}" for index in range(CHUNK - 10, CHUNK + 40)]]
    first, second = common_ids(sets, aligned(sets))
    assert first == second
    assert set(first) == set(sets[0]) & set(sets[1])


def test_workers_give_the_same():
    sets = [[str(index) for index in range(60)], [str(index) for index in range(30, 90)]]
    first, second = common_ids(sets, aligned(sets, workers=2))
    assert first == second
    assert sorted(first, key=int) == [str(index) for index in range(30, 60)]


def test_the_common_order_tells_nothing_about_rows():
    sets = [[str(index) for index in range(200)]] * 2
    orders = [aligned(sets)["bank"].rows.tolist() for _ in range(2)]
    assert orders[0] != orders[1]
    assert orders[0] != sorted(orders[0])


def test_ids_are_compared_as_normalised_text():
    sets = [["e\u0301mile", " 007 ", "日本", 42, "ABC"], ["\u00e9mile", "007", "日本\n", "42", "abc", "7"]]
    rows = {name: result.rows.tolist() for name, result in aligned(sets).items()}
    assert sorted(zip(rows["bank"], rows["shop"], strict=True)) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_integers_of_numpy_are_text():
    assert normalised(list(np.array([7, 8]))) == ["7", "8"]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", " b", "a", "c"], r"2 ids come again, the first in row 2, which has the id of row 1 "),
        (["\u00e9", "e\u0301"], r"1 ids come again, the first in row 1, which has the id of row 0 "),
        (["a", "", "b", " \t"], r"2 ids are empty, the first in row 1 "),
        (["a", 1.0], r"the id in row 1 is a float"),
        (["a", None], r"the id in row 1 is a NoneType"),
        ([], r"0 ids: an alignment takes 1 to 10000000"),
    ],
)
def test_bad_ids_are_the_callers_mistake_and_nothing_is_sent(ids, message):
    with pytest.raises(ValueError, match=message):
        align({"shop": NoChannel()}, "bank", "bank", ids)


class NoChannel:
    def send(self, message):
        raise AssertionError("sent")

    recv = close = send


@pytest.mark.parametrize(
    ("me", "channels", "options", "message"),
    [
        ("shop", {"clinic": NoChannel()}, {}, "no channel to the active party bank"),
        ("bank", {}, {}, "0 other parties"),
        ("bank", {"shop": NoChannel()}, {"minimum": 0}, "minimum must be 1 or more, got 0"),
        ("bank", {"shop": NoChannel()}, {"workers": 0}, "workers must be 1 or more, got 0"),
    ],
)
def test_bad_arguments(me, channels, options, message):
    with pytest.raises(ValueError, match=message):
        align(channels, me, "bank", ["a"], **options)


@pytest.mark.parametrize("asking", NAMES[:3])
def test_too_few_common_ids_end_all_parties_with_one_sentence(asking):
    sets = [["a", "b", "c"], ["b", "c", "d"], ["c", "b"]]
    errors = {}

    def one(name, ids, channels):
        try:
            align(channels, name, "bank", ids, minimum=3 if name == asking else 1)
        except ValueError as error:
            errors[name] = str(error)

    run_parties({name: partial(one, name, ids) for name, ids in zip(NAMES, sets, strict=False)}, patience=HANGS)
    assert set(errors) == set(NAMES[:3])
    assert len(set(errors.values())) == 1
    assert "fewer than 3 ids in common" in errors["bank"]


def recorded(sets):
    """The results and each party's recorder for each other."""
    recorders: dict[tuple[str, str], Recorder] = {}

    def one(name, ids, channels):
        for other, channel in channels.items():
            recorders[name, other] = Recorder(channel)
        return align({other: recorders[name, other] for other in channels}, name, "bank", ids)

    results = run_parties(
        {name: partial(one, name, ids) for name, ids in zip(NAMES, sets, strict=False)}, patience=HANGS
    )
    return results, recorders


def test_what_leaves_a_party_is_on_the_list():
    _, recorders = recorded([["a", "b"], ["b", "c"], ["b"]])
    left = set()
    for (name, other), recorder in recorders.items():
        sender, receiver = ("active" if party == "bank" else "passive" for party in (name, other))
        for message in recorder.sent:
            left |= {(type(message).__name__, field, sender, receiver) for field in message.__struct_fields__}
    assert left == {(entry.message, entry.field, entry.sender, entry.receiver) for entry in ALIGN_RELEASES}
    assert len(ALIGN_RELEASES) == len(left)


def test_no_id_and_no_hash_of_one_crosses():
    sets = [["customer one", "customer two"], ["customer two", "customer three"]]
    _, recorders = recorded(sets)
    crossed = b"".join(msgspec.msgpack.encode(message) for recorder in recorders.values() for message in recorder.sent)
    for text in {*sets[0], *sets[1]}:
        assert text.encode() not in crossed
        assert hash_all([text]) not in crossed


def test_a_store_alone_does_not_show_the_active_whose_ids_it_holds(monkeypatch):
    outputs = {}
    original = module._evaluations

    def keep(*arguments):
        outputs.update(original(*arguments))
        return outputs

    monkeypatch.setattr(module, "_evaluations", keep)
    sets = [["a", "b", "c", "d"], ["a", "b", "x"], ["a", "c", "y"]]
    results, recorders = recorded(sets)
    found = []
    for index, name in enumerate(["clinic", "shop"]):
        slots = b"".join(message.items for message in recorders["bank", name].seen if isinstance(message, Store))
        places = key_value.places(outputs[name].places, 3)
        found.append(outputs[name].pads ^ key_value.decode(places, np.frombuffer(slots, "<u8").reshape(-1, 2)))
        assert found[index].any(axis=1).all()  # the pairs' common ids look like all others
    assert sorted((found[0] ^ found[1]).any(axis=1).tolist()) == [False, True, True, True]
    assert results["bank"].rows.tolist() == [0]


class Tampering:
    """A channel whose user changes what it sends."""

    def __init__(self, channel, change: Callable):
        self._channel, self._change = channel, change
        self.seen: list = []

    def send(self, message):
        for changed in self._change(self, message):
            self._channel.send(changed)

    def recv(self, kind, limit=1 << 28):
        self.seen.append(self._channel.recv(kind, limit))
        return self.seen[-1]

    def close(self):
        self._channel.close()


def against(hostile, change, sets=(("a", "b", "c"), ("b", "c", "d"))):
    """Run two parties of which one tampers; the other's error is raised."""
    error: list[Exception] = []

    def honest(name, ids, channels):
        try:
            align(channels, name, "bank", ids)
        except Exception as caught:
            error.append(caught)
            raise

    def cheat(name, ids, channels):
        (other,) = channels
        align({other: Tampering(channels[other], change)}, name, "bank", ids)

    parties = {n: partial(cheat if n == hostile else honest, n, list(s)) for n, s in zip(NAMES, sets, strict=False)}
    with pytest.raises((PeerError, ValueError)):
        run_parties(parties, patience=HANGS)
    assert error, "the honest party noticed nothing"
    raise error[0]


def replacing(kind, make):
    """Every message of `kind` replaced by what `make` gives for it."""
    return lambda channel, message: make(channel, message) if isinstance(message, kind) else [message]


def point(x):
    return x.to_bytes(32, "little")


def first_point(new):
    return lambda channel, message: [type(message)(new + message.items[32:])]


HOSTILE_POINTS = {
    "zero": (first_point(point(0)), "small order"),
    "order four": (first_point(point(1)), "small order"),
    "twist": (first_point(point(PRIME - 1)), "small order"),
    "not reduced": (first_point(point(PRIME + 2)), "not reduced"),
    "dressed up": (first_point(point(2**255 + 9)), "not reduced"),
    "twice": (lambda channel, message: [type(message)(message.items[:32] * 3)], "sent a point twice"),
    "short": (lambda channel, message: [type(message)(message.items[:-32])], "sent 64 bytes in a"),
    "torn": (lambda channel, message: [type(message)(message.items[:-1])], "sent 95 bytes in a"),
    "long": (lambda channel, message: [type(message)(message.items + point(9))], "sent 128 bytes in a"),
    "huge": (lambda channel, message: [type(message)(bytes(CHUNK * 32 + 32))], "sent no"),
    "more": (lambda channel, message: [message, message], "sent no"),
}


@pytest.mark.parametrize("how", HOSTILE_POINTS)
@pytest.mark.parametrize(("hostile", "kind"), [("bank", Blinded), ("shop", Evaluated)])
def test_hostile_points_are_the_peers_fault(hostile, kind, how):
    make, message = HOSTILE_POINTS[how]
    with pytest.raises(PeerError, match=message):
        against(hostile, replacing(kind, make))


def test_a_passive_that_sends_the_actives_own_points_back_is_refused():
    def reflect(channel, message):
        (blinded,) = [seen for seen in channel.seen if isinstance(seen, Blinded)]
        return [Evaluated(blinded.items)]

    with pytest.raises(PeerError, match="one that it had from this party"):
        against("shop", replacing(Evaluated, reflect))


def test_an_active_that_sends_its_points_again_is_refused():
    many = [f"c{index}" for index in range(CHUNK + CHUNK)]
    sent = []

    def again(channel, message):
        sent.append(message)
        return [sent[0]]

    with pytest.raises(PeerError, match="sent a point twice"):
        against("bank", replacing(Blinded, again), (many, ["c1"]))


@pytest.mark.parametrize("count", [0, -1, MAXIMUM + 1, 2**62])
def test_announced_sizes_are_bounded(count):
    with pytest.raises(PeerError, match="shop sent no Joining"):
        against("shop", replacing(Joining, lambda channel, message: [msgspec.structs.replace(message, count=count)]))
    with pytest.raises(PeerError, match="bank sent no Roster"):
        against("bank", replacing(Roster, lambda channel, message: [msgspec.structs.replace(message, count=count)]))


@pytest.mark.parametrize(
    ("hostile", "kind", "changes", "message"),
    [
        ("shop", Joining, {"count": 1_000_000}, "shop sent"),  # then its store is too short
        ("bank", Roster, {"count": 2}, "bytes in a Blinded, expected 64"),
        ("bank", Roster, {"keys": bytes(32)}, "a list of keys"),
        ("bank", Roster, {"keys": bytes(33)}, "a list of keys"),
        ("bank", Common, {"count": 4}, "says that 4 ids are common"),
        ("bank", Common, {"count": 1}, "bytes in a Tags"),
    ],
)
def test_wrong_counts_keys_and_tags_are_the_peers_fault(hostile, kind, changes, message):
    change = replacing(kind, lambda channel, sent: [msgspec.structs.replace(sent, **changes)])
    with pytest.raises(PeerError, match=message):
        against(hostile, change)


def test_a_key_that_comes_twice_is_refused():
    with pytest.raises(PeerError, match="one comes twice"):
        against("bank", replacing(Roster, lambda channel, m: [msgspec.structs.replace(m, keys=m.keys + bytes(32) * 2)]))


def test_a_tag_of_an_id_that_this_party_lacks_is_refused():
    with pytest.raises(PeerError, match="that this party does not have"):
        against("bank", replacing(Tags, lambda channel, message: [Tags(bytes(16))]), (["a"], ["a", "b"]))


def test_a_tag_that_comes_twice_is_refused():
    with pytest.raises(PeerError, match="or one twice"):
        against("bank", replacing(Tags, lambda channel, message: [Tags(message.items[:16] * 2)]))


def test_an_active_that_ignores_a_minimum_is_refused():
    def one(name, channels):
        if name == "shop":
            return align(channels, name, "bank", ["a", "b"], minimum=2)
        lower = replacing(Roster, lambda channel, message: [msgspec.structs.replace(message, minimum=1)])
        return align({"shop": Tampering(channels["shop"], lower)}, name, "bank", ["a"])

    with pytest.raises(PeerError, match="would continue with 1 common ids, this party asks for 2"):
        run_parties({name: partial(one, name) for name in NAMES[:2]}, patience=HANGS)


def test_a_store_of_noise_has_nothing_in_common():
    with pytest.raises(ValueError, match="no ids in common"):
        against("shop", replacing(Store, lambda channel, message: [Store(os.urandom(len(message.items)))]))


def test_a_passive_that_multiplies_by_another_secret_has_nothing_in_common():
    other = Scalar.generate()
    with pytest.raises(ValueError, match="no ids in common"):
        against("shop", replacing(Evaluated, lambda channel, message: [Evaluated(multiply(other, message.items))]))


def test_the_digest_of_an_order_is_that_of_the_ids_as_they_are_compared():
    ids = ["a", "e\u0301", "c"]
    here = order_digest(ids, np.array([1, 0]))
    assert here == order_digest([" a ", "x", "\u00e9"], np.array([2, 0]))
    assert here != order_digest(ids, np.array([0, 1]))
    assert order_digest(["ab", "c"], np.array([0, 1])) != order_digest(["a", "bc"], np.array([0, 1]))
