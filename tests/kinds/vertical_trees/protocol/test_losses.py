import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import log_loss, mean_poisson_deviance

from tacit.kinds.vertical_trees.protocol.losses import class_weights, loss_named

NAMES = ["squared", "poisson", "logistic", "softmax"]


def drawn(name):
    rng = np.random.default_rng(5)
    loss = loss_named(name, 3)
    labels = {
        "squared": rng.normal(size=40),
        "poisson": rng.poisson(2, 40),
        "logistic": rng.integers(0, 2, 40),
        "softmax": rng.integers(0, 3, 40),
    }[name].astype(float)
    return loss, labels, rng.normal(size=(40, loss.outputs)), rng.uniform(0.5, 2, 40)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_slopes_of_the_loss(name):
    loss, labels, scores, weights = drawn(name)
    g, h = loss.gradients(labels, scores, weights)
    factor = {"squared": 2, "softmax": 1}.get(name, 1)  # the squared loss is counted without its ½
    step = 1e-5
    for row in range(0, 40, 7):
        for output in range(loss.outputs):
            shift = np.zeros_like(scores)
            shift[row, output] = step
            values = [loss.mean(labels, scores + k * shift, weights) * weights.sum() / factor for k in (-1, 0, 1)]
            assert g[row, output] == pytest.approx((values[2] - values[0]) / (2 * step), abs=1e-6)
            second = (values[2] - 2 * values[1] + values[0]) / step**2
            assert h[row, output] == pytest.approx(second * (2 if name == "softmax" else 1), abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_the_base_score_is_the_best_constant(name):
    loss, labels, _, weights = drawn(name)

    def of(base):
        return loss.mean(labels, np.tile(base, (len(labels), 1)), weights)

    best = minimize(of, np.zeros(loss.outputs), tol=1e-12).fun
    assert of(loss.base(labels, weights)) == pytest.approx(best, abs=1e-9)


def test_losses_agree_with_scikit_learn():
    for name in ("logistic", "softmax"):
        loss, labels, scores, weights = drawn(name)
        theirs = log_loss(labels, loss.predictions(scores), sample_weight=weights)
        assert loss.mean(labels, scores, weights) == pytest.approx(theirs)
    loss, labels, scores, weights = drawn("poisson")
    deviances = [mean_poisson_deviance(labels, loss.predictions(s), sample_weight=weights) for s in (scores, -scores)]
    means = [loss.mean(labels, s, weights) for s in (scores, -scores)]
    assert 2 * (means[0] - means[1]) == pytest.approx(deviances[0] - deviances[1])


def test_a_row_that_is_surely_right_keeps_a_hessian_above_zero():
    g, h = loss_named("logistic").gradients(np.array([1.0]), np.array([[800.0]]), np.ones(1))
    assert g[0, 0] == 0
    assert h[0, 0] > 0


@pytest.mark.parametrize(
    ("name", "labels", "words"),
    [
        ("squared", [1.0, np.nan], "missing or infinite"),
        ("poisson", [1.0, -1.0], "0 or more"),
        ("poisson", [0.0, 0.0], "not all of them 0"),
        ("logistic", [0.0, 0.0], "rows of both"),
        ("logistic", [0.0, 2.0], "two classes"),
        ("softmax", [0.0, 1.0], "labels 0 to 2"),
    ],
)
def test_labels_without_a_meaning_are_refused(name, labels, words):
    with pytest.raises(ValueError, match=words):
        loss_named(name, 3).check(np.array(labels))


def test_unknown_losses_are_refused():
    with pytest.raises(ValueError, match="there is no loss 'hinge'"):
        loss_named("hinge")
    with pytest.raises(ValueError, match="two or more classes"):
        loss_named("softmax", 1)


def test_class_weights():
    labels = np.array([0.0, 0, 0, 1])
    assert class_weights(labels, None).tolist() == [1, 1, 1, 1]
    assert class_weights(labels, {1: 5}).tolist() == [1, 1, 1, 5]
    assert class_weights(labels, "balanced") == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])
    with pytest.raises(ValueError, match="the class 2, which has no rows"):
        class_weights(labels, {2: 5})
    with pytest.raises(ValueError, match="above 0"):
        class_weights(labels, {1: -1})
    with pytest.raises(ValueError, match="not 'even'"):
        class_weights(labels, "even")
