"""Counts of labels and predictions between two companies over loopback with certificates: refused, killed, spent."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from examples import raw_tables
from tacit.kinds.vertical_logistic.protocol.batches import hold_out
from tests.commands import certify, ended, free_port, invoke, start, start_doomed
from tests.subprocesses import until

NAMES = ("bank", "shop")
DEAL = """\
kind: vertical_logistic
name: deal
parties:
  bank: {role: active, address: "127.0.0.1:PORT"}
  shop: {role: passive}
train: {epochs: 1, batch: 5000, learning_rate: 2.0}
paillier: {bits: 512}
network: {patience: 300, lost_after: 1}
"""
DATA: dict[str, Any] = {
    "bank": {"path": "bank.csv", "id": "customer", "label": "default", "label_counts": True},
    "shop": {"path": "shop.csv", "id": "card", "columns": {"city": "woe", "late payments": "woe"}},
}
HEAD = 32 + 16 + 32  # bytes of the record of aligned rows before the rows: a checksum, the session, a digest
GIVEN = f"label-counts-{hashlib.sha256(b'shop').hexdigest()[:32]}"  # the bank's record that it gave counts to the shop


@pytest.fixture(autouse=True)
def files(here):
    raw_tables.write(here, rows=500, new=40)
    Path("deal.yaml").write_text(DEAL.replace("PORT", str(free_port())))
    for name, keys in certify(here, *NAMES).items():
        local(name, keys=keys)


def local(name, **changes):
    """Write a party's own file; what it held before stays unless it changes."""
    path = Path(f"{name}.yaml")
    before = json.loads(path.read_text()) if path.exists() else {"data": DATA[name]}
    path.write_text(json.dumps(before | changes))


def join(name, doom=None):
    words = ("join", "deal.yaml", "--party", name, "--local", f"{name}.yaml", "--state", f"run-{name}")
    return start(*words) if doom is None else start_doomed(*doom, *words)


def test_counts_that_the_active_does_not_allow_end_with_a_sentence_at_both():
    local("bank", data=DATA["bank"] | {"label_counts": False})
    bank, shop = map(join, NAMES)
    _, told = ended(shop, 3)
    assert "the active refused: the active does not allow counts of labels" in told
    assert "take no column as woe" in told
    _, own = ended(bank, 3)
    assert "shop asks for counts of labels in" in own
    assert "set data.label_counts: true if shop may have them" in own
    assert "Traceback" not in told + own


def test_here_too_counts_are_the_actives_to_allow():
    data = DATA | {"bank": DATA["bank"] | {"label_counts": False}}
    Path("here.yaml").write_text(Path("deal.yaml").read_text() + f"data: {json.dumps(data)}\n")
    refused = invoke("run", "here.yaml")
    assert refused.exit_code == 2, refused.output
    assert "set data.bank.label_counts: true if shop may have them" in refused.output
    assert "Traceback" not in refused.output


def transforms(name):
    """What the party stored of its columns: of the shop with the counts of labels in it, as weight of evidence."""
    part = safetensors.numpy.load_file(f"run-{name}/model.safetensors")
    return json.loads(part["transforms"].tobytes())


def counted(run):
    """Positive labels and rows of each group of the shop's column of cities, from the raw files and the stored rows."""
    with Path("bank.csv").open() as file:
        bank = list(csv.DictReader(file))
    with Path("shop.csv").open() as file:
        cities = {line["card"].strip(): line["city"].strip() for line in csv.DictReader(file, delimiter=";")}
    rows = safetensors.numpy.load_file(f"{run}/state-1.safetensors")["rows"]
    training = [bank[row] for row in rows[hold_out(len(rows), 0.2, 0)[0]]]
    (column,) = (each for each in transforms("shop")["columns"] if each["name"] == "city")
    groups = {text: place for place, texts in enumerate(column["groups"]["texts"]) for text in texts}
    found = np.zeros((len(column["rows"]), 2), dtype=np.int64)
    for person in training:
        city = cities[person["customer"].strip()]
        found[groups["" if city == "n/a" else city]] += (person["default"] == "yes", 1)
    return found, column


SLOW = pytest.mark.slow  # 7 s each
KILLS = [
    ("bank", GIVEN, "after"),
    pytest.param("shop", "state-0.safetensors", "before", marks=SLOW),
    pytest.param("bank", GIVEN, "before", marks=SLOW),
    pytest.param("bank", "state-0.safetensors", "before", marks=SLOW),
    pytest.param("shop", "label-counts-asked", "after", marks=SLOW),
    pytest.param("shop", "state-0.safetensors", "after", marks=SLOW),
]


@pytest.mark.parametrize(("victim", "file", "moment"), KILLS)
def test_a_party_that_is_killed_around_the_counts_gets_the_same_ones_after_its_restart(victim, file, moment):
    other = NAMES[victim == "bank"]
    running = join(other)
    ended(join(victim, (file, moment)), -signal.SIGKILL)
    records = {name: Path(f"run-{name}/journal/aligned") for name in NAMES}
    until(lambda: all(path.exists() for path in records.values()), running)
    kept = {name: np.frombuffer(path.read_bytes()[HEAD:], dtype="<i8") for name, path in records.items()}
    ended(join(victim))
    ended(running)
    found, column = counted("run-bank")
    assert found[:, 1].tolist() == column["rows"]
    shares = found[:, 0] / found[:, 0].sum(), (found[:, 1] - found[:, 0]) / (found[:, 1] - found[:, 0]).sum()
    assert column["values"] == pytest.approx(np.log(shares[0] / shares[1]).tolist(), abs=1e-12)
    for name in NAMES:  # the rows are those of before: no labels were counted over others
        rows = safetensors.numpy.load_file(f"run-{name}/state-1.safetensors")["rows"]
        assert np.array_equal(kept[name], rows)
        assert not Path(f"run-{name}/journal").exists()


def test_a_budget_that_is_spent_ends_the_passive_with_4_and_the_active_hears_that_it_failed():
    for process in [join(name) for name in NAMES]:
        ended(process)
    local("shop", predict={"budget": 60})

    def predict(name):
        own = ("--run", f"run-{name}", "--local", f"{name}.yaml", "--input", f"new_{name}.csv")
        return start("predict", "deal.yaml", "--party", name, *own, *(("--output", "s.csv") if name == "bank" else ()))

    for process in [predict(name) for name in NAMES]:
        ended(process)
    assert len(Path("s.csv").read_text().splitlines()) == 41
    Path("s.csv").unlink()
    bank, shop = map(predict, NAMES)
    _, own = ended(shop, 4)
    assert "60 rows with one model: 40 are answered, and 40 more were asked for, so no score was sent" in own
    _, told = ended(bank, 3)
    assert "shop" in told
    assert not re.search(r"\b60\b", told)  # how large the budget is, is the shop's own business
    assert "Traceback" not in own + told
    assert not Path("s.csv").exists()
    (line,) = map(json.loads, Path("run-shop/answers.jsonl").read_text().splitlines())
    assert (line["rows"], line["total"]) == (40, 40)
