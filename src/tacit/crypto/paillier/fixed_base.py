"""The key owner's randomness: powers of one secret base to short random exponents, from tables modulo p² and q².

Damgård, Jurik and Nielsen replace rⁿ for a uniform r by (hⁿ)^e, where h = -x² modulo n for a uniform x and e has half
as many bits as n. Tables of hⁿ to d 256^k for every byte d and place k then turn a power into one product a byte.

A power of hⁿ is written a (1 + p b) modulo p², with a and b below p, as in `multiexp`: the b add up, and only every
second product of the a needs a reduction.

Guarantee: (hⁿ)^e is indistinguishable from a uniform n-th residue times a sign, so that the ciphertexts are as good as
    Paillier's to whoever cannot factor n.
Assumes: p and q are 3 modulo 4 and gcd(p - 1, q - 1) = 2, so that h generates the squares' group up to sign; e is
    uniform and secret; decisional composite residuosity.
Source: Damgård, Jurik, Nielsen, "A generalization of Paillier's public-key system with applications to electronic
    voting", IJIS 2010, section 4.2; half-length exponents after Goldreich and Rosen, J. Cryptology 2003. Exponents of
    twice the security level (256 bits at 3072) are common and faster; they rest on a stronger assumption and are not
    used here.
"""

from __future__ import annotations

from operator import getitem, mul

from gmpy2 import mpz

from tacit.crypto.paillier.inversion import inverses

Row = tuple[mpz, ...]


class FixedBase:
    """Powers of one base modulo a squared prime. The exponent is given as little-endian bytes."""

    def __init__(self, base: mpz, prime: mpz, exponent_bytes: int) -> None:
        self.prime = prime
        self.modulus = prime * prime
        self._units: list[Row] = []
        self._slopes: list[Row] = []
        for _ in range(exponent_bytes):
            row = [mpz(1)]
            for _ in range(255):
                row.append(row[-1] * base % self.modulus)
            base = row[-1] * base % self.modulus
            units = tuple([value % prime for value in row])
            self._units.append(units)
            self._slopes.append(
                tuple([high // prime * low % prime for high, low in zip(row, inverses(units, prime), strict=True)])
            )

    def power_times(self, exponent: bytes, slope: mpz) -> mpz:
        """base^exponent (1 + prime * slope) modulo the squared prime."""
        units = list(map(getitem, self._units, exponent))
        slope = sum(map(getitem, self._slopes, exponent), slope)
        total = units.pop() if len(units) % 2 else mpz(1)
        modulus = self.modulus
        for pair in map(mul, units[0::2], units[1::2]):
            total = total * pair % modulus
        return total * (1 + self.prime * (slope % self.prime)) % modulus
