"""Drop the low bits of a shared number, with a mask of the dealer's: one opening, off by less than one unit.

With x from -2^62 to 2^62 and r uniform, c = x + 2^62 + r modulo 2^64 is opened, and it is uniform. Let r' and c' be r
and c without their top bits. Then x + 2^62 = c' - r' + 2^63 o, and o is the exclusive or of the two top bits: linear in
the dealer's share of r's, as c's is public. Dropping the low bits of c' and r' apart gives x / 2^shift rounded down or
up, up with the probability of the fraction: right in expectation, and never wrong by a whole unit. There is no
probability of failure, unlike with local truncation (about 2^-21 for each value), which also fails for three parties.
"""

from __future__ import annotations

import numpy as np

from tacit.kinds.vertical_logistic.shared.ring import LOW, Words

OFFSET = 1 << 62


def write_parts(mask: Words, shift: int, low: Words, top: Words) -> None:
    """At the dealer: what `truncated` needs to know of the mask, as values to be shared."""
    low[...] = (mask & LOW) >> np.uint64(shift)
    top[...] = mask >> np.uint64(63)


def masked(share: Words, mask: Words, *, first: bool) -> Words:
    """This party's share of c, to be opened."""
    return share + mask + np.uint64(OFFSET if first else 0)


def truncated(opened: Words, shift: int, low: Words, top: Words, *, first: bool) -> Words:
    """This party's share of x / 2^shift."""
    bit = opened >> np.uint64(63)
    share = (top - np.uint64(2) * bit * top) << np.uint64(63 - shift)
    share -= low
    if first:
        share += (bit << np.uint64(63 - shift)) + ((opened & LOW) >> np.uint64(shift)) - np.uint64(OFFSET >> shift)
    return np.asarray(share)
