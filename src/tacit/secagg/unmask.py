"""Taking the masks off a sum: which keys to expand, and the expansion of any range of columns.

A plan is small (17 bytes a mask) and can be sent to workers of the server's own trust domain: each unmasks a range of
columns, and the joined result is the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from tacit.crypto.prg import add_masks
from tacit.secagg.messages import Masked
from tacit.secagg.packed_words import Words, unpack
from tacit.secagg.settings import Settings

__all__ = ["Plan", "Unmasking", "Words", "masked_words", "plan_of", "unmask", "unmask_ranges"]

_KEY_BYTES = 16


def masked_words(message: Masked, settings: Settings) -> Words:
    """The ring words of an upload, or PeerError."""
    return unpack(message.words, settings.columns, settings.modulus_bits)


@dataclass(frozen=True, slots=True)
class Plan:
    """The masks that are left in a sum. It opens the sum and nothing else, and belongs to the server alone."""

    keys: bytes  # 16 bytes each
    signs: bytes  # 1 to add, 0 to subtract

    def __len__(self) -> int:
        return len(self.signs)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        for i, positive in enumerate(self.signs):
            yield self.keys[_KEY_BYTES * i : _KEY_BYTES * (i + 1)], 1 if positive else -1

    def __repr__(self) -> str:
        return f"Plan({len(self)} masks)"


def plan_of(signed_keys: list[tuple[bytes, int]]) -> Plan:
    return Plan(b"".join(key for key, _ in signed_keys), bytes(sign > 0 for _, sign in signed_keys))


def unmask(words: Words, plan: Plan, *, first_column: int = 0, threads: int = 1) -> None:
    """Take the masks off `words`, in place, which are the columns of the sum from `first_column` on."""
    add_masks(words, plan, first_column=first_column, threads=threads)


Unmasking = Callable[[Words, Plan, list[int]], None]  # takes the masks off words, in the ranges between these columns


def unmask_ranges(words: Words, plan: Plan, edges: list[int], threads: int = 1) -> None:
    """Take the masks off `words`, in place, one range of columns after the other."""
    for first, last in pairwise(edges):
        unmask(words[first:last], plan, first_column=first, threads=threads)
