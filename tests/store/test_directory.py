"""What a run leaves on disk, and that it is whole at any moment."""

import errno
import getpass
import json
import math
import os
import platform
import resource
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from tacit import events
from tacit.errors import comes_back
from tacit.runs.load import load
from tacit.store.directory import RunDirectory, read_events

SETTINGS = load({"kind": "horizontal", "name": "fleet", "task": "digits", "rounds": 3, "clients": 5})
NOW = 1_700_000_000.0  # 14 November 2023, 22:13:20 UTC
ALL = [
    events.RunStarted("fleet", "horizontal", 5, 3, "NOT_ENCRYPT", 10),
    events.Noted("ε grows"),
    events.RoundStarted(0, 5),
    events.ClientRefused(0, 1, "too late"),
    events.RoundFinished(0, 4, 1, 0.5, 100, {"accuracy": 0.5}, 0.1, 1.0, 0.2, 3.0),
    events.RoundAborted(1, "too few", 0.5),
    events.BudgetReached(2, 9.0, 8.0, 0.2),
    events.RunFinished("budget reached", 2, 1.5),
]


@pytest.fixture
def directory(tmp_path):
    made = RunDirectory.create(tmp_path / "deep" / "runs", SETTINGS, NOW, clock=lambda: NOW + 1.5)
    yield made
    made.close()


def test_the_name_says_when_and_what_and_is_never_taken_twice(tmp_path):
    (tmp_path / "20231114-221320-fleet-3").mkdir()
    paths = []
    for _ in range(3):
        made = RunDirectory.create(tmp_path, SETTINGS, NOW)
        made.close()
        paths.append(made.path.name)
    name = "20231114-221320-fleet"
    assert paths == [name, f"{name}-2", f"{name}-4"]


def test_the_settings_can_be_loaded_again(directory):
    assert load(directory.path / "config.yaml") == SETTINGS


def test_the_environment_says_nothing_about_who_or_where(directory):
    text = (directory.path / "environment.json").read_text()
    found = json.loads(text)
    assert found["python"] == platform.python_version()
    assert found["processors"] == os.cpu_count()
    assert found["packages"]["numpy"] == np.__version__
    assert {"tacit", "cryptography", "safetensors"} <= found["packages"].keys()
    assert set(found) == {"python", "implementation", "system", "machine", "processors", "packages"}
    values = [str(value) for value in (*found.values(), *found["packages"].values())]
    assert platform.node() not in values
    assert getpass.getuser() not in values
    assert str(Path.home()) not in text


def test_events_come_back_as_they_were(directory):
    for event in ALL:
        directory.emit(event)
    assert list(read_events(directory.path / "events.jsonl")) == ALL
    first = json.loads((directory.path / "events.jsonl").read_text().splitlines()[0])
    assert first["time"] == "2023-11-14T22:13:21.500+00:00"
    assert first["event"] == "RunStarted"


def test_the_log_says_the_same_in_words(directory):
    for event in ALL:
        directory.emit(event)
    log = (directory.path / "run.log").read_text(encoding="utf-8").splitlines()
    assert len(log) == len(ALL)
    assert log[4].startswith("round 1/3 survivors 4 refused 1")


def test_each_event_is_on_disk_when_emit_returns(directory):
    for count, event in enumerate(ALL, 1):
        directory.emit(event)
        assert len((directory.path / "events.jsonl").read_text().splitlines()) == count


def test_what_is_no_number_is_stored_as_nothing(directory):
    metrics = {"a": math.nan, "b": math.inf, "c": np.float32("nan"), "d": np.float32(0.5), "e": np.float64(-math.inf)}
    directory.emit(events.RoundFinished(0, 4, 1, 0.5, np.int64(100), metrics, epsilon=math.inf))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    text = (directory.path / "events.jsonl").read_text()
    stored = json.loads(text, parse_constant=refuse)
    assert stored["metrics"] == {"a": None, "b": None, "c": None, "d": 0.5, "e": None}
    assert stored["epsilon"] is None
    assert stored["bytes_up"] == 100


def test_a_line_that_was_cut_off_is_passed_over(directory):
    for event in ALL:
        directory.emit(event)
    path = directory.path / "events.jsonl"
    whole = path.read_bytes()
    before = whole.rindex(b"\n", 0, -1) + 1
    for end in range(before, len(whole)):
        path.write_bytes(whole[:end])
        assert list(read_events(path)) == ALL[:-1]


