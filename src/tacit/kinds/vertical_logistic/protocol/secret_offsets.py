"""A secret number for each training row and output, which the active adds to the row's score before every residue.

    draw(rows, training, outputs, settings, rng)    (rows, K), once a training
    check(offsets, shape)                           those that a stopped training was stored with

From weights of 0 a logistic residue is +1/2 or -1/2, and a gradient is a sum of whole numbers: lattice reduction tells
a passive which labels it is made of (`attacks.first_batch`). With offsets no two residues are alike.

Guarantee: none is proved. Labels are not determined by a gradient while the spread of σ(score) is above
    1/2 · 2^(-rows·H/equations), H being the entropy of a label in bits: a count of possibilities. Least squares, counts
    of categories up to a few labels, and a passive that cheats (`attacks.residues.oracle_passive`) are not stopped.
Assumes: nobody but the active knows them; they are the same in every step of a training, restarts included. Numbers
    that are drawn anew average out; weights that are trained fade.

The model, its figures and held-out rows are scored without them. A linear model has none: its residue is score − label,
so that they would be noise on the labels, and the range of residues that passives check would no longer hold.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.randomness import secure_rng


def draw(rows: int, training: Rows, outputs: int, settings: Settings, rng: Generator | None = None) -> Floats:
    """Normal numbers of spread `train.secret_spread` for training rows, 0 for all others and for a linear model."""
    found = np.zeros((rows, outputs))
    if settings.secret_spread > 0:
        found[training] = settings.secret_spread * (rng or secure_rng()).standard_normal((len(training), outputs))
    return found


def check(offsets: Floats, shape: tuple[int, int]) -> None:
    """One for each row and output, or ValueError: with others, or new ones, gradients would tell more about labels."""
    if offsets.shape != shape:
        raise ValueError(
            "the stored training has no secret offsets for these rows: it was stopped by another release, or its file "
            "is damaged: start all parties anew"
        )
