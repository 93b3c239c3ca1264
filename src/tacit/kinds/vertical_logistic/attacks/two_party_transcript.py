"""What a party of a training without a dealer receives, in the shape that attacks on the other protocols take.

    received(log)                      all words, hidden entries and columns, as bytes
    received_gradients(...)            for each step and column a sum of the words that were sent for its gradient
    received_scores(...)               for each row and step a sum of the words that were sent for its score

A party is sent a word for each digit of its cells: the other's share of a weight or a residue plus the words of all
leaves of a tree. Without the leaves' words, the sums that are taken here would be the other's shares times the number
of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.crypto.ot.words import of_low_bytes
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.two_party.lookup import SCORE
from tacit.kinds.vertical_logistic.two_party.messages import Product
from tacit.kinds.vertical_logistic.two_party.scales import DIGITS, scales
from tacit.oblivious import Columns, Hidden, Sums


def received(log: Sequence[Any]) -> bytes:
    """All that hides something in the messages of one party to another: every field of these kinds is one of bytes."""
    kinds = (Product, Hidden, Columns, Sums)
    return b"".join(getattr(m, m.__struct_fields__[0]) for m in log if isinstance(m, kinds))


def received_gradients(log: Sequence[Any], terms: Terms, columns: int) -> list[Floats]:
    """Of each step the sum over rows of the words of each column, as a gradient of one output."""
    chosen = scales(terms)
    found = []
    for message in _products(log)[1::2]:
        words = _cells(message, chosen.gradient_bytes, columns)
        found.append(_signed(words.sum(axis=0, dtype=np.uint64), chosen.gradient_bytes, chosen.residue))
    return found


def received_scores(log: Sequence[Any], terms: Terms, columns: int) -> Floats:
    """The sum over columns of the words of each row of the batch: (rows of a step, steps)."""
    chosen = scales(terms)
    found = []
    for message in _products(log)[::2]:
        words = _cells(message, chosen.score_bytes, columns)
        found.append(_signed(words.sum(axis=1, dtype=np.uint64), chosen.score_bytes, SCORE))
    return np.stack(found, axis=1)


def _products(log: Sequence[Any]) -> list[Product]:
    return [message for message in log if isinstance(message, Product)]


def _cells(message: Product, width: int, columns: int) -> Any:
    """The words of the lowest digits: (rows, columns)."""
    return of_low_bytes(message.words, width).reshape(-1, columns, DIGITS)[:, :, 0]


def _signed(words: Any, width: int, bits: int) -> Floats:
    spare = np.uint64(64 - 8 * width)
    return np.asarray(np.ldexp((words << spare).view(np.int64).astype(np.float64), -int(spare) - bits))
