"""The transpose of a matrix of bits: 128 rows of packed bits become one block of 128 bits for each column."""

from __future__ import annotations

import numpy as np

from tacit.crypto.fixed_key import Blocks

__all__ = ["COLUMNS_A_WORD", "ROWS", "transpose"]

ROWS = 128
COLUMNS_A_WORD = 64
_AT_ONCE = 128  # words of a row: 128 KiB, and as much again while two halves are exchanged
_STAGES = [
    (np.uint64(32), np.uint64(0x00000000FFFFFFFF)),
    (np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(4), np.uint64(0x0F0F0F0F0F0F0F0F)),
    (np.uint64(2), np.uint64(0x3333333333333333)),
    (np.uint64(1), np.uint64(0x5555555555555555)),
]


def transpose(rows: Blocks) -> Blocks:
    """Blocks of 128 bits, one for each column of `rows`, which has shape (128, words).

    Bit c of a row is bit c % 64 of its word c // 64; bit r of block c is bit c of row r. Each square of 64×64 bits is
    transposed by exchanging halves of halves, for many squares at once (Warren, Hacker's Delight, section 7-3).
    """
    words = rows.shape[1]
    blocks = np.empty((words, COLUMNS_A_WORD, 2), dtype=np.uint64)
    for start in range(0, words, _AT_ONCE):
        squares = rows[:, start : start + _AT_ONCE].reshape(2, 64, -1).copy()
        for shift, mask in _STAGES:
            halves = squares.reshape(2, 32 // int(shift), 2, int(shift), -1)
            upper, lower = halves[:, :, 0], halves[:, :, 1]
            moved = upper >> shift
            moved ^= lower
            moved &= mask
            lower ^= moved
            moved <<= shift
            upper ^= moved
        blocks[start : start + _AT_ONCE] = squares.transpose(2, 1, 0)
    return blocks.reshape(words * COLUMNS_A_WORD, 2)
