"""What surrounds a party in lock step."""

from __future__ import annotations

import pytest

from tacit.channel import Failed, pair
from tacit.config.local import Local
from tacit.events import Kept
from tacit.kinds.split.party import LOCKSTEP
from tacit.kinds.vertical_logistic.party import LOCKSTEP as VERTICAL
from tacit.lockstep.run import _Heeding, common_settings, meeting_place
from tacit.net.site import Site
from tests.kinds.split.networks import settings_v
from tests.kinds.vertical_logistic.parties import deal
from tests.net.memory_transport import MemoryConnection, MemoryServer, MemoryTransport


def test_an_interrupt_that_was_swallowed_is_raised_by_the_next_message():
    """Python ignores a KeyboardInterrupt that is raised in a destructor, as one of a signal may be."""
    asked = []
    first, second = pair()
    channel = _Heeding(first, lambda: bool(asked))
    channel.send(Failed("one"))
    second.send(Failed("two"))
    asked.append(True)
    with pytest.raises(KeyboardInterrupt):
        channel.recv(Failed)
    with pytest.raises(KeyboardInterrupt):
        channel.send(Failed("three"))


def test_a_party_meets_the_others_over_the_transport_of_its_site():
    settings, site = settings_v(), Site("127.0.0.1:1", "127.0.0.1:1", None, Local(), transport=MemoryTransport())
    hub = meeting_place(LOCKSTEP, settings, settings.hub, site, Kept())
    assert isinstance(hub._server, MemoryServer)
    other = next(name for name in settings.parties if name != settings.hub)
    spoke = meeting_place(LOCKSTEP, settings, other, site, Kept())
    assert isinstance(spoke._connection, MemoryConnection)


def test_parties_agree_on_all_but_what_is_private_to_each():
    """A key that is left out by mistake would let parties train with different settings."""
    split = settings_v()
    assert split.model_dump().keys() - common_settings(LOCKSTEP, split).keys() == {"network", "task_options"}
    vertical = deal(2)
    common = common_settings(VERTICAL, vertical)
    assert vertical.model_dump().keys() - common.keys() == {"network", "task_options", "data", "checks"}
    assert common["paillier"] == {"bits": vertical.paillier.bits}
    assert common["parties"] == {name: {"role": party.role} for name, party in vertical.parties.items()}
    changed = {"network": {"lost_after": 7}, "checks": {"row_uses": 999}, "paillier": {"workers": 2}}
    assert common_settings(VERTICAL, deal(2, **changed)) == common
    assert common_settings(VERTICAL, deal(2, seed=1)) != common
