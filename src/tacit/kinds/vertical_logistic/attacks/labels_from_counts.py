"""What an honest passive learns of labels from all counts together: of which it is certain, and how well it ranks them.

    learned(groupings, labels)      what the protocol tells: which groups were sparse, and the counts of the final ones
    counted(groups, labels)         the control: counts of groups as they are, however small
    certain(views, labels)          rows whose label is the same in every table of labels that fits
    ranked(views)                   the guess of largest entropy that fits
    audit_label_counts              both attacks, without and with merging

A `View` is one grouping of the rows with what is known of its groups. Rows in the same groups of all views cannot be
told apart, so that the unknowns are the positives in each such cell, and what is known are linear constraints on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp, minimize
from scipy.sparse import csr_array, hstack, vstack
from scipy.special import expit

from tacit.audit.attacks.membership import curve_score
from tacit.audit.bounds import clopper_pearson
from tacit.audit.finding import Finding, Score
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_logistic.protocol.label_counts import TESTS, Grouped, coarser
from tacit.kinds.vertical_logistic.protocol.sparsity import FEWEST

_CONFIDENCE = 0.95
_SOLVES = 30  # integer programs, at most
_GAP = 0.5  # of the optimum: any other table of labels helps, the best is not needed
_MOST_CELLS = 3000  # for linear and integer programs
_SINGLE = 50  # cells that have a linear program of their own, at most
_CLOSE = 1e-4  # to a whole label
_PASSES = 100  # of bounds through all groups
_RIDGE = 1e-4
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A grouping of all rows, and what a passive knows of its groups: each one's positives, or whether it is sparse."""

    numbers: Ints
    positives: Ints | None = None
    sparse: Bools | bool = False

    @property
    def sizes(self) -> Ints:
        return np.bincount(self.numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Certain:
    """Rows whose label is proved to be certain, and rows of which the solver could not say in time."""

    rows: Bools
    undecided: Bools


def counted(groups: Sequence[Ints], labels: Ints) -> list[View]:
    """The counts of all groups."""
    return [View(numbers, np.bincount(numbers, weights=labels).astype(np.int64)) for numbers in groups]


def learned(groupings: Sequence[Grouped], labels: Ints) -> list[View]:
    """What a passive learns by the protocol, which is equal to this."""
    found, final = [], []
    for column in groupings:
        for test in range(TESTS):
            sizes = np.bincount(column.numbers, minlength=column.count)
            positives = np.bincount(column.numbers, weights=labels, minlength=column.count)
            sparse = np.minimum(positives, sizes - positives) < FEWEST
            if not sparse.any():
                break
            found.append(View(column.numbers, sparse=sparse))
            column = coarser(column, sparse.tolist(), to_one=test == TESTS - 1)
        final.append(column.numbers)
    return found + counted(final, labels)


def certain(views: Sequence[View], labels: Ints, *, seconds: float = 10.0) -> Certain:
    """The rows whose label is the same in every table of labels that fits what is known.

    First by bounds on each cell, then by linear programs, then by integer programs of so many `seconds` each, the last
    two only if there are at most 3000 cells. Starts from the true labels and looks for tables that fit and differ in
    as many undecided rows as possible, until there are none. An attacker starts from any table that fits, and ends
    with the same rows.
    """
    cells, sizes, truth = _cells(views, labels)
    forced = _forced_by_bounds(views, cells, sizes)
    left = ((truth == 0) | (truth == sizes)) & ~forced
    if len(sizes) > _MOST_CELLS:
        return Certain(forced[cells], left[cells])
    problem = _Problem(sizes, truth, *_constraints(views, cells, len(sizes)), seconds)
    left, bound = problem.forced_by_linear_programs(left)
    undecided, proved = problem.left_by_integer_programs(left)
    known = forced | bound | (undecided & proved)
    return Certain(known[cells], (undecided & ~np.array(proved))[cells])


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """Tables of labels that fit: positives of all cells, and a variable for each sparse group."""

    sizes: Ints
    truth: Ints
    constraints: LinearConstraint
    spare: int
    seconds: float

    def other(self, cells: Bools, *, integers: bool) -> tuple[Floats | None, bool]:
        """A table that differs from the truth in as many of these cells as it can, and whether that is proved."""
        towards = np.where(cells, np.where(self.truth == 0, -1.0, 1.0), 0.0)
        solved = milp(
            np.concatenate([towards, np.zeros(self.spare)]),
            integrality=np.full(len(towards) + self.spare, int(integers)),
            bounds=Bounds(0, np.concatenate([self.sizes, np.ones(self.spare)])),
            constraints=self.constraints,
            options={"time_limit": self.seconds, "mip_rel_gap": _GAP},
        )
        return solved.x, solved.status == 0

    def forced_by_linear_programs(self, left: Bools) -> tuple[Bools, Bools]:
        """Cells that may still have another value, and cells that cannot, even by fractions of labels."""
        open_, forced = left.copy(), np.zeros_like(left)
        for _ in range(_SOLVES):
            table, _ = self.other(open_, integers=False)
            moved = open_ & (self._moved(table) >= 1 - _CLOSE) if table is not None else np.zeros_like(left)
            open_ &= ~moved
            if not moved.any():
                break
        for cell in np.flatnonzero(open_)[:_SINGLE]:
            one = np.arange(len(left)) == cell
            table, proved = self.other(one, integers=False)
            forced[cell] = proved and table is not None and self._moved(table)[cell] < 1 - _CLOSE
        return left & ~forced, forced

    def left_by_integer_programs(self, left: Bools) -> tuple[Bools, bool]:
        """Cells of which no other value was found, and whether it is proved that there is none."""
        left = left.copy()
        for _ in range(_SOLVES):
            if not left.any():
                break
            table, proved = self.other(left, integers=True)
            if table is None or not _fits(np.rint(table).astype(np.int64), self.constraints):
                return left, False
            moved = left & (self._moved(table) >= 1 - _CLOSE)
            if not moved.any():
                return left, proved
            left &= ~moved
        return left, not left.any()

    def _moved(self, table: Floats) -> Floats:
        found: Floats = np.abs(table[: len(self.truth)] - self.truth)
        return found


def ranked(views: Sequence[View]) -> Floats:
    """Each row's probability of a positive label: the one of largest entropy with the known counts.

    That is the logistic model with one weight for each group whose expected counts are the known ones. A sparse group
    is taken to have few of the class that is rarer in all.
    Source: Jaynes 1957; Darroch, Ratcliff 1972, for the form of the solution.
    """
    rarer = next(2 * int(v.positives.sum()) <= len(v.numbers) for v in views if v.positives is not None)
    indicators, wanted = [], []
    for view in views:
        rows = csr_array(
            (np.ones(len(view.numbers)), (view.numbers, np.arange(len(view.numbers)))),
            shape=(len(view.sizes), len(view.numbers)),
        )
        if view.positives is not None:
            indicators.append(rows)
            wanted.append(view.positives.astype(np.float64))
        else:
            few = np.flatnonzero(view.sparse)
            indicators.append(rows[few, :])
            wanted.append(np.where(rarer, FEWEST // 2, view.sizes[few] - FEWEST // 2).astype(np.float64))
    matrix, counted_as = vstack(indicators, format="csr"), np.concatenate(wanted)

    def dual(weights: Floats) -> tuple[float, Floats]:
        scores = matrix.T @ weights
        value = np.logaddexp(0, scores).sum() - weights @ counted_as + _RIDGE / 2 * weights @ weights
        return float(value), matrix @ expit(scores) - counted_as + _RIDGE * weights

    found = minimize(dual, np.zeros(len(counted_as)), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    guess: Floats = expit(matrix.T @ found.x)
    return guess


def audit_label_counts(
    groupings: Mapping[str, Grouped], fine: Mapping[str, Ints], labels: Ints, *, seed: int, seconds: float = 10.0
) -> Finding:
    """Both attacks. `fine` are the groups without any merging: one for each value of a column."""
    lot = np.random.default_rng([seed, 53]).permutation(labels)
    off, on = counted(list(fine.values()), labels), learned(list(groupings.values()), labels)
    shown = {"off": certain(off, labels, seconds=seconds), "on": certain(on, labels, seconds=seconds)}
    by_lot = (counted(list(fine.values()), lot), learned(list(groupings.values()), lot))
    drawn = [_ranking(views, lot, "AUC of labels drawn by lot, which only the counts tell") for views in by_lot]
    real = [_ranking(views, labels, "AUC of the labels") for views in (off, on)]
    open_questions = ["counts together with gradients of the training", "counts of two trainings with other groups"]
    if undecided := int(shown["on"].undecided.sum()):
        open_questions.append(
            f"whether the labels of {undecided} of {len(labels)} rows are certain by integer programs: bounds do not "
            f"make them so; the solver did not finish in time, or had more than {_MOST_CELLS} cells and was not asked"
        )
    groups = sum(column.count for column in groupings.values())
    return Finding(
        attack="labels from all counts of labels together",
        adversary="passive, honest but curious",
        sees=f"the counts of {groups} groups of {len(groupings)} columns before merging, over {len(labels)} rows",
        protection=f"groups with fewer than {FEWEST} of either class are merged, in place of a group for each value",
        off=_share(shown["off"]),
        on=_share(shown["on"]),
        also=((real[0], real[1]), (drawn[0], drawn[1])),
        not_tested=tuple(open_questions),
    )


def _share(found: Certain) -> Score:
    known, rows = int(found.rows.sum()), len(found.rows)
    low, high = clopper_pearson(known, rows, _CONFIDENCE)
    return Score("labels known for certain", known / rows, low, high, _CONFIDENCE, 0.0, rows)


def _ranking(views: Sequence[View], labels: Ints, metric: str) -> Score:
    return replace(curve_score(ranked(views)[None], labels[None].astype(bool)), metric=metric)


def _cells(views: Sequence[View], labels: Ints) -> tuple[Ints, Ints, Ints]:
    """Each row's cell; rows and positives of each cell."""
    _, cells = np.unique(np.stack([view.numbers for view in views]), axis=1, return_inverse=True)
    cells = np.asarray(cells, dtype=np.int64).ravel()
    return cells, np.bincount(cells), np.bincount(cells, weights=labels).astype(np.int64)


def _forced_by_bounds(views: Sequence[View], cells: Ints, sizes: Ints) -> Bools:
    """Cells whose positives follow from bounds alone, by going through all groups again and again."""
    low, high = np.zeros(len(sizes)), sizes.astype(np.float64)
    first = np.unique(cells, return_index=True)[1]  # a row of each cell
    for _ in range(_PASSES):
        before = low.copy(), high.copy()
        for view in views:
            if view.positives is None:
                continue
            group = view.numbers[first]
            least, most = np.bincount(group, weights=low), np.bincount(group, weights=high)
            rest_low, rest_high = least[group] - low, most[group] - high
            low = np.maximum(low, view.positives[group] - rest_high)
            high = np.minimum(high, view.positives[group] - rest_low)
        if np.array_equal(before[0], low) and np.array_equal(before[1], high):
            break
    found: Bools = low == high
    return np.asarray(found & ((low == 0) | (low == sizes)))


def _constraints(views: Sequence[View], cells: Ints, count: int) -> tuple[LinearConstraint, int]:
    """What is known, on the positives of all cells, and a variable for each sparse group: of which class it has few."""
    matrices: list[csr_array] = []
    lows: list[Floats] = []
    highs: list[Floats] = []
    sides: list[Floats] = []
    first = np.unique(cells, return_index=True)[1]
    for view in views:
        matrix = csr_array((np.ones(count), (view.numbers[first], np.arange(count))), shape=(len(view.sizes), count))
        sizes = view.sizes.astype(np.float64)
        if view.positives is not None:
            known = view.positives.astype(np.float64)
            low, high, side = known, known, np.zeros(len(known))
        else:
            # s - (n - 4) z is from 0 to 4 in a sparse group: z is 1 if nearly all are positive
            low = np.where(view.sparse, 0.0, FEWEST)
            high = np.where(view.sparse, FEWEST - 1, sizes - FEWEST)
            side = np.where(view.sparse, sizes - FEWEST + 1, 0.0)
        matrices, lows, highs, sides = [*matrices, matrix], [*lows, low], [*highs, high], [*sides, side]
    every = np.concatenate(sides)
    sparse_rows = np.flatnonzero(every)
    extra = csr_array(
        (-every[sparse_rows], (sparse_rows, np.arange(len(sparse_rows)))), shape=(len(every), len(sparse_rows))
    )
    whole = hstack([vstack(matrices), extra], format="csr") if len(sparse_rows) else vstack(matrices, format="csr")
    return LinearConstraint(whole, np.concatenate(lows), np.concatenate(highs)), len(sparse_rows)


def _fits(solution: Ints, constraints: LinearConstraint) -> bool:
    """Exactly: solvers work with a tolerance."""
    sums = constraints.A @ solution
    return bool(((sums >= constraints.lb) & (sums <= constraints.ub)).all())
