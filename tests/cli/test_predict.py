"""`tacit predict`: how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tacit.errors import BudgetError
from tacit.runs import predict
from tacit.store.answers import Answers
from tacit.store.scores import Scores
from tests.commands import invoke

FILE = {"kind": "vertical_logistic", "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}}}


@pytest.fixture(autouse=True)
def file(here):
    Path("deal.yaml").write_text(json.dumps(FILE))


def asked(*arguments):
    return invoke("predict", "deal.yaml", "--run", "run", "--output", "scores.csv", *arguments)


def test_a_spent_budget_is_a_sentence_and_exit_code_4(here, monkeypatch):
    Answers(here).spend(90, 100, ids=b"", now=0.0)
    monkeypatch.setattr(predict, "predict_here", lambda *given: Answers(here).spend(11, 100, ids=b"", now=0.0))
    done = asked()
    assert done.exit_code == 4
    assert "90 are answered, and 11 more were asked for, so no score was sent" in done.output
    assert "Traceback" not in done.output
    assert not Path("scores.csv").exists()


def test_a_spent_budget_over_a_network_ends_in_the_same_way(here, monkeypatch):
    def refuse(*given):
        raise BudgetError("the budget is spent")

    monkeypatch.setattr(predict, "predict_as", refuse)
    done = asked("--party", "shop", "--insecure", "--input", "rows.csv", "--local", "site.yaml")
    assert done.exit_code == 2  # there is no such file
    Path("site.yaml").write_text("coordinator: 127.0.0.1:1\npredict: {budget: 5}\n")
    done = asked("--party", "shop", "--insecure", "--input", "rows.csv", "--local", "site.yaml")
    assert done.exit_code == 4
    assert "the budget is spent." in done.output


def test_scores_are_a_csv_with_id_score_and_decision(here, monkeypatch):
    found = Scores(("id", "score", "decision"), [("a, b", 0.25, "paid"), ("c", 0.75, "lost")])
    monkeypatch.setattr(predict, "predict_here", lambda *given: found)
    assert asked().exit_code == 0
    assert Path("scores.csv").read_text() == 'id,score,decision\n"a, b",0.25,paid\nc,0.75,lost\n'


@pytest.mark.parametrize("budget", ["0", "-1", "many"])
def test_a_budget_that_is_none_is_refused_where_it_is_written(here, budget):
    Path("site.yaml").write_text(f"predict: {{budget: {budget}}}\n")
    done = asked("--party", "shop", "--insecure", "--input", "rows.csv", "--local", "site.yaml")
    assert done.exit_code == 2
    assert "site.yaml" in done.output
    assert "predict.budget" in done.output
