"""The public key: what everybody can do with ciphertexts."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import index

import numpy as np
from gmpy2 import gcd, is_power, is_prime, mpz, powmod_base_list, primorial
from numpy.typing import NDArray

from tacit.crypto.paillier import group_products, multiexp, packing
from tacit.crypto.paillier.ciphertexts import Ciphertexts
from tacit.errors import PeerError

SIZES = (2048, 3072, 4096)
SMALLEST = 128  # of the sizes for tests
_SMALL_PRIMES = 1 << 16  # a modulus has no factor below this


@dataclass(frozen=True)
class PublicKey:
    """A modulus n. Signed plaintexts lie in (-n/2, n/2)."""

    n: int

    @property
    def bits(self) -> int:
        return self.n.bit_length()

    @property
    def ciphertext_bytes(self) -> int:
        return self.bits // 4

    @cached_property
    def modulus(self) -> mpz:
        """n, as GMP's integer."""
        return mpz(self.n)

    @cached_property
    def n_squared(self) -> mpz:
        return self.modulus * self.modulus

    def __repr__(self) -> str:
        return f"<Paillier public key of {self.bits} bits>"

    def encrypt(self, values: Sequence[int]) -> Ciphertexts:
        """Encrypt signed integers; the owner of the key does this faster (`PrivateKey.encrypt`).

        Guarantee: semantically secure under decisional composite residuosity: (1 + n)^v rⁿ with r uniform in Z_n*.
        Source: Paillier 1999, scheme 1 with g = 1 + n.
        """
        return self.rerandomize(Ciphertexts(self, tuple(self.embed(self.checked(values)))))

    def add(self, left: Ciphertexts, right: Ciphertexts) -> Ciphertexts:
        """The sums of the plaintexts, modulo n."""
        self.check_own(left, right)
        if len(left) != len(right):
            raise ValueError(f"cannot add {len(left)} to {len(right)} ciphertexts")
        return self._products(left.values, right.values)

    def add_plain(self, vector: Ciphertexts, values: Sequence[int]) -> Ciphertexts:
        """Add known integers of (-n, n), such as masks from `uniform`; the sums are modulo n. Adds no randomness."""
        self.check_own(vector)
        if len(vector) != len(values):
            raise ValueError(f"cannot add {len(values)} integers to {len(vector)} ciphertexts")
        integers = [index(value) for value in values]
        if any(not -self.n < value < self.n for value in integers):
            raise ValueError("an integer to add is not between -n and n: reduce it modulo n")
        return self._products(vector.values, self.embed(integers))

    def multiply(self, matrix: NDArray[np.int64], vector: Ciphertexts, *, bound: int = 2**64) -> Ciphertexts:
        """The matrix times the encrypted vector: row j holds sum_i matrix[j, i] v_i.

        `bound` states that every |v_i| is at most that; then no sum can leave (-n/2, n/2), or ValueError. Nobody can
        check the statement: if the maker of the vector broke it, sums wrap modulo n.

        The result is a function of the ciphertexts and the matrix: `rerandomize` before it goes to the owner of the
        key, who could otherwise test guesses of the matrix.
        """
        self.check_product(matrix, vector, bound)
        return Ciphertexts(self, tuple(multiexp.powers(matrix, vector.values, self.modulus)))

    def sums(self, groups: NDArray[np.int64], count: int, vector: Ciphertexts) -> Ciphertexts:
        """The sum of the plaintexts in each of `count` groups: `groups[j, i]` is the group of v_i by the j-th grouping.

        Like those of `multiply`, the results are a function of the ciphertexts and the groups: `rerandomize` before
        they go to the owner of the key.
        """
        self.check_groups(groups, count, vector)
        return Ciphertexts(self, tuple(group_products.products(groups, count, vector.values, self.n_squared)))

    def slots(self, slot_bits: int) -> int:
        """How many slots of `slot_bits` bits fit one plaintext."""
        return packing.slots(self.bits, slot_bits)

    def pack(self, vector: Ciphertexts, slot_bits: int) -> Ciphertexts:
        """As few ciphertexts as hold all plaintexts, side by side; every |v| must be below 2^(slot_bits-1)."""
        self.check_own(vector)
        size = self.slots(slot_bits)
        groups = [vector.values[start : start + size] for start in range(0, len(vector), size)]
        return Ciphertexts(self, tuple([packing.pack(group, slot_bits, self.n_squared) for group in groups]))

    def unpack(self, values: Sequence[int], slot_bits: int, count: int) -> list[int]:
        """The `count` integers that `pack` put into the plaintexts `values`, which are taken modulo n."""
        size = self.slots(slot_bits)
        if len(values) != -(-count // size):
            raise ValueError(f"{count} slots of {slot_bits} bits fill {-(-count // size)} integers, got {len(values)}")
        found: list[int] = []
        for value in values:
            found += packing.unpack(self.signed(value), slot_bits, min(size, count - len(found)))
        return found

    def rerandomize(self, vector: Ciphertexts) -> Ciphertexts:
        """Other ciphertexts of the same plaintexts.

        Guarantee: each is a uniform ciphertext of its plaintext, independent of the one given, also to the owner of
            the private key: it carries the plaintext and nothing else. It is multiplied by rⁿ, r uniform in Z_n*.
            Adding new `encrypt([0, ...])` of others than the owner does the same; those can be made in advance.
        Assumes: gcd(n, φ(n)) = 1, which the owner of the key can break by a malformed n (see `from_bytes`).
        """
        self.check_own(vector)
        return self._products(vector.values, powmod_base_list(self._units(len(vector)), self.modulus, self.n_squared))

    def uniform(self, count: int) -> list[int]:
        """Masks: integers uniform over [0, n), from the operating system. Modulo n they hide a plaintext perfectly."""
        return [secrets.randbelow(self.n) for _ in range(count)]

    def signed(self, value: int) -> int:
        """The representative of `value` modulo n in (-n/2, n/2)."""
        residue = value % self.n
        return residue - self.n if 2 * residue > self.n else residue

    def to_bytes(self) -> bytes:
        """n, big-endian."""
        return self.n.to_bytes(self.bits // 8, "big")

    @classmethod
    def from_bytes(cls, data: bytes, *, insecure_bits: bool = False) -> PublicKey:
        """The key a peer sent; PeerError for a modulus that is even, of another size, prime, a power or has a small
        factor.

        It cannot be seen that n is the product of two primes of half its length, nor that gcd(n, φ(n)) = 1. A party
        that makes a malformed n can make what others encrypt readable to third parties, and can read from a
        rerandomised ciphertext more than its plaintext. A mask from `uniform` still hides the plaintext.
        """
        allowed = len(data) * 8 in SIZES or (insecure_bits and SMALLEST <= len(data) * 8 <= SIZES[-1])
        if not allowed or len(data) % 2:
            raise PeerError(f"a public key has {', '.join(map(str, SIZES))} bits, got {len(data) * 8}")
        n = mpz(int.from_bytes(data, "big"))
        if n.bit_length() != len(data) * 8:
            raise PeerError(f"the modulus has {n.bit_length()} bits, its length says {len(data) * 8}")
        if gcd(n, _small_primes()) != 1:
            raise PeerError(f"the modulus has a factor below {_SMALL_PRIMES}")
        if is_prime(n):
            raise PeerError("the modulus is prime")
        if is_power(n):
            raise PeerError("the modulus is a power of another number")
        return cls(int(n))

    def split(self, data: bytes) -> tuple[mpz, ...]:
        """The numbers in the bytes of `Ciphertexts.to_bytes`, unchecked: for those from a peer see its `from_bytes`."""
        width = self.ciphertext_bytes
        parts = [data[start : start + width] for start in range(0, len(data), width)]
        return tuple([mpz(int.from_bytes(part, "big")) for part in parts])

    def checked(self, values: Sequence[int]) -> list[int]:
        """The values as Python integers, or ValueError for one outside (-n/2, n/2)."""
        integers = [index(value) for value in values]
        for place, value in enumerate(integers):
            if 2 * abs(value) >= self.n:
                raise ValueError(
                    f"value {place} has {value.bit_length()} bits, a key of {self.bits} bits encrypts integers between "
                    f"-n/2 and n/2: take fewer fraction bits or a longer key"
                )
        return integers

    def embed(self, integers: Iterable[int]) -> list[mpz]:
        """(1 + n)^v modulo n² for each v: ciphertexts without randomness, which hide nothing."""
        return [1 + value % self.modulus * self.modulus for value in integers]

    def _products(self, left: Iterable[mpz], right: Iterable[mpz]) -> Ciphertexts:
        return Ciphertexts(self, tuple([a * b % self.n_squared for a, b in zip(left, right, strict=True)]))

    def _units(self, count: int) -> list[mpz]:
        units: list[mpz] = []
        while len(units) < count:
            value = mpz(secrets.randbelow(self.n))
            if gcd(value, self.modulus) == 1:
                units.append(value)
        return units

    def check_product(self, matrix: NDArray[np.int64], vector: Ciphertexts, bound: int) -> None:
        """ValueError if `multiply` cannot take these."""
        self.check_own(vector)
        if matrix.ndim != 2 or matrix.shape[1] != len(vector) or matrix.dtype != np.int64:
            raise ValueError(
                f"the matrix must be int64 with {len(vector)} columns, got {matrix.dtype} of shape {matrix.shape}"
            )
        largest = max(int(matrix.max(initial=0)), -int(matrix.min(initial=0)))
        if largest >= multiexp.LARGEST_ENTRY:
            raise ValueError(f"the matrix reaches {largest}, the largest entry is 2^62 - 1: take fewer fraction bits")
        if bound < 0:
            raise ValueError(f"bound must be 0 or more, got {bound}")
        if 2 * _largest_row(matrix, largest) * bound >= self.n:
            raise ValueError(
                f"sums of the matrix with values up to 2^{bound.bit_length()} can leave the plaintexts of "
                f"{self.bits} bits: take fewer fraction bits or a longer key"
            )

    def check_groups(self, groups: NDArray[np.int64], count: int, vector: Ciphertexts) -> None:
        """ValueError if `sums` cannot take these."""
        self.check_own(vector)
        if groups.ndim != 2 or groups.shape[1] != len(vector) or groups.dtype != np.int64:
            raise ValueError(
                f"groups must be int64 with {len(vector)} columns, got {groups.dtype} of shape {groups.shape}"
            )
        if groups.size and not 0 <= groups.min() <= groups.max() < count:
            raise ValueError(f"groups are numbered from 0 to {count - 1}, got {groups.min()} to {groups.max()}")

    def check_own(self, *vectors: Ciphertexts) -> None:
        """ValueError for ciphertexts of another key."""
        if any(vector.key != self for vector in vectors):
            raise ValueError("these ciphertexts belong to another key")


def _largest_row(matrix: NDArray[np.int64], largest: int) -> int:
    """The largest sum of absolute values of a row."""
    if largest * matrix.shape[1] < 2**63:
        return int(np.abs(matrix).sum(axis=1).max(initial=0))
    return largest * int(matrix.shape[1])


@cache
def _small_primes() -> mpz:
    return primorial(_SMALL_PRIMES)
