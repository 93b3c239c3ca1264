"""Rows that are held out change nothing that is fitted; predictions of tables from CSV and from typed files agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from tacit.kinds.vertical_logistic.protocol import batches
from tacit.store.files import write_arrays
from tests.commands import invoke

ROWS = 300
DEAL: dict[str, Any] = {
    "kind": "vertical_logistic",
    "protocol": "masked",
    "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}},
    "data": {
        "bank": {"path": "bank.csv", "label_counts": True},
        "shop": {"path": "shop.csv", "columns": {"spent": "log", "visits": "bin", "basket": "woe"}},
    },
    "align": False,
    "train": {"epochs": 1, "batch": 256, "batch_order": "permuted", "secret_spread": 0},
    "paillier": {"bits": 512},
    "checks": {"row_uses": 100},
}


def tables(held_out=None):
    """Two tables; with `held_out`, the cells of these rows are others."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, ROWS)
    bank = pd.DataFrame({"id": [f"p{row}" for row in range(ROWS)], "y": y, "income": rng.normal(size=ROWS) + y})
    bank["member"] = rng.choice(["True", "False"], ROWS)
    bank["since"] = [f"2024-03-{1 + row % 28:02d} 10:37:11.123456" for row in range(ROWS)]
    shop = pd.DataFrame({"id": bank["id"], "spent": np.exp(rng.normal(size=ROWS))})
    shop["visits"] = rng.normal(size=ROWS).round(4)
    shop["basket"] = (rng.normal(size=ROWS) + y).round(4)
    shop["city"] = rng.choice(["Bern", "Genf", "Uri"], ROWS)
    if held_out is not None:
        bank.loc[held_out, "income"] = 1e6
        shop.loc[held_out, ["spent", "visits", "basket"]] = 1e6
        shop.loc[held_out, "city"] = "Basel"
    return bank, shop


def trained(name, held_out=None):
    bank, shop = tables(held_out)
    bank.to_csv("bank.csv", index=False)
    shop.to_csv("shop.csv", index=False)
    Path("deal.yaml").write_text(json.dumps(DEAL))
    done = invoke("run", "deal.yaml", "--state", name, "--quiet")
    assert done.exit_code == 0, done.output
    parts = {party: load_file(Path(name) / party / "model.safetensors") for party in ("bank", "shop")}
    return {(party, key): value for party, part in parts.items() for key, value in part.items() if key != "session"}


def predicted(bank, shop):
    done = invoke(
        "predict",
        "deal.yaml",
        "--run",
        "run",
        "--input",
        f"bank={bank}",
        "--input",
        f"shop={shop}",
        "--output",
        "o.csv",
    )
    assert done.exit_code == 0, done.output
    return Path("o.csv").read_text()


def test_cells_of_rows_that_are_held_out_change_nothing_that_is_stored_but_the_deciles_of_their_scores(here):
    first = trained("run")
    other = trained("other", batches.hold_out(ROWS, 0.2, 0)[1])
    assert {key for key in first if not np.array_equal(first[key], other[key])} == {("bank", "deciles")}


def test_booleans_and_times_of_a_typed_file_are_scored_as_those_of_the_csv_of_the_training(here):
    trained("run")
    bank, shop = tables()
    expected = predicted("bank.csv", "shop.csv")
    bank["member"] = bank["member"] == "True"
    bank["since"] = pd.to_datetime(bank["since"])
    bank.to_parquet("bank.parquet")
    shop[reversed(shop.columns)].to_parquet("shop.parquet")
    Path("deal.yaml").write_text(
        json.dumps(DEAL | {"data": {name: each | {"id": "id"} for name, each in DEAL["data"].items()}})
    )
    assert predicted("bank.parquet", "shop.parquet") == expected


@pytest.mark.parametrize(
    "damaged", [b"", b"hello", b"[" * 100_000, b'{"version": ' + b"9" * 5000 + b"}", b"\xff", None]
)
def test_damaged_transforms_are_a_sentence(here, damaged):
    trained("run")
    path = Path("run/shop/model.safetensors")
    part = load_file(path)
    if damaged is None:
        state = json.loads(part["transforms"].tobytes())
        damaged = json.dumps(state | {"readings": {}}).encode()
    write_arrays(path, {**part, "transforms": np.frombuffer(damaged, np.uint8)}, {"round": "1"})
    done = invoke(
        "predict",
        "deal.yaml",
        "--run",
        "run",
        "--input",
        "bank=bank.csv",
        "--input",
        "shop=shop.csv",
        "--output",
        "o.csv",
    )
    assert done.exit_code == 2
    assert "the stored transforms are damaged" in done.output or "as in the training's table" in done.output
    assert "Traceback" not in done.output


def test_a_model_of_a_task_predicts_rows_of_files(here):
    Path("deal.yaml").write_text(
        json.dumps({key: DEAL[key] for key in ("kind", "parties", "train", "paillier", "checks")} | {"task": "cancer"})
    )
    assert invoke("run", "deal.yaml", "--state", "run", "--quiet").exit_code == 0
    for party in ("bank", "shop"):
        state = json.loads(load_file(f"run/{party}/model.safetensors")["transforms"].tobytes())
        frame = pd.DataFrame({column["name"]: [0.5, 1.5] for column in state["columns"]})
        frame.insert(0, "id", ["a", "b"])
        frame.to_csv(f"{party}.csv", index=False)
    assert predicted("bank.csv", "shop.csv").splitlines()[0] == "id,score,decision"


@pytest.mark.parametrize("model", ["logistic", "linear"])
def test_a_training_that_diverges_ends_in_a_sentence(here, model):
    bank, shop = tables()
    bank.to_csv("bank.csv", index=False)
    shop.to_csv("shop.csv", index=False)
    train = DEAL["train"] | {"epochs": 20, "learning_rate": 1e9}
    data = {"bank": {"path": "bank.csv"}, "shop": {"path": "shop.csv"}}
    Path("deal.yaml").write_text(json.dumps(DEAL | {"model": model, "train": train, "data": data}))
    done = invoke("run", "deal.yaml", "--state", "run", "--quiet")
    assert done.exit_code == 2
    assert "the training diverged" in done.output
    assert "lower train.learning_rate" in done.output
    assert "Traceback" not in done.output
