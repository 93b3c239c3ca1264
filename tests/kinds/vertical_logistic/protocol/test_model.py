"""Scaling is that of scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer

from tacit.kinds.vertical_logistic.protocol.model import Scaler


def test_scaling_is_that_of_scikit_learn():
    x, _ = load_breast_cancer(return_X_y=True)
    x = np.hstack([x, np.full((len(x), 1), 0.1)])
    from sklearn.preprocessing import scale

    np.testing.assert_allclose(Scaler.fit(x).apply(x)[:, :-1], scale(x[:, :-1]), atol=1e-9)
    assert not Scaler.fit(x).apply(x)[:, -1].any()
