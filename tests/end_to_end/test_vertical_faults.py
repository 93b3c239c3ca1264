"""Parties that leave, disagree or send what cannot be: one sentence for each user."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.align.intersection import align
from tacit.channel import run_parties
from tacit.errors import PeerError
from tacit.events import Kept
from tacit.kinds.vertical_logistic.protocol import predict
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.messages import (
    Begin,
    Decrypted,
    EpochOver,
    Hello,
    MaskedGradient,
    Residues,
    Scores,
)
from tacit.kinds.vertical_logistic.protocol.model import Model, Saved
from tests.kinds.vertical_logistic.parties import deal, errors_of, functions, key, people, shared_out, train
from tests.subprocesses import HANGS


class Faulty:
    """A channel whose messages of one kind are changed, or that raises instead of sending them."""

    def __init__(self, channel, kind, change, nth=0):
        self._channel, self._kind, self._change, self._nth = channel, kind, change, nth

    def send(self, message):
        if isinstance(message, self._kind):
            self._nth -= 1
            if self._nth < 0:
                message = self._change(message)
        self._channel.send(message)

    def recv(self, *arguments):
        return self._channel.recv(*arguments)

    def close(self):
        self._channel.close()


def broken(party, kind, change, passives=1, nth=0, **changes):
    """What each party raises if `party` changes its messages of a kind."""
    x, y = people(100, 9)
    settings = deal(passives, **changes)

    def wrap(me, other, channel):
        return Faulty(channel, kind, change, nth) if me == party else channel

    return errors_of(functions(shared_out(x, settings), y, settings, wrap=wrap))


def leave(message):
    raise KeyError("the power went")


@pytest.mark.parametrize("kind", [Hello, Scores, MaskedGradient])
def test_a_passive_leaves(kind):
    errors = broken("shop1", kind, leave, passives=2, nth=kind is not Hello)
    assert isinstance(errors.pop("shop1"), KeyError)
    assert errors.keys() == {"bank", "shop0"}
    assert {str(error) for error in errors.values()} == {"shop1 failed (KeyError)"}
    assert all(isinstance(error, PeerError) for error in errors.values())


@pytest.mark.parametrize("kind", [Hello, Begin, Residues, Decrypted, EpochOver])
def test_the_active_leaves(kind):
    errors = broken("bank", kind, leave, passives=2, nth=kind not in (Hello, Begin, EpochOver))
    assert {str(errors[name]) for name in ("shop0", "shop1")} == {"bank failed (KeyError)"}


CASES = {
    "short scores": (
        "shop0",
        Scores,
        lambda m: Scores(m.words[8:]),
        "bank",
        "shop0 sent 392 bytes of scores, 400 are due",
    ),
    "long scores": ("shop0", Scores, lambda m: Scores(m.words * 2), "bank", "at most 656 are allowed"),
    "huge scores": ("shop0", Scores, lambda m: Scores(b"\xff" * 7 + b"\x7f" + m.words[8:]), "bank", "diverged, or"),
    "short residues": ("bank", Residues, lambda m: Residues(m.ciphertexts[:-1]), "shop0", "50 ciphertexts have"),
    "zero residues": ("bank", Residues, lambda m: Residues(bytes(len(m.ciphertexts))), "shop0", "between 0 and n²"),
    "two gradients": ("shop0", MaskedGradient, lambda m: MaskedGradient(m.ciphertexts * 2), "bank", "1 ciphertexts"),
    "no factor": ("shop0", MaskedGradient, lambda m: MaskedGradient(bytes(128)), "bank", "between 0 and n²"),
    "no proof": ("bank", Decrypted, lambda m: Decrypted(m.values, b""), "shop0", "its proof has 0 bytes"),
    "a small key": (
        "bank",
        Begin,
        lambda m: Begin(m.session, 0, m.key[:32], m.certificate, 9),
        "shop0",
        "key has 256 bits",
    ),
    "no certificate": ("bank", Begin, lambda m: Begin(m.session, 0, m.key, bytes(512), 9), "shop0", "not certified"),
    "another step": (
        "bank",
        Begin,
        lambda m: Begin(m.session, 7, m.key, m.certificate, 9),
        "shop0",
        "begins at step 7",
    ),
    "other kind": ("bank", Residues, lambda m: EpochOver(True, False), "shop0", "sent no Residues"),
    "no features": ("shop0", Hello, lambda m: Hello(m.rows, 0, 0, (0,), m.agreed), "bank", "has no features"),
    "no outputs": ("bank", Hello, lambda m: Hello(m.rows, 5, 0, (0,), m.agreed), "shop0", "a model of 0 outputs"),
    "many outputs": ("bank", Hello, lambda m: Hello(m.rows, 5, 101, (0,), m.agreed), "shop0", "1 to 100 are allowed"),
    "two outputs": ("bank", Hello, lambda m: Hello(m.rows, 5, 2, (0,), m.agreed), "bank", "at most 656 are allowed"),
    "other outputs": ("shop0", Hello, lambda m: Hello(m.rows, 4, 2, (0,), m.agreed), "bank", "1 outputs, one for each"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_is_refused(name):
    party, kind, change, notices, words = CASES[name]
    error = broken(party, kind, change)[notices]
    assert isinstance(error, PeerError)
    assert words in str(error)


def both(settings, other, parts, y):
    """What each raises where bank has `settings` and shop0 has `other`."""
    return errors_of(
        {"bank": functions(parts, y, settings)["bank"], "shop0": functions(parts, y, other)["shop0"]},
    )


def test_rows_that_do_not_match_are_one_sentence_on_both_sides():
    x, y = people(100, 8)
    errors = both(deal(1), deal(1), {"bank": x[:, :4], "shop0": x[:98, 4:]}, y)
    assert {str(error) for error in errors.values()} == {
        "bank has 100 rows and shop0 98: they must be the same people in the same order; set align: true"
    }
    assert all(isinstance(error, PeerError) for error in errors.values())


def test_settings_that_differ_are_one_sentence_on_both_sides():
    x, y = people(100, 8)
    errors = both(deal(1), deal(1, train={"learning_rate": 0.2}), shared_out(x, deal(1)), y)
    assert {str(error) for error in errors.values()} == {
        "bank and shop0 have different settings: give both the same file"
    }
    assert not both(deal(1), deal(1, checks={"few_rows": False}), shared_out(x, deal(1)), y)  # everybody's own business


@pytest.mark.parametrize(
    ("train_settings", "words"),
    [
        ({"batch": 5}, "6 features and a batch may have 5 rows"),
        (
            {"batch": 50, "epochs": 4},
            "part of 4 steps, and 1 are reserved for restarts; 4 are allowed for the 6 features",
        ),
    ],
)
def test_an_active_does_not_begin_where_labels_could_be_computed(train_settings, words):
    x, y = people(100, 12)
    settings = deal(1, train=train_settings, checks={"row_uses": None})
    errors = both(settings, settings, shared_out(x, settings), y)
    assert errors.keys() == {"bank", "shop0"}
    assert all(words in str(error) for error in errors.values())
    train(x, y, deal(1, train=train_settings, checks={"batch": False, "row_uses": 9}))


def test_only_parts_of_one_training_go_together():
    x, y = people(100, 6)
    settings = deal(1)
    kept: dict[str, list[Saved]] = {"bank": [], "shop0": []}
    train(x, y, settings, {name: PaillierContext(keep=kept[name].append, key=key()) for name in kept})
    contexts = {"bank": PaillierContext(saved=(kept["bank"][1],), key=key())}
    errors = errors_of(functions(shared_out(x, settings), y, settings, contexts))
    assert {str(error) for error in errors.values()} == {
        "bank and shop0 do not hold parts of the same training: start both anew, or both from the same run"
    }


def test_prediction_refuses_the_part_of_another_model():
    x, y = people(60, 6)
    settings = deal(1)
    first, second = train(x, y, settings), train(x, y, settings)
    parts = shared_out(x[:5], settings)
    errors = errors_of(
        {
            "bank": lambda channels: predict.active(channels, parts["bank"], first["bank"], settings),
            "shop0": lambda channels: predict.passive(channels, parts["shop0"], second["shop0"], settings, "shop0"),
        }
    )
    assert all("do not hold parts of the same training" in str(error) for error in errors.values())
    with pytest.raises(ValueError, match="rows have 2 features, the model was trained on 3"):
        predict.active({}, parts["bank"][:, :2], first["bank"], settings)


def test_a_training_that_diverges_says_so():
    x, y = people(100, 6)
    settings = deal(1, scale=False, train={"learning_rate": 1e9, "epochs": 5})
    errors = errors_of(functions(shared_out(x, settings), y, settings))
    assert "the training diverged" in str(errors["shop0"])
    assert isinstance(errors["shop0"], ValueError)


def test_tables_that_cannot_be_trained_on():
    x, y = people(100, 6)
    settings = deal(1)
    for features, labels, words in [
        (x[:, 0], y, "rows and columns"),
        (x.astype(str), y, "real numbers"),
        (np.where(x == x[0, 0], np.nan, x), y, "NaN"),
        (x, y[:50], "one for each"),
        (x, np.zeros(100), "1 different values"),
    ]:
        with pytest.raises(ValueError, match=words):
            run_parties({"bank": functions({"bank": features}, labels, settings)["bank"]})


def test_labels_may_be_any_two_values():
    x, y = people(100, 6)
    named = np.where(y == 1, "yes", "no")
    one, other = train(x, y, deal(1)), train(x, named, deal(1))
    np.testing.assert_allclose(one["bank"].weights, other["bank"].weights, atol=1e-9)


def test_a_model_whose_file_is_damaged():
    x, y = people(60, 6)
    state = train(x, y, deal(1))["shop0"].state()
    with pytest.raises(ValueError, match="damaged"):
        Model.restore(state | {"mean": state["mean"][:-1]})


def test_a_sink_hears_of_no_secret():
    x, y = people(60, 6)
    events = Kept()
    train(x, y, deal(1), {"bank": PaillierContext(sink=events, key=key())})
    private = key()
    assert all(str(private.p) not in str(event) and str(private.q) not in str(event) for event in events.events)


def test_passives_whose_rows_are_in_different_orders_show_the_active_noise():
    """An active that aligns each passive otherwise would compare sums over changing pairs of rows."""
    settings = deal(passives=2)
    x, y = people(60, 9)
    one, other = PaillierContext(order=b"one"), PaillierContext(order=b"another")
    contexts = {"bank": PaillierContext(key=key()), "shop0": one, "shop1": other}
    with pytest.raises(PeerError, match="their masks do not cancel"):
        train(x, y, settings, contexts)
    models = train(x, y, settings, contexts | {"shop1": one})
    parts = shared_out(x, settings)

    def predicting(orders):
        def passive(me):
            return lambda channels: predict.passive(channels, parts[me], models[me], settings, me, order=orders[me])

        return {
            "bank": lambda channels: predict.active(channels, parts["bank"], models["bank"], settings),
            "shop0": passive("shop0"),
            "shop1": passive("shop1"),
        }

    with pytest.raises(PeerError, match="their masks do not cancel"):
        run_parties(predicting({"shop0": b"one", "shop1": b"another"}), patience=HANGS)
    assert len(run_parties(predicting({"shop0": b"one", "shop1": b"one"}), patience=HANGS)["bank"]) == 60


def test_names_are_part_of_what_is_agreed():
    """With batch_order: hashed they decide which rows make a batch."""
    assert deal(name="one").agreed() != deal(name="another").agreed()


def test_a_party_that_begins_anew_where_the_other_goes_on_is_told_what_to_do():
    settings = deal()
    x, y = people(60, 6)
    parties = functions(shared_out(x, settings), y, settings)
    began_anew = {"shop0": lambda channels: align(channels, "shop0", "bank", [str(row) for row in range(60)])}
    errors = errors_of({**parties, **began_anew})
    assert any("all anew, all with --resume" in str(error) for error in errors.values()), errors
