"""Shares modulo 2^128 divided by a power of two, without a message.

    truncated(share, places, second=False)    a party's share of the quotient; one of the two parties is the second
    failure(value_bits, words)                how likely it is that any of so many words comes out wrong

The first party shifts its share, the second one shifts minus its share and takes minus that. The sum is the quotient or
one off, unless the sum of the shares wraps around at another place than it should, which depends on the first party's
share alone. The result may be cut to its low 64 bits, which are shares modulo 2^64.

Guarantee: a uniform share and a value below 2^value_bits in absolute terms fail with at most 2^(value_bits + 1 - 128).
Assumes: two parties. With three or more the error is not small.
Source: Mohassel, Zhang 2017 (SecureML), theorem 1.
"""

from __future__ import annotations

import math

import numpy as np

from tacit.crypto.ot.words import Words, negative

__all__ = ["failure", "truncated"]


def truncated(share: Words, places: int, *, second: bool = False) -> Words:
    """A party's share of the value divided by 2^places (1 to 63); words of 128 bits."""
    if not 0 < places < 64:
        raise ValueError(f"shares are divided by 2^1 to 2^63, got 2^{places}")
    if share.shape[-1:] != (2,):
        raise ValueError(f"shares of 128 bits have a last axis of 2, got {share.shape}")
    if second:
        return negative(truncated(negative(share, 128), places), 128)
    result: Words = share >> np.uint64(places)
    result[..., 0] |= share[..., 1] << np.uint64(64 - places)
    return result


def failure(value_bits: int, words: int = 1) -> float:
    """An upper bound on the probability that any of `words` values below 2^value_bits comes out wrong."""
    return min(1.0, words * math.ldexp(1.0, value_bits + 1 - 128))
