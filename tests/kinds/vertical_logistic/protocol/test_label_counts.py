"""Counts of labels by the protocol, beside plain Python; every refusal; an active that lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, kstest

from tacit.channel import Channel, Recorder, run_parties
from tacit.crypto.paillier import Ciphertexts, Workers
from tacit.errors import PeerError
from tacit.events import Kept, Noted
from tacit.kinds.vertical_logistic import label_counts_words as words
from tacit.kinds.vertical_logistic.attacks.residues import Forging
from tacit.kinds.vertical_logistic.protocol import label_counts, sparsity
from tacit.kinds.vertical_logistic.protocol.journal import InMemory
from tacit.kinds.vertical_logistic.protocol.label_count_messages import (
    CountRequest,
    CountsBegin,
    EncryptedLabels,
    HiddenCounts,
    MaskedCounts,
    Matches,
)
from tacit.kinds.vertical_logistic.protocol.label_count_terms import Terms
from tacit.kinds.vertical_logistic.protocol.label_counts import Counting, ask, give
from tacit.kinds.vertical_logistic.protocol.messages import Decrypted
from tacit.wire import Message, encode
from tests.kinds.vertical_logistic.grouped import Neighbours, merged_in_the_clear
from tests.kinds.vertical_logistic.parties import BITS, errors_of, key
from tests.subprocesses import HANGS

KEY = key()
OPEN = Terms(allowed=True)


def table(rows: int = 400, seed: int = 0) -> tuple[dict[str, Neighbours], np.ndarray]:
    """Two columns, of numbers and of text, and labels that depend on both so that some groups are sparse."""
    rng = np.random.default_rng(seed)
    income, city = rng.normal(size=rows), rng.choice(["Bern", "Genf", "Uri"], rows, p=[0.5, 0.3, 0.2])
    labels = (rng.random(rows) < np.clip(0.35 + 0.3 * income - 0.1 * (city == "Uri"), 0.01, 0.99)).astype(np.int64)
    return {"income": Neighbours.quantiles(income, 8), "city": Neighbours.texts(city)}, labels


def play(
    groupings: Mapping[str, Neighbours],
    labels: np.ndarray,
    *,
    bank: Counting | None = None,
    shop: Counting | None = None,
    terms: Terms = OPEN,
    least: int = 50,
    wrap: Callable[[str, Channel], Channel] = lambda me, channel: channel,
) -> dict[str, Callable[[Mapping[str, Channel]], Any]]:
    """Both parties, as functions of their channels."""
    bank, shop = bank or Counting(BITS), shop or Counting(BITS)
    return {
        "bank": lambda channels: give(wrap("bank", channels["shop"]), "shop", labels, lambda: KEY, bank, terms),
        "shop": lambda channels: ask(wrap("shop", channels["bank"]), groupings, shop, least=least),
    }


def counts_of(groupings, labels, **options):
    return run_parties(play(groupings, labels, **options), patience=HANGS)["shop"]


def assert_as_in_the_clear(found, groupings, labels):
    assert list(found) == list(groupings)
    for name, (column, positives) in found.items():
        wanted, counts = merged_in_the_clear(groupings[name], labels)
        assert positives.tolist() == counts
        assert np.array_equal(column.numbers, wanted.numbers)
        assert column.count == wanted.count


@pytest.mark.parametrize("names", [("income",), ("city",), ("income", "city")])
def test_counts_are_those_of_plain_python(names):
    groupings, labels = table()
    chosen = {name: groupings[name] for name in names}
    found = counts_of(chosen, labels)
    assert_as_in_the_clear(found, chosen, labels)
    if "income" in names:
        assert found["income"][0].count < 8  # some were merged


@hypothesis_settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rate=st.sampled_from([0.03, 0.1, 0.5, 0.95]), bins=st.integers(1, 6))
def test_counts_are_those_of_plain_python_for_any_labels(seed, rate, bins):
    rng = np.random.default_rng(seed)
    labels = (rng.random(300) < rate).astype(np.int64)
    labels[:5], labels[5:10] = 0, 1
    groupings = {"a": Neighbours.quantiles(rng.normal(size=300), bins), "b": Neighbours.quantiles(labels * 1.0, 3)}
    assert_as_in_the_clear(counts_of(groupings, labels), groupings, labels)


def test_labels_in_several_pieces_and_processes_give_the_same(monkeypatch):
    monkeypatch.setattr(label_counts, "_PIECE", 70 * KEY.public.ciphertext_bytes)
    groupings, labels = table()
    told = Kept()
    with Workers(2) as workers:
        found = counts_of(groupings, labels, shop=Counting(BITS, workers, sink=told))
    assert_as_in_the_clear(found, groupings, labels)
    lines = [event.text for event in told.events if isinstance(event, Noted)]
    assert lines[-1] == "counts of labels: 400 of 400 labels received"
    assert 2 <= len(lines) <= 4


def test_a_passive_without_such_columns_says_so_and_nothing_else_is_sent():
    logs = {}
    assert counts_of({}, table()[1], terms=Terms(allowed=False), wrap=recording(logs)) == {}
    assert [type(message) for recorder in logs.values() for message in recorder.sent] == [CountRequest]


def recording(logs: dict[str, Recorder]):
    def wrap(me, channel):
        logs[me] = Recorder(channel)
        return logs[me]

    return wrap


# --- the boundary


def test_messages_of_a_run_are_those_of_the_release_list():
    logs = {}
    counts_of(*table(), wrap=recording(logs))
    roles = {"bank": ("active", "passive"), "shop": ("passive", "active")}
    sent = {
        (type(message).__name__, name, *roles[me])
        for me, recorder in logs.items()
        for message in recorder.sent
        for name in message.__struct_fields__
    }
    assert sent == {(r.message, r.field, r.sender, r.receiver) for r in words.label_count_releases()}


def test_the_active_sees_the_same_sizes_whatever_is_merged():
    """Only the number of tests differs; how many groups are left does not show."""
    groupings, labels = table()
    few = (np.arange(400) < 30).astype(np.int64)  # most groups are sparse
    shapes = []
    for given_labels in (labels, few):
        logs = {}
        found = counts_of(groupings, given_labels, wrap=recording(logs))
        shapes.append({(type(m).__name__, len(encode(m))) for m in logs["shop"].sent})
        shapes.append(sum(column.count for column, _ in found.values()))
    assert shapes[0] == shapes[2]
    assert shapes[1] != shapes[3]


def test_an_active_that_guesses_a_group_cannot_confirm_it_by_the_ciphertext():
    """It knows the randomness of its labels: without re-randomising, the product over the right rows would show."""
    column, labels = Neighbours.quantiles(np.arange(200.0), 2), np.arange(200) % 2
    logs = {}
    counts_of({"a": column}, labels, wrap=recording(logs))
    (piece,) = (message.ciphertexts for message in logs["bank"].sent if isinstance(message, EncryptedLabels))
    encrypted = Ciphertexts.from_bytes(KEY.public, piece, 200)
    sums = KEY.public.sums(column.numbers[None], 2, encrypted)
    packed = KEY.public.pack(sums, label_counts.slot_bits(200))
    for kind, guessed in ((HiddenCounts, sums), (MaskedCounts, packed)):
        (data,) = (message.ciphertexts for message in logs["shop"].sent if isinstance(message, kind))
        sent = Ciphertexts.from_bytes(KEY.public, data, len(guessed))
        pairs = zip(KEY.decrypt_unsigned(sent), KEY.decrypt_unsigned(guessed), strict=True)
        masks = [(seen - known) % KEY.public.n for seen, known in pairs]
        rebuilt = KEY.public.add_plain(guessed, masks)
        assert KEY.decrypt_unsigned(rebuilt) == KEY.decrypt_unsigned(sent)
        assert not set(rebuilt.values) & set(sent.values)


def test_what_the_active_decrypts_in_the_end_is_uniform_for_very_different_tables():
    seen: list[list[float]] = []
    for labels in (np.arange(200) % 2, (np.arange(200) % 40 < 2).astype(np.int64)):
        seen.append([])
        for _ in range(60):
            logs = {}
            counts_of({"a": Neighbours(np.arange(200) % 2, 2)}, labels, wrap=recording(logs))
            (opened,) = (message for message in logs["bank"].sent if isinstance(message, Decrypted))
            seen[-1].append(int.from_bytes(opened.values, "big") / KEY.public.n)
        assert kstest(seen[-1], "uniform").pvalue > 1e-4
    assert ks_2samp(*seen).pvalue > 1e-4


def test_what_is_told_in_bytes_is_what_is_sent():
    groupings, labels = table()
    logs = {}
    counts_of(groupings, labels, wrap=recording(logs))
    tests = sum(isinstance(message, HiddenCounts) for message in logs["shop"].sent)
    told = words.label_count_bytes(400, 2, 11, BITS, tests=tests)
    for name, size in told.items():
        sent = [len(encode(m)) for log in logs.values() for m in log.sent if type(m).__name__ == name]
        assert size <= sum(sent) <= size + 64 * len(sent)


def test_the_digest_of_the_groups_is_salted():
    """An active that knows all groups cannot tell by it that it does."""
    groupings, labels = table()
    digests = set()
    for _ in range(2):
        logs = {}
        counts_of(groupings, labels, wrap=recording(logs))
        digests.add(logs["shop"].sent[0].binning)
    assert len(digests) == 2


# --- refusals


def errors(*given, **options) -> tuple[str, str]:
    """What the active's user and the passive's user are told."""
    found = errors_of(play(*given, **options))
    assert isinstance(found["shop"], PeerError)
    return str(found["bank"]), str(found["shop"])


def test_counts_are_refused_unless_the_actives_own_file_allows_them():
    logs = {}
    own, told = errors(*table(), terms=Terms(allowed=False), wrap=recording(logs))
    assert own.startswith("shop asks for counts of labels in 11 groups of 2 columns")
    assert "set data.label_counts: true if shop may have them" in own
    assert told.startswith("the active refused: the active does not allow counts of labels")
    assert not any(isinstance(message, EncryptedLabels) for message in logs["bank"].sent)


@pytest.mark.parametrize(
    ("labels", "own", "told"),
    [
        (np.arange(400) % 3, "need labels of two classes", "not of two classes"),
        (np.arange(400) * 0.5, "need labels of two classes", "not of two classes"),
        ((np.arange(400) < 4).astype(int), "have 4 positives of 400", "too few of one class"),
        ((np.arange(400) >= 4).astype(int), "have 396 positives of 400", "too few of one class"),
        (np.arange(399) % 2, "11 groups over 400 rows, the active has 399", "over 400 rows"),
    ],
)
def test_labels_that_give_no_counts_are_refused(labels, own, told):
    found = errors(table()[0], labels)
    assert own in found[0]
    assert told in found[1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"least": 49}, "groups of 49 rows or more, the active asks for 50"),
        ({"groups": 17}, "which 400 rows do not have with 50 in each"),
        ({"groups": 1}, "of 2 columns: each has a group or more"),
        ({"columns": 0}, "of 0 columns"),
        ({"groups": 201}, "above the limit of 100 a column"),
        ({"groups": 20_001, "columns": 1000}, "above the limit of 20000 in all"),
        ({"groups": 160, "columns": 20}, "bits about 400 labels, above 0.5 for each"),
    ],
)
def test_requests_beyond_the_bounds_are_refused(change, reason):
    groupings, labels = table()

    def wrap(me, channel):
        def forge(message: Message) -> Message:
            if not isinstance(message, CountRequest):
                return message
            given = {name: getattr(message, name) for name in message.__struct_fields__}
            return CountRequest(**{**given, **change})

        return Forging(channel, forge) if me == "shop" else channel

    own, told = errors(groupings, labels, wrap=wrap)
    assert reason in own
    assert reason in told


def test_another_request_in_the_same_training_is_refused_and_the_same_is_answered():
    groupings, labels = table()
    bank = Counting(BITS, session=b"s" * 16, records=InMemory())
    shop = Counting(BITS, session=b"s" * 16, records=InMemory())
    first = counts_of(groupings, labels, bank=bank, shop=shop)
    again = counts_of(groupings, labels, bank=bank, shop=shop)  # as after a restart
    assert [positives.tolist() for _, positives in first.values()] == [p.tolist() for _, p in again.values()]

    moved = groupings["income"].numbers.copy()
    moved[[0, 1]] = moved[[1, 0]] if moved[0] != moved[1] else (moved[0] + 1) % 8
    other = {**groupings, "income": Neighbours(moved, 8)}
    own, told = errors(other, labels, bank=bank, shop=shop, least=40, terms=Terms(allowed=True, least=40))
    assert "differences of counts would tell single labels" in own
    assert "one binning a column" in told
    own, told = errors({"city": groupings["city"]}, labels, bank=bank, shop=shop)
    assert "one binning a column" in told
    new = b"t" * 16
    counts_of({"city": groupings["city"]}, labels, bank=replace(bank, session=new), shop=replace(shop, session=new))


def test_a_second_passive_has_a_request_of_its_own():
    groupings, labels = table()
    bank = Counting(BITS, session=b"s" * 16)
    counts_of(groupings, labels, bank=bank)
    parties = play({"city": groupings["city"]}, labels, bank=bank)
    parties["bank"] = lambda channels: give(channels["shop"], "shop2", labels, lambda: KEY, bank, OPEN)
    assert list(run_parties(parties, patience=HANGS)["shop"]) == ["city"]


def test_the_same_request_is_not_answered_without_end():
    groupings, labels = table()
    bank, shop = Counting(BITS, records=InMemory()), Counting(BITS, records=InMemory())
    once = Terms(allowed=True, repeats=2)
    for _ in range(2):
        counts_of({"city": groupings["city"]}, labels, bank=bank, shop=shop, terms=once)
    own, told = errors({"city": groupings["city"]}, labels, bank=bank, shop=shop, terms=once)
    assert own.startswith("shop asks for the same counts of labels again, after 2 times in this training")
    assert "does not repeat them" in told


def test_the_request_is_stored_before_anything_is_sent():
    """A passive that ends the run after the key has used its request."""
    groupings, labels = table()
    bank = Counting(BITS)

    class Gone(Exception):
        pass

    def wrap(me, channel):
        def forge(message):
            if me == "bank" and isinstance(message, CountsBegin):
                raise Gone
            return message

        return Forging(channel, forge)

    errors_of(play(groupings, labels, bank=bank, wrap=wrap))
    assert "one binning" in errors({"city": groupings["city"]}, labels, bank=bank)[1]


@pytest.mark.parametrize("least", [10, 50])
def test_groups_below_the_least_number_of_rows_are_the_passives_own_mistake(least):
    numbers = np.zeros(400, dtype=np.int64)
    numbers[: least - 1] = 1
    found = errors_of(play({"a": Neighbours(numbers, 2)}, table()[1], least=least))
    assert isinstance(found["shop"], ValueError)
    assert f"column a: the smallest of 2 groups has {least - 1} training rows" in str(found["shop"])


def test_columns_over_other_rows_are_refused():
    groupings, labels = table()
    found = errors_of(play({**groupings, "a": Neighbours(np.zeros(300, dtype=np.int64), 1)}, labels))
    assert "over the same rows, got [300, 400] rows" in str(found["shop"])


def test_merging_that_divides_groups_or_leaves_them_is_refused():
    class Dividing(Neighbours):
        def merge(self, sparse):
            return Neighbours.quantiles(np.arange(400.0), 2)

    class Staying(Neighbours):
        def merge(self, sparse):
            return self

    sparse_labels = (np.arange(400) < 60).astype(np.int64)
    mixed = np.arange(400) * 7919 % 400 // 100
    mixed[:60] = 0
    for kind, words_ in ((Dividing, "divided a group"), (Staying, "left 4")):
        found = errors_of(play({"a": kind(mixed, 4)}, sparse_labels))
        assert isinstance(found["shop"], ValueError)
        assert words_ in str(found["shop"])


def test_a_column_that_stays_sparse_becomes_one_group(monkeypatch):
    monkeypatch.setattr(label_counts, "TESTS", 1)
    labels = np.zeros(400, dtype=np.int64)
    labels[:60] = 1
    column = Neighbours.quantiles(np.arange(400.0), 8)
    found, positives = counts_of({"a": column}, labels)["a"]
    assert (found.count, positives.tolist()) == (1, [60])


# --- an active that lies


def lying(change: Callable[[Message], Message]):
    return lambda me, channel: Forging(channel, change) if me == "bank" else channel


def told_shop(groupings, labels, change) -> str:
    found = errors_of(play(groupings, labels, wrap=lying(change)))
    assert isinstance(found["shop"], PeerError)
    return str(found["shop"])


def test_a_wrong_decryption_is_caught():
    def change(message):
        if isinstance(message, Decrypted):
            size = BITS // 8
            value = int.from_bytes(message.values[:size], "big")
            return Decrypted(((value + 1) % KEY.public.n).to_bytes(size, "big") + message.values[size:], message.roots)
        return message

    groupings, labels = table()
    assert "not the counts of what it encrypted" in told_shop(groupings, labels, change)
    found = counts_of(groupings, labels, shop=Counting(BITS, proof=False))  # the honest one passes without proof
    assert_as_in_the_clear(found, groupings, labels)
    unproved = errors_of(play(groupings, labels, shop=Counting(BITS, proof=False), wrap=lying(change)))
    assert "different numbers of positives" in str(unproved["shop"])  # one more in one group of one column


def relabelled(choose: Callable[[list[int]], list[int]]):
    """The active encrypts other numbers in place of its labels."""

    def change(message):
        if isinstance(message, EncryptedLabels):
            count = len(message.ciphertexts) // KEY.public.ciphertext_bytes
            honest = KEY.decrypt(Ciphertexts.from_bytes(KEY.public, message.ciphertexts, count))
            return EncryptedLabels(KEY.encrypt(choose(honest)).to_bytes())
        return message

    return change


@pytest.mark.parametrize(
    "choose",
    [
        lambda honest: [1000 * label for label in honest],
        lambda honest: [3 * label for label in honest],  # within their slots, and all totals agree
        lambda honest: [-label for label in honest],
        lambda honest: [1] * len(honest),
        lambda honest: [1 << 20 * (row % 20) for row in range(len(honest))],  # each row at a place of its own
        lambda honest: [(KEY.p * row) % KEY.public.n // 3 for row in range(len(honest))],
    ],
)
def test_other_numbers_than_labels_are_caught(choose):
    groupings, labels = table()
    said = told_shop(groupings, labels, relabelled(choose))
    assert "the active" in said


def test_a_sparse_group_that_is_called_dense_is_caught():
    """The points of the counts in another order: none matches."""

    def change(message):
        return (
            Matches(message.counts[32:] + message.counts[:32], message.few) if isinstance(message, Matches) else message
        )

    few = (np.arange(400) < 30).astype(np.int64)
    assert "fewer than 5 of one class" in told_shop(table()[0], few, change)


def test_all_rows_called_sparse_is_the_actives_fault():
    labels = np.arange(400) % 2
    column = {"a": Neighbours(np.zeros(400, dtype=np.int64), 1)}
    said = told_shop(column, labels, relabelled(lambda honest: [0] * len(honest)))
    assert "all rows together have fewer than 5" in said


def test_a_key_of_another_length_or_without_a_certificate_is_refused():
    groupings, labels = table()

    def shorter(message):
        return CountsBegin("", message.key[1:], message.certificate) if isinstance(message, CountsBegin) else message

    def uncertified(message):
        if isinstance(message, CountsBegin):
            return CountsBegin("", message.key, bytes(len(message.certificate)))
        return message

    assert "paillier.bits says 512" in told_shop(groupings, labels, shorter)
    assert "not certified" in told_shop(groupings, labels, uncertified)


# --- messages


@pytest.mark.parametrize("kind", [EncryptedLabels, Matches, Decrypted, CountsBegin])
def test_messages_of_the_active_are_bounded(kind):
    def change(message):
        if isinstance(message, kind):
            given = {name: getattr(message, name) for name in message.__struct_fields__}
            return kind(**{k: v + bytes(10_000) if isinstance(v, bytes) else v for k, v in given.items()})
        return message

    assert "at most" in told_shop(*table(), change)


@pytest.mark.parametrize("kind", [HiddenCounts, MaskedCounts])
def test_messages_of_the_passive_are_bounded(kind):
    def change(message):
        if isinstance(message, kind):
            given = {name: getattr(message, name) + bytes(10_000) for name in message.__struct_fields__}
            return kind(**given)
        return message

    wrap = lambda me, channel: Forging(channel, change) if me == "shop" else channel  # noqa: E731
    found = errors_of(play(*table(), wrap=wrap))
    assert isinstance(found["bank"], PeerError)
    assert "at most" in str(found["bank"]) or "bytes" in str(found["bank"])


def test_a_passive_that_never_stops_testing_is_refused():
    groupings, labels = table()

    def shop(channels):
        channel = channels["bank"]
        request = label_counts._request(groupings, 50, Counting(BITS))
        channel.send(request)
        label_counts._certified(channel, Counting(BITS))
        channel.recv(EncryptedLabels)
        zeros = label_counts._zeros(KEY.public, 11)
        for test in range(label_counts.TESTS + 1):
            label = label_counts._label(request, test)
            _, message = sparsity.hide(KEY.public, zeros, [50] * 11, label, Workers(), None)
            channel.send(message)
            channel.recv(Matches)

    found = errors_of({**play(groupings, labels), "shop": shop})
    assert "more than 10 times" in str(found["bank"])
