"""Which groups have fewer than a few rows of either class, without opening a count.

    hide(key, sums, sizes, ...)     passive: the counts under masks, and what would mean that a group is sparse
    compare(key, message, ...)      active: decrypts, and answers with points
    sparse(points, message)         passive: one bit for each group

A group g of n_g rows has c_g positives, of which the passive holds Enc(c_g). It is sparse if c_g is one of the ten
numbers 0..4 and n_g-4..n_g.

    passive     draws R_g uniform in Z_n and b; sends Enc(c_g + R_g), re-randomised, and b·H(g, R_g + s) for all ten s
    active      decrypts m_g = c_g + R_g, draws a; sends a·H(g, m_g), and a·b·H(g, R_g + s), shuffled within the group
    passive     multiplies a·H(g, m_g) by b: it is among the ten if and only if c_g is one of the ten numbers

Guarantee: the active learns nothing, whatever it encrypted as labels: m_g is uniform modulo n, and the points are
    random to it. The passive learns whether a group is sparse, but neither its count nor on which side.
Assumes: gcd(n, φ(n)) = 1 (`decryption_proof.check_certificate`); decisional Diffie-Hellman on Curve25519; SHA-512 is a
    random oracle. A passive that follows the protocol: one that cheats can ask for ten numbers of its choice in place
    of these, of any sum of labels. An active that cheats can answer so that a group does not seem sparse, which is
    noticed when the counts are opened, or encrypt other labels, by which more is merged than is needed.
Source: private equality by Diffie-Hellman, after Meadows 1986 and Huberman, Franklin, Hogg 1999, on additive shares
    modulo n.

Why not the blinded differences Enc(ρ(c_g - t)): those take twenty powers modulo n² for a group in place of one, and the
active sees how many groups are sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.random import Generator

from tacit.crypto.byte_strings import frame
from tacit.crypto.curve import POINT_BYTES, Scalar, hash_to_curve, multiply
from tacit.crypto.paillier import Ciphertexts, PrivateKey, PublicKey, Workers
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol.label_count_messages import HiddenCounts, Matches

FEWEST = 5  # rows of either class in a group, at least
NUMBERS = 2 * FEWEST  # that mean a sparse group
_DOMAIN = b"tacit label counts sparsity"


def few(rows: int) -> list[int]:
    """The counts of positives that make a group of so many rows sparse."""
    if rows < NUMBERS:
        raise ValueError(f"a group has {rows} rows: with fewer than {NUMBERS} it cannot have {FEWEST} of either class")
    return [*range(FEWEST), *range(rows - FEWEST + 1, rows + 1)]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Blinding:
    """What the passive keeps of a test: its secret."""

    secret: Scalar
    groups: int


def hide(
    key: PublicKey, sums: Ciphertexts, sizes: Sequence[int], label: bytes, workers: Workers, rng: Generator | None
) -> tuple[Blinding, HiddenCounts]:
    """The passive's message about groups of these sizes; `label` is the same for both, and never twice."""
    masks = key.uniform(len(sums))
    hidden = workers.rerandomize(key, key.add_plain(sums, masks))
    secret = Scalar.generate(rng)
    points = [
        _point(key, label, group, mask + count)
        for group, (mask, size) in enumerate(zip(masks, sizes, strict=True))
        for count in few(size)
    ]
    return Blinding(secret, len(sums)), HiddenCounts(hidden.to_bytes(), multiply(secret, b"".join(points)))


def compare(
    key: PrivateKey, message: HiddenCounts, groups: int, label: bytes, workers: Workers, rng: Generator
) -> Matches:
    """The active's answer. It sees uniform numbers and random points."""
    _check_length(message.few, groups * NUMBERS)
    values = workers.decrypt_unsigned(key, Ciphertexts.from_bytes(key.public, message.ciphertexts, groups))
    secret = Scalar.generate(rng)
    own = b"".join([_point(key.public, label, group, value) for group, value in enumerate(values)])
    theirs = _points(multiply(secret, message.few))
    shuffled = [
        theirs[start + place]  # which of the ten it was would tell the count
        for start in range(0, groups * NUMBERS, NUMBERS)
        for place in rng.permutation(NUMBERS)
    ]
    return Matches(multiply(secret, own), b"".join(shuffled))


def sparse(blinding: Blinding, message: Matches) -> list[bool]:
    """Whether each group is sparse."""
    _check_length(message.counts, blinding.groups)
    _check_length(message.few, blinding.groups * NUMBERS)
    counts, numbers = _points(multiply(blinding.secret, message.counts)), _points(message.few)
    return [point in numbers[group * NUMBERS : (group + 1) * NUMBERS] for group, point in enumerate(counts)]


def _point(key: PublicKey, label: bytes, group: int, value: int) -> bytes:
    number = (value % key.n).to_bytes(key.bits // 8, "big")
    return hash_to_curve(frame(_DOMAIN, label, group.to_bytes(8, "big"), number))


def _points(data: bytes) -> list[bytes]:
    return [data[start : start + POINT_BYTES] for start in range(0, len(data), POINT_BYTES)]


def _check_length(data: bytes, points: int) -> None:
    if len(data) != points * POINT_BYTES:
        raise PeerError(f"{points} points have {points * POINT_BYTES} bytes, got {len(data)}")
