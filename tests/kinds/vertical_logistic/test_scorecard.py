"""Points of each party's own columns, which sum to the points of the whole score."""

from __future__ import annotations

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest

from tacit.config.source import ConfigError
from tacit.kind import CardScale
from tacit.kinds.vertical_logistic.points import Points
from tacit.kinds.vertical_logistic.protocol.model import Scaler
from tacit.kinds.vertical_logistic.scorecard import ANY_OTHER, BASE, HEADER, card, scorecard
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.store.files import write_arrays
from tacit.tables.cells import Numbers, Texts, take
from tacit.tables.choose import Choice
from tacit.tables.fitted import Fitted, fit
from tacit.tables.settings import Column
from tests.commands import invoke

FILE = {"kind": "vertical_logistic", "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}}}
SETTINGS = Settings(parties=FILE["parties"])
OFFSET, FACTOR = 600 - 20 / np.log(2) * np.log(50), 20 / np.log(2)


def in_bytes(value):
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


def numbers(names):
    """Transforms that leave columns as they are."""
    cells = {name: Numbers(np.arange(3.0)) for name in names}
    choices = [Choice(name, "numeric", Column(use="numeric", missing="mean"), "") for name in names]
    return fit(choices, cells, {}, np.arange(3)).state()


def stored(seed=0, columns=3, outputs=1, names=None, intercept=0.0, transforms=None, classes=None):
    """A party's stored part, with random weights."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(columns, outputs))
    found = {
        "weights": weights,
        "intercept": np.full(outputs, intercept),
        "mean": rng.normal(size=columns),
        "factor": rng.uniform(0.5, 2, columns),
        "session": np.zeros(16, dtype=np.uint8),
        "transforms": in_bytes(transforms or numbers(names or [f"x{i}" for i in range(columns)])),
    }
    if classes is not None:
        found["classes"] = in_bytes(classes)
    return found


def log_odds(part, rows):
    """By the definition: standardised values times weights."""
    return (rows - part["mean"]) * part["factor"] @ part["weights"].ravel() + part["intercept"]


def points_of_numbers(table, rows):
    """The points of rows by the card of columns that are numbers."""
    total, place = np.zeros(len(rows)), 0
    for line in (dict(zip(table.header, row, strict=True)) for row in table.rows):
        total += line["points"]
        if line["points per unit"] != "":
            total += line["points per unit"] * (rows[:, place] - line["at value"])
            place += 1
    return total


@pytest.mark.parametrize(("good", "sign"), [(None, -1), ("paid", -1), ("lost", 1)])
def test_points_of_all_parties_sum_to_the_points_of_the_score(good, sign):
    rng = np.random.default_rng(7)
    bank, shop = stored(1, 3, intercept=0.7, classes=["paid", "lost"]), stored(2, 4)
    rows = rng.normal(size=(50, 3)), rng.normal(size=(50, 4))
    at_shop = {"paid": "first", "lost": "second", None: None}[good]
    cards = (
        scorecard(SETTINGS, "bank", bank, CardScale(good=good)),
        scorecard(SETTINGS, "shop", shop, CardScale(good=at_shop)),
    )
    total = points_of_numbers(cards[0], rows[0]) + points_of_numbers(cards[1], rows[1])
    expected = OFFSET + sign * FACTOR * (log_odds(bank, rows[0]) + log_odds(shop, rows[1]))
    assert np.abs(total - expected).max() < 1e-9
    assert [row[0] for row in cards[0].rows] == [BASE, "x0", "x1", "x2"]
    assert [row[0] for row in cards[1].rows] == ["x0", "x1", "x2", "x3"]


def test_points_odds_and_pdo_are_those_of_the_file_unless_the_command_gives_others():
    part = stored(1, 1, intercept=-np.log(50))  # at its mean: 50 good ones to one bad one
    file = Settings(parties=FILE["parties"], predict={"points": 500, "odds": 50, "pdo": 40})
    assert scorecard(file, "bank", part, CardScale()).rows[0][3] == pytest.approx(500)
    assert scorecard(file, "bank", part, CardScale(points=700)).rows[0][3] == pytest.approx(700)
    assert scorecard(file, "bank", part, CardScale(odds=25)).rows[0][3] == pytest.approx(540)
    assert scorecard(file, "bank", part, CardScale(odds=25, pdo=10)).rows[0][3] == pytest.approx(510)


@pytest.mark.parametrize(
    ("settings", "part", "asked", "words"),
    [
        (Settings(parties=FILE["parties"], model="linear"), stored(), CardScale(), "model is linear"),
        (SETTINGS, stored(classes=["a", "b"]), CardScale(good="c"), "--good is 'c': give a or b"),
        (SETTINGS, stored(), CardScale(good="a"), "bank does not know the labels: give first or second"),
        (SETTINGS, stored(), CardScale(odds=-1.0), "odds and pdo above 0"),
        (SETTINGS, stored(columns=3, names=["only", "two"]), CardScale(), "2 features have 3 weights"),
    ],
)
def test_what_has_no_points_is_refused_in_a_sentence(settings, part, asked, words):
    with pytest.raises(ValueError, match=words):
        scorecard(settings, "bank", part, asked)


def test_a_stored_model_of_several_classes_is_refused_in_a_sentence():
    with pytest.raises(ConfigError, match="this model has 3 classes: a scorecard is of two"):
        scorecard(SETTINGS, "bank", stored(outputs=3), CardScale())


def test_a_model_of_several_classes_has_no_card():
    fitted = SimpleNamespace(columns=(), groups={})
    model = SimpleNamespace(weights=np.zeros((0, 3)), intercept=np.zeros(3), scaler=Scaler(np.zeros(0), np.zeros(0)))
    with pytest.raises(ConfigError, match="3 classes: a scorecard is of two"):
        card(fitted, model, Points.of(600, 50, 20), active=True)


# --- with transforms


def applicants(rows=600, seed=5):
    """A table with every sort of column, and labels."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < 0.4).astype(np.int64)
    income = rng.lognormal(8, 1, rows)
    age = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(45 + 5 * labels, 12))
    cells = {
        "income": Numbers(income),
        "debt": Numbers(rng.normal(0, 1000, rows)),
        "age": Numbers(age),
        "tenure": Numbers(rng.normal(size=rows) + labels),
        "city": Texts(rng.choice(["Rome", "Oslo", "Bonn", "Graz", ""], rows, p=[0.4, 0.3, 0.2, 0.05, 0.05]).tolist()),
        "owner": Texts(rng.choice(["yes", "no"], rows).tolist()),
        "job": Texts(
            [f"{'abcd'[(3 * label + k) % 4]}" for label, k in zip(labels, rng.integers(0, 3, rows), strict=True)]
        ),
    }
    uses = {
        "income": "numeric",
        "debt": "log",
        "age": "bin",
        "tenure": "woe",
        "city": "one_hot",
        "owner": "one_hot",
        "job": "woe",
    }
    return cells, uses, labels


