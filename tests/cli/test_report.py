"""`tacit report`: what it prints, where the page is, and how it ends."""

from functools import partial
from pathlib import Path

import pytest

from tests.commands import invoke
from tests.report.sample_runs import DDP, UPDATES, VECTORS, settings, whole, write

report = partial(invoke, "report")


@pytest.fixture
def stored(here):
    made = settings(encrypt=DDP, unsupervised={"cluster_client_num": 5})
    return write(Path("runs"), made, whole(made), [UPDATES, VECTORS])


def test_the_page_lies_in_the_run(stored):
    result = report(stored)
    assert (result.exit_code, result.output) == (0, f"Report: {stored / 'report.html'}\n")
    assert (stored / "report.html").read_text().startswith("<!doctype html>")
    assert (stored / "plots" / "score.svg").exists()


def test_a_page_to_share_has_a_name_of_its_own(stored):
    result = report(stored, "--share")
    assert result.output == f"Report: {stored / 'report-share.html'}\n"
    assert "its shares are torn" not in (stored / "report-share.html").read_text()
    assert not (stored / "report.html").exists()
    assert not (stored / "plots").exists()


def test_several_runs_are_compared_here(stored):
    result = report(stored, stored)
    assert (result.exit_code, result.output) == (0, "Report: comparison.html\n")
    assert Path("comparison-plots/loss-score.svg").exists()
    assert report(stored, stored, "--share").output == "Report: comparison-share.html\n"


def test_the_page_goes_where_it_is_wanted(stored):
    assert report(stored, "--output", "page.html").output == "Report: page.html\n"
    assert Path("page-plots/score.svg").exists()
    assert not (stored / "report.html").exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: "nowhere", "nowhere: there is no such folder: give the folder of a run"),
        (lambda run: (run / "events.jsonl").unlink(), "this is not the folder of a run, it has no events.jsonl"),
        (lambda run: (run / "events.jsonl").write_text("{}\n"), "events.jsonl:1: this line is not an event"),
        (lambda run: (run / "ledger.json").write_text("{"), "ledger.json:1: this is not JSON"),
        (lambda run: (run / "config.yaml").write_text("kind: strange\n"), "config.yaml:1"),
    ],
)
def test_a_mistake_is_one_sentence(stored, spoil, message):
    result = report(spoil(stored) if spoil(stored) == "nowhere" else stored)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.splitlines()) == 1


def test_a_place_that_cannot_be_written(stored):
    assert report(stored, "--output", "new/folder/page.html").exit_code == 0
    Path("taken-plots").write_text("a file")
    result = report(stored, "--output", "taken.html")
    assert result.exit_code == 2
    assert "the report cannot be written there: File exists. Name a place with --output" in result.output


def test_a_run_must_be_named():
    assert report().exit_code == 2


def test_help_says_what_it_does():
    output = report("--help").output
    for words in ("RUN [RUN_B ...]", "--share", "--output FILE", "comparison.html", "report-share.html"):
        assert words in output
