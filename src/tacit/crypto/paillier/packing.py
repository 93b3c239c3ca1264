"""Several signed integers in one plaintext: v_0 + v_1 2^s + v_2 2^(2s) + ... for slots of s bits."""

from __future__ import annotations

from collections.abc import Sequence

from gmpy2 import mpz, powmod

from tacit.errors import PeerError


def slots(bits: int, slot_bits: int) -> int:
    """How many slots fit a modulus of `bits` bits: with |v_i| < 2^(s-1) the packed integer stays below n/2."""
    if slot_bits < 2 or slot_bits >= bits:
        raise ValueError(f"slot_bits must be from 2 to {bits - 1} for a modulus of {bits} bits, got {slot_bits}")
    return (bits - 1) // slot_bits


def pack(values: Sequence[mpz], slot_bits: int, modulus: mpz) -> mpz:
    """The ciphertext of the packed plaintexts of `values`, by Horner's rule."""
    shift = mpz(1) << slot_bits
    total = values[-1]
    for value in reversed(values[:-1]):
        total = powmod(total, shift, modulus) * value % modulus
    return total


def unpack(value: int, slot_bits: int, count: int) -> list[int]:
    """The `count` signed integers in `value`, each from -2^(slot_bits-1) to 2^(slot_bits-1) - 1.

    More than `count` slots hold is a PeerError: a party decrypted something else, or a slot overflowed.
    """
    if slot_bits < 2 or count < 0:
        raise ValueError(f"need slot_bits of 2 or more and a count of 0 or more, got {slot_bits} and {count}")
    rest = int(value)
    half, mask = 1 << slot_bits - 1, (1 << slot_bits) - 1
    found = []
    for _ in range(count):
        slot = (rest + half & mask) - half
        found.append(slot)
        rest = rest - slot >> slot_bits
    if rest:
        raise PeerError(f"the decrypted integer does not fit {count} slots of {slot_bits} bits")
    return found
