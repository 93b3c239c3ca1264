"""Regression on shares between two companies and nobody else, as they meet it: here, and over a network."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from tacit.events import EpochFinished, TrainingResumed, TrainingStarted
from tacit.store.directory import read_events
from tests.commands import certify, ended, free_port, invoke, kill_once, start

DATA = load_breast_cancer()
NAMES = ("bank", "shop")
FILE = """\
kind: vertical_logistic
name: deal
helper: none
parties:
  bank: {role: active, address: "127.0.0.1:PORT"}
  shop: {role: passive}
data:
  bank: {path: bank.csv, id: id, label: y}
  shop: {path: shop.csv}
"""
COMMON = """\
align: false
train: {epochs: 8, batch: 64, learning_rate: 0.5}
network: {patience: 300, lost_after: 1}
"""


def write_table(path, columns, rows, label=False):
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(["y"] if label else []), *(f"x{column}" for column in columns)])
        for row in rows:
            values = [DATA.data[row, column] for column in columns]
            writer.writerow([f"p{row:04}", *([DATA.target[row]] if label else []), *values])


@pytest.fixture(autouse=True)
def files(here):
    Path("deal.yaml").write_text(FILE.replace("PORT", str(free_port())) + COMMON)
    old, new = np.arange(400), np.arange(400, 569)
    write_table("bank.csv", range(15), old, True)
    write_table("shop.csv", range(15, 30), old)
    write_table("bank_new.csv", range(15), new)
    write_table("shop_new.csv", range(15, 30), new)


def scores(path="scores.csv"):
    with Path(path).open() as file:
        found = list(csv.DictReader(file))
    assert len(found) == 169
    return [DATA.target[int(row["id"][1:])] for row in found], found


def weights(folder):
    return {name: safetensors.numpy.load_file(Path(folder) / name / "model.safetensors")["weights"] for name in NAMES}


def test_one_command_trains_and_predicts(here):
    done = invoke("run", "deal.yaml")
    assert done.exit_code == 0, done.output
    (run,) = Path("runs").iterdir()
    page = (run / "report.html").read_text()
    for words in ("secret shares between two parties", "in groups of more than 10", "Product", "Diffie-Hellman"):
        assert words in page, words
    for words in ("dealer", "None", "Paillier"):
        assert words not in page, words
    events = list(read_events(run / "events.jsonl"))
    (begun,) = (event for event in events if isinstance(event, TrainingStarted))
    assert begun.protection == "secret shares between two parties"
    (local,) = (event.local for event in events if isinstance(event, EpochFinished) if event.local)
    assert local["auc"] > 0.93
    inputs = ("--input", "bank=bank_new.csv", "--input", "shop=shop_new.csv")
    for release, least in (("decile", 0.96), ("exact", 0.98)):
        done = invoke(
            "predict", "deal.yaml", "--run", str(run), "--output", "scores.csv", *inputs,
            "--set", f"predict.release={release}",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        labels, found = scores()
        assert roc_auc_score(labels, [float(row["score"]) for row in found]) > least


def test_a_plan_counts_bytes_transfers_and_distances():
    done = invoke("plan", "deal.yaml")
    assert done.exit_code == 0, done.output
    for words in ("oblivious transfers", "statistical distances", "A step has 3 exchanges"):
        assert words in done.output, words
    assert "dealer sees" not in done.output


@pytest.mark.parametrize("victim", NAMES)
def test_a_party_that_is_killed_over_tls_resumes_and_both_predict(here, victim):
    for name, own in certify(here, *NAMES).items():
        data = {"path": f"{name}.csv", **({"label": "y"} if name == "bank" else {})}
        Path(f"{name}.yaml").write_text(json.dumps({"keys": own, "data": data}))
    Path("deal.yaml").write_text(Path("deal.yaml").read_text().split("data:")[0] + COMMON)

    def joined(name):
        return start("join", "deal.yaml", "--party", name, "--local", f"{name}.yaml", "--state", f"runs/{name}")

    parties = {name: joined(name) for name in NAMES}
    kill_once(parties[victim], lambda: list(Path("runs").glob("bank/state-2.safetensors")))
    parties[victim] = joined(victim)
    for process in parties.values():
        ended(process)
    assert {name: each.shape for name, each in weights("runs").items()} == dict.fromkeys(NAMES, (15, 1))
    assert any(isinstance(event, TrainingResumed) for event in read_events(Path("runs/shop/events.jsonl")))
    predicting = [
        start(
            "predict", "deal.yaml", "--output", "scores.csv", "--party", name, "--run", f"runs/{name}",
            "--local", f"{name}.yaml", "--input", f"{name}_new.csv", "--set", "predict.release=points",
        )
        for name in NAMES
    ]  # fmt: skip
    for process in predicting:
        ended(process)
    labels, found = scores()
    assert np.mean([label == int(row["decision"]) for label, row in zip(labels, found, strict=True)]) > 0.9
