"""What surrounds a party in lock step."""

from __future__ import annotations

import pytest

from tacit.channel import Failed, pair
from tacit.lockstep.run import _Heeding


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
