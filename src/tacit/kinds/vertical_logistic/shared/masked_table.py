"""A data party's table as the protocol uses it: encoded, checked, and opened once under masks.

With X = E + A, where A is known to the dealer and E to all parties, a product of X with a shared vector needs no
further opening of X: see `scores` and `gradient`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.protocol.model import as_features
from tacit.kinds.vertical_logistic.shared import ring
from tacit.kinds.vertical_logistic.shared.meeting import FEATURES, MOST_WORDS, Meeting
from tacit.kinds.vertical_logistic.shared.ring import Words
from tacit.kinds.vertical_logistic.shared.scales import Scales
from tacit.kinds.vertical_logistic.shared.terms import REACH, Terms


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What a party gives to a training.

    Args:
        features: (rows, columns).
        labels: at the active, (rows,) or (rows, outputs): 0 and 1, or numbers of a linear regression.
        row_weights: at the active, (rows,), above 0 and up to 1: of each row's class, if the terms say `weighted`.
        names: of the features, for messages; they are numbered without.
    """

    features: Any
    labels: Any = None
    row_weights: Any = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """What a party brings: features as ring words; at the active labels, and the rows' weights if there are any."""

    features: Words
    labels: Floats | None
    row_weights: Words | None


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """After the opening: E of all columns, this party's own X, and E of the rows' weights and labels."""

    own: Own
    columns: slice  # which of E's are its own
    masked: Words
    masked_weights: Words
    masked_labels: Words

    def scores(self, rows: Rows, difference: Words, b: Words, product: Words) -> Words:
        """Shares of X w, for w - b opened as `difference`, from shares of b and of A b."""
        share = self.masked[rows] @ b + product
        share += self.own.features[rows] @ difference[self.columns]
        return np.asarray(share)

    def gradient(self, rows: Rows, difference: Words, u: Words, product: Words) -> Words:
        """Shares of X'r, for r - u opened as `difference`, from shares of u and of A'u."""
        share = np.einsum("nd,nk->dk", self.masked[rows], u) + product
        share[self.columns] += np.einsum("nd,nk->dk", self.own.features[rows], difference)
        return np.asarray(share)

    def weigh(self, rows: Rows, difference: Words, v: Words, product: Words) -> Words:
        """Shares of c r, row by row, for r - v opened as `difference`, from shares of v and of a v."""
        share = self.masked_weights[rows, None] * v + product
        if self.own.row_weights is not None:
            share += self.own.row_weights[rows, None] * difference
        return np.asarray(share)

    def label_sum(self, rows: Rows, difference: Words, u: Words, product: Words) -> Words:
        """Shares of the sum of yz over rows, for z - u opened as `difference`, from shares of u and the sum of au."""
        share = (self.masked_labels[rows] * u).sum(axis=0, dtype=np.uint64) + product
        if self.own.labels is not None:
            share += (ring.encode(self.own.labels[rows], 0) * difference).sum(axis=0, dtype=np.uint64)
        return np.asarray(share)


def bring(given: Given, terms: Terms, scales: Scales, me: str) -> Own:
    """Check a party's table against the terms, and encode it."""
    table, targets, row_weights = checked(given, terms, me)
    weights = None if row_weights is None else np.maximum(ring.encode(row_weights, scales.row_weight), np.uint64(1))
    return Own(ring.encode(table, scales.feature), targets, weights)


def checked(given: Given, terms: Terms, me: str) -> tuple[Floats, Floats | None, Floats | None]:
    """A party's table, labels and weights of rows as the terms want them; ValueError otherwise."""
    table = as_features(given.features)
    if len(table) != terms.rows:
        raise ValueError(f"the table has {len(table)} rows, and the terms say {terms.rows}")
    check_columns(table, terms, me, given.names)
    active = me == terms.active
    if active != (given.labels is not None) or (active and terms.weighted) != (given.row_weights is not None):
        raise ValueError(
            f"{me} is {'the active' if active else 'no active'}: "
            f"{'give labels, and' if active else 'give no labels, and'} "
            f"{'a weight for each row' if active and terms.weighted else 'no weights of rows'}"
        )
    weights = None if given.row_weights is None else _row_weights(given.row_weights, terms)
    return table, None if given.labels is None else as_targets(given.labels, terms), weights


