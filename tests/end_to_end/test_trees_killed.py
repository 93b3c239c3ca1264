"""Processes of boosted trees that are killed in the set-up, in a tree and in a prediction, and folders put back."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from tacit.store.directory import read_events
from tests.commands import certify, ended, free_port, kill_once, start
from tests.kinds.vertical_trees.trees_tables import people
from tests.subprocesses import kill, until

pytestmark = pytest.mark.slow

ROWS = 1200
PASSIVES = ("shop", "mill")
FILE = """\
kind: vertical_trees
name: deal
parties:
  bank: {role: active, address: "127.0.0.1:PORT"}
  shop: {role: passive}
  mill: {role: passive}
align: false
train: {trees: 6, depth: 4, learning_rate: 0.3}
predict: {budget: 250}
network: {patience: 300, lost_after: 1}
"""


class Deal:
    """The processes of two or three companies in one folder, each with its own local file."""

    def __init__(self, folder: Path, passives: int) -> None:
        self.names = ("bank", *PASSIVES[:passives])
        self.folder = folder
        text = FILE.replace("PORT", str(free_port()))
        Path("deal.yaml").write_text(
            "\n".join(line for line in text.splitlines() if passives == 2 or "mill" not in line)
        )
        x, y = people(ROWS, 4 * len(self.names), "binary")
        for place, name in enumerate(self.names):
            for file, rows in ((f"{name}.csv", range(ROWS)), (f"{name}_new.csv", range(100))):
                with Path(file).open("w", newline="") as opened:
                    writer = csv.writer(opened)
                    writer.writerow(["id", *(["y"] if name == "bank" else []), *(f"{name}{k}" for k in range(4))])
                    for row in rows:
                        values = x[row, 4 * place : 4 * place + 4].tolist()
                        writer.writerow([f"p{row:05}", *([y[row]] if name == "bank" else []), *values])
        for name, own in certify(folder, *self.names).items():
            data = {"path": f"{name}.csv", **({"label": "y"} if name == "bank" else {})}
            Path(f"{name}.yaml").write_text(json.dumps({"keys": own, "data": data}))

    def joined(self, name, *more, root="runs"):
        return start(
            "join", "deal.yaml", "--party", name, "--local", f"{name}.yaml", "--state", f"{root}/{name}", *more
        )

    def all_joined(self, root="runs"):
        return {name: self.joined(name, root=root) for name in self.names}

    def predicting(self, name):
        return start(
            "predict", "deal.yaml", "--output", "scores.csv", "--party", name, "--run", f"runs/{name}",
            "--local", f"{name}.yaml", "--input", f"{name}_new.csv",
        )  # fmt: skip


def finish(processes):
    for process in processes.values():
        ended(process)


def trees(root):
    found = safetensors.numpy.load_file(Path(root) / "bank" / "model.safetensors")
    return {name: array for name, array in found.items() if name != "about"}


def same_trees(first, second):
    assert trees(first).keys() == trees(second).keys()
    for name, array in trees(first).items():
        np.testing.assert_array_equal(array, trees(second)[name], err_msg=name)


def tweak(name, other):
    """The next tweak, as a party has stored it."""
    path = Path(f"runs/{name}/journal/tweaks-{other}.json")
    try:
        return int(json.loads(path.read_text())["next"])
    except (OSError, ValueError, KeyError):
        return 0


def in_set_up():
    folder = Path("runs/bank/journal")
    return folder.is_dir() and any(folder.glob("tweaks-*")) and not any(folder.glob("cells-*"))


MOMENTS = {
    "in the set-up": in_set_up,
    "before the first tree is done": lambda: tweak("bank", "shop") >= 3,
    "in the middle of the third tree": lambda: tweak("bank", "shop") >= 2 * 8 + 3,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The trees without any kill: they depend on the file and the tables alone, as nothing is aligned."""
    found = {}
    for passives in (1, 2):
        folder = tmp_path_factory.mktemp(f"whole-{passives}")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            finish(Deal(folder, passives).all_joined())
        found[passives] = folder / "runs"
    return found


