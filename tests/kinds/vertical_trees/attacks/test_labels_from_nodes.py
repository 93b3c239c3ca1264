"""Labels from the rows of nodes."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tacit.kinds.vertical_trees.attacks.labels_from_nodes import area, audit_labels, directions, memberships
from tests.kinds.vertical_trees.attacks.small_trees import recorded


def test_memberships_are_the_rows_of_nodes():
    _, _, record = recorded(150, 3)
    found = memberships(record).toarray()
    nodes = [set(rows.tolist()) for _, rows in record.nodes_seen()]
    for split in record.divided:
        nodes += [set(split.rows[split.left].tolist()), set(split.rows[~split.left].tolist())]
    assert [set(np.flatnonzero(column).tolist()) for column in found.T] == nodes


def test_directions_span_what_the_singular_vectors_span():
    _, _, record = recorded(150, 3)
    nodes = memberships(record).toarray()
    nodes = nodes[:, (nodes.mean(axis=0) > 0) & (nodes.mean(axis=0) < 1)]
    scaled = (nodes - nodes.mean(axis=0)) / nodes.std(axis=0)
    _, s, _ = np.linalg.svd(scaled, full_matrices=False)
    found = directions(record, 4)
    basis = np.linalg.qr(found)[0]
    assert np.square(basis.T @ scaled).sum() > 0.97 * np.square(s[:4]).sum()


def test_the_area_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    scores, truth = rng.integers(0, 5, 100).astype(float), rng.random(100) < 0.3
    assert area(scores, truth) == pytest.approx(roc_auc_score(truth, scores))
    assert area(scores, np.zeros(100, dtype=bool)) == 0.5


@pytest.mark.parametrize("flipped", [False, True])
def test_rows_of_nodes_tell_labels_without_a_single_known_one(flipped):
    passive, labels, record = recorded(600, 10)
    truth = (1 - labels if flipped else labels).astype(np.int64)
    found = audit_labels(record, passive.binned, truth, known=60)
    assert found.off.low > 0.6
    assert found.off.baseline == 0.5
    assert found.on.value == 0.5
    assert not found.on.informative
    shown, hidden = found.also[0]
    assert shown.value > hidden.value + 0.03
    assert hidden.value == hidden.baseline


def test_known_rows_of_one_class_are_refused():
    passive, _, record = recorded(150, 2)
    with pytest.raises(ValueError, match="one class"):
        audit_labels(record, passive.binned, np.zeros(150, dtype=np.int64), known=10)
