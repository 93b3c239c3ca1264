"""Regression on shares between two companies and nobody else, as they meet it: here, and over a network.

The file names neither a protocol nor a helper.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.events import EpochFinished, TrainingResumed, TrainingStarted
from tacit.store.directory import read_events
from tests.commands import ended, invoke, kill_once, start
from tests.end_to_end.cancer_tables import INPUTS, auc, joined, move_apart, right_decisions, weights, write_deal

NAMES = ("bank", "shop")


@pytest.fixture(autouse=True)
def files(here):
    write_deal(epochs=8)


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
    for release, least in (("decile", 0.96), ("exact", 0.98)):
        done = invoke(
            "predict", "deal.yaml", "--run", str(run), "--output", "scores.csv", *INPUTS,
            "--set", f"predict.release={release}",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        assert auc() > least
    answered = Path(run / "shop" / "answers.jsonl").read_text()
    masked = invoke(
        "predict", "deal.yaml", "--run", str(run), "--output", "masked.csv", *INPUTS, "--set", "protocol=masked"
    )
    assert masked.exit_code == 2
    assert "was trained with protocol: shared, and protocol is masked" in masked.stderr
    assert Path(run / "shop" / "answers.jsonl").read_text() == answered
    assert not Path("masked.csv").exists()
    again = invoke("run", "deal.yaml", "--resume", str(run), "--set", "protocol=masked")
    assert again.exit_code == 2
    assert "protocol was 'shared' when it began, and is 'masked' there" in again.stderr


def test_a_plan_counts_bytes_transfers_and_distances():
    done = invoke("plan", "deal.yaml")
    assert done.exit_code == 0, done.output
    for words in ("oblivious transfers", "statistical distances", "A step has 3 exchanges"):
        assert words in done.output, words
    assert "dealer sees" not in done.output


@pytest.mark.parametrize("victim", [NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
def test_a_party_that_is_killed_over_tls_resumes_and_both_predict(here, victim):
    move_apart(here, *NAMES)
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
    assert right_decisions() > 0.9
