"""A party that sends something else than the protocol says: the other ends with a sentence, or with other weights."""

from __future__ import annotations

import contextlib

import msgspec
import numpy as np
import pytest

from tacit.channel import run_parties
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.shared.messages import Greeting, Groups, Revealed
from tacit.kinds.vertical_logistic.two_party.messages import Product
from tacit.oblivious import Answer, Columns, Hidden, Offer, Sums
from tests.kinds.vertical_logistic.shared.trainings import NAMES, PATIENCE, functions, people, run
from tests.kinds.vertical_logistic.two_party.sessions import terms_of

SENT = {
    "bank": (Offer, Answer, Columns, Sums, Product, Hidden, Groups, Revealed),
    "shop": (Offer, Answer, Columns, Sums, Product, Revealed),
}
CASES = [(name, kind) for name, kinds in SENT.items() for kind in kinds]
GARBAGE = {
    "random": lambda data: np.random.default_rng(len(data)).bytes(len(data)),
    "zeros": lambda data: bytes(len(data)),
    "ones": lambda data: b"\xff" * len(data),
}


class Changing:
    """A channel that changes all messages of one kind."""

    def __init__(self, channel, kind, change):
        self._channel, self._kind, self._change, self.changed = channel, kind, change, 0

    def send(self, message):
        if isinstance(message, self._kind):
            message = self._change(message)
            self.changed += 1
        self._channel.send(message)

    def recv(self, kind, limit=1 << 28):
        return self._channel.recv(kind, limit)

    def close(self):
        self._channel.close()


def bytes_changed(how):
    """Changes the bulk data of a message."""

    def change(message):
        (field,) = (name for name in message.__struct_fields__ if isinstance(getattr(message, name), bytes))
        return msgspec.structs.replace(message, **{field: how(getattr(message, field))})

    return change


def training():
    x, _ = people(60, 4)
    return x, np.arange(60) % 2.0, terms_of(60, epochs=1, batch=30, held_out=0.5, figures="end")


def with_changes(evil, kind, change):
    """What the parties return if one changes its messages of a kind, and how many there were."""
    x, y, terms = training()
    made, channels = functions(x, y, terms), []
    honest = made[evil]

    def changing(given):
        channels.extend(Changing(channel, kind, change) for channel in given.values())
        return honest(dict(zip(given, channels, strict=True)))

    made[evil] = changing
    return lambda: run_parties(made, patience=PATIENCE), channels


@pytest.mark.parametrize(("evil", "kind"), CASES, ids=lambda each: getattr(each, "__name__", each))
@pytest.mark.parametrize(
    "how",
    [
        lambda data: data + b"\0",
        pytest.param(lambda data: data[:-1], marks=pytest.mark.slow),
        pytest.param(lambda data: b"", marks=pytest.mark.slow),
    ],
    ids=["longer", "shorter", "empty"],
)
def test_a_message_of_another_length_is_refused(evil, kind, how):
    start, _ = with_changes(evil, kind, bytes_changed(how))
    with pytest.raises(PeerError, match=r"bytes|of \d+ words|do not fit"):
        start()


@pytest.mark.parametrize(("evil", "kind"), CASES, ids=lambda each: getattr(each, "__name__", each))
@pytest.mark.parametrize(
    "how", ["random", pytest.param("zeros", marks=pytest.mark.slow), pytest.param("ones", marks=pytest.mark.slow)]
)
def test_garbage_of_the_right_length_ends_in_a_sentence_or_in_other_weights(evil, kind, how):
    start, channels = with_changes(evil, kind, bytes_changed(GARBAGE[how]))
    if kind in (Offer, Answer, Groups):  # points and groups are checked
        with pytest.raises(PeerError, match=r"ristretto255|zero of the group|groups of"):
            start()
    else:
        with contextlib.suppress(PeerError):  # of figures that do not add up
            found = start()
            assert all(np.isfinite(model.weights).all() for model in found.values())
    assert channels[0].changed


@pytest.mark.parametrize("evil", NAMES[:2])
@pytest.mark.parametrize("kind", [Offer, Answer, Columns, Sums, Product])
def test_messages_of_another_session_fit_nothing(evil, kind):
    """All of a kind are replayed from another run: the weights are other ones, or the figures do not add up."""
    x, y, terms = training()
    recorders = {}
    run(x, y, terms, recorders=recorders)
    earlier = iter([m for channel in recorders[evil].values() for m in channel.sent if isinstance(m, kind)])
    start, _ = with_changes(evil, kind, lambda _: next(earlier))
    try:
        found = start()
    except PeerError as error:
        assert "do not add up" in str(error) or "groups of fewer than" in str(error)  # noqa: PT017
    else:
        assert max(np.abs(model.weights).max() for model in found.values()) > 10  # words under other masks


@pytest.mark.parametrize("evil", NAMES[:2])
@pytest.mark.parametrize("columns", [0, 1, 3, 1 << 20])
def test_a_made_up_number_of_columns_ends_in_a_sentence(evil, columns):
    start, _ = with_changes(evil, Greeting, lambda message: msgspec.structs.replace(message, columns=columns))
    with pytest.raises(PeerError):
        start()
