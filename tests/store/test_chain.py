"""A log whose lines are tied to each other: what is found, and what a digest hides."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.events import Noted, RunFinished, to_json
from tacit.runs.load import load
from tacit.store import chain
from tacit.store.directory import RunDirectory, read_events

SETTINGS = load({"kind": "horizontal", "name": "fleet", "task": "digits", "rounds": 3, "clients": 5})
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
LINES = st.lists(
    st.dictionaries(st.sampled_from(["time", "event", "round", "epsilon"]), VALUES), min_size=1, max_size=6
)


def by_the_page(fields: dict, salt: bytes, before: bytes) -> bytes:
    """The chain as the module's first lines say it, written once more."""

    def joined(*parts: bytes) -> bytes:
        return b"".join(len(part).to_bytes(8, "big") + part for part in parts)

    parts = [b"tacit event line"]
    for name in sorted(fields):
        own = hmac.new(salt, name.encode(), "sha256").digest()
        text = json.dumps(fields[name], sort_keys=True, separators=(",", ":")).encode()
        parts += [name.encode(), hashlib.sha256(joined(b"tacit event field", name.encode(), own, text)).digest()]
    return hashlib.sha256(joined(b"tacit event", before, hashlib.sha256(joined(*parts)).digest())).digest()


@given(LINES)
def test_the_chain_is_that_of_the_page_after_a_trip_through_a_file(lines):
    before, text = chain.START, ""
    for fields in lines:
        told, before = chain.chained(fields, before)
        text += json.dumps(told) + "\n"
    expected = chain.START
    for line in text.splitlines():
        told = json.loads(line)
        expected = by_the_page(chain.fields_of(told), bytes.fromhex(told["salt"]), expected)
        assert told["chain"] == expected.hex()
    assert chain.before_line(text.encode()) == before


@given(LINES, st.data())
def test_every_change_of_a_line_changes_the_chain(lines, data):
    told, _ = chain.chained(lines[0], chain.START)
    salt = bytes.fromhex(told["salt"])
    other = data.draw(st.dictionaries(st.sampled_from(["time", "event", "round", "more"]), VALUES))
    same = json.dumps(other, sort_keys=True) == json.dumps(lines[0], sort_keys=True)
    assert (chain.chained(other, chain.START, salt)[1].hex() == told["chain"]) == same
    assert chain.chained(lines[0], b"\1" * 32, salt)[1].hex() != told["chain"]


def test_a_withheld_field_cannot_be_guessed_from_its_digest():
    """Of ten possible values, anyone who sees the digest and the salts of all other fields can try each."""
    salt = b"s" * 16
    shown = chain.field_digest("loss", chain.field_salt(salt, "loss"), 0.3)
    others = [chain.field_salt(salt, name) for name in ("time", "event", "round")]
    guesses = [chain.field_digest("loss", other, tenth / 10) for other in [b"", *others] for tenth in range(10)]
    assert shown not in guesses
    assert shown == chain.field_digest("loss", chain.field_salt(salt, "loss"), 0.3)


@pytest.fixture
def directory(tmp_path):
    made = RunDirectory.create(tmp_path, SETTINGS, 1.7e9, clock=lambda: 1.7e9)
    yield made
    made.close()


def test_a_run_that_is_resumed_continues_the_chain(directory):
    directory.emit(Noted("ε grows"))
    directory.emit(Noted("x" * (1 << 21)))  # longer than what is read of the end at once
    directory.close()
    with (directory.path / "events.jsonl").open("a") as file:
        file.write('{"time": "2023-11-14T22:13:20.000+00:00", "event": "No')  # a kill in the middle of a line
    again = RunDirectory.reopen(directory.path, clock=lambda: 1.7e9)
    again.emit(RunFinished("done", 3, 1.0))
    again.close()
    assert_whole(directory.path / "events.jsonl", 3)


def assert_whole(log: Path, lines: int) -> None:
    before = chain.START
    for line in log.read_text().splitlines():
        told = json.loads(line)
        before = by_the_page(chain.fields_of(told), bytes.fromhex(told["salt"]), before)
        assert told["chain"] == before.hex()
    assert len(list(read_events(log))) == lines


def test_parties_that_write_at_once_from_their_threads_make_one_chain(directory, monkeypatch):
    """A party is interrupted just where it has the chain so far, and another writes meanwhile."""
    chained = chain.chained

    def slow(*arguments):
        time.sleep(1e-3)
        return chained(*arguments)

    monkeypatch.setattr(chain, "chained", slow)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda party: directory.emit(Noted(str(party))), range(40)))
    assert_whole(directory.path / "events.jsonl", 40)


def test_the_log_of_an_earlier_release_is_covered_as_a_whole(directory):
    old = "".join(json.dumps({"time": "x", **to_json(Noted(text))}) + "\n" for text in ("one", "two"))
    (directory.path / "events.jsonl").write_text(old)
    directory.emit(Noted("three"))
    directory.close()
    told = json.loads((directory.path / "events.jsonl").read_text().splitlines()[-1])
    whole = hashlib.sha256()
    for part in (b"tacit events without a chain", old.encode()):
        whole.update(len(part).to_bytes(8, "big") + part)
    assert told["chain"] == by_the_page(chain.fields_of(told), bytes.fromhex(told["salt"]), whole.digest()).hex()
