"""Lattices on what a passive really receives: the messages of a run, and the masks in that passive's own journal."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tacit.channel import Recorder, run_parties
from tacit.kinds.vertical_logistic.attacks.first_batch import guess_labels, noise_limit, two_valued_labels
from tacit.kinds.vertical_logistic.attacks.honest_steps import View
from tacit.kinds.vertical_logistic.protocol import batches, checks, decryption_proof, encoding
from tacit.kinds.vertical_logistic.protocol.journal import Entry, InMemory
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.messages import Decrypted
from tacit.kinds.vertical_logistic.protocol.model import Scaler
from tacit.wire import decode
from tests.kinds.vertical_logistic.parties import deal, functions, key
from tests.subprocesses import HANGS

SIZES = [(60, 20), pytest.param(100, 30, marks=pytest.mark.slow)]


class Shifted:
    """A passive's channel that adds a number to each score that it sends."""

    def __init__(self, channel, shift):
        self._channel, self._shift, self.recv, self.close = channel, shift, channel.recv, channel.close

    def send(self, message):
        if type(message).__name__ == "Scores":
            words = np.frombuffer(message.words, "<i8") + round(self._shift * 2**32)
            message = type(message)(words.astype("<i8").tobytes())
        self._channel.send(message)


def first_step(rows: int, features: int, spread: float, seed: int = 0, *, shift: float = 0.0, model: str = "logistic"):
    """The passive's columns, its view of the first step over all rows, and the labels, drawn by lot."""
    rng = np.random.default_rng([seed, rows, features])
    own, y = rng.normal(size=(rows, features)), rng.permutation(rows) % 2
    train = {"epochs": 1, "batch": rows, "learning_rate": 0.5, "secret_spread": spread}
    settings = deal(1, model=model, train=train)
    logs: dict[str, Recorder] = {}
    records = InMemory()
    contexts = {"bank": PaillierContext(key=key()), "shop0": PaillierContext(key=key(), records=records)}

    def wrap(me, other, channel):
        logs[me] = Recorder(channel)
        return Shifted(logs[me], shift) if me == "shop0" else logs[me]

    parts = {"bank": rng.normal(size=(rows, 3)), "shop0": own}
    run_parties(functions(parts, y, settings, contexts, wrap), patience=HANGS)
    (opened,) = (message for message in logs["shop0"].seen if isinstance(message, Decrypted))
    public, slot_bits = key().public, encoding.slot_bits(rows)
    packed = encoding.ciphertexts(features, rows, settings.paillier.bits)
    masks = decryption_proof.split(decode(records.kept["step-0"], Entry, 1 << 30).masks, packed, public, "mask")
    values = decryption_proof.split(opened.values, packed, public, "value")
    bare = [(value - mask) % public.n for value, mask in zip(values, masks, strict=True)]
    gradient = np.array(checks.unpacked(bare, public, slot_bits, features), dtype=np.int64)
    order = batches.schedule(rows, settings).batches(0)[0]
    columns = encoding.Columns.encode(Scaler.fit(own).apply(own))
    return columns, View(np.asarray(order), gradient, np.full(rows, shift)), y


@pytest.mark.parametrize(("rows", "features"), SIZES)
def test_a_run_without_secret_offsets_shows_a_passive_every_label(rows, features):
    columns, view, y = first_step(rows, features, 0.0)
    guess = guess_labels(columns, [view])
    assert guess.explained
    assert (guess.scores == y).all()


@pytest.mark.parametrize(("rows", "features"), SIZES)
def test_a_run_with_secret_offsets_shows_no_label_for_certain(rows, features):
    """Least squares stays, below what it has without offsets: labels are ranked, and none is named."""
    areas = []
    for seed in range(3):
        columns, view, y = first_step(rows, features, 1.0, seed)
        guess = guess_labels(columns, [view])
        assert not guess.explained
        areas.append(roc_auc_score(y, guess.scores))
    assert np.mean(areas) < 0.92


def test_offsets_below_the_limit_of_noise_are_corrected_and_above_it_are_not():
    """60 × 20: residues may be off by 1/16. A spread of 0.03 moves them by 0.0075, one of 1 by 0.21."""
    assert noise_limit(60, 20) == pytest.approx(1 / 16)
    columns, view, y = first_step(60, 20, 0.03)
    guess = guess_labels(columns, [view])
    assert guess.explained
    assert (guess.scores == y).all()


def test_a_passive_that_sends_large_scores_undoes_the_offsets():
    """What they do not stop: a passive that cheats. The sigmoid of anything less 40 is 0, and a residue 0 or -1."""
    columns, view, y = first_step(60, 20, 1.0, shift=-40.0)
    found = two_valued_labels(columns.integers[view.rows], view.gradient)
    assert (found == y[view.rows]).all()


def test_a_linear_model_of_labels_with_two_values_shows_every_one():
    """What has no offsets: half of the labels being 1, their residues are +1/2 and -1/2 as those of classes."""
    columns, view, y = first_step(60, 20, 1.0, model="linear")
    found = two_valued_labels(columns.integers[view.rows], view.gradient)
    assert (found == y[view.rows]).all()
