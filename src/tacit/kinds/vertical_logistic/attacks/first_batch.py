"""Labels out of a passive's gradients by lattice reduction: sums of 0 and 1 that only one choice of labels explains.

    without_common_factors(columns, gradient)   the same equations in smaller numbers
    two_valued_levels(sums, gradient)           each a for which all residues of a batch can be a or a − 1
    two_valued_labels(columns, gradient)        the labels, if there is such an a
    noisy_labels(own, views)                    the labels, if residues are near that, by less than `noise_limit`
    guess_labels(own, views)                    both; failing them, least squares
    noise_limit(rows, equations)                above this spread of residues, no method can name all labels
    audit_first_batch(tables, training)         the finding: from zero, and with secret offsets at the active

With weights of 0 a residue is σ(intercept) − label. So Xᵀr is, but for a known term, a sum of the rows with label 1: a
subset sum with as many equations as the passive has columns, each of 20 bits.
Sources: Lagarias and Odlyzko 1985; Coster, Joux, LaMacchia et al. 1992, section 2 (bits around their centre).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.audit.attacks import lattice
from tacit.audit.attacks.membership import curve_score
from tacit.audit.bounds import clopper_pearson
from tacit.audit.finding import Finding, Score
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_logistic.attacks.honest_steps import Tables, Training, View, secret_offsets, views
from tacit.kinds.vertical_logistic.protocol import metrics
from tacit.kinds.vertical_logistic.protocol.encoding import RESIDUE_BITS, Columns

_ONE = 1 << RESIDUE_BITS
_WEIGHT = 2**14  # of an equation relative to the bits: a vector that violates it is never short
_FINE = 2**10  # steps to a bit, where equations are real numbers
_LEVELS = 64  # values of the intercept that are tried, if the gradient leaves several
_CONFIDENCE = 0.95
_PARTS = (2.0, 4.0, 16.0, 64.0, 256.0)  # of the limit: the noise that a lattice is made for


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """A score for label 1 of each row, and whether the scores are labels that explain what was seen.

    Where rows are equal, as rows of categories are, other labels explain it as well.
    """

    scores: Floats
    explained: bool


def noise_limit(rows: int, equations: float) -> float:
    """The standard deviation of residues around a and a − 1 above which other labels explain the gradient as well.

    2^rows labels, each of which explains `equations` numbers by chance with probability (2·deviation)^equations: below
    this limit one choice is expected to be left, above it many, whatever is computed from them.
    """
    return 0.5 * 2.0 ** (-rows / equations) if equations > 0 else 0.0


# --- residues that are a or a − 1


def two_valued_labels(columns: Ints, gradient: Ints, width: int = 256) -> Ints | None:
    """The label of each row (columns: rows × features, on the protocol's grid), or None if no labels were found.

    Guarantee: labels that are returned explain the gradient to the last digit.
    """
    columns, gradient = without_common_factors(columns, gradient)
    sums = columns.sum(axis=0)
    basis = None
    for level in two_valued_levels(sums, gradient):
        positives = (level * sums - gradient) >> RESIDUE_BITS
        if basis is None:
            bits = 2 * np.eye(len(columns), dtype=np.int64)
            basis = lattice.reduced(np.hstack([bits, _WEIGHT * columns]))
        point = np.concatenate([np.ones(len(columns)), _WEIGHT * positives.astype(np.float64)])
        for vector in lattice.near(basis, point, width):
            labels: Ints = np.asarray(vector[: len(columns)] // 2)
            if ((labels == 0) | (labels == 1)).all() and (columns.T @ labels == positives).all():
                return labels
    return None


def without_common_factors(columns: Ints, gradient: Ints) -> tuple[Ints, Ints]:
    """Columns over what all their numbers share, as indicators do that were not scaled, and the gradient alike."""
    shared = np.maximum(1, np.gcd.reduce(columns, axis=0))
    return columns // shared, gradient // shared


def two_valued_levels(sums: Ints, gradient: Ints) -> list[int]:
    """Each a, in units of 2^-24, for which gradient = a·sums − 2^24·(an integer), in every column.

    The gradient modulo 2^24 is a·sums: a random intercept is read off it, unless the columns sum to 0 and it is not
    needed. The middle comes first: where several remain, they differ by columns' multiples.
    """
    found = [_ONE >> 1] if not (sums % _ONE).any() else []
    if not found:
        odd = int(np.argmin([_twos(int(value)) for value in sums]))
        shared = min(RESIDUE_BITS, _twos(int(sums[odd])))
        modulus = _ONE >> shared
        if int(gradient[odd]) % (1 << shared):
            return []
        level = (int(gradient[odd]) >> shared) * pow(int(sums[odd]) >> shared, -1, modulus) % modulus
        found = [level + modulus * turn for turn in range(min(_LEVELS, 1 << shared))]
    return [level for level in found if not ((level * sums - gradient) % _ONE).any()]


def _twos(value: int) -> int:
    """How often 2 divides it; RESIDUE_BITS for 0, which is as good as that often."""
    return RESIDUE_BITS if value == 0 else (value & -value).bit_length() - 1


# --- residues near that


def noisy_labels(own: Columns, seen: Sequence[View], width: int = 256) -> Ints | None:
    """The label of each row that occurs in these steps, in ascending order, or None if no labels explain them well.

    The passive knows its own part of each score. The rest is taken as one unknown number a step, the intercept, which
    is projected out, and a deviation for each row that is the same in all steps. Several lattices are tried, for
    deviations of a part of the limit: for a smaller one the labels stand out more. Labels that leave half of the limit
    are expected to be there by chance with probability 2^-equations.
    """
    rows, equations, values = _equations(own, seen)
    if not len(values):
        return None
    limit = noise_limit(rows, equations.shape[1])
    for part in _PARTS:
        deviation = max(limit / part, 2.0**-20)
        weight = _FINE / deviation
        bits = 2 * _FINE * np.eye(rows, dtype=np.int64)
        basis = lattice.reduced(np.hstack([bits, np.rint(weight * equations).astype(np.int64)]))
        point = np.concatenate([np.full(rows, float(_FINE)), weight * values])
        for vector in lattice.near(basis, point, width)[:8]:
            labels: Ints = np.asarray(vector[:rows] // (2 * _FINE))
            error = equations.T @ labels - values
            if ((labels == 0) | (labels == 1)).all() and np.sqrt(np.mean(np.square(error))) < limit / 2:
                return labels
    return None


def _equations(own: Columns, seen: Sequence[View]) -> tuple[int, Floats, Floats]:
    """Orthonormal equations (rows × equations) and values with equationsᵀ·labels ≈ values, each off by as much."""
    occurring = np.unique(np.concatenate([view.rows for view in seen]))
    rows, values = len(occurring), own.values
    blocks, targets = [], []
    for view in seen:
        x = values[view.rows]
        level = metrics.sigmoid(view.own_scores)
        block, unknown = np.zeros((rows, x.shape[1])), x.T @ (level * (1 - level))
        block[np.searchsorted(occurring, view.rows)] = x
        target = x.T @ level - own.gradient(view.gradient.tolist())
        length = float(np.linalg.norm(unknown))
        if length > 1e-6 * float(np.linalg.norm(x)):
            others = np.linalg.svd(unknown[None] / length)[2][1:].T  # all directions but the intercept's
            block, target = block @ others, others.T @ target
        blocks.append(block)
        targets.append(target)
    u, s, vt = np.linalg.svd(np.hstack(blocks), full_matrices=False)
    kept = s > 1e-3 * s.max(initial=0.0)  # one column alone tells of the intercept, and nothing else
    return rows, u[:, kept], (vt[kept] @ np.concatenate(targets)) / s[kept]


def guess_labels(own: Columns, seen: Sequence[View], width: int = 256) -> Guess:
    """Of each row in these steps, in ascending order: by lattices, and by least squares where they find nothing."""
    first = seen[0]
    if len(seen) == 1:
        labels = two_valued_labels(own.integers[first.rows], first.gradient, width)
        if labels is not None:
            return Guess(labels[np.argsort(first.rows)].astype(np.float64), True)
    near = noisy_labels(own, seen, width)
    if near is not None:
        return Guess(near.astype(np.float64), True)
    _, equations, values = _equations(own, seen)
    return Guess(equations @ values, False)


# --- the finding


def audit_first_batch(
    tables: Tables, training: Training, *, secret: float = 0.0, most: int = 100, seed: int = 0
) -> Finding:
    """A passive that reduces lattices of its first gradient, without and with secret offsets of spread `secret` at the
    active. Labels are drawn by lot, so that only the gradient tells them. A batch of more than `most` rows is cut to so
    many, which a lattice can be reduced for in seconds."""
    rng = np.random.default_rng([seed, 59])
    rows = min(len(tables.own), training.batch, most)
    kept = np.sort(rng.permutation(len(tables.own))[:rows])
    columns, others, labels = tables.columns.rows(kept), tables.others[kept], rng.integers(0, 2, rows)
    one = replace(training, batch=rows, epochs=1)
    guesses = [guess_labels(columns, views(columns, others, labels, one))]
    if secret:
        start = secret_offsets(others, secret, rng)
        guesses.append(guess_labels(columns, views(columns, others, labels, one, start)))
    right = [named(guess, labels) for guess in guesses]
    ranked = [
        replace(curve_score(guess.scores[None], labels[None].astype(bool)), metric="AUC of the labels")
        for guess in guesses
    ]
    return Finding(
        attack="labels of the first batch by lattice reduction",
        adversary="passive, honest but curious",
        sees=f"its first gradient, {tables.own.shape[1]} numbers over {rows} rows",
        protection=f"a secret offset of each row at the active, of spread {secret:g}" if secret else "none",
        off=right[0],
        on=right[1] if secret else None,
        also=((ranked[0], ranked[1]),) if secret else ((None, ranked[0]),),
        not_tested=(
            f"batches of more than {most} rows",
            "stronger reduction than LLL, which reaches larger batches and more noise, up to the limit of any method",
        ),
    )


def named(guess: Guess, labels: Ints) -> Score:
    """Labels that are right, if a lattice named any; the more frequent label for all rows if not."""
    often = max(int(labels.sum()), len(labels) - int(labels.sum()))
    right = int(((guess.scores > 0.5) == labels).sum()) if guess.explained else often
    low, high = clopper_pearson(right, len(labels), _CONFIDENCE)
    baseline = often / len(labels)
    return Score("labels named right", right / len(labels), low, high, _CONFIDENCE, baseline, len(labels))
