"""What surrounds a party in lock step."""

from __future__ import annotations

import pytest

from tacit.channel import Failed, pair
from tacit.config.local import Local
from tacit.events import Kept
from tacit.lockstep.run import _Heeding, meeting_place
from tacit.net.site import Site
from tests.kinds.split.networks import settings_v
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
    hub = meeting_place(settings, settings.hub, site, Kept())
    assert isinstance(hub._server, MemoryServer)
    spoke = meeting_place(settings, next(name for name in settings.parties if name != settings.hub), site, Kept())
    assert isinstance(spoke._connection, MemoryConnection)
