"""A party's own weights as people read them."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from tacit.events import Bars, Tabled, from_json, to_json
from tacit.kinds.vertical_logistic.coefficients import Linear, coefficients
from tacit.kinds.vertical_logistic.protocol.model import Scaler


@dataclass(frozen=True)
class Feature:
    column: str
    use: str = "numeric"
    part: str = ""

    @property
    def name(self):
        return f"{self.column} = {self.part}" if self.part else self.column


@dataclass(frozen=True)
class Part:
    """A party's part of a model with K outputs."""

    weights: np.ndarray
    intercept: np.ndarray
    scaler: Scaler


FEATURES = (
    Feature("age"),
    Feature("city", "one_hot", "Rome"),
    Feature("city", "one_hot", "Oslo"),
    Feature("job", "woe"),
)


def part(rows, outputs=1, seed=0, active=True):
    """Random weights over the scale of these rows, and the scores that they give, by plain sums."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(rows.shape[1], outputs))
    intercept = rng.normal(size=outputs) if active else np.zeros(outputs)
    scaler = Scaler.fit(rows)
    standard = StandardScaler().fit_transform(rows)
    scores = [
        [math.fsum([*(standard[i] * weights[:, k]), intercept[k]]) for k in range(outputs)] for i in range(len(rows))
    ]
    return Part(weights, intercept, scaler), np.array(scores)


def rows(seed=1, count=50):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.normal(40, 12, count), rng.random(count) < 0.3, rng.random(count) < 0.2, rng.normal(size=count)]
    )


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("outputs", [1, 3])
def test_offsets_and_weights_times_raw_values_of_all_parties_sum_to_the_score(outputs, tmp_path):
    score = np.zeros((50, outputs))
    total = np.zeros((50, outputs))
    classes = ("a", "b", "c") if outputs == 3 else ("no", "yes")
    for seed, active in ((1, True), (2, False), (3, False)):
        raw = rows(seed)
        model, own = part(raw, outputs, seed, active)
        score += own
        coefficients(FEATURES, model, classes, active=active, linear=False).write(tmp_path / "coefficients.csv")
        for place, line in enumerate(read(tmp_path / "coefficients.csv")):
            feature, output = divmod(place, outputs)
            values = 1.0 if feature == 0 else raw[:, feature - 1]  # the file is all that is used
            total[:, output] += float(line["weight (original scale)"]) * values
    assert np.abs(total - score).max() < 1e-9


def test_a_file_of_coefficients_has_a_line_for_each_part_of_a_column(tmp_path):
    model, _ = part(rows())
    found = coefficients(FEATURES, model, ("no", "yes"), active=True, linear=False, information={"job": 0.25})
    found.write(tmp_path / "coefficients.csv")
    lines = read(tmp_path / "coefficients.csv")
    assert [(line["column"], line["transform"], line["part"]) for line in lines] == [
        ("(intercept)", "", ""),
        ("age", "numeric", ""),
        ("city", "one_hot", "Rome"),
        ("city", "one_hot", "Oslo"),
        ("job", "woe", ""),
    ]
    assert "class" not in lines[0]
    assert [line["information value"] for line in lines] == ["", "", "", "", "0.25"]
    for line in lines[1:]:
        assert float(line["odds ratio"]) == pytest.approx(math.exp(float(line["weight (original scale)"])))
    assert float(lines[0]["weight (standardised)"]) == model.intercept[0]
    assert [float(line["weight (standardised)"]) for line in lines[1:]] == model.weights[:, 0].tolist()


def test_weights_in_the_original_scale_are_those_of_a_fit_on_raw_columns():
    raw = rows(count=400)
    labels = (np.random.default_rng(4).random(400) < 1 / (1 + np.exp(-raw[:, 3]))).astype(int)
    scaled = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(StandardScaler().fit_transform(raw), labels)
    plain = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000, solver="newton-cholesky").fit(raw, labels)
    line = Linear.of(Part(scaled.coef_.T, scaled.intercept_, Scaler.fit(raw)))
    assert np.allclose(line.weights[:, 0], plain.coef_[0], atol=1e-5)
    assert np.allclose(line.offset, plain.intercept_, atol=1e-4)


def test_a_passive_has_an_offset_and_the_active_an_intercept():
    model, _ = part(rows(), active=False)
    assert coefficients(FEATURES, model, (), active=False, linear=False).rows[0].column == "(offset of these columns)"
    assert coefficients(FEATURES, model, (), active=True, linear=False).rows[0].column == "(intercept)"


def test_several_classes_have_a_line_each_and_numbers_stand_for_unknown_names():
    model, _ = part(rows(), 3)
    table = coefficients(FEATURES, model, ("a", "b", "c"), active=True, linear=False).table()
    assert table.header[3] == "class"
    assert [row[3] for row in table.rows[:3]] == ["a", "b", "c"]
    assert len(table.rows) == 15
    unknown = coefficients(FEATURES, model, (), active=False, linear=False).table()
    assert [row[3] for row in unknown.rows[:3]] == ["class 1", "class 2", "class 3"]


def test_a_linear_regression_has_no_odds():
    model, _ = part(rows())
    own = coefficients(FEATURES, model, (), active=True, linear=True)
    assert "odds ratio" not in own.table().header
    assert all("odds" not in event.caption for event in own.told("bank"))


def test_the_active_of_a_linear_regression_has_what_makes_a_score_a_label():
    raw = rows()
    model, score = part(raw)
    scaled = SimpleNamespace(**vars(model), target=SimpleNamespace(mean=150.0, unit=80.0))
    table = coefficients(FEATURES, scaled, (), active=True, linear=True).table()
    assert [row[0] for row in table.rows[-2:]] == ["(mean of the label)", "(unit of the label)"]
    original = [row[4] for row in table.rows]
    label = original[-2] + original[-1] * (original[0] + raw @ original[1:-2])
    assert np.allclose(label, 150 + 80 * score[:, 0])


def test_the_caption_names_the_class_that_a_positive_weight_makes_more_likely():
    model, _ = part(rows())
    assert (
        "raises the log odds of yes"
        in coefficients(FEATURES, model, ("no", "yes"), active=True, linear=False).told("b")[0].caption
    )
    assert "raises the log odds," in coefficients(FEATURES, model, (), active=False, linear=False).told("b")[0].caption


def test_a_constant_column_weighs_nothing_in_the_original_scale():
    raw = rows()
    raw[:, 0] = 7.0
    model, _ = part(raw)
    assert coefficients(FEATURES, model, (), active=True, linear=False).rows[1].original == 0.0


def test_odds_beyond_every_float_are_infinite():
    model = Part(np.array([[900.0]]), np.zeros(1), Scaler(np.zeros(1), np.ones(1)))
    assert coefficients((Feature("x"),), model, (), active=True, linear=False).rows[1].odds_ratio == math.inf


def test_transforms_of_another_model_are_refused():
    model, _ = part(rows())
    with pytest.raises(ValueError, match="3 features have 4 weights"):
        coefficients(FEATURES[:3], model, (), active=True, linear=False)


def test_the_page_gets_the_largest_thirty_as_bars_and_a_table():
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(40, 1))
    model = Part(weights, np.ones(1), Scaler(np.zeros(40), np.ones(40)))
    own = coefficients([Feature(f"x{i}") for i in range(40)], model, (), active=True, linear=False)
    bars, table = own.told("bank")
    assert isinstance(bars, Bars)
    assert isinstance(table, Tabled)
    largest = sorted(range(40), key=lambda i: -abs(weights[i, 0]))[:30]
    assert bars.bars == {f"x{i}": weights[i, 0] for i in largest}
    assert list(bars.bars) == [f"x{i}" for i in largest]
    assert "The 30 largest of 40 weights of the columns of bank itself" in bars.caption
    assert table.name == "Coefficients of bank"
    assert len(table.rows) == 41
    assert {bars.section, table.section} == {"Coefficients"}
    assert [from_json(to_json(event)) for event in (bars, table)] == [bars, table]


def test_a_table_of_very_many_features_is_cut_on_the_page_and_whole_in_the_file(tmp_path):
    model = Part(np.arange(1500.0)[:, None], np.ones(1), Scaler(np.zeros(1500), np.ones(1500)))
    own = coefficients([Feature(f"x{i}") for i in range(1500)], model, (), active=True, linear=False)
    table = own.told("bank")[1]
    assert len(table.rows) == 1001
    assert table.rows[1][0] == "x500"
    assert "coefficients.csv has all" in table.caption
    own.write(tmp_path / "coefficients.csv")
    assert len(read(tmp_path / "coefficients.csv")) == 1501


def test_a_party_without_columns_has_its_intercept_only():
    model = Part(np.zeros((0, 1)), np.ones(1), Scaler(np.zeros(0), np.zeros(0)))
    (table,) = coefficients((), model, (), active=True, linear=False).told("bank")
    assert len(table.rows) == 1
