"""Paillier against plain integers."""

import numpy as np

from tacit.crypto import paillier

KEY = paillier.generate(512, insecure_bits=True)


def test_a_step_of_vertical_logistic_regression():
    rng = np.random.default_rng(1)
    residues = rng.integers(-(2**30), 2**30, 64)
    matrix = rng.integers(-(2**20), 2**20, (10, 64))
    public = paillier.PublicKey.from_bytes(KEY.public.to_bytes(), insecure_bits=True)
    sent = KEY.encrypt(residues.tolist()).to_bytes()
    received = paillier.Ciphertexts.from_bytes(public, sent, 64)
    packed = public.pack(public.multiply(matrix, received, bound=2**30), 60)
    masks = public.uniform(len(packed))
    masked = public.rerandomize(public.add_plain(packed, masks))
    opened = KEY.decrypt_unsigned(masked)
    gradient = public.unpack([value - mask for value, mask in zip(opened, masks, strict=True)], 60, 10)
    assert gradient == [sum(x * r for x, r in zip(row, residues.tolist(), strict=True)) for row in matrix.tolist()]
