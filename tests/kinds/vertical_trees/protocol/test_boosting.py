import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, mean_poisson_deviance, r2_score, roc_auc_score

from tacit.kinds.vertical_trees.protocol.bins import Bins, categories, numbers
from tacit.kinds.vertical_trees.protocol.boosting import Labelled, State, Terms, advance, begin, boost, finished
from tacit.kinds.vertical_trees.protocol.features import PlainFeatures
from tacit.kinds.vertical_trees.protocol.growth import Options
from tacit.kinds.vertical_trees.protocol.losses import class_weights, loss_named
from tacit.kinds.vertical_trees.protocol.splits import Rules


class Case:
    """A table in three parties, with every third row held out."""

    def __init__(self, x, y, *, loss="logistic", classes=2, weights=None, signs=None, most=32):
        self.x, self.y = x, y.astype(float)
        self.out = np.arange(0, len(y), 3)
        self.rows = np.setdiff1d(np.arange(len(y)), self.out)
        bins = Bins(tuple(numbers(column[self.rows], most) for column in x.T))
        binned = bins.apply(list(x.T))
        signs = np.zeros(x.shape[1], dtype=np.int64) if signs is None else np.array(signs)
        parts = np.array_split(np.arange(x.shape[1]), 3)
        self.sources = [PlainFeatures(binned[:, p], bins.bins[p], signs=signs[p]) for p in parts]
        self.binned = [binned[:, p] for p in parts]
        given = np.ones(len(y)) if weights is None else weights
        self.known = Labelled(loss_named(loss, classes), self.y, given, self.rows, self.out)

    def boost(self, terms, **more):
        return boost(self.sources, self.known, terms, **more)


SMALL = Options(depth=3, rules=Rules(1.0, 0.0), least=2, bits=16)


def cancer(**more):
    return Case(*load_breast_cancer(return_X_y=True), **more)


def peer(case, kind, rounds, **more):
    made = kind(
        max_iter=rounds, max_depth=3, max_leaf_nodes=None, min_samples_leaf=2, l2_regularization=1.0, max_bins=31,
        early_stopping=False, learning_rate=0.1, **more,
    )  # fmt: skip
    return made.fit(case.x[case.rows], case.y[case.rows])


@pytest.mark.parametrize("growth", [SMALL, Options()])  # without and with the protection of small nodes
def test_two_classes_reach_the_auc_of_scikit_learn(growth):
    case = cancer()
    found = case.boost(Terms(40, growth=growth))
    theirs = peer(case, HistGradientBoostingClassifier, 40).predict_proba(case.x[case.out])[:, 1]
    ours = roc_auc_score(case.y[case.out], found.scores[case.out, 0])
    assert ours >= roc_auc_score(case.y[case.out], theirs) - 0.005


def test_two_classes_reach_the_auc_of_xgboost():
    xgboost = pytest.importorskip("xgboost", reason="needs the extra bench")
    case = cancer()
    found = case.boost(Terms(40, growth=Options(depth=5)))
    theirs = xgboost.XGBClassifier(n_estimators=40, max_depth=5, learning_rate=0.1, max_bin=31, n_jobs=1)
    theirs.fit(case.x[case.rows], case.y[case.rows])
    expected = roc_auc_score(case.y[case.out], theirs.predict_proba(case.x[case.out])[:, 1])
    assert roc_auc_score(case.y[case.out], found.scores[case.out, 0]) >= expected - 0.005


def test_several_classes_reach_the_accuracy_of_scikit_learn():
    case = Case(*load_wine(return_X_y=True), loss="softmax", classes=3)
    found = case.boost(Terms(30, growth=SMALL))
    assert len(found.ensemble.trees) == 90
    theirs = peer(case, HistGradientBoostingClassifier, 30)
    expected = accuracy_score(case.y[case.out], theirs.predict(case.x[case.out]))
    assert accuracy_score(case.y[case.out], found.scores[case.out].argmax(axis=1)) >= expected - 0.02


def test_numbers_reach_the_r2_of_scikit_learn():
    case = Case(*load_diabetes(return_X_y=True), loss="squared")
    found = case.boost(Terms(40, growth=SMALL))
    theirs = peer(case, HistGradientBoostingRegressor, 40)
    expected = r2_score(case.y[case.out], theirs.predict(case.x[case.out]))
    assert r2_score(case.y[case.out], found.scores[case.out, 0]) >= expected - 0.02


def counts():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(900, 6))
    return x, rng.poisson(np.exp(0.8 * x[:, 0] - 0.5 * np.abs(x[:, 3])))


def test_counts_reach_the_deviance_of_scikit_learn():
    case = Case(*counts(), loss="poisson")
    found = case.boost(Terms(40, growth=SMALL))
    ours = mean_poisson_deviance(case.y[case.out], case.known.loss.predictions(found.scores[case.out]))
    theirs = peer(case, HistGradientBoostingRegressor, 40, loss="poisson").predict(case.x[case.out])
    assert ours <= 1.03 * mean_poisson_deviance(case.y[case.out], theirs)


def test_missing_values_that_tell_the_label_are_used():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(600, 3)), rng.integers(0, 2, 600)
    x[(rng.random(600) < 0.8) & (y == 1), 2] = np.nan
    found = Case(x, y).boost(Terms(10, growth=SMALL))
    held = np.arange(0, 600, 3)
    assert ((found.scores[held, 0] > 0) == np.isnan(x[held, 2]))[np.isnan(x[held, 2])].all()


