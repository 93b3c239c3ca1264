import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from tacit import bundled


def test_tables_are_those_that_scikit_learn_loads():
    for ours, theirs in ((bundled.digits(), load_digits()), (bundled.breast_cancer(), load_breast_cancer())):
        assert np.array_equal(ours[0], theirs.data)
        assert np.array_equal(ours[1], theirs.target)
    assert list(bundled.CANCER_COLUMNS) == load_breast_cancer().feature_names.tolist()
