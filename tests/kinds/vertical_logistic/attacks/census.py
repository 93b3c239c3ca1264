"""A table of categories, in sizes as a census has them: a few large groups, and many small ones."""

import numpy as np

from tacit.kinds.vertical_logistic.attacks.honest_steps import Tables

ADULT = (8, 16, 7, 14, 6, 5, 2, 41)  # categories of each variable
POSITIVES = 0.24  # of all rows
FEWER = (8, 6, 7, 5, 4, 4)


def census(rows: int, sizes: tuple[int, ...] = ADULT, *, rare: int = 1, seed: int = 0, passives: int = 0) -> Tables:
    """Indicators of each variable at the passive, groups below `rare` rows taken together; labels depend on them."""
    rng = np.random.default_rng(seed)
    columns, effects = [], np.zeros(rows)
    for size in sizes:
        share = np.arange(1, size + 1) ** -1.5
        drawn = rng.choice(size, rows, p=share / share.sum())
        effects += 0.7 * rng.normal(size=size)[drawn]
        few = np.flatnonzero(np.bincount(drawn, minlength=size) < rare)
        merged = np.where(np.isin(drawn, few), size, drawn)
        columns.append((merged[:, None] == np.unique(merged)).astype(float))
    drawn = effects + rng.logistic(size=rows)
    labels = (drawn > np.quantile(drawn, 1 - POSITIVES)).astype(int)
    others = rng.normal(size=(rows, passives)) if passives else None
    return Tables(np.hstack(columns), rng.normal(size=(rows, 5)), labels, others)
