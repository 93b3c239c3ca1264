"""The active proves that it decrypted what it was sent, and that its modulus is a sound one.

    certify(key), check_certificate(public, proof)        once: ciphertexts modulo this n hide what they should
    opened(key, ciphertexts), verify(public, sent, ...)   each step: these are the plaintexts of those ciphertexts

Why: a passive unmasks whatever number comes back. An active that answers with another one adds a vector of its choice
to the passive's gradient, and so sets the passive's weights: with unit vectors, the scores that follow are the
passive's columns. No bound on the gradient sees that. A ciphertext is c = (1 + n)^m rⁿ modulo n² for exactly one m and
r, and the owner of the key can compute r; so showing r proves m.

What r tells: r is a product of powers of the randomness of the residues' ciphertexts and of the passive's own. Of B
ciphertexts it opens one combination, whose plaintext the passive is told anyway; the others stay as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gmpy2 import gcd, invert, mpz, powmod

from tacit.crypto.byte_strings import frame
from tacit.crypto.paillier import Ciphertexts, PrivateKey, PublicKey
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol.messages import Decrypted

CHALLENGES = 8  # each is passed by an unsound modulus with probability 2^-16: it has no prime factor below 2^16


def certify(key: PrivateKey) -> bytes:
    """Roots that exist for all challenges only if gcd(n, φ(n)) = 1."""
    return joined(nth_roots(key, _challenges(key.public)), key.public)


def check_certificate(public: PublicKey, proof: bytes) -> None:
    """PeerError unless raising to the n-th power is a permutation modulo n.

    Guarantee: gcd(n, φ(n)) = 1 but for an error of 2^-128, so that a re-randomised ciphertext carries its plaintext and
        nothing else, and has one plaintext only.
    Assumes: n has no prime factor below 2^16 (`PublicKey.from_bytes` looks); the hash is a random oracle.
    Source: Goldberg, Reyzin, Sagga, Baldimtsi 2019, section 3.2 (e = n), after Gennaro, Micciancio, Rabin 1998.
    """
    n = public.modulus
    for root, challenge in zip(split(proof, CHALLENGES, public, "the certificate"), _challenges(public), strict=True):
        if powmod(root, n, n) != challenge:
            raise PeerError("the active's modulus is not certified: it may have been made to read more than it should")


def opened(key: PrivateKey, ciphertexts: Ciphertexts, values: Sequence[int]) -> Decrypted:
    """Decrypted `values` with their proof."""
    roots = nth_roots(key, [int(value) for value in ciphertexts.values])
    return Decrypted(joined(values, key.public), joined(roots, key.public))


def verify(public: PublicKey, sent: Ciphertexts, message: Decrypted, *, proof: bool = True) -> list[int]:
    """The plaintexts modulo n; PeerError if they are not those of what was sent.

    Guarantee: with `proof`, each number is the plaintext of its ciphertext.
    Assumes: the modulus is certified.
    Source: Damgård, Jurik, Nielsen 2010, section 5.1: the owner of the key opens a ciphertext by its randomness.
    """
    values = split(message.values, len(sent), public, "the decrypted gradient")
    if not proof:
        return values
    n, square = public.modulus, public.n_squared
    for ciphertext, value, root in zip(
        sent.values, values, split(message.roots, len(sent), public, "its proof"), strict=True
    ):
        if (1 + value * n) * powmod(root, n, square) % square != ciphertext:
            raise PeerError(
                "the active answered with a number that is not the decryption of what it was sent, as it would to set "
                "the weights; nothing was sent in reply"
            )
    return values


def nth_roots(key: PrivateKey, values: Sequence[int]) -> list[int]:
    """The n-th roots modulo n."""
    p, q = mpz(key.p), mpz(key.q)
    n = p * q
    to_p, to_q, p_inverse = invert(n, p - 1), invert(n, q - 1), invert(p, q)
    found = []
    for value in values:
        root_p, root_q = powmod(value % p, to_p, p), powmod(value % q, to_q, q)
        found.append(int(root_p + p * ((root_q - root_p) * p_inverse % q)))
    return found


def _challenges(public: PublicKey) -> list[int]:
    """Numbers modulo n that nobody chose."""
    size = public.bits // 8
    stream = hashlib.shake_256(frame(b"tacit vertical modulus", public.to_bytes())).digest((size + 16) * CHALLENGES)
    numbers = [int.from_bytes(stream[start : start + size + 16], "big") for start in range(0, len(stream), size + 16)]
    found = [number % public.n for number in numbers]
    if any(gcd(number, public.modulus) != 1 for number in found):
        raise PeerError("the modulus shares a factor with a hash of itself: it is not sound")
    return found


def joined(numbers: Sequence[int], public: PublicKey) -> bytes:
    """Numbers modulo n as bytes of one width."""
    return b"".join(int(number).to_bytes(public.bits // 8, "big") for number in numbers)


def split(data: bytes, count: int, public: PublicKey, what: str) -> list[int]:
    """The numbers that `joined` wrote; PeerError for anything else."""
    size = public.bits // 8
    if len(data) != count * size:
        raise PeerError(f"{what} has {len(data)} bytes, {count * size} are due")
    numbers = [int.from_bytes(data[start : start + size], "big") for start in range(0, len(data), size)]
    if any(number >= public.n for number in numbers):
        raise PeerError(f"{what} holds a number that is not below n")
    return numbers
