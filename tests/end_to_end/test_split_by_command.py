"""A split training as its users meet it: one file, here and over a network with certificates."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

import tacit
from tacit.events import TrainingResumed
from tacit.store.directory import read_events
from tests.commands import certify, ended, free_port, invoke, kill_once, start
from tests.subprocesses import HANGS

pytest.importorskip("torch")

FILE = """\
kind: split
name: clinic
topology: V
task: split_cancer
parties:
  clinic: {role: leader, address: "127.0.0.1:PORT"}
  laboratory: {role: follower}
  scanner: {role: follower}
train: {epochs: 4, batch: 64, learning_rate: 0.01}
seed: 3
"""
PROTECTED = ["--set", "embedding_dp.eps=5", "--set", "label_dp.eps=3"]


@pytest.fixture(autouse=True)
def file(here):
    Path("clinic.yaml").write_text(FILE.replace("PORT", str(free_port())))


def weights(run: Path, party: str) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(run / party / "model.safetensors")


def test_one_command_trains_and_leaves_each_party_its_own_part_and_ledger():
    done = invoke("run", "clinic.yaml", *PROTECTED)
    assert done.exit_code == 0, done.output
    assert "The embedding is protected by EmbeddingDP with eps 5.000000." in done.output
    (run,) = Path("runs").iterdir()
    assert {key.split(".")[0] for key in weights(run, "clinic")} == {"network"}
    covers = [ledger["covers"][0] for ledger in json.loads((run / "ledger.json").read_text())["ledgers"]]
    assert "records of laboratory" in covers
    assert "labels of clinic" in covers
    ledgers = json.loads((run / "ledger.json").read_text())["ledgers"]
    spent = {ledger["covers"][0]: ledger["epsilon"] for ledger in ledgers}
    assert spent["records of laboratory"] == pytest.approx(16 * 4 * 2.5)  # bits, visits, eps/2
    assert spent["labels of clinic"] == pytest.approx(3)
    page = (run / "report.html").read_text()
    for words in (
        "In floats it would be",
        "Loss of steps",
        "Who saw what",
        "Activations",
        "records of laboratory",
        "Traffic",
    ):
        assert words in page
    log = (run / "run.log").read_text()
    assert "epoch 2 step 2/8" in log
    assert "loss:" in log


def test_the_plan_gives_the_epsilon_that_the_run_has():
    planned = json.loads(invoke("plan", "clinic.yaml", *PROTECTED, "--json").stdout)
    assert "160" in json.dumps(planned)
    words = invoke("plan", "clinic.yaml", *PROTECTED).stdout
    assert "hides nothing" in words


@pytest.mark.slow  # 10 s; tests/end_to_end/test_interruptions.py kills parties without processes
def test_killed_and_resumed_it_ends_as_if_it_had_not_been():
    process = start("run", "clinic.yaml", "--quiet", "--set", "train.epochs=100000")  # it is killed long before its end
    kill_once(process, lambda: any(_saved(run) > 16 for run in Path("runs").glob("*")))
    (run,) = Path("runs").iterdir()
    epochs = f"train.epochs={_saved(run) + 3}"
    resumed = invoke("run", "--resume", str(run), "--set", epochs)
    assert resumed.exit_code == 0, resumed.output
    whole = tacit.run("clinic.yaml", overrides=[epochs], runs="whole")
    assert any(isinstance(event, TrainingResumed) for event in read_events(run / "events.jsonl"))
    for party in ("clinic", "laboratory", "scanner"):
        expected = weights(whole.directory, party)
        assert all(np.allclose(array, expected[key], atol=1e-5) for key, array in weights(run, party).items())


def _saved(run: Path) -> int:
    """The last epoch that the clinic stored."""
    return max((int(path.stem.split("-")[1]) for path in (run / "clinic").glob("state-*.safetensors")), default=0)


@pytest.mark.parametrize(
    "followers", [("laboratory",), pytest.param(("laboratory", "scanner"), marks=pytest.mark.slow)]
)
def test_parties_over_tls_train_as_they_do_here_and_predict(here, followers):
    text = Path("clinic.yaml").read_text()
    if "scanner" not in followers:
        text = text.replace("  scanner: {role: follower}\n", "")
    # First weights from the seed, also over a network.
    Path("clinic.yaml").write_text(text + "simulation: {insecure_noise_seed: 1}\n")
    local = tacit.run("clinic.yaml", runs="local")
    names = ("clinic", *followers)
    for name, own in certify(here, *names).items():
        Path(f"{name}-local.yaml").write_text(json.dumps({"keys": own}))
    processes = [
        start("join", "clinic.yaml", "--party", name, "--local", f"{name}-local.yaml", "--test-insecure-noise")
        for name in names
    ]
    for process in processes:
        ended(process)
    for name in names:
        (run,) = Path("runs").glob(f"*-{name}")
        expected = weights(local.directory, name)
        found = safetensors.numpy.load_file(run / "model.safetensors")
        assert all(np.allclose(array, expected[key], atol=1e-5) for key, array in found.items())
    data = load_breast_cancer()
    share = 30 // len(followers)
    held = {name: range(number * share, (number + 1) * share) for number, name in enumerate(followers)}
    for name, columns in {"clinic": range(0), **held}.items():
        with Path(f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *(f"x{column}" for column in columns)])
            writer.writerows([f"p{row}", *(data.data[row, column] for column in columns)] for row in range(100))
    done = invoke(
        "predict", "clinic.yaml", "--run", str(local.directory), "--output", "scores.csv",
        *(word for name in names for word in ("--input", f"{name}={name}.csv")),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    with Path("scores.csv").open() as file:
        scores = [float(row["score"]) for row in csv.DictReader(file)]
    assert roc_auc_score(data.target[:100], scores) > 0.97


@pytest.mark.slow  # 10 s; tests/kinds/split/tasks/test_load.py looks at the weights without processes
def test_over_a_network_first_weights_are_secret():
    changes = ["--set", "train.epochs=1", "--set", "train.learning_rate=1e-9"]
    local = tacit.run("clinic.yaml", overrides=changes[1::2], runs="local")
    names = ("clinic", "laboratory", "scanner")
    for process in [start("join", "clinic.yaml", "--party", name, "--insecure", *changes) for name in names]:
        ended(process)
    for name in names:
        (run,) = Path("runs").glob(f"*-{name}")
        found, known = safetensors.numpy.load_file(run / "model.safetensors"), weights(local.directory, name)
        drawn = [key for key in found if key.endswith("weight") and found[key].ndim == 2]
        assert drawn
        assert not any(np.allclose(found[key], known[key], atol=1e-3) for key in drawn)


@pytest.mark.slow  # 10 s
def test_over_a_network_a_third_party_hears_why():
    """With one cut narrower at the laboratory, by its own task_options, all three hear of it; the scanner too."""
    Path("laboratory.yaml").write_text("task_options: {width: 7}\n")
    names = ("clinic", "laboratory", "scanner")
    local = {"laboratory": ["--local", "laboratory.yaml"]}
    processes = {
        name: start("join", "clinic.yaml", "--party", name, "--insecure", *local.get(name, [])) for name in names
    }
    said = {name: process.communicate(timeout=HANGS) for name, process in processes.items()}
    for name in names:
        assert processes[name].returncode == 3, said[name]
        assert "cut dimensions disagree" in said[name][1], said[name]


def test_a_run_that_is_stopped_by_its_budget_says_what_was_spent():
    done = invoke("run", "clinic.yaml", *PROTECTED, "--set", "budget.epsilon=100")  # 40 an epoch
    assert done.exit_code == 4, done.output
    (run,) = Path("runs").iterdir()
    ledgers = json.loads((run / "ledger.json").read_text())["ledgers"]
    spent = {ledger["covers"][0]: ledger["epsilon"] for ledger in ledgers}
    assert spent["records of laboratory"] == pytest.approx(80)
    assert spent["labels of clinic"] == pytest.approx(3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "clinic.yaml", "--set", "topology=U"], "topology U has one follower"),
        (["run", "clinic.yaml", "--set", "task=nothing"], "not known"),
        (["run", "clinic.yaml", "--set", "embedding_dp.eps=-1"], "embedding_dp.eps"),
        (["run", "clinic.yaml", "--set", "train.optimizer=magic"], "magic"),
        (["run", "clinic.yaml", "--set", "align=true"], "ids"),
        (["join", "clinic.yaml", "--party", "nobody", "--insecure"], "clinic or laboratory or scanner"),
        (["predict", "clinic.yaml", "--run", "none", "--output", "x.csv"], "there is no model of clinic"),
    ],
)
def test_mistakes_end_with_2_and_a_sentence(arguments, words):
    done = invoke(*arguments)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output


def test_a_text_is_trained_in_topology_u_and_continued(here):
    Path("a.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60)
    Path("text.yaml").write_text(
        json.dumps(
            {
                "kind": "split",
                "topology": "U",
                "task": "text",
                "task_options": {"path": "a.txt", "layers": 1, "width": 16, "heads": 2, "sequence": 8},
                "parties": {"office": {"role": "leader"}, "cloud": {"role": "follower"}},
                "train": {"epochs": 3, "batch": 8, "learning_rate": 0.01},
            }
        )
    )
    done = invoke("run", "text.yaml")
    assert done.exit_code == 0, done.output
    assert "tokens/s" in done.output
    (run,) = Path("runs").iterdir()
    done = invoke("predict", "text.yaml", "--run", str(run), "--input", "office=a.txt", "--output", "next.csv")
    assert done.exit_code == 0, done.output
    assert len(Path("next.csv").read_text().splitlines()) > 10
