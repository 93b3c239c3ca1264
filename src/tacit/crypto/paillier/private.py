"""The private key: decrypts, and encrypts faster than others can."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import NoReturn

from gmpy2 import gcd, invert, is_prime, mpz, powmod, powmod_base_list

from tacit.crypto.paillier.ciphertexts import Ciphertexts
from tacit.crypto.paillier.fixed_base import FixedBase
from tacit.crypto.paillier.public import SIZES, SMALLEST, PublicKey

_HEADER = b"tacit paillier private key 1\n"
_PRIME_ROUNDS = 40  # of Miller and Rabin: a composite passes with probability below 4^-40


def generate(bits: int = 3072, *, insecure_bits: bool = False) -> PrivateKey:
    """A new key of 2048, 3072 or 4096 bits, from the operating system's randomness.

    3072 bits are about as hard as 128-bit keys, 2048 as 112 (NIST SP 800-57 part 1, table 2). `insecure_bits` also
    allows smaller ones, for tests.
    """
    _check_size(bits, insecure_bits)
    while True:
        p, q = _random_prime(bits // 2), _random_prime(bits // 2)
        if p != q and gcd(p - 1, q - 1) == 2:
            return PrivateKey(int(p), int(q))


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """Two primes of equal length, both 3 modulo 4, with gcd(p - 1, q - 1) = 2. From `generate` or `from_bytes`."""

    p: int
    q: int

    @cached_property
    def public(self) -> PublicKey:
        return PublicKey(self.p * self.q)

    def __repr__(self) -> str:
        return f"<Paillier private key of {self.public.bits} bits>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private key is not pickled: use to_bytes")

    def encrypt(self, values: Sequence[int]) -> Ciphertexts:
        """Encrypt signed integers. The first call prepares tables: at 3072 bits about a second and 45 MB.

        Guarantee and Source: see `fixed_base`. The base h is drawn anew for each key object and never leaves it, so
            that nobody else can be made to trust it.
        """
        public = self.public
        integers, crt, tables = public.checked(values), self._crt, self._tables
        exponents = [secrets.token_bytes(len(integers)) for _ in range(public.bits // 16)]
        # (1 + n)^v is 1 + p (q v) modulo p², and 1 + q (p v) modulo q².
        modulo_p = tables.p.powers_times(exponents, [crt.q * value for value in integers])
        modulo_q = tables.q.powers_times(exponents, [crt.p * value for value in integers])
        pairs = zip(modulo_p, modulo_q, strict=True)
        return Ciphertexts(public, tuple([a + crt.p2 * ((b - a) * crt.p2_inverse % crt.q2) for a, b in pairs]))

    def decrypt(self, vector: Ciphertexts) -> list[int]:
        """The plaintexts as signed integers in (-n/2, n/2)."""
        return [self.public.signed(value) for value in self.decrypt_unsigned(vector)]

    def decrypt_unsigned(self, vector: Ciphertexts) -> list[int]:
        """The plaintexts as integers in [0, n).

        Source: Paillier 1999, section 7 (by the Chinese remainder theorem).
        """
        self.public.check_own(vector)
        crt = self._crt
        modulo_p = _logarithms(vector.values, crt.p, crt.p2, crt.log_p)
        modulo_q = _logarithms(vector.values, crt.q, crt.q2, crt.log_q)
        pairs = zip(modulo_p, modulo_q, strict=True)
        return [int(a + crt.p * ((b - a) * crt.p_inverse % crt.q)) for a, b in pairs]

    def to_bytes(self) -> bytes:
        """The key, for storing: not encrypted, so keep it like a password."""
        size = self.public.bits // 16
        return _HEADER + self.p.to_bytes(size, "big") + self.q.to_bytes(size, "big")

    @classmethod
    def from_bytes(cls, data: bytes, *, insecure_bits: bool = False) -> PrivateKey:
        """The key that `to_bytes` wrote; ValueError for anything else."""
        body = data[len(_HEADER) :]
        if not data.startswith(_HEADER):
            raise ValueError("this is not a Paillier private key of Tacit, version 1")
        bits = len(body) * 8
        _check_size(bits, insecure_bits)
        p, q = (mpz(int.from_bytes(half, "big")) for half in (body[: bits // 16], body[bits // 16 :]))
        sound = (
            p != q
            and (p * q).bit_length() == bits
            and p % 4 == q % 4 == 3
            and gcd(p - 1, q - 1) == 2
            and all(is_prime(prime, _PRIME_ROUNDS) for prime in (p, q))
        )
        if not sound:
            raise ValueError("the private key is damaged: its two numbers do not make a Paillier key")
        return cls(int(p), int(q))

    @cached_property
    def _crt(self) -> _Remainders:
        return _Remainders(mpz(self.p), mpz(self.q))

    @cached_property
    def _tables(self) -> _Tables:
        return _Tables(self._crt, self.public.bits // 16)


class _Remainders:
    """Constants of the Chinese remainder theorem."""

    def __init__(self, p: mpz, q: mpz) -> None:
        self.p, self.q = p, q
        self.p2, self.q2 = p * p, q * q
        self.p_inverse = invert(p, q)
        self.p2_inverse = invert(self.p2, self.q2)
        # (1 + n)^(p-1) = 1 + p q (p - 1) = 1 - p q modulo p²: its logarithm is -q.
        self.log_p = invert(-q, p)
        self.log_q = invert(-p, q)


class _Tables:
    """Powers of hⁿ modulo p² and q²."""

    def __init__(self, crt: _Remainders, exponent_bytes: int) -> None:
        n = crt.p * crt.q
        x = mpz(0)
        while gcd(x, n) != 1:
            x = mpz(secrets.randbelow(int(n)))
        h = -x * x % n
        self.p = FixedBase(powmod(h, n, crt.p2), crt.p, exponent_bytes)
        self.q = FixedBase(powmod(h, n, crt.q2), crt.q, exponent_bytes)


def _logarithms(values: Sequence[mpz], prime: mpz, square: mpz, inverse: mpz) -> list[mpz]:
    """Plaintexts modulo `prime`."""
    raised = powmod_base_list([value % square for value in values], prime - 1, square)
    return [(value - 1) // prime * inverse % prime for value in raised]


def _random_prime(bits: int) -> mpz:
    """A uniform prime among those of `bits` bits that start with two ones and are 3 modulo 4."""
    while True:
        candidate = mpz(secrets.randbits(bits) | 3 << bits - 2 | 3)
        if is_prime(candidate, _PRIME_ROUNDS):
            return candidate


def _check_size(bits: int, insecure_bits: bool) -> None:
    if index(bits) in SIZES:
        return
    if not insecure_bits:
        raise ValueError(f"bits must be one of {', '.join(map(str, SIZES))}, got {bits}")
    if bits % 32 or not SMALLEST <= bits <= SIZES[-1]:
        raise ValueError(f"bits must be a multiple of 32 from {SMALLEST} to {SIZES[-1]}, got {bits}")
