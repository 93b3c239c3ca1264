from __future__ import annotations

import numpy as np
import pytest

from tacit.kinds.vertical_trees.kept_cells import KeptCells
from tacit.kinds.vertical_trees.protocol.cells import Held, Made
from tacit.store.files import Damaged

BINS = np.array([3, 2])
MADE = Made(b"s" * 16, 4, BINS, tuple(np.arange(16, dtype=np.uint64).reshape(2, 4, 2) + k for k in range(2)))
HELD = Held(
    b"s" * 16,
    np.array([[0, 1], [2, 0], [1, 1], [0, 0]], dtype=np.uint8),
    BINS,
    (np.ones((2, 4, 2), dtype=np.uint64), np.ones((1, 4, 2), dtype=np.uint64)),
)


def test_trees_are_read_again_by_the_party_that_kept_them(tmp_path):
    cells = KeptCells(tmp_path)
    assert cells.made("shop") is None
    cells.keep("shop", MADE)
    found = KeptCells(tmp_path).made("shop")
    assert (found.session, found.rows) == (MADE.session, MADE.rows)
    for ours, theirs in zip(found.seeds, MADE.seeds, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    cells.keep("bank", HELD)
    np.testing.assert_array_equal(KeptCells(tmp_path).held("bank").table, HELD.table)


def test_only_the_owner_may_read_the_folder(tmp_path):
    KeptCells(tmp_path).keep("shop", MADE)
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o700


def test_a_counter_never_gives_a_tweak_again(tmp_path):
    taken = []
    for _ in range(3):
        counter = KeptCells(tmp_path).counter("shop")
        taken += [*counter.take(2)]
    assert len(set(taken)) == 6
    assert KeptCells(tmp_path).counter("other").take()[0] == 0


def test_damaged_trees_are_made_anew_and_a_lost_counter_is_an_error(tmp_path):
    cells = KeptCells(tmp_path)
    cells.counter("shop").take()
    cells.keep("shop", MADE)
    path = tmp_path / "journal" / "cells-shop.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert cells.made("shop") is None
    assert cells.counter("shop").next > 0
    for each in (tmp_path / "journal").glob("tweaks-*"):
        each.unlink()
    with pytest.raises(Damaged, match="counter of used tweaks is missing"):
        cells.counter("shop")


def test_without_a_folder_nothing_is_kept():
    cells = KeptCells(None)
    cells.keep("shop", MADE)
    assert cells.made("shop") is None
    assert cells.held("shop") is None
    assert cells.counter("shop").take()[0] == 0
