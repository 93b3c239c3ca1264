"""What a party receives: words that are uniform whatever the tables hold, and from which labels cannot be guessed."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.metrics import roc_auc_score

from tacit import oblivious
from tacit.crypto import punctured
from tacit.kinds.vertical_logistic.two_party import lookup, products
from tacit.kinds.vertical_logistic.two_party.messages import Product
from tacit.oblivious import Columns, Hidden, Sums
from tests.kinds.vertical_logistic.shared.trainings import people, run
from tests.kinds.vertical_logistic.two_party.sessions import terms_of

LEAST = 1e-6
BULK = (Columns, Hidden, Sums, Product)


def _table(kind):
    x, y = people(128, 6)
    if kind == "constant":
        x, y = np.zeros_like(x), np.zeros_like(y)
        y[::2] = 1
    else:
        x = x * np.where(np.arange(6) % 2, 5.0, 0.01)
    return x, y


def _p_value(data: bytes) -> float:
    return float(chisquare(np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)).pvalue)


def _received(recorders) -> dict[tuple[str, str], bytes]:
    """What each party received, by the kind of message."""
    found = defaultdict(bytes)
    for name, channels in recorders.items():
        for channel in channels.values():
            for message in channel.seen:
                if isinstance(message, BULK):
                    (field,) = message.__struct_fields__
                    found[name, type(message).__name__] += getattr(message, field)
    return {place: data for place, data in found.items() if len(data) > 500}


@pytest.fixture
def learned(monkeypatch):
    """What the receiver of transfers learns: entries and words, by what they are, as bytes that should be uniform."""
    found = defaultdict(list)
    entries, correlated = oblivious.receive_entries, oblivious.receive_correlated

    def receive_entries(channel, end, indices, bits, width=8):
        words = entries(channel, end, indices, bits, width)
        found[f"entries of {width} bytes"].append(words)
        return words

    def receive_correlated(channel, end, choices, bits=64):
        words = correlated(channel, end, choices, bits)
        found["correlated words"].append(words)
        return words

    monkeypatch.setattr(oblivious, "receive_entries", receive_entries)
    monkeypatch.setattr(oblivious, "receive_correlated", receive_correlated)
    return found


def _bytes(name: str, words) -> bytes:
    width = int(name.split()[2]) if name.startswith("entries") else 8
    if width == 1:  # cells, modulo 8 in steps and 16 in figures: two of them make up a byte of steps
        return b""
    return np.concatenate(words).view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


@pytest.mark.parametrize("table", ["constant", "wild"])
@pytest.mark.parametrize(
    "changes", [{}, {"weighted": True}, {"model": "linear"}, {"figures": "epoch", "held_out": 0.4}]
)
def test_all_received_words_are_uniform(learned, table, changes):
    x, y = _table(table)
    terms, recorders = terms_of(128, epochs=2, batch=32, **changes), {}
    row_weights = np.where(y > 0.5, 1.0, 0.01) if terms.weighted else None
    run(x, y, terms, recorders=recorders, row_weights=row_weights)
    received = _received(recorders)
    assert {kind for _, kind in received} == {"Columns", "Hidden", "Sums", "Product"}
    assert {name for name, _ in received} == set(terms.parties)
    for place, data in received.items():
        assert _p_value(data) > LEAST, place
    for name, words in learned.items():
        if data := _bytes(name, words):
            assert _p_value(data) > LEAST, name
    if terms.figures == "never" and terms.model == "logistic":
        cells = np.concatenate(learned["entries of 1 bytes"])
        assert chisquare(np.bincount(cells.astype(int), minlength=8)).pvalue > LEAST


@pytest.mark.parametrize("lacking", ["leaves", "masks"])
def test_without_masks_words_are_not_uniform(monkeypatch, learned, lacking):
    """So that the test above can fail."""
    if lacking == "masks":
        monkeypatch.setattr(lookup, "random_words", lambda rng, count: np.zeros(count, dtype=np.uint64))
    else:
        real = punctured.word_sums
        monkeypatch.setattr(products, "word_sums", lambda *given: tuple(each * np.uint64(0) for each in real(*given)))
    x, y = _table("wild")
    recorders = {}
    run(x, y, terms_of(128, epochs=2, batch=32), recorders=recorders)
    if lacking == "masks":
        assert _p_value(_bytes("entries of 5 bytes", learned["entries of 5 bytes"])) < LEAST
    else:
        received = _received(recorders)
        assert _p_value(received["bank", "Product"] + received["shop", "Product"]) < LEAST


def test_labels_cannot_be_guessed_from_what_the_passive_looks_up(learned):
    """And can without masks: then the entry is the residue."""
    x, y = people(256, 6)
    terms = terms_of(256, epochs=4, batch=256, held_out=0.0)
    run(x, y, terms)
    words = np.concatenate(learned["entries of 5 bytes"])
    labels = np.concatenate([y[batch] for _, batch in terms.schedule.from_step(0)])
    assert len(words) == len(labels) == 1024
    signed = ((words << np.uint64(24)).view(np.int64) >> np.int64(24)).astype(float)
    for guess in (signed, words & np.uint64(0xFFFF), words >> np.uint64(32)):
        assert abs(roc_auc_score(labels, guess) - 0.5) < 0.08


def test_labels_show_in_bare_entries(monkeypatch, learned):
    monkeypatch.setattr(lookup, "random_words", lambda rng, count: np.zeros(count, dtype=np.uint64))
    x, y = people(256, 6)
    terms = terms_of(256, epochs=1, batch=256, held_out=0.0)
    run(x, y, terms)
    words = np.concatenate(learned["entries of 5 bytes"])
    labels = np.concatenate([y[batch] for _, batch in terms.schedule.from_step(0)])
    signed = ((words << np.uint64(24)).view(np.int64) >> np.int64(24)).astype(float)
    assert roc_auc_score(labels, -signed) > 0.99
