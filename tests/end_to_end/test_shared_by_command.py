"""Regression on shares as its users meet it: one file with a dealer, here and over a network with certificates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit.events import Curve, EpochFinished, Tabled, TrainingResumed, TrainingStarted
from tacit.store.directory import Store, read_events
from tests.commands import ended, invoke, kill_once, start
from tests.end_to_end.cancer_tables import INPUTS, auc, joined, move_apart, right_decisions, weights, write_deal

NAMES = ("bank", "shop", "notary")


@pytest.fixture(autouse=True)
def files(here):
    write_deal(epochs=40, dealer=True)


@pytest.fixture
def certified(here):
    move_apart(here, *NAMES)


def predict(run, *more):
    return invoke("predict", "deal.yaml", "--run", str(run), "--output", "scores.csv", *INPUTS, *more)


def test_one_command_trains_on_shares_and_predicts_tenths(here):
    done = invoke("run", "deal.yaml")
    assert done.exit_code == 0, done.output
    (run,) = Path("runs").iterdir()
    page = (run / "report.html").read_text()
    for words in ("secret shares with a dealer", "in groups of more than 10", "Opening", "notary has no data"):
        assert words in page, words
    assert "Paillier" not in page
    events = list(read_events(run / "events.jsonl"))
    (begun,) = (event for event in events if isinstance(event, TrainingStarted))
    assert begun.protection == "secret shares with a dealer"
    (local,) = (event.local for event in events if isinstance(event, EpochFinished) if event.local)
    assert local["auc"] > 0.95
    assert {"ROC", "Class balance"} <= {event.name for event in events if isinstance(event, Curve | Tabled)}
    assert predict(run).exit_code == 0
    assert {row.split(",")[1] for row in Path("scores.csv").read_text().split()[1:]} <= set(map(str, range(1, 11)))
    assert auc() > 0.97
    assert predict(run, "--set", "predict.release=points").exit_code == 0
    assert auc() < 0.02  # points fall as the log odds of the second class rise
    assert predict(run, "--set", "predict.release=exact").exit_code == 0
    assert auc() > 0.97


def test_a_run_of_all_parties_on_shares_that_was_killed_is_resumed(here):
    assert invoke("run", "deal.yaml", "--state", "whole").exit_code == 0
    process = start("run", "deal.yaml", "--quiet", "--state", "killed")
    kill_once(process, lambda: list(Path("killed").glob("bank/state-3.safetensors")))
    done = invoke("run", "deal.yaml", "--state", "killed")
    assert done.exit_code == 0, done.output
    for name, expected in weights("whole").items():
        np.testing.assert_allclose(weights("killed")[name], expected, atol=1e-3)
    again = invoke("run", "--resume", "killed")
    assert again.exit_code == 0
    assert "the weights were opened" in again.output
    longer = invoke("run", "--resume", "killed", "--set", "train.epochs=80")
    assert longer.exit_code == 2, longer.output
    assert "when the run began, for which its steps were planned, and is 80 now" in longer.stderr  # nothing has noise


@pytest.mark.parametrize("victim", [NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
def test_a_party_that_is_killed_over_tls_resumes_with_the_same_weights(certified, victim):
    local = {name: json.loads(Path(f"{name}.yaml").read_text()).get("data") for name in NAMES[:2]}
    shared = Path("deal.yaml").read_text() + "data: " + json.dumps(local) + "\n"
    Path("here.yaml").write_text(shared)
    assert invoke("run", "here.yaml", "--state", "whole").exit_code == 0
    parties = {name: joined(name) for name in NAMES}
    kill_once(parties[victim], lambda: list(Path("runs").glob("bank/state-2.safetensors")))
    parties[victim] = joined(victim)
    for process in parties.values():
        ended(process)
    for name, expected in weights("whole").items():
        np.testing.assert_allclose(weights("runs")[name], expected, atol=1e-3)
    assert any(isinstance(event, TrainingResumed) for event in read_events(Path("runs/shop/events.jsonl")))
    state, model = Store(Path("runs/notary")).stored()
    assert set(model) == {"session"}
    assert "seed" not in json.dumps({key: str(value) for key, value in state.items()})


@pytest.mark.parametrize(
    "releases", [("points", "decision"), pytest.param(("decile", "exact"), marks=pytest.mark.slow)]
)
def test_three_companies_predict_over_tls(certified, releases):
    for process in [joined(name) for name in NAMES]:
        ended(process)
    common = ("predict", "deal.yaml", "--output", "scores.csv")
    for release in releases:
        parties = [
            start(
                *common, "--party", name, "--run", f"runs/{name}", "--local", f"{name}.yaml",
                "--set", f"predict.release={release}",
                *(() if name == "notary" else ("--input", f"{name}_new.csv")),
            )
            for name in NAMES
        ]  # fmt: skip
        for process in parties:
            ended(process)
        decided = right_decisions()
        assert decided > 0.9, release


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "deal.yaml", "--set", "helper=none"], "notary is a dealer: leave out one of them"),
        (["run", "deal.yaml", "--set", "protocol=masked"], "masked, which has no dealer"),
        (["run", "deal.yaml", "--set", "data.notary.path=bank.csv"], "notary is the dealer, which has none"),
        (["run", "deal.yaml", "--set", "parties.post.role=dealer"], "2 of them are dealers"),
        (["run", "deal.yaml", "--set", "train.test=0.02"], "held-out rows, and figures of fewer than 10"),
        (["run", "deal.yaml", "--set", "predict.release=decile", "--set", "shares.figures=never"], "decile"),
    ],
)
def test_mistakes_end_with_2_and_a_sentence(arguments, words):
    done = invoke(*arguments)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output


def test_the_plan_of_the_dealer_says_that_it_needs_no_table():
    done = invoke("plan", "deal.yaml", "--party", "notary")
    assert done.exit_code == 0, done.output
    assert "It has none, and needs none" in done.output
    assert "What notary receives" in done.output
