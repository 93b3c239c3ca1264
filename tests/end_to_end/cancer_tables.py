"""Breast cancer as tables of two companies, `bank` with the labels and `shop`, their files, and scores read back."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import safetensors.numpy
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from tests.commands import certify, free_port, start

DATA = load_breast_cancer()
OLD, NEW = range(400), range(400, 569)
COLUMNS = {"bank": range(15), "shop": range(15, 30)}
INPUTS = ("--input", "bank=bank_new.csv", "--input", "shop=shop_new.csv")


def write_table(path: str, columns: Iterable[int], rows: Iterable[int], *, label: bool = False) -> None:
    """A CSV file with an id for each row."""
    columns = list(columns)
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(["y"] if label else []), *(f"x{column}" for column in columns)])
        for row in rows:
            values = [DATA.data[row, column] for column in columns]
            writer.writerow([f"p{row:04}", *([DATA.target[row]] if label else []), *values])


def write_tables() -> None:
    """Tables of the same rows in the same order, to train with and to predict."""
    for name, columns in COLUMNS.items():
        write_table(f"{name}.csv", columns, OLD, label=name == "bank")
        write_table(f"{name}_new.csv", columns, NEW)


def write_deal(*, epochs: int, dealer: bool = False) -> None:
    """The file of a training on shares, which names no protocol, and its tables."""
    Path("deal.yaml").write_text(f"""\
kind: vertical_logistic
name: deal
parties:
  bank: {{role: active, address: "127.0.0.1:{free_port()}"}}
  shop: {{role: passive}}
  {"notary: {role: dealer}" if dealer else ""}
align: false
train: {{epochs: {epochs}, batch: 64, learning_rate: 0.5}}
network: {{patience: 300, lost_after: 1}}
data:
  bank: {{path: bank.csv, id: id, label: y}}
  shop: {{path: shop.csv}}
""")
    write_tables()


def move_apart(folder: Path, *names: str) -> None:
    """Give each party a file of its own with its keys and its data, which the common file then lacks."""
    for name, own in certify(folder, *names).items():
        data = {"path": f"{name}.csv", **({"label": "y"} if name == "bank" else {})}
        Path(f"{name}.yaml").write_text(json.dumps({"keys": own} | ({"data": data} if name in COLUMNS else {})))
    Path("deal.yaml").write_text(Path("deal.yaml").read_text().split("data:")[0])


def joined(name: str) -> subprocess.Popen[str]:
    """One party over the network, with a folder of its own."""
    return start("join", "deal.yaml", "--party", name, "--local", f"{name}.yaml", "--state", f"runs/{name}")


def weights(folder: str | Path) -> dict[str, np.ndarray]:
    """Each company's part of a stored model."""
    return {name: safetensors.numpy.load_file(Path(folder) / name / "model.safetensors")["weights"] for name in COLUMNS}


def auc(path: str = "scores.csv") -> float:
    """Of the scores in a file."""
    labels, found = _scores(path)
    return float(roc_auc_score(labels, [float(row["score"]) for row in found]))


def right_decisions(path: str = "scores.csv") -> float:
    """The share of rows whose decision in a file is their label."""
    labels, found = _scores(path)
    return float(np.mean([label == int(row["decision"]) for label, row in zip(labels, found, strict=True)]))


def _scores(path: str) -> tuple[list[int], list[dict[str, str]]]:
    """The true labels of the rows that were predicted, and what the file says of them."""
    with Path(path).open() as file:
        found = list(csv.DictReader(file))
    assert len(found) == len(NEW)
    return [int(DATA.target[int(row["id"][1:])]) for row in found], found