def test_a_broken_line_in_the_middle_is_an_error(tmp_path):
    path = tmp_path / "events.jsonl"
    for broken in ('{"event": "Not', "[]", "[" * 100_000, '{"event": "Strange"}', '{"event": "Noted"}'):
        path.write_text(f'{{"event": "Noted", "text": "a"}}\n{broken}\n{{"event": "Noted", "text": "b"}}\n')
        with pytest.raises(ValueError, match=r"events.jsonl:2: this line is not an event"):
            list(read_events(path))


@pytest.mark.parametrize(
    "arrays",
    [
        {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(0)},
        {"w": np.arange(6, dtype=np.float64).reshape(2, 3).T, "s": np.arange(8.0)[::2], "scalar": np.array(3.0)},
    ],
)
def test_a_model_comes_back_bit_for_bit(directory, arrays):
    directory.store.save(arrays, {"round": 7}, {})
    path = directory.path / "model.safetensors"
    stored = safetensors.numpy.load_file(path)
    assert stored.keys() == arrays.keys()
    for name, array in arrays.items():
        assert stored[name].shape == array.shape
        assert stored[name].dtype == array.dtype
        np.testing.assert_array_equal(stored[name], array)
    with safetensors.safe_open(path, "numpy") as file:
        about = file.metadata()
    assert about.pop("sha256")
    assert about == {"round": "7"}


def test_a_model_that_cannot_be_written_leaves_the_one_before(directory, monkeypatch):
    directory.store.save({"w": np.ones(3)}, {"round": 1}, {})
    before = (directory.path / "model.safetensors").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        directory.store.save({"w": np.zeros(3)}, {"round": 2}, {})
    assert (directory.path / "model.safetensors").read_bytes() == before
    assert not list(directory.path.glob(".*"))


def test_a_file_size_limit_is_a_fault_that_passes(directory):
    """As with `ulimit -f`, or in a service that is limited so."""
    directory.store.save({"w": np.ones(3)}, {"round": 1}, {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            directory.store.save({"w": np.zeros(10_000)}, {"round": 2}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert comes_back(caught.value)
    assert directory.store.stored()[0]["round"] == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EFBIG])
def test_a_run_that_a_passing_fault_ends_was_stopped(directory, code):
    directory.emit(events.RoundStarted(0, 5))
    with pytest.raises(OSError, match="fault"), directory:
        raise OSError(code, "a fault")
    *_, last = read_events(directory.path / "events.jsonl")
    assert last == events.RunFinished("stopped", 0, 0.0, "a fault")


def test_a_reader_sees_the_old_model_or_the_new_one(directory):
    path = directory.path / "model.safetensors"
    directory.store.save({"w": np.ones(3)}, {"round": 1}, {})
    before = path.read_bytes()
    with path.open("rb") as reader:
        directory.store.save({"w": np.zeros(3)}, {"round": 2}, {})
        assert reader.read() == before
    assert path.read_bytes() != before


def test_nothing_temporary_stays(directory):
    directory.store.save({"w": np.ones(3)}, {"round": 1}, {"epsilon": math.inf, "lines": [{"count": np.int64(2)}]})
    ledger = json.loads((directory.path / "ledger.json").read_text())
    assert ledger.pop("sha256")
    assert ledger == {"epsilon": None, "lines": [{"count": 2}]}
    assert {path.name for path in directory.path.iterdir()} == {
        "config.yaml",
        "environment.json",
        "events.jsonl",
        "run.log",
        "ledger.json",
        "ledger.copy.json",
        "model.safetensors",
        "state-1.safetensors",
    }


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), "stopped"), (RuntimeError("record 7 is odd"), "failed")]
)
def test_however_a_run_ends_its_events_have_an_end(directory, error, status):
    def interrupted() -> None:
        with directory:
            for event in ALL[:5]:
                directory.emit(event)
            raise error

    with pytest.raises(type(error)):
        interrupted()
    last = list(read_events(directory.path / "events.jsonl"))[-1]
    assert last == events.RunFinished(status, 1, 0.0, type(error).__name__)
    assert "record 7" not in (directory.path / "run.log").read_text()


def test_an_end_is_written_once(directory):
    with directory:
        directory.emit(events.RunFinished("done", 3, 1.0))
    assert list(read_events(directory.path / "events.jsonl")) == [events.RunFinished("done", 3, 1.0)]
