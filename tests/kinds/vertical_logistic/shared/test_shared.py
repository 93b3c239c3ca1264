"""The protocol as a whole: what parties receive is uniform, whatever the tables hold, and who may collude with whom.

Without its mask an opening is not uniform. All data parties but one learn nothing; the dealer and any one everything.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from tacit.kinds.vertical_logistic.shared import dealer, meeting, ring, streams
from tacit.kinds.vertical_logistic.shared.messages import Deal, Opening, Seeds
from tacit.kinds.vertical_logistic.shared.scales import scales
from tacit.kinds.vertical_logistic.shared.streams import stream
from tests.kinds.vertical_logistic.shared.trainings import people, run, shared_out, terms_of

LEAST = 1e-6  # below this p-value words are not uniform; about 60 tests are made


def _table(kind: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = people(256, 9)
    if kind == "constant":
        x, y = np.zeros_like(x), np.zeros_like(y)
        y[::2] = 1
    else:
        x = x * np.where(np.arange(9) % 2, 5.0, 0.01)
    return x, y


def _purposes(recorders, terms) -> dict[int, str]:
    names = {meeting.FEATURES: "table", meeting.STEP: "step", meeting.FIGURES: "figures"}
    return {m.serial: names[m.purpose] for m in recorders[terms.active][terms.dealer].seen if isinstance(m, Deal)}


def _received(recorders, terms) -> dict[tuple[str, str, str], bytes]:
    """What each party received, by sender and by opening; all steps together."""
    found, purposes = defaultdict(bytes), _purposes(recorders, terms)
    for name in terms.parties:
        for other, channel in recorders[name].items():
            for message in channel.seen:
                if isinstance(message, Opening):
                    found[name, other, f"{purposes[message.serial]} {message.stage}"] += message.words
                elif isinstance(message, Deal):
                    found[name, other, "deal"] += message.words
    return {place: words for place, words in found.items() if len(words) > 1000}


def _opened(recorders, terms) -> dict[str, bytes]:
    """What all parties learn by adding up their shares, by opening; all steps together."""
    first, *others = terms.parties
    purposes, sums = _purposes(recorders, terms), defaultdict(dict)
    halves = {"step 2", "figures 2", "figures 4"} if terms.model == "logistic" else set()
    for sender, log in [(first, recorders[first][others[0]].sent), *((o, recorders[first][o].seen) for o in others)]:
        for message in log:
            if isinstance(message, Opening) and purposes[message.serial] != "table":
                opening = f"{purposes[message.serial]} {message.stage}"
                words = np.frombuffer(message.words, dtype=np.uint32 if opening in halves else np.uint64)
                sums[opening, message.serial][sender] = words
    found = defaultdict(bytes)
    for (opening, _), parts in sums.items():
        assert list(parts) == list(terms.parties)
        found[opening] += sum(parts.values()).tobytes()
    return found


def _p_values(words: bytes) -> list[float]:
    """Of the bytes, and of whole words."""
    counts = np.bincount(np.frombuffer(words, dtype=np.uint8), minlength=256)
    whole = np.frombuffer(words[: len(words) // 4 * 4], dtype=np.uint32)
    return [chisquare(counts).pvalue, kstest(whole / 2.0**32, "uniform").pvalue]


@pytest.mark.parametrize("table", ["constant", "wild"])
@pytest.mark.parametrize("changes", [{}, {"weighted": True}, {"model": "linear"}, {"figures": "epoch"}])
def test_all_received_words_are_uniform(table, changes):
    x, y = _table(table)
    terms = terms_of(3, 256, epochs=4, **changes)
    recorders = {}
    row_weights = np.where(y > 0.5, 1.0, 0.01) if terms.weighted else None
    run(x, y, terms, recorders=recorders, row_weights=row_weights)
    received = _received(recorders, terms)
    senders = {(receiver, sender) for receiver, sender, _ in received}
    assert senders == {(a, b) for a in terms.parties for b in terms.parties if a != b} | {("phone", "dealer")}
    for place, words in [*received.items(), *_opened(recorders, terms).items()]:
        assert min(_p_values(words)) > LEAST, place


@pytest.mark.parametrize(
    ("mask", "opening"),
    [("b", "step 1"), ("rho", "step 2"), ("u", "step 3"), ("mask", "step 4"), ("features", "table 1")],
)
def test_without_its_mask_an_opening_is_not_uniform(monkeypatch, mask, opening):
    cut, expanded = streams._cut, streams.stream

    def bare(words, shapes):
        parts = cut(words, shapes)
        if mask in parts:
            parts[mask][...] = 0
        return parts

    monkeypatch.setattr(streams, "_cut", bare)
    if mask == "features":
        for module in (dealer, meeting):
            monkeypatch.setattr(
                module, "stream", lambda seed, serial, count: expanded(seed, serial, count) * np.uint64(0)
            )
    x, y = _table("wild")
    terms = terms_of(2, 256, epochs=4)
    recorders = {}
    run(x, y, terms, recorders=recorders)
    received, opened = _received(recorders, terms), _opened(recorders, terms)
    if opening == "table 1":
        bare_words = received["bank", "shop", opening] + received["shop", "bank", opening]
    else:
        bare_words = opened.pop(opening)
    assert min(_p_values(bare_words)) < LEAST
    others = [words for (_, _, name), words in received.items() if name != opening]
    assert min(min(_p_values(words)) for words in [*others, *opened.values()]) > LEAST


def _views(scale: float):
    x, y = people(200, 9)
    terms, recorders = terms_of(3, 200, epochs=3), {}
    run(x * scale, y, terms, recorders=recorders)
    return terms, recorders, shared_out(x * scale, terms)


@pytest.mark.parametrize("honest", ["bank", "shop", "phone"])
@pytest.mark.parametrize("scale", [0.0, 4.0])
def test_all_but_one_data_party_see_uniform_words_of_the_last(honest, scale):
    """What they pool of the honest one are its masked shares, of which both receive the same."""
    terms, recorders, _ = _views(scale)
    logs = []
    for colluder in terms.parties:
        if colluder != honest:
            logs.append(b"".join(m.words for m in recorders[colluder][honest].seen if isinstance(m, Opening)))
    assert logs[0] == logs[1]
    assert chisquare(np.bincount(np.frombuffer(logs[0], dtype=np.uint8), minlength=256)).pvalue > 1e-6


@pytest.mark.parametrize("colluder", ["bank", "phone"])
def test_the_dealer_and_one_data_party_read_every_table(colluder):
    terms, recorders, tables = _views(1.0)
    for victim in terms.parties:
        if victim == colluder:
            continue
        table = tables[victim]
        (seed,) = [m.seed for m in recorders["dealer"][victim].sent if isinstance(m, Seeds)]
        (masked,) = [m.words for m in recorders[colluder][victim].seen if isinstance(m, Opening) and m.serial == 1]
        words = np.frombuffer(masked, dtype=np.uint64) + stream(seed, 1, table.size)
        read = ring.decode(words, scales(terms).feature).reshape(table.shape)
        np.testing.assert_allclose(read, table, atol=2e-5)


def test_the_dealer_alone_receives_no_word():
    terms, recorders, _ = _views(1.0)
    received = {type(m).__name__ for name in terms.parties for m in recorders[terms.dealer][name].seen}
    assert received == {"Greeting", "Used"}
