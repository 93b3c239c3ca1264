"""Updates that travel alone: what a client pays and sends, and what a gathering comes to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.errors import PeerError
from tacit.events import Kept
from tacit.kinds.horizontal import alone
from tacit.kinds.horizontal.answered import Answers
from tacit.kinds.horizontal.carrier import Failed, Host, Mean, Opening, carrier_of
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.messages import Update, Work
from tacit.kinds.horizontal.protections.contract import UnusableUpdate, Upload
from tacit.kinds.horizontal.protections.in_the_clear import TrainedModels
from tacit.kinds.horizontal.protections.local_dp import LocalDP
from tacit.kinds.horizontal.sums import Part, Together
from tacit.kinds.horizontal.tally import Tally
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.messages import Abort, Advertise
from tacit.secagg.unmask import unmask_ranges
from tests.inside import inside
from tests.kinds.horizontal.federations import Numbers, settings_for

LAYOUT = Layout.of(Numbers().model())
WINDOW = 300.0  # seconds, the default
NOISED = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1e6}


def gathering(**keys):
    settings = settings_for(**{"clients": 4} | keys)
    carrier = carrier_of(settings, LAYOUT)
    tally = Tally(0, Kept(), lambda: 0.0)
    opening = Opening(0, np.zeros(5), carrier.first_clip, range(4), frozenset())
    return carrier.gathering(opening, Host(None, unmask_ranges, Answers(settings)), tally, 0.0), tally


def update(client: int, **changes) -> Update:
    return replace(Update(0, client, np.full(5, float(client)), client + 1, 0.5), **changes)


def client(mechanism=None, **keys) -> Client:
    """A client whose carrier does what it is told."""
    settings = settings_for(**{"encrypt": NOISED} | keys)
    carrier = inside(carrier_of(settings, LAYOUT))
    return Client(
        settings, 1, Numbers().fit, LAYOUT, carrier=replace(carrier, mechanism=mechanism or carrier.mechanism)
    )


# --- the coordinator's side


def test_a_gathering_is_over_with_the_last_update():
    found, tally = gathering()
    for sender in range(4):
        assert found.over is None
        found.receive(sender, update(sender), 1.0)
    assert isinstance(found.over, Mean)
    assert found.over.survivors == 4
    assert found.over.update == pytest.approx(np.full(5, (0 * 1 + 1 * 2 + 2 * 3 + 3 * 4) / 10))
    assert tally.losses == [(0.5, sender + 1) for sender in range(4)]
    assert list(tally.stages) == ["train and upload"]


def test_too_few_updates_fail_and_count_as_seen():
    found, _ = gathering()
    found.receive(0, update(0), 1.0)
    found.tick(WINDOW - 0.001)
    assert found.over is None
    found.tick(WINDOW)
    assert found.over == Failed("1 updates, 2 are needed", opened=True)


@pytest.mark.parametrize("leave", [lambda found: found.gone(3, 1.0), lambda found: found.receive(3, Abort("no"), 1.0)])
def test_nobody_waits_for_a_client_that_is_gone(leave):
    found, _ = gathering()
    for sender in range(3):
        found.receive(sender, update(sender), 1.0)
    leave(found)
    assert isinstance(found.over, Mean)
    assert found.over.survivors == 3


@pytest.mark.parametrize(
    ("sender", "message", "words"),
    [
        (1, update(1, round=1), "too late"),
        (0, update(0), "a second update"),
        (9, update(9), "not sampled"),
        (2, update(2), "not sampled"),  # it lost its place
        (1, update(1, vector=[0.0] * 5), "no array"),
        (1, update(1, samples=0), "number of samples"),
        (1, update(1, samples=True), "number of samples"),
        (1, update(1, vector=np.full(5, np.nan)), "NaN"),
        (1, update(1, vector=np.full(5, 1e5)), "a norm above"),
        (1, Advertise(1, b"", b"", b""), "belongs to secure aggregation"),
    ],
)
def test_a_wrong_message_raises_and_changes_nothing(sender, message, words):
    found, tally = gathering()
    found.receive(0, update(0), 1.0)
    tally.refuse(2, "its worker died")
    with pytest.raises(PeerError, match=words):
        found.receive(sender, message, 1.0)
    assert found.over is None
    found.receive(1, update(1), 1.0)
    found.left(2)
    found.left(3)
    assert inside(found.over).survivors == 2


def test_a_protected_update_says_nothing_else():
    found, _ = gathering(encrypt=NOISED)
    with pytest.raises(PeerError, match="more than its protection lets out"):
        found.receive(1, update(1, vector=np.zeros(5)), 1.0)
    found.receive(1, update(1, vector=np.zeros(5), samples=None, loss=None), 1.0)


def test_a_sum_of_a_worker_is_taken_and_masked_words_are_not():
    found, _ = gathering()
    with pytest.raises(ValueError, match="no secure aggregation"):
        found.receive_together(Together(0, (0,), np.zeros(5, np.uint32)), 1.0)
    found.receive_together(Together(0, (0, 1, 2, 3), Part(np.full(5, 8.0), 1.0, 4.0, 4), losses=((1.0, 4),)), 1.0)
    assert found.over.update.tolist() == [2.0] * 5


# --- a client's side


def test_an_upload_has_the_event_that_was_paid():
    asked = client()
    (sent,) = asked.receive(Work(0, np.zeros(5)), 0.0)
    assert (sent.samples, sent.loss) == (None, None)
    assert asked.idle
    assert list(asked.local.lines) == [(LocalDP.of(asked._settings, 5).event(), 1)]


@pytest.mark.parametrize(
    "mechanism",
    [
        replace(LocalDP.of(settings_for(encrypt=NOISED), 5), noise_multiplier=1e-3),  # less noise than was paid for
        TrainedModels(100),  # no event at all
    ],
)
def test_an_upload_with_another_event_than_was_paid_is_not_sent(mechanism):
    asked = client(mechanism)
    with pytest.raises(ValueError, match="it is not sent"):
        asked.receive(Work(0, np.zeros(5)), 0.0)
    assert asked.state()["uploads"] == 1  # a client that was asked has paid


def test_an_upload_with_an_event_that_has_no_price_is_not_sent():
    asked = client(LocalDP(5, 1.0, 1.0, None), encrypt={})
    with pytest.raises(ValueError, match="its price says nothing"):
        asked.receive(Work(0, np.zeros(5)), 0.0)


class TooLarge(TrainedModels):
    """A mechanism that refuses all but a zero update."""

    def upload(self, learned, clip, rng):
        if learned.update().any():
            raise UnusableUpdate("its update is too large")
        event = LocalDP.of(settings_for(encrypt=NOISED), 5).event()
        return Upload(super().upload(learned, clip, rng).vector, event=event)


def test_an_update_that_its_mechanism_refuses_is_hidden_where_the_protection_hides_failures():
    asked = client(TooLarge(100))
    (sent,) = asked.receive(Work(0, np.full(5, 3.0)), 0.0)
    assert sent.vector.tolist() == [3.0] * 5
    assert asked.withheld == ["its update is too large: noise around a zero update was sent"]


def test_an_update_that_its_mechanism_refuses_is_told_where_nothing_is_hidden():
    asked = client(TooLarge(100), encrypt={})
    with pytest.raises(UnusableUpdate, match="too large"):
        asked.receive(Work(0, np.zeros(5)), 0.0)


def test_messages_of_secure_aggregation_are_refused():
    asked = client()
    asked.receive(Work(0, np.zeros(5)), 0.0)
    with pytest.raises(PeerError, match="without a round of secure aggregation"):
        asked.receive(Abort("it ends"), 0.0)


def test_masked_updates_do_not_travel_alone():
    with pytest.raises(ValueError, match="PW_ENCRYPT has updates under masks"):
        alone.alone_of(settings_for(encrypt={"encrypt_type": "PW_ENCRYPT"}), 5)
