"""What a file says of the tables of a split training: wrong input, plans without tables, and the check of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit.config.local import Local
from tacit.kinds.split import party_tables
from tacit.kinds.split.party import forecast
from tacit.kinds.split.settings import Settings
from tests.commands import invoke
from tests.kinds.split import messy_cancer


def changed(folder: Path, data: Any, **changes: Any) -> dict[str, Any]:
    found = messy_cancer.settings(folder, **changes)
    found["task_options"]["data"] = data
    return found


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"path": "a.csv"}, "give each party's table by its name"),
        (["a.csv"], "give each party's table by its name"),
        ({"shop": {"path": "a.csv"}}, "shop is none of the parties clinic, laboratory"),
        ({"clinic": {}}, "a table comes from path, source or frame"),
        ({"clinic": {"path": "a.csv", "colour": 1}}, "task_options.data.clinic.colour"),
        ({"laboratory": {"path": "a.csv", "label": "y"}}, "laboratory is a follower and has no label"),
        ({"laboratory": {"path": "a.csv", "columns": {"city": "woe"}}}, "woe needs counts of labels"),
        ({"clinic": {"path": "a.csv", "columns": {"city": "woe"}}}, "woe needs counts of labels"),
        ({"clinic": {"path": "a.csv", "label_counts": True}}, "leave out label_counts"),
        ({"clinic": {"frame": [1]}}, "a frame is not taken here"),
    ],
)
def test_wrong_sections_are_refused_in_a_sentence(tmp_path, data, words):
    with pytest.raises(ValueError, match=words):
        Settings.model_validate(changed(tmp_path, data))


def test_a_password_in_a_section_is_refused_and_not_shown(tmp_path):
    url = "postgresql://me:letmein@db/bank"
    data = {"clinic": {"source": {"url": url, "query": "select 1"}}}
    with pytest.raises(tacit.ConfigError, match="url holds a password") as caught:
        tacit.load(changed(tmp_path, data))
    assert "letmein" not in str(caught.value)


def test_tables_are_for_topology_v(tmp_path):
    with pytest.raises(ValueError, match="take topology V"):
        Settings.model_validate(messy_cancer.settings(tmp_path, topology="U", align=False))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("a.csv", "the local file of laboratory: task_options.data is 'a.csv'"),
        ({"path": "a.csv", "label": "y"}, "laboratory is a follower"),
        ({"path": "a.csv", "columns": {"x": "woe"}}, "woe needs counts of labels"),
    ],
)
def test_wrong_local_files_are_refused_in_a_sentence(tmp_path, data, words):
    settings = Settings.model_validate(messy_cancer.settings(tmp_path))
    with pytest.raises(ValueError, match=words):
        party_tables.check_tables(settings, "laboratory", Local(task_options={"data": data}), tmp_path)


def test_a_check_says_all_that_is_wrong_with_all_tables(here):
    messy_cancer.write(here)
    file = here / "messy.json"
    shared = messy_cancer.settings(here)
    _dump(file, shared)
    done = invoke("data", "check", str(file))
    assert done.exit_code == 0, done.output
    assert "529 ids are common to clinic, laboratory" in done.output
    (here / "laboratory.csv").write_text("id,x\n1,2\n1,3\n,4\n")
    done = invoke("data", "check", str(file))
    assert done.exit_code == 2, done.output
    assert "laboratory.csv" in done.output
    assert "error" in done.output


def test_a_check_reads_one_partys_own_file(here):
    messy_cancer.write(here)
    shared = messy_cancer.settings(here)
    del shared["task_options"]["data"]
    _dump(here / "messy.json", shared)
    (here / "site").mkdir()
    (here / "laboratory.csv").rename(here / "site" / "own.csv")
    _dump(here / "site" / "local.json", {"task_options": {"data": {"path": "own.csv"}}})
    own = ("--party", "laboratory", "--local", "site/local.json")
    done = invoke("data", "check", "messy.json", *own)
    assert done.exit_code == 0, done.output
    assert "549 rows" in done.output
    assert "no table is here" in invoke("data", "check", "messy.json").output
    assert "there are no data of clinic" in invoke("data", "check", "messy.json", "--party", "clinic").output
    assert "give clinic or laboratory" in invoke("data", "check", "messy.json", "--party", "shop").output


def test_other_tasks_have_no_table_to_check(here):
    _dump(here / "cancer.json", {**messy_cancer.settings(here), "task": "split_cancer", "task_options": {}})
    done = invoke("data", "check", "cancer.json")
    assert done.exit_code == 2
    assert "the data come from the task split_cancer" in done.output


def test_a_plan_does_without_tables_that_are_elsewhere(tmp_path):
    messy_cancer.write(tmp_path)
    shared = messy_cancer.settings(tmp_path, embedding_dp={"eps": 4})
    here = forecast(Settings.model_validate(shared)).figures
    assert here["records"] == 549 - 137  # the smaller table, a quarter held back
    assert here["embedding_epsilon_training.laboratory"] == 12 * 8 * 2
    del shared["task_options"]["data"]["clinic"]
    followers = forecast(Settings.model_validate(shared))
    assert followers.figures["records"] == here["records"]
    del shared["task_options"]["data"]
    nobody = forecast(Settings.model_validate(shared))
    assert "records" not in nobody.figures
    assert nobody.figures["embedding_epsilon_training.laboratory"] == 12 * 8 * 2
    assert nobody.figures["bytes_step"] == 32 * 8 // 8 + 32 * 8 * 4  # bits there, floats back
    assert any("No table is here" in str(note) for note in nobody.parts["Warnings"])


def _dump(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data))
