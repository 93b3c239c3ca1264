"""Secret offsets: drawn once, kept for the whole training, and of the spread that the file names."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.special import expit

from tacit.crypto.paillier import Ciphertexts
from tacit.kinds.vertical_logistic.attacks.residues import plain_training
from tacit.kinds.vertical_logistic.protocol import batches, secret_offsets
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.messages import Residues
from tacit.kinds.vertical_logistic.protocol.model import Saved, Scaler
from tacit.randomness import seeded_rng
from tests.kinds.vertical_logistic.parties import deal, errors_of, functions, key, people, shared_out, train


def test_training_rows_have_normal_numbers_of_the_spread_that_the_file_names():
    settings = deal(1, train={"secret_spread": 2.5, "test": 0.25})
    training, held_out = batches.hold_out(8000, 0.25, 0)
    drawn = secret_offsets.draw(8000, training, 3, settings)
    assert drawn.shape == (8000, 3)
    assert not drawn[held_out].any()
    assert drawn[training].std() == pytest.approx(2.5, rel=0.03)
    assert drawn[training].mean() == pytest.approx(0, abs=0.1)
    assert len(np.unique(drawn[training])) == 6000 * 3  # of each row and output its own
    assert np.mean(np.abs(drawn[training]) < 2.5) == pytest.approx(0.683, abs=0.02)


def test_two_trainings_draw_different_numbers():
    settings = deal(1, train={"secret_spread": 1.0})
    one, other = (secret_offsets.draw(50, np.arange(50), 1, settings) for _ in range(2))
    assert not np.isclose(one, other).any()
    assert np.array_equal(*(secret_offsets.draw(50, np.arange(50), 1, settings, seeded_rng(1)) for _ in range(2)))


@pytest.mark.parametrize("changes", [{"train": {"secret_spread": 0.0}}, {"model": "linear"}])
def test_none_for_a_linear_model_and_if_the_file_says_so(changes):
    settings = deal(1, **{"train": {"secret_spread": 1.0}, **changes})
    assert not secret_offsets.draw(20, np.arange(20), 1, settings).any()


def test_a_stopped_training_keeps_them_to_the_last_bit():
    drawn = secret_offsets.draw(30, np.arange(30), 3, deal(1, train={"secret_spread": 1.0}))
    saved = Saved.start(bytes(16), Scaler.identity(2), 3, offsets=drawn)
    assert np.array_equal(Saved.restore(saved.state()).offsets, drawn)


def test_a_stored_training_without_them_is_not_resumed():
    """New ones would be averaged with the old; none would show the labels."""
    x, y = people(60, 6)
    settings = deal(1, train={"secret_spread": 1.0})
    kept: dict[str, list[Saved]] = {name: [] for name in settings.parties}
    train(x, y, settings, {name: PaillierContext(keep=kept[name].append, key=key()) for name in kept})
    states = {name: dict(each[1].state()) for name, each in kept.items()}
    del states["bank"]["offsets"]
    contexts = {name: PaillierContext(saved=(Saved.restore(state),), key=key()) for name, state in states.items()}
    errors = errors_of(functions(shared_out(x, settings), y, settings, contexts))
    assert "no secret offsets for these rows" in str(errors["bank"])


class Watched:
    """A channel that tells of each message that its owner sends or is about to use."""

    def __init__(self, channel, look):
        self._channel, self._look, self.close = channel, look, channel.close

    def send(self, message):
        self._look(message)
        self._channel.send(message)

    def recv(self, kind, limit=None):
        message = self._channel.recv(kind, limit)
        self._look(message)
        return message


def test_they_are_stored_before_any_residue_leaves():
    x, y = people(60, 6)
    settings = deal(1, train={"secret_spread": 1.0})
    said: list[str] = []

    def keep(saved: Saved) -> None:
        said.append("kept" if saved.offsets.any() else "kept without")

    def wrap(me, other, channel):
        return Watched(channel, lambda message: said.append(type(message).__name__)) if me == "bank" else channel

    train(x, y, settings, {"bank": PaillierContext(keep=keep, key=key())}, wrap)
    assert said.index("kept") < said.index("Residues")
    assert "kept without" not in said


def test_a_passive_that_makes_the_active_restart_sees_residues_with_the_same_offsets():
    """Numbers that are drawn anew would average out. The passive ends in the first step again and again, and the active
    has lost its journal each time, so that it makes new residues: the worst case."""
    x, y = people(60, 6)
    settings = deal(1, train={"secret_spread": 1.0, "batch": 60})
    kept: dict[str, list[Saved]] = {name: [] for name in settings.parties}
    contexts = {name: PaillierContext(keep=kept[name].append, session=bytes(16), key=key()) for name in kept}
    seen: list[np.ndarray] = []

    def look(message) -> None:
        if isinstance(message, Residues):
            ciphertexts = Ciphertexts.from_bytes(key().public, message.ciphertexts, 60)
            seen.append(np.array(key().decrypt(ciphertexts)) / 2**24)  # the test has the active's key
            raise KeyError("gone")

    for _ in range(6):
        wrap = partial(lambda look, me, other, channel: Watched(channel, look) if me == "shop0" else channel, look)
        errors = errors_of(functions(shared_out(x, settings), y, settings, contexts, wrap))
        assert isinstance(errors["shop0"], KeyError)
        stored = {name: Saved.restore(states[-1].state()) for name, states in kept.items()}
        contexts = {name: PaillierContext(session=bytes(16), key=key(), saved=(stored[name],)) for name in kept}
    order = batches.schedule(60, settings).batches(0)[0]
    expected = expit(kept["bank"][0].offsets[order, 0]) - y[order]
    assert len(seen) == 6
    for residues in seen:
        np.testing.assert_allclose(residues, expected, atol=1e-6)
    assert np.std(np.abs(expected)) > 0.1


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_log_odds_of_a_trained_model_grow_by_what_the_docs_say(spread):
    """They are fitted with a normal number added; a probit's factor tells by how much (MacKay 1992, equation 9)."""
    rng = np.random.default_rng(0)
    x, truth = rng.normal(size=(40_000, 2)), np.array([[1.2], [-0.8]])
    y = (rng.random(40_000) < expit(x @ truth)[:, 0]).astype(int)
    train = {"epochs": 60, "batch": 40_000, "learning_rate": 4.0}
    settings = deal(1, train=train, scale=False)
    weights, _ = plain_training(x, y, settings, offsets=spread * rng.normal(size=(40_000, 1)))
    assert weights == pytest.approx(truth * np.sqrt(1 + np.pi / 8 * spread**2), rel=0.04)
