"""A vertical logistic regression as its users meet it: one file, here and over a network with certificates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from tacit.config.local import Local
from tacit.events import Aligned, Curve, Nowhere, TrainingResumed
from tacit.kinds.vertical_logistic.own_table import TRANSFORMS, stored_transforms
from tacit.kinds.vertical_logistic.party import predictor
from tacit.kinds.vertical_logistic.protocol.model import Model, Scaler
from tacit.lockstep.run import Place
from tacit.runs.load import load
from tacit.store.directory import read_events
from tacit.tables.cells import Numbers, Reading
from tacit.tables.choose import Choice
from tacit.tables.fitted import fit
from tacit.tables.settings import Column
from tests.commands import certify, ended, free_port, invoke, kill_once, start
from tests.end_to_end.cancer_tables import COLUMNS, INPUTS, NEW, OLD, auc, write_table

FILE = """\
kind: vertical_logistic
protocol: masked
name: deal
parties:
  bank: {role: active, address: "127.0.0.1:PORT"}
  shop: {role: passive}
data:
  bank: {path: bank.csv, id: id, label: y}
  shop: {path: shop.csv}
train: {epochs: 4, batch: 400, learning_rate: 1.0}
paillier: {bits: 1024}
"""
ENDLESS = ("--set", "train.epochs=10000", "--set", "checks.row_uses=100000")  # it is killed long before its end


@pytest.fixture(autouse=True)
def files(here):
    rng = np.random.default_rng(1)
    Path("deal.yaml").write_text(FILE.replace("PORT", str(free_port())))
    write_table("bank.csv", COLUMNS["bank"], rng.permutation(OLD), label=True)
    write_table("shop.csv", COLUMNS["shop"], rng.permutation(OLD)[:380])
    write_table("bank_new.csv", reversed(COLUMNS["bank"]), NEW, label=True)
    write_table("shop_new.csv", COLUMNS["shop"], rng.permutation(NEW))


def test_one_command_aligns_trains_and_leaves_each_party_its_own_part(here):
    done = invoke("run", "deal.yaml")
    assert done.exit_code == 0, done.output
    assert "aligned: 380 of 400 records are common to all" in done.output
    (run,) = Path("runs").iterdir()
    models = {name: safetensors.numpy.load_file(run / name / "model.safetensors") for name in ("bank", "shop")}
    assert models["bank"]["weights"].shape == models["shop"]["weights"].shape == (15, 1)
    assert models["shop"]["intercept"] == 0
    assert json.loads(models["bank"]["classes"].tobytes()) == ["0", "1"]
    assert "classes" not in models["shop"]
    assert not (run / "model.safetensors").exists()
    events = list(read_events(run / "events.jsonl"))
    assert any(isinstance(event, Aligned) for event in events)
    assert any(isinstance(event, Curve) and event.name.lower().startswith("roc") for event in events)
    page = (run / "report.html").read_text()
    for words in ("ROC", "Who saw what", "MaskedGradient", "Common records", "Traffic"):
        assert words in page
    predicted = invoke("predict", "deal.yaml", "--run", str(run), "--output", "scores.csv", *INPUTS)
    assert predicted.exit_code == 0, predicted.output
    assert auc() > 0.98


def test_a_run_that_was_stopped_goes_on_with_the_same_rows(here):
    process = start("run", "deal.yaml", "--quiet", *ENDLESS)
    kill_once(process, lambda: list(Path("runs").glob("*/bank/state-2.safetensors")))
    (run,) = Path("runs").iterdir()
    rows = _rows(run)
    epochs = _stored(run) + 2
    resumed = invoke("run", "--resume", str(run), "--set", f"train.epochs={epochs}")
    assert resumed.exit_code == 0, resumed.output
    assert np.array_equal(_rows(run), rows)  # the rows that were held out stay held out
    assert any(isinstance(event, TrainingResumed) for event in read_events(run / "events.jsonl"))
    again = invoke("run", "--resume", str(run))
    assert again.exit_code == 0
    assert f"all {epochs} epochs are done" in again.output


def test_a_run_does_not_go_on_with_another_table(here):
    assert invoke("run", "deal.yaml", "--set", "train.epochs=1").exit_code == 0
    (run,) = Path("runs").iterdir()
    text = Path("shop.csv").read_text()
    header, *lines = text.splitlines()
    resume = ("run", "--resume", str(run), "--set", "train.epochs=2")
    for changed in (lines[::-1], lines[:100]):
        Path("shop.csv").write_text("\n".join([header, *changed]))
        done = invoke(*resume)
        assert done.exit_code == 2, done.output
        assert "the table of shop has other rows" in done.output
    Path("shop.csv").write_text(text)
    done = invoke(*resume)
    assert done.exit_code == 0, done.output


def test_new_rows_are_read_as_the_local_file_says(here):
    settings = load(Path("deal.yaml"))
    names = [f"x{column}" for column in range(15, 30)]
    cells = {name: Numbers(np.arange(30.0)) for name in names}
    choices = [Choice(name, "numeric", Column(use="numeric", missing="mean"), "") for name in names]
    transforms = fit(choices, cells, {name: Reading("number") for name in names}, np.arange(30))
    weights = Model(np.zeros((15, 1)), Scaler.identity(15), bytes(16), np.zeros(1))
    model = {**weights.state(), TRANSFORMS: stored_transforms(transforms)}
    lines = [line.split(",", 1) for line in Path("shop_new.csv").read_text().splitlines()]
    Path("late.csv").write_text("\n".join(f"{rest},{identity}" for identity, rest in lines))
    local = Local(data={"path": "elsewhere.csv", "id": "id"})
    predictor(settings, "shop", model, Path("late.csv"), Place(None, Nowhere(), local))
    with pytest.raises(ValueError, match="'x15'"):
        predictor(settings, "shop", model, Path("late.csv"), Place(None, Nowhere()))  # the first column has no ids


def _stored(run: Path) -> int:
    """The last epoch that the bank stored."""
    return max(int(path.stem.split("-")[1]) for path in (run / "bank").glob("state-*.safetensors"))


def _rows(run: Path) -> np.ndarray:
    return safetensors.numpy.load_file(run / "bank" / f"state-{_stored(run)}.safetensors")["rows"]


@pytest.fixture
def certified(here):
    for name, own in certify(here, "bank", "shop").items():
        data = {"path": f"{name}.csv", **({"label": "y"} if name == "bank" else {})}
        Path(f"{name}.yaml").write_text(json.dumps({"keys": own, "data": data}))


def test_two_companies_train_and_predict_over_tls(certified):
    parties = [start("join", "deal.yaml", "--party", name, "--local", f"{name}.yaml") for name in ("bank", "shop")]
    for process in parties:
        ended(process)
    (bank,) = Path("runs").glob("*-bank")
    (shop,) = Path("runs").glob("*-shop")
    assert (bank / "party").read_text().strip() == "bank"
    assert "bank.csv" not in (shop / "events.jsonl").read_text()
    common = ("predict", "deal.yaml", "--output", "scores.csv")
    parties = [
        start(*common, "--party", "bank", "--run", str(bank), "--local", "bank.yaml", "--input", "bank_new.csv"),
        start(*common, "--party", "shop", "--run", str(shop), "--local", "shop.yaml", "--input", "shop_new.csv"),
    ]
    for process in parties:
        ended(process)
    assert auc() > 0.98


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "deal.yaml", "--set", "parties.shop.role=active"], "exactly one must be"),
        (["run", "deal.yaml", "--set", "data.shop.path=none.csv"], "none.csv"),
        (["run", "deal.yaml", "--set", "data.bank.label=z"], "no column 'z'"),
        (["run", "deal.yaml", "--set", "data.bank.label=x3"], "at most 100 are learnt"),
        (["run", "deal.yaml", "--set", "helper=dealer"], "masked, which has no dealer and no helper"),
        (
            ["run", "deal.yaml", "--set", "protocol=masked", "--set", "helper=none"],
            "masked, which has no dealer and no helper",
        ),
        (["run", "deal.yaml", "--set", "train.epochs=20"], "; take train.epochs: 9; or set checks.row_uses"),
        (
            ["run", "deal.yaml", "--set", "model=linear", "--set", "train.learning_rate=50"],
            "the training diverged: lower train.learning_rate",
        ),
        (["join", "deal.yaml", "--party", "lab", "--insecure"], "bank or shop"),
        (["join", "deal.yaml", "--party", "bank", "--id", "3", "--insecure"], "--id"),
        (["predict", "deal.yaml", "--run", "none", "--input", "bank_new.csv", "--output", "s.csv"], "NAME=FILE"),
        (["predict", "deal.yaml", "--run", "none", "--party", "bank", "--insecure"], "--output is missing"),
        (["predict", "deal.yaml", "--run", "none", "--output", "nowhere/s.csv"], "no folder nowhere"),
        (
            ["predict", "deal.yaml", "--run", "none", "--input", "bank=bank_new.csv", "--output", "s.csv"],
            "there is no model of bank",
        ),
    ],
)
def test_mistakes_end_with_2_and_a_sentence(arguments, words):
    done = invoke(*arguments)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output


def test_ids_that_do_not_match_are_an_error_for_all(here):
    text = Path("shop.csv").read_text().replace("\np", "\nq")
    Path("shop.csv").write_text(text)
    done = invoke("run", "deal.yaml")
    assert done.exit_code == 2, done.output
    assert "common" in done.output


def test_new_rows_are_read_by_the_columns_names(here):
    done = invoke("run", "deal.yaml", "--set", "train.epochs=1")
    assert done.exit_code == 0, done.output
    (run,) = Path("runs").iterdir()
    write_table("shop_new.csv", range(16, 30), range(400, 410))
    done = invoke("predict", "deal.yaml", "--run", str(run), "--output", "s.csv", *INPUTS)
    assert done.exit_code == 2, done.output
    assert "x15" in done.output
