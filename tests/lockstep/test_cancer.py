"""The columns of a public table, dealt out to parties."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from tacit.lockstep import cancer


def test_cancer_is_dealt_out_by_columns():
    parts = cancer.make_parts(["shop", "bank", "post"], "bank", 3, overlap=0.9)
    assert [part.features.shape for part in parts.values()] == [(512, 10)] * 3
    assert parts["bank"].labels is not None
    assert parts["shop"].labels is None
    assert parts["bank"].columns[0] == "mean_radius"
    assert parts["shop"].ids != parts["post"].ids
    same = cancer.make_parts(["bank", "shop"], "bank", 3, align=False)
    assert same["bank"].ids == same["shop"].ids
    x, y = load_breast_cancer(return_X_y=True)
    np.testing.assert_array_equal(np.hstack([same["bank"].features, same["shop"].features]), x)
    np.testing.assert_array_equal(same["bank"].labels, y)
    with pytest.raises(ValueError, match="overlap"):
        cancer.make_parts(["bank", "shop"], "bank", 0, align=False, overlap=0.5)
    with pytest.raises(ValueError, match="2 to 30 parties"):
        cancer.make_parts(["bank", "shop"], "post", 0)
