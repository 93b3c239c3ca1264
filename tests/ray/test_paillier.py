"""Paillier on a Ray cluster comes to the same as in one process."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.crypto.paillier import Workers, generate
from tacit.ray.cluster import cluster
from tacit.ray.paillier import RayWorkers


@pytest.mark.slow
def test_batches_on_a_cluster_give_what_one_process_gives():
    pytest.importorskip("ray", reason="needs the extra ray")
    key = generate(1024, insecure_bits=True)
    values = [3, -1, 0, 2**40, -(2**40), 7]
    matrix = np.arange(-9, 9, dtype=np.int64).reshape(3, 6)
    with cluster("local", 2) as ray, RayWorkers(ray, 2) as spread, Workers() as here:
        for owner in (key, key.public):
            hidden = spread.encrypt(owner, values)
            assert here.decrypt(key, hidden) == values
            assert spread.decrypt(key, hidden) == values
        product = spread.multiply(key.public, matrix, hidden)
        assert spread.decrypt(key, product) == (matrix.astype(object) @ values).tolist()
        again = spread.rerandomize(key.public, product)
        assert again.to_bytes() != product.to_bytes()
        assert here.decrypt(key, again) == here.decrypt(key, product)
    with pytest.raises(ValueError, match="closed"):
        spread.encrypt(key, values)
