"""The best split of each node from its sums of g and h by bin.

A split sends some bins left. Numbers are cut between two neighbouring bins; the bins of categories are put in the order
of g/h in the node first, in which the best of all subsets is a cut (Fisher 1958). Missing values go to the side with
the larger gain; without any in the node, to the side with the larger sum of h, as do categories that are not in it.
Left is always the side of a feature's first bin: in the order of g/h it would be that with the higher labels, and the
owner of the feature sees in which order nodes are divided.

The gain of a split is ½·(s(left) + s(right) - s(node)), with s = G²/(H + l2). Under monotone constraints values are
kept within the node's bounds and s is that of the bounded value; a split in the wrong direction is not made, as in
XGBoost. Sums are integers until they are complete, so that gains do not depend on who adds what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.vertical_trees.protocol.features import BoolArray, IntArray

__all__ = ["FREE", "Bounds", "Columns", "Rules", "Split", "Sums", "best_splits", "value"]

Floats = NDArray[np.float64]
Bounds = tuple[float, float]

FREE: Bounds = (-np.inf, np.inf)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a split must reach."""

    l2: float = 1.0
    min_child_weight: float = 1.0  # sum of h of either side
    min_gain: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums of g and h of nodes by bin, [nodes, features, bins], as integers, and what a unit of each stands for."""

    gradients: IntArray
    hessians: IntArray
    gradient_unit: float = 1.0
    hessian_unit: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The features of one party, as `Features` tells them, and which of them a tree may use."""

    bins: IntArray
    ordered: BoolArray
    signs: IntArray
    used: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The best split of a node among one party's features."""

    gain: float
    feature: int
    left: BoolArray  # by bin of the feature
    bounds: tuple[Bounds, Bounds]  # of the values in the left and the right subtree


def value(gradient: float, hessian: float, l2: float, bounds: Bounds = FREE) -> float:
    """The value of a leaf: -G/(H + l2), within its bounds."""
    weight = hessian + l2
    return float(np.clip(-gradient / weight if weight > 0 else 0.0, *bounds))


def best_splits(sums: Sums, columns: Columns, bounds: Sequence[Bounds], rules: Rules) -> list[Split | None]:
    """The best split of each node, or None if none gains more than `min_gain`.

    Of splits with equal gains it is that of the first feature, so features parted among parties give the same tree.
    """
    nodes = len(sums.gradients)
    if not len(columns.bins):
        return [None] * nodes
    found = _Cuts(sums, columns, np.array(bounds, dtype=float), rules)
    places = found.gains.reshape(nodes, -1).argmax(axis=1)
    return [found.split(node, int(place)) for node, place in enumerate(places)]