def place_of(transform, cells, use):
    """The name of the part that each row is in, by the groups of the transform itself; None for a number."""
    if use in ("numeric", "log"):
        return [None] * len(cells)
    if use == "bin":
        names, numbers = transform.parts, transform.quantiles.numbers(transform.fill.numbers(cells))
    elif use == "one_hot":
        known = {text: number for number, text in enumerate(transform.categories)}
        names = transform.every_part
        numbers = [known.get(text, len(names) - 1 if transform.other else -1) for text in transform.fill.texts(cells)]
    else:
        texts = transform.fill.texts(cells) if isinstance(cells, Texts) else transform.fill.numbers(cells)
        names, numbers = transform.groups.names, transform.groups.numbers(texts)
    return [ANY_OTHER if number < 0 else names[number] for number in numbers]


def points_by_card(fitted, lines, cells):
    """Each row's points: its part looked up in the card."""
    found = {(line.column, line.part): line for line in lines}
    count = len(next(iter(cells.values())))
    total = np.full(count, found[BASE, ""].points if (BASE, "") in found else 0.0)
    for column in fitted.columns:
        use = column.features[0].use
        for row, part in enumerate(place_of(column.transform, cells[column.name], use)):
            line = found[column.name, part or ""]
            total[row] += line.points
            if part is None:
                value = column.transform.apply(Numbers(cells[column.name].values[row : row + 1]))[0, 0]
                total[row] += line.per_unit * (value - line.at)
    return total


def new_rows(cells):
    """Rows as in training, with categories and blanks that it did not have."""
    found = {
        name: Texts(["Atlantis", *column.values[1:]]) if isinstance(column, Texts) else column
        for name, column in cells.items()
    }
    tenure = cells["tenure"].values.copy()
    tenure[3] = np.nan
    return {**found, "tenure": Numbers(tenure)}


@pytest.mark.parametrize("scaled", [True, False])
def test_points_of_bins_categories_and_groups_sum_to_the_points_of_the_score(scaled):
    from tacit.tables.choose import choose

    cells, uses, labels = applicants()
    rows = np.arange(500)
    choices = [choose(name, cells[name], Column(use=use)) for name, use in uses.items()]
    fitted = Fitted.restore(json.loads(json.dumps(fit(choices, cells, {}, rows, labels[rows]).state())))
    features = fitted.apply({name: take(column, rows) for name, column in cells.items()})
    rng = np.random.default_rng(9)
    scaler = Scaler.fit(features) if scaled else Scaler.identity(features.shape[1])
    model = SimpleNamespace(weights=rng.normal(size=(features.shape[1], 1)), intercept=np.array([0.3]), scaler=scaler)
    lines = card(fitted, model, Points.of(600, 50, 20), active=True)
    for table in (cells, new_rows(cells)):
        exact = scaler.apply(fitted.apply(table)) @ model.weights[:, 0] + 0.3
        assert np.abs(points_by_card(fitted, lines, table) - (OFFSET - FACTOR * exact)).max() < 1e-9
    assert {line.part for line in lines if line.column == "owner"} == {"yes", "no", ANY_OTHER}
    keys = [(line.column, line.part) for line in lines]
    assert len(set(keys)) == len(keys)
    if scaled:  # a category that is new adds nothing to the score
        assert all(abs(line.points) < 1e-9 for line in lines if line.part == ANY_OTHER and line.transform == "one_hot")


