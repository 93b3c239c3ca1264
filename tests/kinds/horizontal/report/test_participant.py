"""The page of a client's own folder, made of known events and ledgers."""

from __future__ import annotations

import pytest

from tacit import events
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.participation import participation
from tacit.runs.export import read_exported
from tacit.runs.report import read_run, report_run, write_report
from tacit.store.directory import RunDirectory
from tacit.store.files import write_twice
from tests.report.sample_runs import LOCAL, NOW, settings
from tests.runs.test_report import NASTY, Page

STARTED = events.RunStarted("fleet", "horizontal", 10, 6, "DP_ENCRYPT", 650)


def answered(client: int, number: int, epsilon: float) -> events.Answered:
    return events.Answered(client, number, {"Update": 2700}, {"updates": epsilon}, {"updates": 1e-6})


def written(root, happened, uploads: dict[int, int], party: str, encrypt=LOCAL, **keys):
    """A folder of clients that were sent the model so often."""
    made = settings(encrypt=encrypt, **keys)
    directory = RunDirectory.create(root, made, NOW, party=party, clock=lambda: NOW)
    for event in happened:
        directory.emit(event)
    directory.close()
    costs = Costs(made, 650)
    for client, count in uploads.items():
        ledgers = [spent.to_json() for spent in costs.spent(count, count)]
        state = {"attempts": count, "uploads": count, "sums": 0}
        data = {"state": state, "ledger": {"version": 1, "ledgers": ledgers}}
        write_twice(directory.path / f"client-{client}.json", data)
    return directory.path


def test_refusals_are_told_in_words_each_with_its_reason(tmp_path):
    refusals = [
        events.AnswerRefused(3, 1, "training", "its training raised KeyError: noise around a zero update was sent"),
        events.AnswerRefused(3, 2, "update", "its training used no samples"),
        events.AnswerRefused(3, 3, "request", "work for attempt 0 after 3"),
        events.AnswerRefused(3, 3, "budget", NASTY),
    ]
    path = written(tmp_path, [STARTED, answered(3, 0, 1.0), answered(3, 1, 1.5), *refusals], {3: 2}, "client-3")
    page = Page(report_run(path))
    for words in (
        "its training or inference failed: what was sent is noise around nothing",
        "its training gave nothing that can be sent: it left the round",
        "it was asked for what a client does not answer work for attempt 0 after 3",
        "its budget does not pay for another answer",
        "The privacy budget is spent This site answers no more.",
        "running, or cut off",
    ):
        assert words in page.text
    assert page.cards()["Refused"] == "4"
    assert "<script" not in page.source


def test_clients_of_one_site_have_a_row_each(tmp_path):
    happened = [STARTED, answered(4, 0, 1.0), answered(5, 0, 1.0), answered(5, 1, 1.5), answered(5, 3, 2.0)]
    path = written(tmp_path, happened, {4: 1, 5: 3}, "client-4 to 6")
    page = Page(report_run(path))
    assert "client-4 1 1 2.7 kB 0 1 " in page.text
    assert "client-5 1–2, 4 3 8.1 kB 0 " in page.text
    assert "client-6 0 0 B 0 0" in page.text
    assert "client-5 paid most. Each has a ledger of its own." in page.text
    assert page.cards()["Uploads"] == "4"
    sent = "Update vector the update clipped to norm 1, with Gaussian noise: epsilon 1 at delta 1e-06 for each upload"
    assert f"{sent} 4 10.8 kB" in page.text  # all
    assert f"{sent} 3 8.1 kB" in page.text  # client-5
    assert (path / "plots" / "epsilon-updates.svg").exists()
    shared = Page(write_report([path], share=True))
    assert "8.1 kB" not in shared.text
    assert "client-5 1–2" not in shared.text


def test_what_was_paid_and_never_told_is_pointed_out(tmp_path):
    happened = [STARTED, answered(3, 0, 1.0)]
    path = written(tmp_path, happened, {3: 2}, "client-3")
    page = Page(report_run(path))
    assert "Something was paid that no event tells of client-3:" in page.text
    (epsilon,) = [account.epsilon for account in participation(read_run(path)).clients[0].ledgers]
    assert f"ε of the updates: {epsilon:.4g}" in page.text  # of the ledger, not of the last event
    assert "Something was paid" not in Page(report_run(written(tmp_path, happened, {3: 1}, "client-3"))).text


def test_a_client_that_never_took_part(tmp_path):
    page = Page(report_run(written(tmp_path, [STARTED], {}, "client-3")))
    assert "It was not part of any round yet. No model was kept yet." in page.text
    assert "Nothing was released with an ε yet." in page.text


def test_without_an_epsilon_the_page_says_so(tmp_path):
    page = Page(report_run(written(tmp_path, [STARTED, answered(3, 0, 1.0)], {}, "client-3", encrypt={})))
    assert "Nothing that leaves a client has an ε" in page.text


@pytest.mark.parametrize("party", ["client-10", "client-x", "client-3 to 2", "client-"])
def test_a_party_that_the_file_does_not_have_is_an_error(tmp_path, party):
    with pytest.raises(ValueError, match="is no client of a file with 10"):
        participation(read_run(written(tmp_path, [STARTED], {}, party)))


def test_a_damaged_model_is_told_and_does_not_hide_the_rest(tmp_path):
    path = written(tmp_path, [STARTED, answered(3, 0, 1.0)], {3: 1}, "client-3")
    (path / "model.safetensors").write_bytes(b"torn")
    text = Page(report_run(path)).text
    assert "model.safetensors: this file is damaged or missing" in text
    assert "ε of the updates" in text


def test_it_can_be_exported(tmp_path):
    twice = events.Answered(3, 0, {"Reveal": 300})
    path = written(tmp_path, [STARTED, answered(3, 0, 1.0), twice, answered(3, 1, 1.5)], {3: 2}, "client-3")
    exported = read_exported(path)
    assert {(figure.round, figure.name): figure.value for figure in exported.figures} == {
        (1, "client-3/bytes_up"): 3000.0,
        (1, "client-3/epsilon of updates"): 1.0,
        (2, "client-3/bytes_up"): 2700.0,
        (2, "client-3/epsilon of updates"): 1.5,
    }
    shared = read_exported(path, share=True)
    assert {figure.field for figure in shared.figures} == {"epsilon"}