def check_columns(table: Floats, terms: Terms, me: str, names: Sequence[str] = ()) -> None:
    """ValueError if a batch could hold so large values of a column that its gradient leaves the ring."""
    size, rows = terms.largest_batch, len(table)
    largest = np.partition(np.abs(table), rows - size, axis=0)[rows - size :].mean(axis=0)
    if len(largest) and (worst := float(largest.max())) > terms.column_bound:
        raise ValueError(
            f"{me}, {largest_named(largest, names)}: the mean of its {size} largest absolute values is "
            f"{worst:.4g}, above {terms.column_bound:g}: standardise it (scale: true) or clip it"
        )


def largest_named(values: Floats, names: Sequence[str]) -> str:
    """The feature with the largest of these values, one each: by its name, or by its number if there are no names."""
    column = int(values.argmax())
    return f"feature {names[column]!r}" if names else f"feature {column + 1} of {len(values)}"


def as_targets(labels: Any, terms: Terms) -> Floats:
    """Labels as (rows, outputs): 0 or 1, or numbers up to `REACH` of a linear regression."""
    given = np.asarray(labels, dtype=np.float64)
    if given.size != terms.rows * terms.outputs:
        raise ValueError(f"labels of shape {given.shape}: {terms.rows} rows and {terms.outputs} outputs are due")
    targets = given.reshape(terms.rows, terms.outputs)
    if terms.model == "logistic" and not np.isin(targets, (0.0, 1.0)).all():
        raise ValueError("labels of a logistic regression are 0 and 1: give one column for each class but two")
    if not (np.abs(targets) <= REACH).all():
        raise ValueError(f"labels reach {np.abs(targets).max():g}, at most {REACH:g} fit: standardise them")
    return targets


def open_tables(meeting: Meeting, terms: Terms, own: Own) -> Opened:
    """Exchange all tables under masks that the owner and the dealer know: once in a meeting."""
    columns = meeting.columns
    active = meeting.me == terms.active
    cells = own.features.size
    mask = meeting.own_mask(FEATURES, cells + (terms.own_words if active else 0))
    masked = np.empty((terms.rows, sum(columns.values())), dtype=np.uint64)
    places, first = {}, 0
    for name in terms.parties:
        places[name] = slice(first, first + columns[name])
        first += columns[name]
    mine = own.features - mask[:cells].reshape(own.features.shape)
    masked[:, places[meeting.me]] = mine
    size = max(1, MOST_WORDS // max(columns.values()))  # rows at a time, so that all parties send as often
    for start in range(0, terms.rows, size):
        part = slice(start, min(start + size, terms.rows))
        shapes = {name: (part.stop - start, columns[name]) for name in meeting.others}
        for name, words in meeting.exchange(mine[part], shapes).items():
            masked[part, places[name]] = words
    beside = _beside(own, terms) - mask[cells:] if active else np.empty(0, dtype=np.uint64)
    if terms.own_words:
        received = meeting.exchange(
            beside, {name: (terms.own_words if name == terms.active else 0,) for name in meeting.others}
        )
        beside = beside if active else received[terms.active]
    weighed = terms.rows * terms.weighted
    meeting.used()
    return Opened(own, places[meeting.me], masked, beside[:weighed], beside[weighed:].reshape(-1, terms.outputs))


def _beside(own: Own, terms: Terms) -> Words:
    """What the active opens under masks in addition to its features: see `Terms.own_words`."""
    parts = [] if own.row_weights is None else [own.row_weights]
    if own.labels is not None and terms.own_words > terms.rows * terms.weighted:
        parts.append(ring.encode(own.labels, 0).reshape(-1))
    return np.concatenate([*parts, np.empty(0, dtype=np.uint64)])


def _row_weights(row_weights: Any, terms: Terms) -> Floats:
    given = np.asarray(row_weights, dtype=np.float64)
    if given.shape != (terms.rows,) or not ((given > 0) & (given <= 1)).all():
        raise ValueError(
            f"weights of rows of shape {given.shape}: give one above 0 and up to 1 for each of {terms.rows}"
        )
    return given
