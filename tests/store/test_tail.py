"""Events read piece by piece: the same as all at once, and nothing that a folder holds stops the reader."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.events import Noted
from tacit.store import directory
from tacit.store.directory import RunDirectory
from tacit.store.tail import is_written, read_piece, read_small
from tests.inside import inside
from tests.report.sample_runs import NOW, settings

LIMIT = 200


def written(path, *texts, end="\n"):
    lines = [json.dumps({"time": "2026-01-01T00:00:00+00:00", "event": "Noted", "text": text}) for text in texts]
    path.write_text("\n".join(lines) + end)
    return path


def texts_from(path, offset=0, limit=LIMIT):
    """Of all pieces from an offset on, and how many lines were damaged."""
    found, damaged = [], 0
    while True:
        piece = read_piece(path, offset, limit)
        found += [told.event.text for told in piece.told]
        damaged += piece.damaged
        if piece.end == offset:
            return found, damaged, offset
        assert piece.end > offset
        offset = piece.end


@given(texts=st.lists(st.text(max_size=150), min_size=1, max_size=12), limit=st.integers(1, 400))
def test_pieces_have_every_event_in_order_but_those_that_are_longer(tmp_path_factory, texts, limit):
    path = written(tmp_path_factory.mktemp("run") / "events.jsonl", *texts)
    lines = path.read_bytes().split(b"\n")[:-1]
    found, damaged, _ = texts_from(path, limit=limit)
    assert damaged == 0
    left = iter(texts)
    assert all(text in left for text in found)  # in order, each at most once
    if all(len(line) + 1 <= limit for line in lines):
        assert found == texts


def test_from_within_a_line_the_next_one_is_the_first(tmp_path):
    path = written(tmp_path / "events.jsonl", "one", "two", "three")
    length = len(path.read_bytes().split(b"\n")[0]) + 1
    assert texts_from(path, 1)[0] == ["two", "three"]
    assert texts_from(path, length - 1)[0] == ["two", "three"]
    assert texts_from(path, length)[0] == ["two", "three"]
    assert texts_from(path, length + 1)[0] == ["three"]


def test_a_line_that_is_not_whole_yet_waits_for_its_end(tmp_path):
    path = written(tmp_path / "events.jsonl", "one", "two", end="")
    found, damaged, offset = texts_from(path)
    assert (found, damaged) == (["one"], 0)
    with path.open("a") as file:
        file.write("\n")
    assert texts_from(path, offset)[0] == ["two"]


def test_a_file_that_was_cut_says_so(tmp_path):
    path = written(tmp_path / "events.jsonl", "one")
    assert read_piece(path, 10**6, LIMIT).end == 0


@pytest.mark.parametrize(
    "line",
    [
        bytes(range(1, 10)) + bytes(range(11, 256)),
        b"[" * 100_000,
        b"null",
        b"{}",
        b'{"event": "RoundStarted", "round": "x", "sampled": 1}',
        b'{"event": "RoundStarted", "round": 1' + b"0" * 5000 + b', "sampled": 1}',
        b'{"event": "Noted", "text": "x", "time": 5}',
        b'{"event": "Noted", "text": "x", "time": "tomorrow"}',
        b'{"event": "Noted", "text": "x", "time": "9999-99-99"}',
        b'{"event": "Noted"}',
        b'{"event": ["Noted"], "text": "x"}',
    ],
    ids=range(11),
)
def test_a_line_that_is_no_event_is_counted_and_the_rest_is_read(tmp_path, line):
    path = tmp_path / "events.jsonl"
    path.write_bytes(line + b'\n{"event": "Noted", "text": "after"}\n')
    assert texts_from(path, limit=1 << 20)[:2] == (["after"], 1)


def test_links_pipes_and_folders_are_refused_at_once(tmp_path):
    target = written(tmp_path / "target", "secret")
    (tmp_path / "link").symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder", "nothing"):
        for read in (lambda path: read_piece(path, 0, LIMIT), is_written, lambda path: read_small(path, LIMIT)):
            with pytest.raises(OSError, match=name):
                read(tmp_path / name)


def test_a_file_is_read_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * LIMIT)
    assert read_small(path, LIMIT) == b"x" * LIMIT
    with pytest.raises(OSError, match="too large"):
        read_small(path, LIMIT - 1)


def test_whether_anybody_writes(tmp_path):
    run = RunDirectory.create(tmp_path, settings(), NOW)
    run.emit(Noted("x"))
    assert is_written(run.path / "events.jsonl")
    assert is_written(run.path / "events.jsonl")  # looking changes nothing
    run.close()
    assert not is_written(run.path / "events.jsonl")


def test_who_looks_whether_anybody_writes_keeps_no_run_from_starting(tmp_path, monkeypatch):
    """Its lock is held for an instant: a run that wants the folder then waits for it, and starts."""
    import fcntl

    run = RunDirectory.create(tmp_path, settings(), NOW)
    run.close()
    with (run.path / "events.jsonl").open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        waited = []

        def sleep(seconds):
            waited.append(seconds)
            fcntl.flock(looking, fcntl.LOCK_UN)

        monkeypatch.setattr(inside(directory).time, "sleep", sleep)
        RunDirectory.reopen(run.path).close()
    assert len(waited) == 1
