"""What an active and a passive send each other for counts of labels, and what each keeps of it.

Bulk data are one byte string each. What the active decrypts in the end travels as `messages.Decrypted`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tacit.kinds.vertical_logistic.protocol.messages import Digest, Size
from tacit.wire import Message, Text


class CountRequest(Message, frozen=True, tag=110):
    """From a passive: for how much it asks. All 0 if it needs no counts."""

    groups: Size  # of all columns together, before any is merged
    columns: Size
    rows: Size  # of the training
    least: Size  # rows that every group has
    binning: Annotated[bytes, msgspec.Meta(max_length=32)]  # a salted digest of all groups


class CountsBegin(Message, frozen=True, tag=111):
    """From the active: a Paillier key, or why there are no counts."""

    refused: Text  # empty if they are allowed
    key: bytes
    certificate: bytes


class EncryptedLabels(Message, frozen=True, tag=112):
    """From the active: a piece of the labels, encrypted one by one."""

    ciphertexts: bytes


class HiddenCounts(Message, frozen=True, tag=113):
    """From the passive: every group's count under a mask of its own, encrypted; the masked numbers that would mean that
    the group is sparse, as blinded points."""

    ciphertexts: bytes
    few: bytes


class Matches(Message, frozen=True, tag=114):
    """From the active: the masked counts as blinded points, and the passive's points blinded once more, in random order
    within a group."""

    counts: bytes
    few: bytes


class MaskedCounts(Message, frozen=True, tag=115):
    """From the passive: the counts of the final groups, packed, under uniform masks, encrypted and re-randomised."""

    ciphertexts: bytes


class Given(Message, frozen=True, tag=116):
    """Kept by the active: what a passive asked for in a training, and how often it was answered in the whole run."""

    session: Annotated[bytes, msgspec.Meta(max_length=16)]
    request: Digest
    times: Size


class Asked(Message, frozen=True, tag=117):
    """Kept by a passive: the salt of its request in a training."""

    session: Annotated[bytes, msgspec.Meta(max_length=16)]
    salt: Digest
