"""Who may collude with whom: all data parties but one learn nothing; the dealer and any data party everything."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from tacit.kinds.vertical_logistic.shared import ring
from tacit.kinds.vertical_logistic.shared.messages import Opening, Seeds
from tacit.kinds.vertical_logistic.shared.scales import scales
from tacit.kinds.vertical_logistic.shared.streams import stream
from tests.kinds.vertical_logistic.shared.trainings import people, run, shared_out, terms_of


def _views(scale: float):
    x, y = people(200, 9)
    terms, recorders = terms_of(3, 200, epochs=3), {}
    run(x * scale, y, terms, recorders=recorders)
    return terms, recorders, shared_out(x * scale, terms)


@pytest.mark.parametrize("honest", ["bank", "shop", "phone"])
@pytest.mark.parametrize("scale", [0.0, 4.0])
def test_all_but_one_data_party_see_uniform_words_of_the_last(honest, scale):
    """What they pool of the honest one are its masked shares, of which both receive the same."""
    terms, recorders, _ = _views(scale)
    logs = []
    for colluder in terms.parties:
        if colluder != honest:
            logs.append(b"".join(m.words for m in recorders[colluder][honest].seen if isinstance(m, Opening)))
    assert logs[0] == logs[1]
    assert chisquare(np.bincount(np.frombuffer(logs[0], dtype=np.uint8), minlength=256)).pvalue > 1e-6


@pytest.mark.parametrize("colluder", ["bank", "phone"])
def test_the_dealer_and_one_data_party_read_every_table(colluder):
    terms, recorders, tables = _views(1.0)
    for victim in terms.parties:
        if victim == colluder:
            continue
        table = tables[victim]
        (seed,) = [m.seed for m in recorders["dealer"][victim].sent if isinstance(m, Seeds)]
        (masked,) = [m.words for m in recorders[colluder][victim].seen if isinstance(m, Opening) and m.serial == 1]
        words = np.frombuffer(masked, dtype=np.uint64) + stream(seed, 1, table.size)
        read = ring.decode(words, scales(terms).feature).reshape(table.shape)
        np.testing.assert_allclose(read, table, atol=2e-5)