class _Cuts:
    """All cuts of all nodes: [nodes, features, missing values right or left, last bin of the left side]."""

    def __init__(self, sums: Sums, columns: Columns, bounds: Floats, rules: Rules) -> None:
        self.columns, self.rules, self.bounds = columns, rules, bounds
        self.filled = (sums.hessians > 0) | (sums.gradients != 0)
        place = np.arange(sums.gradients.shape[2])
        valued = place < columns.bins[:, None] - 1
        self.order = np.broadcast_to(place, sums.gradients.shape)
        if not columns.ordered.all():
            self.order = _by_ratio(sums, valued & self.filled, columns.ordered)
        parts = ((sums.gradients, sums.gradient_unit), (sums.hessians, sums.hessian_unit))
        sides = [[side * unit for side in _sides(part, valued, self.order, columns)] for part, unit in parts]
        (self.left_g, self.right_g, node_g), (self.left_h, self.right_h, node_h) = sides
        bounded = bool(np.isfinite(bounds).any() or columns.signs.any())
        left, right = self._score(self.left_g, self.left_h, bounded), self._score(self.right_g, self.right_h, bounded)
        gains = (left + right - self._score(node_g, node_h, bounded)) / 2
        allowed = columns.used[:, None, None] & valued[:, None]
        for side in (self.left_h, self.right_h):
            allowed = allowed & (side > 0) & (side >= rules.min_child_weight)
        if columns.signs.any():
            rise = self._value(self.right_g, self.right_h) - self._value(self.left_g, self.left_h)
            allowed = allowed & (rise * columns.signs[:, None, None] >= 0)
        self.gains = np.where(allowed, gains, -np.inf)

    def split(self, node: int, place: int) -> Split | None:
        """The cut at a place of a node, or None if it gains too little."""
        feature, left_missing, last = (int(part) for part in np.unravel_index(place, self.gains.shape[1:]))
        gain = float(self.gains[node, feature, left_missing, last])
        if not gain > self.rules.min_gain:
            return None
        at = (node, feature, left_missing, last)
        bins = int(self.columns.bins[feature])
        left = np.zeros(bins, dtype=bool)
        left[self.order[node, feature, : last + 1]] = True
        left[-1] = bool(left_missing)
        empty = ~self.filled[node, feature, :bins]
        heavier = bool(self.left_h[at] > self.right_h[at])  # the left side
        if self.columns.ordered[feature]:
            empty[:-1] = False  # bins without rows keep their place in the order
        elif self.left_h[at] == self.right_h[at]:
            heavier = bool(left[~empty][0])
        left[empty] = heavier
        # Only sides of categories are exchanged, whose children have the same bounds.
        return Split(gain, feature, left if left[0] else ~left, self._children(at))

    def _children(self, at: tuple[int, int, int, int]) -> tuple[Bounds, Bounds]:
        lower, upper = (float(bound) for bound in self.bounds[at[0]])
        sign = int(self.columns.signs[at[1]])
        if sign == 0:
            return (lower, upper), (lower, upper)
        values = [
            value(float(g[at]), float(h[at]), self.rules.l2, (lower, upper))
            for g, h in ((self.left_g, self.left_h), (self.right_g, self.right_h))
        ]
        middle = sum(values) / 2
        below, above = (lower, middle), (middle, upper)
        return (below, above) if sign > 0 else (above, below)

    def _value(self, gradients: Floats, hessians: Floats) -> Floats:
        weights = hessians + self.rules.l2
        free = -gradients / np.where(weights > 0, weights, np.inf)
        lower, upper = self.bounds[:, 0, None, None, None], self.bounds[:, 1, None, None, None]
        return np.clip(free, lower, upper)

    def _score(self, gradients: Floats, hessians: Floats, bounded: bool) -> Floats:
        weights = hessians + self.rules.l2
        if bounded:
            values = self._value(gradients, hessians)
            return -(2 * gradients * values + weights * values**2)
        return gradients**2 / np.where(weights > 0, weights, np.inf)


def _sides(sums: IntArray, valued: BoolArray, order: IntArray, columns: Columns) -> list[Floats]:
    """The left and the right side of every cut, and the whole node."""
    missing = sums[:, np.arange(len(columns.bins)), columns.bins - 1][:, :, None]
    values = np.where(valued, sums, 0)
    if not columns.ordered.all():
        values = np.take_along_axis(values, order, axis=2)
    right = np.cumsum(values, axis=2)
    left = np.stack([right, right + missing], axis=2)
    node = (right[:, :, -1:] + missing)[:, :, None]
    return [left.astype(float), (node - left).astype(float), node.astype(float)]


def _by_ratio(sums: Sums, filled: BoolArray, ordered: BoolArray) -> IntArray:
    """The bins of categories in the order of g/h, those without rows last; the bins of numbers in their own."""
    ratio = np.where(filled, sums.gradients / np.maximum(sums.hessians, 1), np.inf)  # an h may be rounded to 0
    keys = np.where(ordered[:, None], np.arange(filled.shape[2]), ratio)
    return np.argsort(keys, axis=2, kind="stable")
