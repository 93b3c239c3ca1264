"""What a party refuses, and why. Each check is on unless the file turns it off.

A passive sees its own gradient before it sends anything that depends on it: the next score is computed with it. So a
gradient that fails a check is never used, and the active does not learn what it tried to.

    Gradients               a passive's two checks in one, with the unpacking before them
    check_gradient_bound    residues lie in [-1, 1], so |Xᵀr| is at most Σ|x|: larger ones were scaled, or overflowed
    check_few_rows          honest residues are spread over the batch: a gradient made of one to three rows singles
                            out a person
    check_batch             the active: a passive with as many features as a batch has rows solves for the residues
    check_row_uses          both: each step gives a passive one more equation per feature about the labels of a batch;
                            with nearly as many as the batch has rows it solves for them; where residues take two
                            values, with far fewer: that is what `secret_offsets` are for

With K outputs a passive's two checks hold for the gradient of each: one class whose residues single out a row ends the
step. The two on counts do not depend on K. A step gives `features` equations for each class, about residues that are
that class's own: K systems of `features` equations in `rows` unknowns, as far from solved as one. What ties the classes
together takes away as many equations as unknowns: at the start the residues of a row add up to K/2 - 1, so that the
gradient of the last class follows from those of the others and tells nothing more.

The check on decryption is `decryption_proof.verify`. Together they stop residues that are one-hot, scaled or
positional, and weights that are steered. They do not stop an active that spreads its residues over many rows and still
chooses them: what it learns then are scores, as from an honest run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.crypto.paillier import PublicKey
from tacit.errors import PeerError, Unfit
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.protocol.encoding import RESIDUE_BITS, Columns
from tacit.kinds.vertical_logistic.settings import Settings

CLOSE = 1e-3  # relative distance from their span, in whitened coordinates
MEANINGFUL = 8  # rank of the features, below which a gradient of an honest batch is close to some rows by chance
_FIRST = 8  # rows closest to the gradient that are tried as the first of three
_PAIRED = 256  # rows closest to it of which all pairs are tried


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
        return int(self.basis.shape[1])

    @property
    def meaningful(self) -> bool:
        return self.rank >= MEANINGFUL


def check_few_rows(gradient: Floats, rows: Floats, whitening: Whitening) -> None:
    """The gradient is not made of three rows or fewer, as those of one-hot residues are.

    One row is always found, and so are two in batches of up to 256; three are if one of them is among the eight that
    are closest to the gradient. Beyond that two rows are missed only if one is nearly at right angles to the gradient.
    """
    found = nearest_rows(gradient @ whitening.basis, rows @ whitening.basis)
    if found is not None:
        count = "one of its rows" if len(found) == 1 else f"{len(found)} of its rows"
        raise PeerError(
            f"the gradient is made of {count} alone (number {', '.join(map(str, found))} of the batch): the active "
            "sent residues that single them out, or the model fits all others perfectly, or (model: linear) a label is "
            "far from all others; nothing was sent in reply. In the second case train for fewer epochs, or with a "
            "larger batch or l2; in the third take the logarithm of the labels"
        )


def nearest_rows(gradient: Floats, rows: Floats) -> tuple[int, ...] | None:
    """At most three rows in whose span the gradient lies; None if there are none."""
    length = float(np.linalg.norm(gradient))
    if length == 0.0:
        return None
    rest, units = gradient / length, _units(rows)
    along = np.abs(units @ rest)
    closest = np.argsort(-along)
    if 1.0 - along[closest[0]] ** 2 < CLOSE**2:
        return (int(closest[0]),)
    left, pair = _nearest_pair(rest, units)
    if left < CLOSE**2:
        return pair
    for row in closest[:_FIRST]:
        unit = units[row]
        others = _units(units - np.outer(units @ unit, unit))
        left, pair = _nearest_pair(rest - (rest @ unit) * unit, others)
        if left < CLOSE**2:
            return (int(row), *pair)
    return None


def _nearest_pair(rest: Floats, units: Floats) -> tuple[float, tuple[int, int]]:
    """The two rows in whose span most of `rest` lies, and the squared length of what does not."""
    kept = np.argsort(-np.abs(units @ rest))[:_PAIRED]
    along = units[kept] @ rest
    cosines = units[kept] @ units[kept].T
    apart = 1.0 - cosines**2
    within = along[:, None] ** 2 + along[None, :] ** 2 - 2 * np.outer(along, along) * cosines
    gain = np.divide(within, apart, out=np.zeros_like(within), where=apart > 1e-8)  # parallel rows are no pair
    first, second = np.unravel_index(np.argmax(gain), gain.shape)
    return float(rest @ rest - gain[first, second]), (int(kept[first]), int(kept[second]))


def _units(rows: Floats) -> Floats:
    """The rows with length 1; those of nearly none are 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units: Floats = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-6)
    return units


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
        """The gradient over these rows, (columns, K), if nothing is wrong with that of any output. `integers` has those
        of one output after those of another."""
        columns = batch.integers.shape[1]
        found = []
        for start in range(0, len(integers), columns):
            own = integers[start : start + columns]
            if self.bound:
                check_gradient_bound(own, batch.integers)
            gradient = batch.gradient(own)
            if self.whitening is not None and self.whitening.meaningful:
                check_few_rows(gradient, batch.values, self.whitening)
            found.append(gradient)
        return np.stack(found, axis=1)


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


