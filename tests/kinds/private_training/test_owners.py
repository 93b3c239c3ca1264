"""A file whose unit is an owner: plan, run, resume, report, boundary and fingerprint speak of owners."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch")

import tacit
from tacit.config.source import ConfigError
from tacit.kinds.private_training import boundary
from tacit.kinds.private_training import run as private_training
from tacit.kinds.private_training.owners import planned
from tacit.kinds.private_training.settings import Privacy
from tacit.kinds.private_training.tasks import load as tasks
from tacit.runs.load import load
from tacit.runs.report import write_report
from tests.commands import invoke

HERE = "tests.kinds.private_training.owned_digits"
FILE: dict[str, Any] = {
    "kind": "private_training",
    "name": "writers",
    "task": f"{HERE}:make_training",
    "privacy": {"epsilon": 5.0, "unit": "owner", "owner": "writer", "records_per_owner": 4},
    "train": {"epochs": 2, "batch": 60, "learning_rate": 2.0},
}
WRITERS = 302


def changed(**privacy):
    return {**FILE, "privacy": {**FILE["privacy"], **privacy}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return tacit.run(FILE, runs=tmp_path_factory.mktemp("runs"))


def test_the_ledger_is_of_owners(finished):
    (ledger,) = finished.ledger["ledgers"]
    assert (ledger["unit"], ledger["relation"]) == ("owner", "add-remove")
    assert ledger["against"].startswith("for each owner with all its records, for adding it or leaving it out")
    (line,) = ledger["lines"]
    assert line["sampling_probability"] == pytest.approx(60 / WRITERS)
    assert line["count"] == 2 * round(WRITERS / 60)
    assert ledger["epsilon"] == pytest.approx(5.0, rel=1e-3)
    assert finished.history[-1].metrics["accuracy"] > 0.3


def test_the_report_speaks_of_owners_and_not_of_records(finished):
    page = (finished.directory / "report.html").read_text()
    assert "for each owner with all its records" in page
    assert "whether an owner with all its records was trained on" in page
    assert "owner, add-remove" in page
    assert "for each record" not in page
    shared = write_report([finished.directory], share=True).read_text()
    assert "for each owner" in shared
    assert "for each record" not in shared


@pytest.mark.parametrize("owner", ["writer", f"{HERE}:whose"])
def test_the_plan_is_that_of_owners(owner):
    made = private_training.forecast(load(changed(owner=owner)))
    assert made.figures["owners"] == WRITERS
    assert made.figures["sampling_probability"] == pytest.approx(60 / WRITERS)
    text = str(made.parts)
    assert "unit owner, add-remove" in text
    assert "at most 4 of its records, drawn anew for each step" in text
    assert "each owner is in a sample" in text
    assert "unit record" not in text


def test_ids_may_be_tensors_of_one_number():
    settings = load(changed(owner=f"{HERE}:label") | {"train": {"epochs": 1, "batch": 2}})
    assert planned(settings, tasks.make_training(FILE["task"], 0, {}).records).plan.owners == 10


def test_a_run_is_resumed_and_its_unit_cannot_change(finished, tmp_path):
    stopped = tacit.run(changed(epsilon=None, noise_multiplier=2.0) | {"seed": 1}, runs=tmp_path)
    folder = str(stopped.directory)
    assert invoke("run", "--resume", folder, "--quiet", "--set", "train.epochs=3").exit_code == 0
    (ledger,) = json.loads((stopped.directory / "ledger.json").read_text())["ledgers"]
    assert ledger["lines"][0]["count"] == 3 * round(WRITERS / 60)
    assert ledger["unit"] == "owner"
    refused = invoke("run", "--resume", folder, "--set", "train.epochs=4", "--set", "privacy.records_per_owner=5")
    assert refused.exit_code == 2
    assert "privacy.records_per_owner" in refused.stderr


@pytest.mark.parametrize("missing", ["unit", "owner", "records_per_owner"])
def test_the_three_keys_go_together(missing):
    privacy = {key: value for key, value in FILE["privacy"].items() if key != missing}
    with pytest.raises(ConfigError, match="give all three, or none of them"):
        load(FILE | {"privacy": privacy})


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        ("doctor", "column 'doctor', records have image, label, writer"),
        (0, "column 0, a record is a dict"),
        ("no_such_module:whose", "privacy.owner 'no_such_module:whose' needs the module 'no_such_module'"),
        (f"{HERE}:nothing", "has no function nothing"),
    ],
)
def test_owners_that_cannot_be_read_are_refused(owner, said):
    with pytest.raises(ValueError, match=said):
        planned(load(changed(owner=owner)), tasks.make_training(FILE["task"], 0, {}).records)


def test_files_without_owners_are_stored_as_before():
    stored = Privacy(epsilon=3.0).model_dump()
    assert set(stored) == {"epsilon", "noise_multiplier", "delta", "tier", "sampling"}
    assert Privacy(**FILE["privacy"]).model_dump()["owner"] == "writer"
    assert json.loads(Privacy(**FILE["privacy"]).model_dump_json())["unit"] == "owner"


def test_the_boundary_says_whom_it_protects():
    owners, records = boundary.of(load(FILE)), boundary.of(load(FILE | {"privacy": {"epsilon": 3.0}}))
    assert any("a single owner, with all its records," in each for each in owners.sees)
    assert any("a single record" in each for each in records.sees)
    assert not any("one by one" in each for each in owners.unprotected)
