"""A split training on the parties' own tables as its users meet it: trained, predicted, resumed, joined and audited."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.commands import ended, free_port, invoke, start
from tests.kinds.split import messy_cancer

pytest.importorskip("torch")


@pytest.fixture
def data(here) -> messy_cancer.Messy:
    found = messy_cancer.write(here)
    shared = messy_cancer.settings(Path(), train={"epochs": 4, "batch": 32, "learning_rate": 0.005})
    shared["parties"]["clinic"]["address"] = f"127.0.0.1:{free_port()}"
    Path("messy.yaml").write_text(json.dumps(shared))
    return found


def scored(data: messy_cancer.Messy) -> float:
    """The AUC of scores.csv over all rows."""
    with Path("scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    labels = [data.labels[data.ids.index(row["id"])] for row in rows]
    return float(roc_auc_score(1 - np.array(labels), [float(row["score"]) for row in rows]))


def test_trained_resumed_and_predicted(data):
    done = invoke("run", "messy.yaml")
    assert done.exit_code == 0, done.output
    assert "laboratory: Columns: " in done.output  # what was chosen for its columns
    (run,) = Path("runs").iterdir()
    longer = invoke("run", "--resume", run, "--set", "train.epochs=6")
    assert longer.exit_code == 0, longer.output
    inputs = [word for name in ("clinic", "laboratory") for word in ("--input", f"{name}={name}.csv")]
    done = invoke("predict", "messy.yaml", "--run", run, *inputs, "--output", "scores.csv")
    assert done.exit_code == 0, done.output
    assert scored(data) > 0.97
    page = (run / "report.html").read_text()
    assert "laboratory.csv" not in invoke("report", run, "--share").output
    assert "auc" in page.lower()


def test_a_plan_and_a_wrong_table_end_with_a_sentence(data):
    done = invoke("plan", "messy.yaml")
    assert done.exit_code == 0, done.output
    assert "the training has the rows that all have" in " ".join(done.output.split())
    Path("local.yaml").write_text("task_options: {data: {path: laboratory.csv}}\n")
    own = invoke("plan", "messy.yaml", "--party", "laboratory", "--local", "local.yaml")
    assert own.exit_code == 0, own.output
    lines = Path("laboratory.csv").read_text().splitlines()
    twice = ",".join([lines[1].split(",")[0], lines[-1].split(",", 1)[1]])  # an id again, with other cells
    Path("laboratory.csv").write_text("\n".join([*lines, twice]))
    done = invoke("run", "messy.yaml")
    assert done.exit_code == 2, done.output
    assert "laboratory.csv" in done.output
    assert "Traceback" not in done.output
    missing = invoke("run", "messy.yaml", "--set", "task_options.data.clinic.path=nowhere.csv")
    assert missing.exit_code == 2, missing.output
    assert "nowhere.csv" in missing.output


@pytest.mark.slow  # 10 s; tests/kinds/split/tasks/test_tabular.py trains from local files without processes
def test_parties_over_a_network_bring_their_own_tables(data):
    shared = json.loads(Path("messy.yaml").read_text())
    del shared["task_options"]["data"]
    Path("messy.yaml").write_text(json.dumps(shared))
    names = ("clinic", "laboratory")
    for name in names:
        Path(name).mkdir()
        Path(f"{name}.csv").rename(f"{name}/table.csv")
        Path(f"{name}/local.yaml").write_text("task_options: {data: {path: table.csv}}\n")

    def joined(verb: str, *more: str) -> None:
        own = {name: ("--party", name, "--local", f"{name}/local.yaml", "--insecure") for name in names}
        for process in [
            start(verb, "messy.yaml", *own[name], *(word.replace("NAME", name) for word in more)) for name in names
        ]:
            ended(process)

    joined("join", "--runs", "runs-NAME")
    runs = {name: next(Path(f"runs-{name}").iterdir()) for name in names}
    for name, run in runs.items():
        run.rename(f"run-{name}")
    joined("predict", "--run", "run-NAME", "--input", "NAME/table.csv", "--output", "scores.csv")
    assert scored(data) > 0.97


@pytest.mark.slow  # 20 s
def test_the_audit_attacks_the_networks_of_the_tables(data):
    done = invoke("audit", "messy.yaml", "--set", "label_dp.eps=3")
    assert done.exit_code in (0, 1), done.output
    assert "Traceback" not in done.output
    assert "activations inverted" in done.output
    assert "labels inferred from the direction of gradients" in done.output
