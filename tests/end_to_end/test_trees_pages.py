"""Plan, page and audit of boosted trees, by command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import invoke

SMALL = ("--set", "train.trees=4", "--set", "train.depth=3")


def tacit(*arguments):
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def starter(here):
    tacit("init", "vertical_trees", "trees.yaml")
    return "trees.yaml"


def test_the_plan_puts_equations_beside_rows(starter):
    plan = json.loads(tacit("plan", starter, "--json"))
    assert plan["rows"] == 569
    assert plan["equations of a bin"] > 0
    assert plan["bytes of the run"] > plan["bytes of the set-up with laboratory"]
    assert any("sums of each bin over 455 rows" in text for text in plan["sections"]["What is not protected"])


def test_the_page_shows_own_columns_and_trees_with_opaque_splits_and_one_for_sharing_does_not(starter):
    tacit("run", starter, *SMALL, "--set", "align=false", "--runs", "runs")
    (run,) = Path("runs").iterdir()
    tacit("report", str(run))
    page = (run / "report.html").read_text()
    for title in ("Columns of hospital", "Columns of laboratory", "Splits of each party", "Tree 1", "Tree 3"):
        assert f">{title}<" in page
    assert "feature " in page
    assert "Everything that leaves a party, field by field" in page
    assert {"tree-tree-1.svg", "bars-columns-of-laboratory.svg"} <= {each.name for each in (run / "plots").iterdir()}
    tacit("report", str(run), "--share")
    shared = next(each for each in run.iterdir() if "share" in each.name).read_text()
    assert "Tree 1" not in shared
    assert "Columns of" not in shared


def test_no_name_of_a_passives_column_is_in_what_the_active_draws(starter):
    tacit("run", starter, *SMALL, "--set", "align=false", "--runs", "runs")
    (run,) = Path("runs").iterdir()
    lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    (own,) = (set(each["bars"]) for each in lines if each.get("name") == "Columns of laboratory")
    words = [word for each in lines if each["event"] == "Tree" for word in each["words"]]
    assert own
    assert any(word.startswith("feature ") for word in words)
    assert not any(name in word for name in own for word in words)


def test_the_audit_finds_bins_and_labels_as_the_docs_say(starter):
    shown = ("--set", "privacy.partition=shown")
    found = json.loads(tacit("audit", starter, *SMALL, *shown, "--set", "train.trees=8", "--json", "--quiet"))
    attacks = {each["attack"]: each for each in found["findings"]}
    columns, labels = attacks["whole columns from all opened sums"], attacks["labels from the rows of nodes"]
    assert columns["on"]["value"] > 2 * columns["on"]["baseline"]
    assert labels["on"]["value"] > 0.8
    assert "none here: partition: hidden" in labels["protection"]
    splits = attacks["labels from the splits that won"]
    assert splits["on"] == splits["off"]
    assert "with any partition" in splits["protection"]
    assert not attacks["gradients from the words of a tree, by a χ² test"]["broken"]
