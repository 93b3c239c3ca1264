"""What a party has answered with one model."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import stat
import threading

import pytest

from tacit.errors import BudgetError
from tacit.store.answers import Answers
from tests.subprocesses import HANGS

IDS = bytes(range(32))
NOW = 1_700_000_000.0


def spend(folder, rows, budget=None):
    return Answers(folder).spend(rows, budget, ids=IDS, now=NOW)


def lines(folder):
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


def test_each_answer_is_a_line_with_rows_total_time_and_a_digest(tmp_path):
    assert spend(tmp_path, 100) == 100
    assert spend(tmp_path, 20, 200) == 120
    digest, time = IDS.hex(), "2023-11-14T22:13:20+00:00"
    assert lines(tmp_path) == [
        {"total": 100, "rows": 100, "time": time, "ids": digest},
        {"total": 120, "rows": 20, "time": time, "ids": digest},
    ]
    assert stat.S_IMODE((tmp_path / "answers.jsonl").stat().st_mode) == 0o600


def test_a_budget_is_spent_to_its_last_row_and_no_further(tmp_path):
    spend(tmp_path, 60, 100)
    spend(tmp_path, 40, 100)
    before = (tmp_path / "answers.jsonl").read_bytes()
    with pytest.raises(BudgetError, match="100 are answered, and 1 more were asked for, so no score was sent"):
        spend(tmp_path, 1, 100)
    assert (tmp_path / "answers.jsonl").read_bytes() == before
    assert spend(tmp_path, 1, 101) == 101


def test_rows_answered_without_a_budget_count_once_there_is_one(tmp_path):
    spend(tmp_path, 1000)
    with pytest.raises(BudgetError):
        spend(tmp_path, 1, 1000)


def test_the_line_is_on_disk_before_spend_returns(tmp_path, monkeypatch):
    synced = []

    def fsync(number):
        synced.append(os.readlink(f"/proc/self/fd/{number}"))
        assert lines(tmp_path)[-1]["rows"] == 7
        real(number)

    real = os.fsync
    monkeypatch.setattr(os, "fsync", fsync)
    spend(tmp_path, 7)
    assert synced == [str(tmp_path / "answers.jsonl"), str(tmp_path)]


@pytest.mark.parametrize("left", range(1, 140))
def test_a_line_that_was_cut_off_anywhere_never_gives_rows_back(tmp_path, left):
    spend(tmp_path, 30)
    spend(tmp_path, 50)
    path = tmp_path / "answers.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:left])
    for _ in range(2):  # it is still so when a whole line stands behind it
        with pytest.raises(BudgetError):
            spend(tmp_path, 21, 100)
        spend(tmp_path, 0)
    assert "total" in path.read_text().splitlines()[0]


def test_a_line_cut_off_behind_its_numbers_counts_as_it_is(tmp_path):
    spend(tmp_path, 30)
    path = tmp_path / "answers.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    assert spend(tmp_path, 50, 80) == 80
    assert json.loads(path.read_text().splitlines()[1])["total"] == 80


def test_an_unreadable_line_stops_answers_under_a_budget_and_says_which_file(tmp_path):
    (tmp_path / "answers.jsonl").write_text('{"total": 3')
    with pytest.raises(BudgetError, match=r"answers\.jsonl: a line is cut off"):
        spend(tmp_path, 1, 10_000)
    assert spend(tmp_path, 1) == 1  # without a budget there is nothing to exceed


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "answers.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        spend(tmp_path, 1)


def test_of_two_at_once_the_second_reads_what_the_first_wrote(tmp_path, monkeypatch):
    both = threading.Barrier(2)

    def dumps(line):
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # each has read the file here: without a lock both would
        return real(line)

    def ask():
        try:
            results.append(spend(tmp_path, 60, 100))
        except BudgetError:
            results.append(None)

    real, results = json.dumps, []
    monkeypatch.setattr(json, "dumps", dumps)
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results, key=str) == [60, None]
    assert len(lines(tmp_path)) == 1


def _spender(folder, start, results):
    start.wait()
    for _ in range(50):
        try:
            spend(folder, 1, 120)
            results.put(1)
        except BudgetError:
            results.put(0)


def test_processes_at_once_cannot_overspend(tmp_path):
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    processes = [context.Process(target=_spender, args=(tmp_path, start, results)) for _ in range(4)]
    for process in processes:
        process.start()
    start.set()
    answered = sum(results.get(timeout=HANGS) for _ in range(200))
    for process in processes:
        process.join()
    assert answered == 120
    assert [line["total"] for line in lines(tmp_path)] == list(range(1, 121))