@pytest.mark.parametrize("victims", [("bank",), ("shop",), ("bank", "shop")], ids=" and ".join)
@pytest.mark.parametrize("moment", MOMENTS)
def test_parties_that_are_killed_grow_the_same_trees(here, whole, victims, moment):
    deal = Deal(here, 1)
    parties = deal.all_joined()
    kill_once(parties[victims[0]], MOMENTS[moment])
    for name in victims[1:]:
        kill(parties[name])
    for name in victims:
        parties[name] = deal.joined(name)
    finish(parties)
    same_trees("runs", whole[1])
    assert not list(Path("runs").rglob("journal/*"))


@pytest.mark.parametrize("victim", ["bank", "mill"])
def test_one_of_three_that_is_killed_in_a_tree_grows_the_same_trees(here, whole, victim):
    deal = Deal(here, 2)
    parties = deal.all_joined()
    kill_once(parties[victim], MOMENTS["in the middle of the third tree"])
    parties[victim] = deal.joined(victim)
    finish(parties)
    same_trees("runs", whole[2])


@pytest.mark.parametrize("restored", [("bank",), ("shop",), ("bank", "shop")], ids=" and ".join)
def test_folders_that_are_put_back_as_they_were_grow_the_same_trees(here, whole, restored):
    """Of one party the other one's counter goes on; of both the words are those of another meeting."""
    deal = Deal(here, 1)
    parties = deal.all_joined()
    for at in (1, 4):
        until(Path(f"runs/bank/state-{at}.safetensors").exists, *parties.values())
        for process in parties.values():
            kill(process)
        if at == 1:
            shutil.copytree("runs", "older", ignore=shutil.ignore_patterns("*.sock"))  # of killed parties
            parties = deal.all_joined()
    before = {name: tweak(name, other) for name, other in (("bank", "shop"), ("shop", "bank"))}
    for name in restored:
        shutil.rmtree(f"runs/{name}")
        shutil.copytree(f"older/{name}", f"runs/{name}")
        other = "shop" if name == "bank" else "bank"
        assert tweak(name, other) < before[name]
    finish(deal.all_joined())
    same_trees("runs", whole[1])


@pytest.mark.parametrize("victim", ["bank", "shop"])
def test_a_party_that_is_killed_in_a_prediction_has_spent_its_budget(here, victim):
    deal = Deal(here, 1)
    finish(deal.all_joined())
    answers = Path("runs/shop/answers.jsonl")
    parties = {name: deal.predicting(name) for name in deal.names}
    kill_once(parties[victim], answers.exists)
    kill(parties["shop" if victim == "bank" else "bank"])
    finish({name: deal.predicting(name) for name in deal.names})
    assert len(Path("scores.csv").read_text().splitlines()) == 101
    assert [json.loads(line)["total"] for line in answers.read_text().splitlines()] == [100, 200]
    bank, shop = (deal.predicting(name) for name in deal.names)
    _, said = ended(shop, code=4)  # 300 rows are more than 250
    assert "predict.budget lets this party answer 250 rows" in said
    kill(bank)


def test_a_party_that_comes_back_with_another_file_or_table_is_refused_in_a_sentence(here):
    deal = Deal(here, 1)
    parties = deal.all_joined()
    kill_once(parties["bank"], lambda: list(Path("runs").glob("bank/state-2.safetensors")))
    for change in ("train.depth=3", "privacy.partition=shown", "privacy.least=32", "train.bins=5"):
        _, said = ended(deal.joined("bank", "--set", change), code=2)
        assert change.partition("=")[0] in said
        assert "Traceback" not in said
    text = Path("bank.csv").read_text()
    Path("bank.csv").write_text(text.replace("p00007", "p99999", 1))
    _, said = ended(deal.joined("bank"), code=2)
    assert "bank" in said
    assert "Traceback" not in said
    Path("bank.csv").write_text(text)
    parties["bank"] = deal.joined("bank")
    finish(parties)
    events = list(read_events(Path("runs/bank/events.jsonl")))
    assert {type(event).__name__ for event in events} >= {"TrainingResumed", "EpochFinished"}
