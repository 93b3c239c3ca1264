"""A vector of ciphertexts under one key, and how it travels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from gmpy2 import gcd, mpz

from tacit.errors import PeerError

if TYPE_CHECKING:
    from tacit.crypto.paillier.public import PublicKey


@dataclass(frozen=True, slots=True, repr=False)
class Ciphertexts:
    """Elements of the integers modulo n², each a unit. `len`, slices and `+` work as for a tuple."""

    key: PublicKey
    values: tuple[mpz, ...]

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Ciphertexts: ...

    def __getitem__(self, index: int | slice) -> int | Ciphertexts:
        if isinstance(index, slice):
            return Ciphertexts(self.key, self.values[index])
        return int(self.values[index])

    def __add__(self, other: Ciphertexts) -> Ciphertexts:
        """Both vectors, one after the other. To add plaintexts use `PublicKey.add`."""
        if not isinstance(other, Ciphertexts):
            return NotImplemented
        if other.key != self.key:
            raise ValueError("ciphertexts under different keys cannot be in one vector")
        return Ciphertexts(self.key, self.values + other.values)

    def __repr__(self) -> str:
        return f"<{len(self)} ciphertexts of {self.key.bits} bits>"

    def to_bytes(self) -> bytes:
        """Big-endian, `key.ciphertext_bytes` each."""
        width = self.key.ciphertext_bytes
        return b"".join([int(value).to_bytes(width, "big") for value in self.values])

    @classmethod
    def from_bytes(cls, key: PublicKey, data: bytes, count: int) -> Ciphertexts:
        """The `count` ciphertexts that a peer sent; PeerError if they cannot be that.

        Every unit modulo n² is a valid ciphertext: which plaintext it holds cannot be seen, nor whether its maker
        knows it.
        """
        width = key.ciphertext_bytes
        if len(data) != count * width:
            raise PeerError(f"{count} ciphertexts have {count * width} bytes, got {len(data)}")
        values = key.split(data)
        product = mpz(1)
        for place, value in enumerate(values):
            if not 0 < value < key.n_squared:
                raise PeerError(f"ciphertext {place} is not between 0 and n²")
            product = product * value % key.modulus
        if gcd(product, key.modulus) != 1:  # of the product: it is 1 only if it is for every factor
            raise PeerError("a ciphertext shares a factor with n")
        return cls(key, values)
