"""Compare a number that only the dealer knows with public ones, digit by digit, on shares of Z_2^32.

The dealer shares, of each digit of rho (four bits), which of sixteen values it has, as ones and zeros. From these a
party adds up its shares of "the digit is smaller" and "the digit is equal" by itself, for any public number. Pairs of
neighbouring digits are joined by products, whose masks the dealer shares too: log2(digits) openings, all uniform.

As a score plus rho is opened, a comparison of rho with public numbers is one of the score: exact, unlike `histogram`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.vertical_logistic.shared.meeting import Meeting
from tacit.kinds.vertical_logistic.shared.ring import Halves
from tacit.kinds.vertical_logistic.shared.streams import Shape, Shares

BASE_BITS = 4
_BASE = 1 << BASE_BITS


def drawn(digits: int, items: int) -> dict[str, Shape]:
    """Masks of the products that compare `items` numbers of so many digits."""
    return {f"{name}{half}": (half, items) for half in _halves(digits) for name in ("eq", "right_lt", "right_eq")}


def made(digits: int, items: int) -> dict[str, Shape]:
    """Products of these masks; in 32-bit words."""
    return {f"{name}{half}": (half, items) for half in _halves(digits) for name in ("eq_lt", "eq_eq")}


def write_products(masks: dict[str, NDArray[np.uint64]], products: dict[str, Halves], digits: int) -> None:
    """At the dealer: the products of the masks."""
    for half in _halves(digits):
        eq = masks[f"eq{half}"].astype(np.uint32)
        products[f"eq_lt{half}"][...] = eq * masks[f"right_lt{half}"].astype(np.uint32)
        products[f"eq_eq{half}"][...] = eq * masks[f"right_eq{half}"].astype(np.uint32)


def write_digits(rho: Halves, table: Halves) -> None:
    """At the dealer: which value each digit of rho has, the top one first: (*rho.shape, digits, 16)."""
    digits = table.shape[-2]
    for place in range(digits):
        digit = (rho >> np.uint32(BASE_BITS * (digits - 1 - place))) & np.uint32(_BASE - 1)
        np.put_along_axis(table[..., place, :], digit[..., None].astype(np.int64), np.uint32(1), axis=-1)


def at_most(meeting: Meeting, table: Halves, bounds: Halves, shares: Shares) -> Halves:
    """Shares of 1 if rho, whose digits `table` (items, digits, 16) has, is at most its public bound, of 0 if not."""
    digits = table.shape[-2]
    places = BASE_BITS * np.arange(digits - 1, -1, -1, dtype=np.uint32)
    values = ((bounds[:, None] >> places) & np.uint32(_BASE - 1)).astype(np.int64)[..., None]  # (items, digits, 1)
    equal = np.take_along_axis(table, values, axis=-1)[..., 0].T
    smaller = np.cumsum(table, axis=-1, dtype=np.uint32) - table
    less = np.take_along_axis(smaller, values, axis=-1)[..., 0].T.copy()
    less[-1] += equal[-1]  # of the last digit: at most
    for half in _halves(digits):
        less, equal = _joined(meeting, half, less, equal, shares)
    return np.asarray(less[0])


def _joined(meeting: Meeting, half: int, less: Halves, equal: Halves, shares: Shares) -> tuple[Halves, Halves]:
    """Pairs of neighbouring digits as one: smaller if the left is, or if it is equal and the right is smaller."""
    masks = [shares.words[f"{name}{half}"].astype(np.uint32) for name in ("eq", "right_lt", "right_eq")]
    factors = [equal[0::2], less[1::2], equal[1::2]]
    opened = meeting.open_halves(np.stack([factor - mask for factor, mask in zip(factors, masks, strict=True)]))
    products = []
    for index, name in ((1, "eq_lt"), (2, "eq_eq")):
        product = opened[0] * masks[index] + opened[index] * masks[0] + shares.halves[f"{name}{half}"]
        if meeting.first:
            product += opened[0] * opened[index]
        products.append(product)
    return less[0::2] + products[0], products[1]


def _halves(digits: int) -> list[int]:
    """Pairs that are joined in each round."""
    return [digits >> level for level in range(1, digits.bit_length())]