def test_the_card_of_a_stored_part_with_transforms(tmp_path):
    from tacit.tables.choose import choose

    cells, _, labels = applicants()
    fitted = fit([choose("city", cells["city"], Column(use="one_hot"))], cells, {}, np.arange(600), labels)
    found = scorecard(SETTINGS, "shop", stored(columns=len(fitted.features), transforms=fitted.state()), CardScale())
    assert found.header == HEADER
    assert {row[1] for row in found.rows} == {"one_hot"}
    assert {"Rome", "Oslo", "Bonn"} <= {row[2] for row in found.rows}
    assert all(row[4] == round(row[3]) for row in found.rows)


# --- the command


def a_run(folder, party=None):
    """The folder of a finished run: of all parties, or of one."""
    folder.mkdir()
    (folder / "config.yaml").write_text(json.dumps(FILE))
    if party is not None:
        (folder / "party").write_text(f"{party}\n")
    parts = {"bank": stored(1, 3, intercept=0.7, classes=["paid", "lost"]), "shop": stored(2, 4)}
    for name, part in parts.items():
        place = folder if party == name else folder / name
        if party in (None, name):
            place.mkdir(exist_ok=True)
            write_arrays(place / "model.safetensors", {key: np.asarray(value) for key, value in part.items()}, {})
    return folder


def test_a_run_of_all_parties_has_a_card_for_each(here):
    run = a_run(here / "run")
    done = invoke("scorecard", str(run), "--points", "600", "--odds", "50", "--pdo", "20")
    assert done.exit_code == 0, done.output
    for name, count in (("bank", 4), ("shop", 4)):
        path = run / name / "scorecard.csv"
        assert f"Scorecard: {path}" in done.output
        with path.open(newline="") as file:
            lines = list(csv.reader(file))
        assert tuple(lines[0]) == HEADER
        assert len(lines) == 1 + count


def test_the_good_class_of_all_cards_is_named_by_its_label_or_its_place(here):
    """Only bank knows the labels, and the points of all parties must count the same way."""
    run = a_run(here / "run")

    def points(*arguments):
        assert invoke("scorecard", str(run), *arguments).exit_code == 0
        texts = [(run / name / "scorecard.csv").read_text() for name in ("bank", "shop")]
        return [line.split(",")[5] for text in texts for line in text.splitlines()[1:] if line.split(",")[5]]

    first, second = points(), points("--good", "lost")
    assert points("--good", "paid") == points("--good", "first") == first
    assert points("--good", "second") == second
    assert [float(each) for each in second] == pytest.approx([-float(each) for each in first])
    assert len(first) == 7  # columns of both


def test_a_party_has_its_own_card_in_its_own_run(here):
    run = a_run(here / "run", "shop")
    assert invoke("scorecard", str(run)).exit_code == 0
    assert (run / "scorecard.csv").is_file()
    assert invoke("scorecard", str(run), "--party", "shop", "--output", "card.csv").exit_code == 0
    assert (here / "card.csv").read_bytes() == (run / "scorecard.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--output", "card.csv"], "--output names one file, and 2 parties have a card: add --party NAME"),
        (["run", "--party", "mill"], "--party is 'mill': give bank or shop"),
        (["run", "--party", "bank", "--good", "x"], "--good is 'x': give paid or lost"),
        (["nowhere"], "this is not the folder of a run"),
        (["own", "--party", "bank"], "this is the run of shop, and not of bank"),
        (["private"], "kind private_training has no scorecard"),
        (["linear"], "model is linear"),
    ],
)
def test_mistakes_end_with_a_sentence_and_exit_code_2(here, arguments, words):
    a_run(here / "run")
    a_run(here / "own", "shop")
    (a_run(here / "linear") / "config.yaml").write_text(json.dumps({**FILE, "model": "linear"}))
    (here / "private").mkdir()
    (here / "private" / "config.yaml").write_text(
        json.dumps({"kind": "private_training", "task": "digits", "privacy": {"epsilon": 1, "delta": 1e-5}})
    )
    done = invoke("scorecard", *arguments)
    assert done.exit_code == 2
    assert words in done.output
    assert not list(here.rglob("*.csv"))
