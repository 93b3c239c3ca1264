"""The key owner's randomness: powers of one secret base to short random exponents, from tables modulo p² and q².

Damgård, Jurik and Nielsen replace rⁿ for a uniform r by (hⁿ)^e, where h = -x² modulo n for a uniform x and e has half
as many bits as n. Tables of hⁿ to d 256^k for every byte d and place k then turn a power into one product a byte.

A power of hⁿ is written a (1 + p b) modulo p², with a and b below p, as in `multiexp`: the b add up, and only every
second product of the a needs a reduction.

Guarantee: ciphertexts with this randomness are as secret as Paillier's own, unless n can be factored: the powers look
    like uniform n-th residues of Jacobi symbol 1, and the symbol says nothing of a plaintext.
Assumes: p and q are 3 modulo 4 and gcd(p - 1, q - 1) = 2; exponents are uniform and secret; decisional composite
    residuosity.
Source: Damgård, Jurik, Nielsen, "A generalization of Paillier's public-key system with applications to electronic
    voting", 2010; that half-length exponents do, from Goldreich and Rosen, "On the security of modular exponentiation",
    2003. Exponents of twice the security level (256 bits for 3072) would be faster still; they need the assumption that
    short discrete logarithms are hard, and are not used here.
"""

from __future__ import annotations

from collections.abc import Sequence

from gmpy2 import mpz

from tacit.crypto.paillier.inverses import inverses

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

    def powers_times(self, exponents: Sequence[bytes], slopes: Sequence[mpz]) -> list[mpz]:
        """base^e_i (1 + prime * slopes[i]) modulo the squared prime, where exponents[k] holds byte k of every e_i.

        One row of the tables after the other serves all powers, while it is in the cache.
        """
        modulus = self.modulus
        totals = [mpz(1)] * len(slopes)
        sums = list(slopes)
        for k in range(0, len(exponents), 2):
            low, high = exponents[k : k + 2]
            left, right = self._units[k : k + 2]
            totals = [t * (left[i] * right[j]) % modulus for t, i, j in zip(totals, low, high, strict=True)]
            left, right = self._slopes[k : k + 2]
            sums = [s + left[i] + right[j] for s, i, j in zip(sums, low, high, strict=True)]
        prime = self.prime
        return [t * (1 + prime * (s % prime)) % modulus for t, s in zip(totals, sums, strict=True)]
