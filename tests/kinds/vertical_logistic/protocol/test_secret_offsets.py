"""Secret offsets: drawn once, kept for the whole training, and of the spread that the file names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.channel import run_parties
from tacit.kinds.vertical_logistic.protocol import batches, secret_offsets
from tacit.kinds.vertical_logistic.protocol.journal import InMemory
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
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


def test_they_are_stored_before_any_residue_leaves():
    x, y = people(60, 6)
    settings = deal(1, train={"secret_spread": 1.0})
    said: list[str] = []

    class Listening:
        def __init__(self, channel):
            self._channel, self.recv, self.close = channel, channel.recv, channel.close

        def send(self, message):
            said.append(type(message).__name__)
            self._channel.send(message)

    def keep(saved: Saved) -> None:
        said.append("kept" if saved.offsets.any() else "kept without")

    contexts = {"bank": PaillierContext(keep=keep, key=key())}
    wrap = lambda me, other, channel: Listening(channel) if me == "bank" else channel  # noqa: E731
    run_parties(functions(shared_out(x, settings), y, settings, contexts, wrap), patience=60)
    assert said.index("kept") < said.index("Residues")
    assert "kept without" not in said


def test_a_passive_that_makes_the_active_restart_sees_residues_with_the_same_offsets(monkeypatch):
    """Numbers that are drawn anew would average out. The passive claims a crash in the first step again and again, each
    time with other scores, so that the stored answer does not fit and residues are encrypted anew."""
    x, y = people(60, 6)
    settings = deal(1, train={"secret_spread": 1.0, "batch": 60}, checks={"row_uses": 50, "restarts": 40})
    kept: list[Saved] = []
    records = InMemory()
    seen: list[np.ndarray] = []
    contexts = {"bank": PaillierContext(keep=kept.append, records=records, session=bytes(16), key=key())}

    class Crashing:
        """Takes the residues, and is gone."""

        def __init__(self, channel, shift):
            self._channel, self._shift, self.close, self.send = channel, shift, channel.close, channel.send

        def recv(self, kind, limit=None):
            message = self._channel.recv(kind, limit)
            if kind.__name__ == "Residues":
                size = key().public.ciphertext_bytes
                assert len(message.ciphertexts) == 60 * size
                from tacit.crypto.paillier import Ciphertexts

                seen.append(np.array(key().decrypt(Ciphertexts.from_bytes(key().public, message.ciphertexts, 60))))
                raise KeyError("gone")
            return message

    for turn in range(6):
        wrap = lambda me, other, channel, turn=turn: Crashing(channel, turn) if me == "shop0" else channel  # noqa: E731
        errors = errors_of(functions(shared_out(x, settings), y, settings, contexts, wrap))
        assert isinstance(errors["shop0"], KeyError)
        records.kept.clear()  # the worst case: the journal's answer is lost, so that residues are made anew
        contexts["bank"] = replace(contexts["bank"], saved=(Saved.restore(kept[-1].state()),))
    order = batches.schedule(60, settings).batches(0)[0]
    expected = 1 / (1 + np.exp(-kept[0].offsets[order, 0])) - y[order]
    for residues in seen:
        np.testing.assert_allclose(residues / 2**24, expected, atol=1e-6)
    assert np.std(expected + y[order] - 0.5) > 0.1
