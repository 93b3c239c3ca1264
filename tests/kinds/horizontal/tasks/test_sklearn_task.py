from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_regression
from sklearn.linear_model import LogisticRegression, Perceptron, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import MultinomialNB

from tacit.kinds.horizontal.settings import Training
from tacit.kinds.horizontal.task import Evaluates, FitWork
from tacit.kinds.horizontal.tasks.sklearn_task import SklearnTask
from tests.kinds.horizontal.federations import run, settings_for

X, Y = load_digits(return_X_y=True)
X = X / 16


def work(**train):
    return FitWork(0, Training(**train), (0, 1))


def dealt(client, clients):
    return X[client::clients], Y[client::clients]


def accuracy(estimator):
    return {"accuracy": estimator.score(X, Y)}


def digits(model=SGDClassifier, **keys) -> SklearnTask:
    return SklearnTask(model, dealt, features=64, classes=range(10), evaluate=accuracy, **keys)


@pytest.mark.parametrize("model", [SGDClassifier, Perceptron])
def test_classifiers_learn_the_digits(model):
    task = digits(model)(clients=6, seed=0)
    engine, _ = run(settings_for(clients=6, rounds=4, train={"epochs": 2}), task)
    assert task.evaluate(engine.coordinator.model)["accuracy"] > 0.9


def test_one_client_with_all_records_is_partial_fit():
    def fixed():
        return SGDRegressor(learning_rate="constant", eta0=0.01, shuffle=False)

    x, y = make_regression(50, 4, random_state=0)
    task = SklearnTask(fixed, lambda client: (x, y), features=4)
    engine, _ = run(settings_for(clients=1, rounds=5, train={"epochs": 2}), task)
    alone = fixed()
    for _ in range(10):
        alone.partial_fit(x, y)
    np.testing.assert_allclose(engine.coordinator.model["coef_"], alone.coef_, rtol=1e-12)
    np.testing.assert_allclose(engine.coordinator.model["intercept_"], alone.intercept_, rtol=1e-12)
    np.testing.assert_allclose(task.estimator(engine.coordinator.model).predict(x), alone.predict(x), rtol=1e-12)


def test_the_step_size_falls_over_the_rounds_as_the_estimator_says():
    def falling():
        return SGDRegressor(learning_rate="invscaling", eta0=0.01, power_t=0.5, shuffle=False)

    x, y = make_regression(50, 4, random_state=0)
    task = SklearnTask(falling, lambda client: (x, y), features=4)
    engine, _ = run(settings_for(clients=1, rounds=5), task)
    alone = falling()
    for _ in range(5):
        alone.partial_fit(x, y)
    np.testing.assert_allclose(engine.coordinator.model["coef_"], alone.coef_, rtol=1e-9)


def test_a_client_without_some_classes_has_their_columns():
    task = SklearnTask(SGDClassifier, lambda client: (X[Y < 2], Y[Y < 2]), features=64, classes=range(10))
    fitted = task.fit(0, task.model(), work())
    assert fitted.model["coef_"].shape == (10, 64)
    assert fitted.samples == (Y < 2).sum()


def test_two_classes_and_labels_that_are_words():
    names = np.array(["no", "yes"])
    task = SklearnTask(SGDClassifier, lambda client: (X, names[Y % 2]), features=64, classes=["no", "yes"])
    model = task.fit(0, task.model(), work(epochs=5)).model
    assert model["coef_"].shape == (1, 64)
    assert task.estimator(model).score(X, names[Y % 2]) > 0.8


def test_training_is_that_of_the_seed_and_leaves_what_it_was_given():
    task = digits()(clients=2, seed=0)
    model = task.model()
    for array in model.values():
        array.flags.writeable = False
    one, other = (task.fit(0, model, work()).model for _ in range(2))
    np.testing.assert_array_equal(one["coef_"], other["coef_"])
    assert not model["coef_"].any()
    one["coef_"] += 1


def test_unfit_estimators_are_refused_in_a_sentence():
    refused = {
        "LogisticRegression has no partial_fit": LogisticRegression,
        "has no coef_ and intercept_": MultinomialNB,
        "average is set": lambda: SGDClassifier(average=True),
    }
    for sentence, model in refused.items():
        with pytest.raises(ValueError, match=sentence):
            digits(model).model()
    with pytest.raises(ValueError, match="SGDClassifier is a classifier: give all its classes"):
        SklearnTask(SGDClassifier, dealt, features=64).model()
    with pytest.raises(ValueError, match="proximal_mu"):
        digits(clients=2).fit(0, digits().model(), work(proximal_mu=0.1))
    assert not isinstance(SklearnTask(SGDClassifier, dealt, features=64), Evaluates)
