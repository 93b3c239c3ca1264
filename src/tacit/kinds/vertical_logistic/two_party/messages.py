"""Messages of two parties without a dealer, in addition to those of `tacit.oblivious` and of `shared`."""

from __future__ import annotations

from tacit.wire import Message


class Product(Message, frozen=True, tag=146):
    """For each digit of some cells of the receiver: a factor of the sender plus the words of all leaves of a tree."""

    words: bytes
