"""What a party refuses, and why. Each check is on unless the file turns it off.

A passive sees its own gradient before it sends anything that depends on it: the next score is computed with it. So a
gradient that fails a check is never used, and what the active tried to learn by it stays unsaid.

    Gradients               a passive's two checks in one, with the unpacking before them
    check_gradient_bound    residues lie in [-1, 1], so |Xᵀr| is at most Σ|x|: larger ones were scaled, or overflowed
    check_few_rows          honest residues are spread over the batch: a gradient made of one to three rows singles
                            somebody out
    check_batch             the active: a passive with as many features as a batch has rows solves for the residues
    check_row_uses          both: each further step with the same rows tells more about them

The check on decryption is `opening.verify`. Together they stop residues that are one-hot, scaled or positional, and
weights that are steered. They do not stop an active that spreads its residues over many rows and still chooses them:
what it learns then are scores, as from an honest run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.crypto.paillier import PublicKey
from tacit.errors import PeerError
from tacit.fixedpoint import Floats, Ints
from tacit.vertical.encoding import RESIDUE_BITS, Columns
from tacit.vertical.settings import Settings

FEW = 3  # rows
CLOSE = 1e-3  # relative distance from their span, in whitened coordinates
MEANINGFUL = 8  # rank of the features, below which a gradient of an honest batch is close to some rows by chance
_BEAM = 16  # combinations that are kept while looking for the next row
_Candidate = tuple[float, tuple[int, ...], Floats, Floats]  # distance, rows, an orthonormal basis, what is left


def check_gradient_bound(gradient: list[int], rows: Ints) -> None:
    """|gradient| ≤ Σ|x| in every column: the largest that residues in [-1, 1] can make it."""
    bounds = [int(bound) << RESIDUE_BITS for bound in np.abs(rows).sum(axis=0)]
    for column, (value, bound) in enumerate(zip(gradient, bounds, strict=True)):
        if abs(value) > bound:
            times = "more than a million" if abs(value) > bound * 10**6 else f"{abs(value) / max(1, bound):.3g}"
            raise PeerError(
                f"the gradient of feature {column} is {times} times the largest that residues from -1 to 1 can make "
                "it: the active sent other numbers, as it would to read rows; nothing was sent in reply"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """Coordinates in which a party's features are spread alike in all directions: there, being close means something.

    Without it the largest column alone would decide which vectors are collinear.
    """

    basis: Floats

    @classmethod
    def fit(cls, features: Floats) -> Whitening:
        scale = np.sqrt(np.mean(features**2, axis=0))
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        values, vectors = np.linalg.eigh((features * unit).T @ (features * unit) / len(features))
        kept = values > 1e-8 * max(values.max(initial=0.0), 1e-300)
        return cls(unit[:, None] * vectors[:, kept] / np.sqrt(values[kept]))

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    @property
    def meaningful(self) -> bool:
        return self.rank >= MEANINGFUL


def check_few_rows(gradient: Floats, rows: Floats, whitening: Whitening) -> None:
    """The gradient is not made of three rows or fewer, as those of one-hot residues are.

    It looks for rows whose span comes close, best first, and keeps several candidates on the way. Not exhaustive: two or
    three rows that nearly cancel can be missed; one row is always found.
    """
    found = nearest_rows(gradient @ whitening.basis, rows @ whitening.basis)
    if found is not None:
        count = "one of its rows" if len(found) == 1 else f"{len(found)} of its rows"
        raise PeerError(
            f"the gradient is made of {count} alone (number {', '.join(map(str, found))} of the batch): the active sent "
            "residues that single them out, or the model fits all others perfectly; nothing was sent in reply. In the "
            "second case train for fewer epochs, or with a larger batch or l2"
        )


def nearest_rows(gradient: Floats, rows: Floats) -> tuple[int, ...] | None:
    """At most `FEW` rows in whose span the gradient lies; None if there are none."""
    norm = float(np.linalg.norm(gradient))
    if norm == 0.0:
        return None
    lengths = np.linalg.norm(rows, axis=1)
    rows = np.divide(rows, lengths[:, None], out=np.zeros_like(rows), where=lengths[:, None] > 0)
    beam: list[_Candidate] = [(1.0, (), np.zeros((0, rows.shape[1])), gradient / norm)]
    for _ in range(FEW):
        longer: list[_Candidate] = []
        for _, chosen, span, rest in beam:
            apart = rows - (rows @ span.T) @ span  # what each row adds to the span
            lengths = np.linalg.norm(apart, axis=1)
            along = np.divide(apart @ rest, lengths, out=np.zeros(len(rows)), where=lengths > 1e-6)
            for row in np.argsort(-np.abs(along))[:_BEAM]:
                if lengths[row] <= 1e-6:
                    continue
                direction = apart[row] / lengths[row]
                left = rest - along[row] * direction
                distance = float(np.linalg.norm(left))
                if distance < CLOSE:
                    return (*chosen, int(row))
                longer.append((distance, (*chosen, int(row)), np.vstack([span, direction]), left))
        beam = sorted(longer, key=lambda candidate: candidate[0])[:_BEAM]
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """A passive's checks on each gradient that it is about to use."""

    bound: bool
    whitening: Whitening | None

    @classmethod
    def fit(cls, features: Floats, settings: Settings) -> Gradients:
        """For a party with these training rows."""
        whitening = Whitening.fit(features) if settings.checks.few_rows else None
        return cls(settings.checks.gradient_bound, whitening)

    def checked(self, integers: list[int], batch: Columns) -> Floats:
        """The gradient over these rows, if nothing is wrong with it."""
        if self.bound:
            check_gradient_bound(integers, batch.integers)
        gradient = batch.gradient(integers)
        if self.whitening is not None and self.whitening.meaningful:
            check_few_rows(gradient, batch.values, self.whitening)
        return gradient


def unpacked(values: list[int], key: PublicKey, slot_bits: int, count: int) -> list[int]:
    """The numbers of a gradient; a sum that overran its slot, as those of positional residues do, is a PeerError."""
    try:
        return key.unpack(values, slot_bits, count)
    except PeerError:
        raise PeerError(
            "the gradient overran its place: the residues were not between -1 and 1, as an active would choose them to "
            "read rows digit by digit; nothing was sent in reply"
        ) from None


def exposure(whitening: Whitening) -> str | None:
    """What a party must know where `check_few_rows` cannot tell anything."""
    if whitening.meaningful:
        return None
    return (
        f"its features have rank {whitening.rank}, below {MEANINGFUL}: residues that single out one row cannot be told "
        "from honest ones by the gradient, and are not looked for; an active that cheats can aim at single rows"
    )


def check_batch(party: str, features: int, smallest: int) -> None:
    """More rows in every batch than a passive has features: fewer, and it solves for each residue, and so each label."""
    if smallest <= features:
        raise PeerError(
            f"{party} has {features} features and a batch may have {smallest} rows: from its gradient it could compute "
            f"every residue, and so the labels; take train.batch above {features}, or more rows"
        )


def check_row_uses(begun: int, most: int) -> None:
    """No row is part of more steps than agreed; each epoch that was begun counts, also one that is done again."""
    if begun > most:
        raise PeerError(
            f"each row would be part of {begun} steps, checks.row_uses allows {most}: the training was begun again too "
            "often; what the parties have learnt about a row adds up"
        )
