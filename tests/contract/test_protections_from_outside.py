"""Protections of an installed package through every verb, with no change elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tacit.cli import main
from tacit.config.load import load
from tacit.events import RoundFinished
from tacit.kinds.horizontal import protections
from tacit.store.directory import read_events
from tests.contract.installing import TOY_NAMES, installed

OPTIONS = {"LAPLACE_UPDATES": "encrypt.options.epsilon=3", "COARSE_SUMS": "encrypt.options.bits=12"}


@pytest.fixture(autouse=True)
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with installed():
        yield


def tacit(*arguments: str) -> Result:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 0, done.output
    return done


def chosen(name: str, *keys: str) -> list[str]:
    """The starter's own file with another protection."""
    size = ("rounds=2", "clients=8", "start_fl_job_threshold=6", "simulation.dropout=0")
    return [part for key in (*size, f"encrypt.encrypt_type={name}", OPTIONS[name], *keys) for part in ("--set", key)]


@pytest.mark.parametrize("name", TOY_NAMES)
def test_a_protection_from_outside_takes_part_in_every_verb(name):
    found = protections.find(name)
    tacit("init")

    planned = json.loads(tacit("plan", "horizontal.yaml", *chosen(name), "--json").output)
    assert f", {name}, 650 parameters" in planned["title"]
    assert bool(planned["prices"]) == found.promises
    assert planned["noise"] == found.noise(load("horizontal.yaml", chosen(name)[1::2]), 650)

    done = tacit("run", "horizontal.yaml", *chosen(name), "--quiet")
    folder = done.output.removeprefix("Results: ").strip()
    assert [event.survivors for event in rounds(folder)] == [6, 6]

    tacit("run", "--resume", folder, "--set", "rounds=3", "--quiet")
    assert [event.round for event in rounds(folder)] == [0, 1, 2]
    ledgers = json.loads((Path(folder) / "ledger.json").read_text())["ledgers"]
    assert [(each["view"], each["covers"]) for each in ledgers] == [("local", ["updates"])] * found.promises
    if found.promises:
        most = max(each["count"] for each in ledgers[0]["lines"])
        assert ledgers[0]["epsilon"] == pytest.approx(3 * most)

    tacit("report", folder)
    page, stored = (Path(folder) / "report.html").read_text(), load(Path(folder) / "config.yaml")
    assert stored.updates is found
    assert found.label in page
    assert all(sentence in page for sentence in found.unprotected(stored))
    tacit("report", folder, "--share", "--output", "shared.html")

    said = json.loads(tacit("audit", folder, "--quiet", "--json").stdout)
    assert found.summary in json.dumps(said)
    attacks = " ".join(each["attack"] for each in said["findings"])
    for attack, target in found.inversions:
        assert f"gradient inversion, {attack}, from {'each upload' if target == 'upload' else 'the sum'}" in attacks
    assert not any(each.get("refuted") for each in said["findings"])


def rounds(folder: str) -> list[Any]:
    return [event for event in read_events(Path(folder) / "events.jsonl") if isinstance(event, RoundFinished)]


def test_a_stored_run_without_its_package_is_refused_in_a_sentence(monkeypatch):
    tacit("init")
    done = tacit("run", "horizontal.yaml", *chosen("LAPLACE_UPDATES", "rounds=1"), "--quiet")
    folder = done.output.removeprefix("Results: ").strip()
    with monkeypatch.context() as gone:
        gone.setattr(protections, "_installed", dict)
        protections._found.clear()
        refused = CliRunner().invoke(main, ["report", folder])
    assert refused.exit_code == 2
    assert "encrypt.encrypt_type is 'LAPLACE_UPDATES': give NOT_ENCRYPT, " in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
