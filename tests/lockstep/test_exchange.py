"""What parties say to each other around their protocol."""

from __future__ import annotations

import pytest

from tacit.channel import Failed, pair, run_parties
from tacit.errors import TOLD, PeerAway, PeerError, Unfit
from tacit.lockstep.exchange import exchange, meeting_point, telling, to_each
from tacit.wire import Message


class Offer(Message, frozen=True, tag=231):
    rows: int


class Other(Message, frozen=True, tag=232):
    rows: int


def test_each_party_hears_what_the_others_bring():
    def lead(channels):
        return exchange(channels, {name: Offer(number) for number, name in enumerate(channels)}, 64, first=True)

    def follower(mine):
        return lambda channels: exchange(channels, {"lead": mine}, 64, first=True)["lead"]

    parties = {"lead": lead, "east": follower(Offer(7)), "west": follower(Offer(8))}

    def east(channels):
        return parties["east"]({"lead": channels["lead"]})

    found = run_parties({**parties, "east": east})
    assert found == {"lead": {"east": Offer(7), "west": Offer(8)}, "east": Offer(0), "west": Offer(1)}


@pytest.mark.parametrize("first", [True, False])
def test_another_message_at_the_start_asks_whether_all_were_started_alike(first):
    here, there = pair("here", "there")
    there.send(Other(1))
    with pytest.raises(PeerError, match="there sent no Offer") as error:
        exchange({"there": here}, {"there": Offer(1)}, 64, first=first)
    assert ("start all parties alike" in str(error.value)) == first


def test_parties_meet_at_the_latest_step_that_all_have():
    assert meeting_point([(0, 4, 8), (4, 8), (8, 0, 4, 12)], "none") == 8
    with pytest.raises(PeerError) as error:
        meeting_point([(0, 4), (), (8,)], "there is no step")
    assert str(error.value) == "there is no step (0, 4; none; 8): start all of them anew"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unfit("3 columns"), ["3 columns"]),
        (PeerError("it lied"), ["it lied"]),
        (PeerAway("it is away"), []),  # nothing is broken
        (ValueError("a row says 17"), []),
    ],
)
def test_others_hear_only_the_errors_that_may_be_told(error, told):
    heard = []
    with pytest.raises(type(error)), telling(heard.append, TOLD):
        raise error
    assert heard == told


def test_all_channels_are_told_also_if_one_is_gone():
    (mine, theirs), (gone, left) = pair(), pair()
    left.close()
    gone.close()
    to_each([gone, mine])("line\none")
    with pytest.raises(PeerError, match="first: line one"):
        theirs.recv(Failed)
