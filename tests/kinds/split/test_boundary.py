"""The release boundary against the messages of runs, and what the messages hold."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.channel import Failed, Recorder
from tacit.kinds.split import boundary
from tacit.kinds.split.bits import packed_size
from tacit.kinds.split.messages import Activations, Gradient, Offer, Reached, Start
from tacit.wire import encode
from tests.kinds.split.networks import RECORDS, TEST, parts_u, parts_v, settings_u, settings_v, train

PROTECTED = {
    "embedding_dp": {"eps": 5},
    "label_dp": {"eps": 2},
    "gradients": {"protection": "noised", "epsilon": 3, "bits": 8},
}


def recorded(settings, parts):
    recorders = {name: {} for name in settings.parties}

    def wrap(name, channels):
        recorders[name] = {other: Recorder(channel) for other, channel in channels.items()}
        return recorders[name]

    train(settings, parts, wrap=wrap)
    return {name: [message for recorder in recorders[name].values() for message in recorder.sent] for name in recorders}


@pytest.mark.parametrize("changes", [{}, PROTECTED], ids=["open", "protected"])
@pytest.mark.parametrize(("kind", "make"), [(settings_v, parts_v), (settings_u, parts_u)], ids=["V", "U"])
def test_what_leaves_a_party_is_on_the_list(kind, make, changes):
    settings = kind(**changes)
    sent = recorded(settings, make())
    listed = {(release.message, release.field, release.sender) for release in boundary.releases(settings)}
    seen = {
        (type(message).__name__, field, settings.parties[name].role)
        for name, messages in sent.items()
        for message in messages
        for field in message.__struct_fields__
    }
    unseen = {entry for entry in listed - seen if entry[0] != "Failed"}
    assert seen <= listed
    assert unseen == set()  # nothing is listed that never leaves
    assert all(release.sender != release.receiver for release in boundary.releases(settings))


def test_every_field_of_every_message_has_a_line():
    named = {(release.message, release.field) for release in boundary.releases(settings_u())}
    for kind in (Offer, Start, Activations, Gradient, Reached, Failed):
        assert {(kind.__name__, field) for field in kind.__struct_fields__} <= named


def test_protected_activations_cross_as_eight_bits_a_byte_and_nothing_else():
    settings = settings_v(embedding_dp={"eps": 5})
    sent = recorded(settings, parts_v())
    messages = [message for message in sent["east"] if isinstance(message, Activations)]
    assert {message.dtype for message in messages} == {"bits"}
    sizes = {len(message.body) for message in messages}
    assert sizes == {packed_size(8 * 6), packed_size(6 * 6)}  # full batches and the last one
    crossed = sum(message.shape[0] for message in messages)
    assert crossed == 5 * (RECORDS + TEST)  # what the ledger counts: visits of training and evaluation


def test_gradients_of_8_bits_are_a_byte_each():
    settings = settings_v(gradients={"bits": 8})
    for message in recorded(settings, parts_v())["lead"]:
        if isinstance(message, Gradient):
            assert len(message.body) == int(np.prod(message.shape))
            assert len(message.scales) == 4 * message.shape[0]


def test_bytes_are_counted_as_they_are_on_the_wire():
    settings = settings_v(embedding_dp={"eps": None}, gradients={"bits": 8})
    sent = recorded(settings, parts_v())
    outcomes = train(settings, parts_v())
    for name, messages in sent.items():
        assert outcomes[name].bytes_sent == sum(len(encode(message)) for message in messages)


def test_several_receivers_are_in_the_plural():
    assert any(text.startswith("east and west are each sent") for text in boundary.sentences(settings_v()))
    assert any(text.startswith("cloud is sent") for text in boundary.sentences(settings_u()))


@pytest.mark.parametrize("kind", [settings_v, settings_u])
def test_words_say_what_is_open(kind):
    plain, protected = kind(), kind(**PROTECTED)
    assert any("epsilon none" in text for text in boundary.unprotected(plain))
    assert any("in the clear" in text for text in boundary.sentences(plain))
    assert not any("epsilon none" in text for text in boundary.unprotected(protected))
    assert any("is not that of a record" in text for text in boundary.unprotected(protected))
    assert any("eps 2 for each label" in text for text in boundary.sentences(protected))
    assert any("infinite" in t for t in boundary.unprotected(kind(simulation={"insecure_noise_seed": 1})))
