"""A client that breaks secure aggregation over a network: it is named and left out, and the others go on."""

from __future__ import annotations

import msgspec
import pytest

from tacit.events import ClientBlamed
from tacit.secagg import session as tie
from tacit.secagg.messages import Reveal, Shares
from tests.inside import inside
from tests.kinds.horizontal.federations import Numbers, settings_for
from tests.net.loopback import Federation, over_each_transport, quickly

LIAR = 2
change = msgspec.structs.replace


def false_commitment(client, message):
    if not isinstance(message, Shares):
        return message
    forged = change(message, commitment=bytes(32))
    signature = client._key.sign(tie.DEALING, tie.dealing(forged)) if client._key else b""
    return change(forged, signature=signature)


def false_shares(client, message):
    return change(message, shares=bytes(len(message.shares))) if isinstance(message, Reveal) else message


def lying(found: Federation, forge) -> None:
    client = inside(found.clients[LIAR].leaf).client
    receive = client.receive
    client.receive = lambda message, now: [forge(client, answer) for answer in receive(message, now)]


def revealing_first(found: Federation) -> None:
    """Let the coordinator hear the liar's shares before others: a sum that is open by then needs no more of them."""
    coordinator = found.coordinator
    receive, early, heard = coordinator.receive, [], False

    def ordered(sender, message, now):
        nonlocal heard
        if isinstance(message, Reveal) and not heard and sender != LIAR:
            early.append((sender, message))
            return []
        answers = receive(sender, message, now)
        if isinstance(message, Reveal) and sender == LIAR:
            heard = True
            answers += [answer for other in early for answer in receive(*other, now)]
        return answers

    coordinator.receive = ordered


@pytest.mark.parametrize("mode", ["active", "semi_honest"])
@pytest.mark.parametrize(
    ("forge", "survivors", "aborted"), [(false_commitment, [4, 4], [0]), (false_shares, [5, 4, 4], [])]
)
@over_each_transport
def test_one_lying_client(transport, forge, survivors, aborted, mode):
    async def scenario():
        encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"mode": mode}}
        found = Federation(settings_for(clients=5, rounds=3, encrypt=encrypt), Numbers(), transport=transport())
        async with found.serve():
            for identity in range(5):
                found.join(identity)
            lying(found, forge)
            revealing_first(found)
            partings = await found.done()
        return found, partings

    found, partings = quickly(scenario())
    assert [event.round for event in found.aborted()] == aborted
    assert found.survivors == survivors
    assert [
        (event.round, event.client, event.excluded) for event in found.kept.events if isinstance(event, ClientBlamed)
    ] == [(0, LIAR, True)]
    assert {parting.status for parting in partings.values()} == {"done"}
    assert inside(found.clients[LIAR].leaf).client._attempts == 1  # it was sent no model after the first round
