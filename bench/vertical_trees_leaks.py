"""What boosted trees between companies tell: bins of a passive's cells to the active, and labels to a passive.

Tables are normal and drawn from a seed. With `--data` also the 30,000 rows of UCI's credit defaults: bins of cells, and
the AUC that fewer bins, larger nodes and noise cost. In rows of attacks the peer is the guess that the named baseline
gives; nothing is judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from bench.measure import Options, Row
from tacit.kinds.vertical_trees.attacks.bin_rows import name_bins, small_columns, subsets
from tacit.kinds.vertical_trees.attacks.labels_from_nodes import audit_labels
from tacit.kinds.vertical_trees.attacks.labels_from_splits import audit_splits
from tacit.kinds.vertical_trees.attacks.record import Record
from tacit.kinds.vertical_trees.attacks.split_bits import for_all_rows, recovered
from tacit.kinds.vertical_trees.attacks.training import Table, deviations, train
from tacit.kinds.vertical_trees.attacks.whole_columns import guess_column
from tacit.kinds.vertical_trees.protocol.boosting import Terms
from tacit.kinds.vertical_trees.protocol.growth import Options as Growth
from tacit.kinds.vertical_trees.protocol.rounding import pack, unpack
from tacit.kinds.vertical_trees.protocol.splits import Rules
from tacit.tables.plain import read_numbers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NODES = 20
TRAINING_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Setting:
    """One training."""

    rows: int = 1000
    trees: int = 50
    depth: int = 4
    bits: int = 8
    least: int = 64
    bins: int = 32
    noise: float = 0.0
    min_child_weight: float = 1.0

    @property
    def terms(self) -> Terms:
        rules = Rules(min_child_weight=self.min_child_weight)
        return Terms(self.trees, 0.1, growth=Growth(self.depth, rules, self.bits, self.least))

    def __str__(self) -> str:
        noise = f", noise {self.noise:g}" if self.noise else ""
        return (
            f"{self.rows} rows, {self.trees} trees of depth {self.depth}, {self.bits} bits, least {self.least}, "
            f"{self.bins} bins{noise}"
        )


USUAL = Setting()
SETTINGS = (
    *(replace(USUAL, trees=trees) for trees in (5, 10, 20, 50, 100)),
    *(replace(USUAL, trees=20, rows=rows) for rows in (500, 2000, 4000)),
    *(replace(USUAL, trees=20, depth=depth) for depth in (3, 5)),
    *(replace(USUAL, trees=20, bits=bits) for bits in (2, 4, 16)),
    *(replace(USUAL, trees=20, least=least) for least in (16, 256)),
    *(replace(USUAL, bins=bins) for bins in (5, 9, 17)),
    *(replace(USUAL, noise=noise) for noise in (1.0, 2.0, 5.0, 10.0)),
)


def run(options: Options) -> list[Row]:
    rows = _nodes_of_twenty() + _one_node(quick=options.quick) + _lattice()
    settings = (replace(USUAL, rows=500, trees=20),) if options.quick else SETTINGS
    for setting in settings:
        rows += _columns(str(setting), _drawn(setting), setting)
    if not options.quick:
        fine = replace(USUAL, trees=20, bits=16)  # whose equations are nearly dependent, so the solver is slow
        rows += _columns(f"{fine}, 1000 steps", _drawn(fine), fine, steps=1000)
    case, record = _trained(_drawn(USUAL), USUAL)
    rows += [_renumbered(record), *_labels_and_order("drawn tables", case, record)]
    if options.data is not None and not options.quick:
        rows += _credit(options.data)
    return rows


# --- one node


def _weights(rows: int, bits: int, seed: int) -> tuple[Ints, Ints]:
    """g and h in the middle of a training, rounded."""
    rng = np.random.default_rng([seed, rows, bits])
    p = rng.beta(1.5, 4, rows)
    return unpack(pack(p - (rng.random(rows) < p), p * (1 - p), bits, rng).words)


def _nodes_of_twenty() -> list[Row]:
    rows = []
    for share in (0.5, 0.25, 0.125):
        for bits in (16, 8, 4):
            unique = 0
            for trial in range(NODES):
                g, h = _weights(20, bits, trial)
                inside = np.random.default_rng(trial).random(20) < share
                unique += len(subsets(g, h, (int(g[inside].sum()), int(h[inside].sum())))) == 1
            name = f"node of 20 rows, a bin of {share:g} of them, {bits} bits: bins of {NODES} whose rows follow"
            rows.append(Row(name, unique, None, "", "lower"))
    return rows


def _one_node(*, quick: bool) -> list[Row]:
    rows = []
    for count, bins, largest in ((64, 32, 3), (64, 16, 3), (64, 8, 3), (128, 32, 2), (256, 32, 2))[: 1 if quick else 5]:
        for bits in (16, 8, 4):
            right = []
            for trial in range(3):
                g, h = _weights(count, bits, trial)
                column = np.random.default_rng(trial).integers(0, bins, count)
                sums = (np.bincount(column, g, bins).astype(np.int64), np.bincount(column, h, bins).astype(np.int64))
                right.append(np.mean(name_bins(g, h, sums, np.full(bins, 1 / bins), largest) == column))
            name = f"one node of {count} rows, {bins} bins, {bits} bits: rows whose bin is right, beside 1/bins"
            rows.append(Row(name, float(np.mean(right)), 1 / bins, "", "lower"))
    return rows


def _lattice() -> list[Row]:
    rows = []
    for bits in (8, 4):
        for nodes in (1, 2, 3, 4):
            equations = np.array([part for tree in range(nodes) for part in _weights(40, bits, tree)])
            column = np.random.default_rng(0).integers(0, 8, 40)
            right = 0
            for bin_ in range(8):
                found = small_columns(equations, equations[:, column == bin_].sum(axis=1), 1 / 8)
                right += found is not None and bool(np.array_equal(found, column == bin_))
            name = f"40 rows, 8 bins, {bits} bits, {2 * nodes} equations: bins whose rows a lattice finds"
            rows.append(Row(name, right / 8, None, "", "lower"))
    return rows


# --- whole trainings


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """The tables of two parties."""

    active: Table
    passive: Table
    labels: Floats


def _drawn(setting: Setting) -> Case:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(setting.rows, 8))
    score = x[:, 0] + 0.5 * x[:, 1] + x[:, 4] - 0.5 * x[:, 5] * x[:, 1] - 1
    labels = (rng.random(setting.rows) < 1 / (1 + np.exp(-score))).astype(float)
    return Case(Table.of_numbers(x[:, :4], 32), Table.of_numbers(x[:, 4:], setting.bins), labels)


def _trained(case: Case, setting: Setting) -> tuple[Case, Record]:
    return case, train([case.active, case.passive], case.labels, setting.terms, noise=setting.noise)[1]


def _columns(name: str, case: Case, setting: Setting, which: tuple[int, ...] = (0, 3), steps: int = 100) -> list[Row]:
    """A column that the labels depend on and one that they do not: with sums, beside partitions alone."""
    _, record = _trained(case, setting)
    rows = []
    for feature in which:
        bins = int(case.passive.bins[feature])
        guess = guess_column(record, feature, bins, noise=deviations(setting.noise, setting.bits), steps=steps)
        _, partitions, sums = guess.right(case.passive.binned[:, feature])
        words = f"{name}; column {feature}, {guess.equations / setting.rows:.3f} equations a row"
        rows.append(Row(f"{words}: bins right, beside partitions alone", sums, partitions, "", "lower"))
    return rows


def _renumbered(record: Record) -> Row:
    """Whether columns could be told apart if they had other numbers in each tree: by the sums of first nodes."""
    whole = [node for node in record.opened if len(node.rows) == record.rows]
    right = []
    for before, after in pairwise(whole):
        sums = [np.hstack([node.g, node.h]).astype(float) for node in (before, after)]
        distances = np.square(sums[0][:, None] - sums[1][None]).sum(axis=2)
        right.append(np.mean(np.argmin(distances, axis=1) == np.arange(len(distances))))
    count = len(record.opened[0].g)
    name = (
        f"drawn tables: columns of {count} found again in the next tree by the sums of its first node, beside 1/columns"
    )
    return Row(name, float(np.mean(right)), 1 / count, "", "lower")


def _labels_and_order(name: str, case: Case, record: Record) -> list[Row]:
    found = audit_labels(record, case.passive.binned, case.labels.astype(np.int64), known=100)
    if found.off is None or found.also[0][0] is None:
        raise ValueError("the attack on labels has no score with rows shown")
    shown, hidden = found.also[0]
    rows = [
        Row(f"{name}: AUC of labels from nodes, none known", found.off.value, 0.5, "", "lower"),
        Row(f"{name}: the same, 100 known, beside own columns", shown.value, hidden.value, "", "lower"),
    ]
    won = audit_splits(record, case.passive, case.labels.astype(np.int64))
    if won.off is not None:
        words = f"{name}: AUC of labels from splits that won, none known, beside splits by chance"
        rows.append(Row(words, won.off.value, won.off.baseline, "", "lower"))
    hidden_record = for_all_rows(record, case.passive.binned)
    for feature in (0, 3):
        column, bins = case.passive.binned[:, feature], int(case.passive.bins[feature])
        wide, narrow = (recovered(each, feature, column, bins) for each in (hidden_record, record))
        words = f"{name}: column {feature}, partition hidden beside shown"
        rows += [
            Row(f"{words}: bins right from splits", float(wide[0].mean()), float(narrow[0].mean()), "", "lower"),
            Row(f"{words}: rank correlation of the order", wide[1], narrow[1], "", "lower"),
        ]
    return rows


# --- credit defaults


def _credit(folder: Path) -> list[Row]:
    guest = read_numbers(folder / "default_credit_hetero_guest.csv", label=True)
    host = read_numbers(folder / "default_credit_hetero_host.csv")
    if guest.labels is None:
        raise ValueError("the guest's file of the credit data has no label")
    labels = guest.labels.codes.astype(float)
    order = np.random.default_rng(0).permutation(len(labels))
    rows: list[Row] = []
    usual = Setting(len(labels), 100, 5, min_child_weight=30.0)

    def case(setting: Setting, kept: Ints) -> Case:
        active, passive = (
            Table.of_numbers(each[kept], b) for each, b in ((guest.features, 32), (host.features, setting.bins))
        )
        return Case(active, passive, labels[kept])

    for count in (2000, 10_000):
        some = replace(usual, rows=count, trees=50)
        found = _trained(case(some, np.sort(order[:count])), some)
        rows += _labels_and_order(f"credit, {count} rows", *found)
        rows += _columns(f"credit: {some}", found[0], some, (0, 4))
    for noise in (0.0, 5.0):
        some = replace(usual, rows=4000, least=256, noise=noise)
        rows += _columns(f"credit: {some}", case(some, np.sort(order[:4000])), some, (0, 4))
    plain = _price(case(usual, order), usual)
    for setting in (
        *(replace(usual, bins=bins) for bins in (4, 5, 6, 9, 17)),
        *(replace(usual, bits=bits) for bits in (4, 2)),
        replace(usual, least=256),
        *(replace(usual, least=256, noise=noise) for noise in (2.0, 5.0, 10.0)),
    ):
        area = _price(case(setting, order), setting)
        rows.append(Row(f"credit: {setting}: AUC, beside {usual.bins} bins and least 64", area, plain, "", "higher"))
    return rows


def _price(case: Case, setting: Setting) -> float:
    """The AUC on a fifth of the rows, the mean of two divisions."""
    areas = []
    for seed in range(2):
        order = np.random.default_rng([seed, 5]).permutation(len(case.labels))
        training = np.sort(order[: int(TRAINING_SHARE * len(order))])
        tested = order[len(training) :]
        state, _ = train([case.active, case.passive], case.labels, setting.terms, noise=setting.noise, rows=training)
        areas.append(roc_auc_score(case.labels[tested], state.scores[tested, 0]))
    return float(np.mean(areas))
