"""Many inverses modulo one number."""

from __future__ import annotations

from collections.abc import Sequence

from gmpy2 import invert, mpz


def inverses(units: Sequence[mpz], modulus: mpz) -> list[mpz]:
    """The inverses, for the price of one inversion and three products each (Montgomery's trick)."""
    before = [mpz(1)]
    for unit in units:
        before.append(before[-1] * unit % modulus)
    rest = invert(before.pop(), modulus)
    found = []
    for unit, product in zip(reversed(units), reversed(before), strict=True):
        found.append(rest * product % modulus)
        rest = rest * unit % modulus
    return found[::-1]