def check_batch(party: str, features: int, smallest: int, remedy: str = "") -> None:
    """More rows in every batch than a passive has features: with fewer it solves for each residue, and so label."""
    if smallest <= features:
        raise Unfit(
            f"{party} has {features} features and a batch may have {smallest} rows: from its gradient it could compute "
            f"every residue, and so the labels; take {remedy or f'train.batch above {features}, or more rows'}"
        )


def row_uses(features: int, smallest: int) -> int:
    """Steps that a row may be part of, so that a passive has at most half as many equations as a batch has rows.

    Where residues stay the same from epoch to epoch, as they do where there is little to learn and once the model has
    settled, the equations of all epochs are about the same unknowns. With as many as rows the audit reads all labels,
    with half as many it ranks them with an AUC of 0.9, with a tenth of 0.7; labels that few rows have, better.
    """
    return smallest // (2 * features)


def fitting_train(rows: int, features: int, settings: Settings) -> str:
    """What `train` may say so that `check_batch` and `check_row_uses` pass for a party with as many features.

    "train.batch: 2171 or more, or train.epochs: 4". `rows`: those of the training. Both checks get laxer with larger
    batches, and with all rows in one batch a row may be part of the most steps.
    """
    epochs, restarts = settings.train.epochs, settings.checks.restarts
    found = []
    if (batches_of_epoch := rows // (2 * features * (epochs + restarts))) > 0:
        found.append(f"train.batch: {-(-rows // batches_of_epoch)} or more")
    fewer = row_uses(features, batches.smallest(rows, settings.train.batch)) - restarts
    most = row_uses(features, rows) - restarts
    if fewer > 0 and (found or fewer == most):
        found.append(f"train.epochs: {fewer}")
    elif not found and most > 0:
        found.append(f"train.batch: {rows} (all rows) with train.epochs: {most}")
    return ", or ".join(found) or f"more rows, or fewer columns of categories: {rows} rows are too few for one epoch"


def check_row_uses(epochs: int, restarts: int, most: int, party: str, features: int, remedy: str) -> None:
    """No row is part of more steps than allowed: one in each epoch, and those that are reserved for restarts."""
    if epochs + restarts > most:
        raise Unfit(
            f"each row would be part of {epochs} steps, and {restarts} are reserved for restarts; {most} are allowed "
            f"for the {features} features of {party}: from more gradients it could compute labels; take {remedy}; or "
            "set checks.row_uses, which lets it guess labels better. `tacit plan` says so for all parties at once"
        )


def check_counts(party: str, features: int, rows: int, settings: Settings) -> int:
    """`check_batch` and `check_row_uses` for one passive. How often a row may be part of a step."""
    smallest = batches.smallest(rows, settings.train.batch)
    given = settings.checks.row_uses
    remedy = fitting_train(rows, features, settings)
    if settings.checks.batch:
        check_batch(party, features, smallest, remedy if given is None else "")
    most = row_uses(features, smallest) if given is None else given
    check_row_uses(settings.train.epochs, settings.checks.restarts, most, party, features, remedy)
    return most