def test_categories_without_an_order_are_split_at_once():
    rng = np.random.default_rng(4)
    names = np.array([f"city {k}" for k in range(12)])
    codes = rng.integers(0, 12, 2000)
    y = np.isin(codes, [1, 4, 6, 11]).astype(float)
    bins = Bins((categories(names[codes], 32),))
    source = PlainFeatures(bins.apply([names[codes]]), bins.bins, bins.ordered)
    known = Labelled(loss_named("logistic"), y, np.ones(2000), np.arange(2000), np.empty(0, dtype=np.int64))
    found = boost([source], known, Terms(1, growth=Options(depth=1)))
    assert ((found.scores[:, 0] > known.loss.base(y, known.weights)[0]) == (y == 1)).all()


def test_heavier_classes_are_found_more_often():
    x, y = load_breast_cancer(return_X_y=True)
    light, heavy = (
        Case(x, y, weights=class_weights(y.astype(float), given)).boost(Terms(5, growth=SMALL))
        for given in ({1: 0.1}, {1: 10})
    )
    assert (heavy.scores[:, 0] > light.scores[:, 0]).all()


def test_monotone_constraints_hold_and_match_scikit_learn():
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, size=(900, 3))
    y = 2 * x[:, 0] + np.sin(8 * x[:, 0]) - x[:, 2] + rng.normal(scale=0.3, size=900)
    case = Case(x, y, loss="squared", signs=[1, 0, -1])
    found = case.boost(Terms(40, growth=SMALL))
    for place, sign in ((0, 1), (2, -1)):
        scores = []
        for its_bin in range(31):
            moved = [part.copy() for part in case.binned]
            moved[place][:, 0] = its_bin
            scores.append(found.ensemble.scores(moved)[:, 0])
        assert (sign * np.diff(scores, axis=0) >= -1e-12).all()
    theirs = peer(case, HistGradientBoostingRegressor, 40, monotonic_cst=[1, 0, -1])
    expected = r2_score(y[case.out], theirs.predict(x[case.out]))
    assert r2_score(y[case.out], found.scores[case.out, 0]) >= expected - 0.02


def test_the_ensemble_gives_the_scores_of_training():
    case = cancer()
    found = case.boost(Terms(6, growth=Options(least=8, rows=0.5, features=0.5)))
    assert np.allclose(found.ensemble.scores(case.binned), found.scores, rtol=0, atol=1e-12)
    assert found.losses[-1] == pytest.approx(case.known.mean(found.scores, case.rows))
    assert all(after < before for before, after in zip(found.losses, found.losses[1:], strict=False))


def test_training_that_stops_early_keeps_the_best_round():
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(300, 4)), rng.integers(0, 2, 300)  # nothing to learn
    case = Case(x, y)
    seen = []
    found = case.boost(Terms(200, patience=5, growth=SMALL), after=seen.append)
    assert found.rounds == len(seen) == found.best + 5
    assert len(found.ensemble.trees) == found.best
    assert found.held_out_losses[found.best - 1] == min(found.held_out_losses)


def test_without_patience_all_rounds_are_kept():
    found = cancer().boost(Terms(7, growth=SMALL))
    assert found.rounds == len(found.ensemble.trees) == 7


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_resumed_training_gives_the_same_trees(at):
    case = Case(*load_wine(return_X_y=True), loss="softmax", classes=3)
    terms = Terms(4, seed=9, growth=Options(least=8, rows=0.7, features=0.5))
    state = begin(case.known)
    for _ in range(at):
        state = advance(state, case.sources, case.known, terms)
    resumed, whole = case.boost(terms, state=state), case.boost(terms)
    assert np.array_equal(resumed.scores, whole.scores)
    assert resumed.losses == whole.losses
    assert finished(resumed, terms)


def test_another_seed_gives_other_trees():
    one, other = (cancer().boost(Terms(3, seed=seed, growth=Options(rows=0.5))) for seed in (1, 2))
    assert not np.array_equal(one.scores, other.scores)


def test_each_tree_draws_its_own_rows():
    case = Case(*load_wine(return_X_y=True), loss="softmax", classes=3)
    drawn = []
    asked = case.sources[0].histograms

    def recorded(nodes):
        drawn.append(tuple(nodes[0].tolist()))
        return asked(nodes)

    case.sources[0].histograms = recorded
    case.boost(Terms(3, growth=Options(depth=1, least=2, rows=0.5)))
    assert len(drawn) == len(set(drawn)) == 9


def test_what_cannot_be_trained_is_refused():
    loss, labels, weights = loss_named("logistic"), np.array([0.0, 1, 1]), np.ones(3)
    none = np.empty(0, dtype=np.int64)
    with pytest.raises(ValueError, match="no rows to train on"):
        Labelled(loss, labels, weights, none, none)
    with pytest.raises(ValueError, match="both trained on and held out"):
        Labelled(loss, labels, weights, np.array([0, 1]), np.array([1]))
    with pytest.raises(ValueError, match="rows of both"):
        Labelled(loss, labels, weights, np.array([1, 2]), none)
    for wrong in ({"rounds": 0}, {"patience": -1}, {"learning_rate": 0.0}):
        with pytest.raises(ValueError, match="0"):
            Terms(**wrong)
    assert State(begin(Labelled(loss, labels, weights, np.arange(3), none)).ensemble, np.zeros((3, 1))).best == 0
