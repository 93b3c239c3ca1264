"""A flipped bit in what is stored: refused in one sentence, and the run resumes from the last that is intact.

What was released after that stays in the ledger.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tacit
from tacit.config.source import ConfigError
from tacit.events import RunResumed, TrainingResumed
from tacit.kinds.horizontal import join
from tacit.kinds.horizontal import run as federation
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.private_training import run as private_training
from tacit.runs.load import load
from tacit.runs.resume import resumed, unfinished
from tacit.store.directory import RunDirectory, read_events, read_model
from tacit.store.files import Damaged, copy_of, read_arrays, read_plain, write_arrays, write_twice
from tacit.store.party_folder import Store, party_of
from tests.commands import invoke
from tests.inside import inside
from tests.store.crash_points import killed_at

LEDGER = frozenset({"version", "ledgers"})
HORIZONTAL = {
    "kind": "horizontal",
    "name": "small",
    "task": "digits",
    "rounds": 3,
    "clients": 6,
    "train": {"epochs": 1, "batch": 32, "learning_rate": 0.5},
    "encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 5.0},
    "round": {"abandoned_rounds": 20},
}
PRIVATE = {
    "kind": "private_training",
    "name": "small",
    "task": "digits",
    "privacy": {"noise_multiplier": 2.0},
    "train": {"epochs": 2, "batch": 500, "learning_rate": 2.0},
}
VERTICAL = {
    "kind": "vertical_logistic",
    "protocol": "masked",
    "name": "small",
    "task": "cancer",
    "parties": {
        "hospital": {"role": "active", "address": "127.0.0.1:9"},
        "laboratory": {"role": "passive"},
    },
    "train": {"epochs": 2, "batch": 600, "learning_rate": 1.0},
    "paillier": {"bits": 1024},
}
SPLIT = {
    "kind": "split",
    "name": "small",
    "task": "split_cancer",
    "topology": "V",
    "parties": {
        "clinic": {"role": "leader", "address": "127.0.0.1:9"},
        "laboratory": {"role": "follower"},
    },
    "train": {"epochs": 2, "batch": 256, "learning_rate": 0.01},
    "embedding_dp": {"eps": 5.0},
}
KINDS = {"horizontal": HORIZONTAL, "private_training": PRIVATE, "vertical_logistic": VERTICAL, "split": SPLIT}


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    path.write_bytes(data)


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def one_sentence(done, path: Path) -> str:
    assert done.exit_code == 2, done.output
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(str(path))
    assert "Traceback" not in done.output
    return done.stderr


# --- single files


@pytest.mark.parametrize("kind", ["arrays", "plain"])
def test_each_flipped_bit_of_a_file_is_found(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "arrays":
        write_arrays(path, {"w": np.arange(3.0), "i": np.array([7])}, {"round": "3"})
    else:
        write_twice(path, {"version": 1, "ledgers": [{"count": 3}]})
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        flip(path, bit)
        with pytest.raises(Damaged, match=r"file:?.*: this (file|is)"):
            read_arrays(path) if kind == "arrays" else read_plain(path, LEDGER)
        path.write_bytes(whole)
    assert read_arrays(path)[1] == {"round": "3"} if kind == "arrays" else read_plain(path, LEDGER)["version"] == 1


@given(st.integers(0, 400))
def test_a_file_that_was_cut_off_is_found(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "file"
    write_arrays(path, {"w": np.arange(40.0)}, {"round": "3"})
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(Damaged):
        read_arrays(path)


DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f4", ">i8"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))


@given(arrays=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), ARRAYS, max_size=4))
def test_a_file_of_arrays_is_one_of_safetensors(tmp_path_factory, arrays):
    path = tmp_path_factory.mktemp("arrays") / "arrays"
    write_arrays(path, {name: array.T for name, array in arrays.items()}, {"round": "3"})
    for found in (safetensors.numpy.load(path.read_bytes()), read_arrays(path)[0]):
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype.newbyteorder("<")
            np.testing.assert_array_equal(found[name], array.T)
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    for name, array in arrays.items():
        assert (start + header[name]["data_offsets"][0]) % array.itemsize == 0  # readers may map it into memory


@pytest.mark.parametrize(("name", "dtype"), [("a", "O"), ("a", "U3"), ("a", "g"), ("__metadata__", "f4")])
def test_arrays_that_safetensors_cannot_hold_are_refused(tmp_path, name, dtype):
    with pytest.raises(ValueError, match="at most 64 bits, under another name"):
        write_arrays(tmp_path / "arrays", {name: np.zeros(3, dtype)}, {})
    assert not list(tmp_path.iterdir())


def test_arrays_that_hold_what_looks_like_a_checksum_come_back(tmp_path):
    text = np.frombuffer(b'"sha256":"' + b"0" * 64 + b'"', dtype=np.uint8)
    write_arrays(tmp_path / "file", {"text": text}, {"state": json.dumps({"sha256": "0" * 64})})
    arrays, about = read_arrays(tmp_path / "file")
    np.testing.assert_array_equal(arrays["text"], text)
    assert json.loads(about["state"]) == {"sha256": "0" * 64}


def test_files_of_older_runs_have_no_checksum_and_are_read(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(safetensors.numpy.save({"w": np.ones(3)}, metadata={"round": "2"}))
    (tmp_path / "ledger.json").write_text('{"version": 1, "ledgers": []}\n')
    np.testing.assert_array_equal(read_model(tmp_path / "model.safetensors")["w"], np.ones(3))
    assert Store(tmp_path).ledger() == {"version": 1, "ledgers": []}


def test_a_missing_ledger_is_read_from_its_copy(tmp_path):
    Store(tmp_path).save_ledger({"version": 1, "ledgers": [{"count": 3}]})
    (tmp_path / "ledger.json").unlink()
    assert Store(tmp_path).ledger() == {"version": 1, "ledgers": [{"count": 3}]}


def test_a_new_folder_reaches_the_disk_with_all_folders_above_it(tmp_path, monkeypatch):
    synchronised = []
    monkeypatch.setattr("tacit.store.files.sync_folder", lambda path: synchronised.append(path))
    RunDirectory.create(tmp_path / "deep" / "runs", load(HORIZONTAL), 0.0).close()
    assert synchronised[:3] == [tmp_path, tmp_path / "deep", tmp_path / "deep" / "runs"]


# --- runs


SLOW = ("private_training", "split")  # they load torch for each resumption


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=pytest.mark.slow) if kind in SLOW else kind for kind in KINDS]
)
def finished(request, tmp_path_factory):
    """A run of each kind, and a file to damage for each sort of what it stored."""
    if request.param in ("private_training", "split"):
        pytest.importorskip("torch")
    outcome = tacit.run(KINDS[request.param], runs=tmp_path_factory.mktemp(request.param))
    assert outcome.status == "done"
    return outcome.directory


def stores(folder: Path) -> list[Path]:
    """The folders in it that hold a model."""
    return [path.parent for path in sorted(folder.rglob("model.safetensors"))]


def stored_files(folder: Path) -> list[Path]:
    found = [folder / "ledger.json"]
    for store in stores(folder):
        last = max(store.glob("state-*.safetensors"), key=lambda path: int(path.stem.partition("-")[2]))
        found += [store / "model.safetensors", last, store / "ledger.json"]
    return sorted(set(found))


def spent(folder: Path) -> dict[tuple[str, str], int]:
    """How often each event was paid for, in all ledgers of a run."""
    found: Counter[tuple[str, str]] = Counter()
    for store in {folder, *stores(folder)}:
        for ledger in (Store(store).ledger() or {"ledgers": []})["ledgers"]:
            for line in ledger["lines"]:
                found[str(store.relative_to(folder)), " ".join(ledger["covers"])] += line["count"]
    return found


def test_a_flipped_bit_is_one_sentence_and_the_run_resumes_from_the_last_that_is_intact(finished, tmp_path):
    """At places spread over each file, the first and the last byte among them."""
    before = spent(finished)
    for number, path in enumerate(stored_files(finished)):
        folder = tmp_path / str(number)
        shutil.copytree(finished, folder)
        damaged = folder / path.relative_to(finished)
        whole = damaged.read_bytes()
        for bit in {0, 8 * len(whole) - 1, *range(7, 8 * len(whole), 8 * len(whole) // 5)}:
            damaged.write_bytes(whole)
            flip(damaged, bit)
            untouched = files_of(folder)
            words = one_sentence(invoke("run", "--resume", folder), damaged)
            assert words.endswith(f": tacit run --resume {folder} --previous\n")
            assert files_of(folder) == untouched
            if path.name == "ledger.json" and path.parent == finished:
                assert one_sentence(invoke("report", folder), damaged) == words
        done = invoke("run", "--resume", folder, "--previous", "--quiet")
        if path.name == "ledger.json":  # the copy is taken, and nothing is left to do
            assert done.exit_code == 0, done.output
            assert "are done" in done.output
            assert spent(folder) == before
        else:
            assert done.exit_code == 0, done.output
            assert any(
                isinstance(event, RunResumed | TrainingResumed) for event in read_events(folder / "events.jsonl")
            )
            now = spent(folder)
            assert all(now[what] >= count for what, count in before.items())
        assert invoke("report", folder).exit_code == 0
        assert not list(folder.rglob(".*.tmp"))


def test_without_anything_intact_the_sentence_says_to_start_anew(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    store = stores(folder)[0]
    for path in store.glob("state-*.safetensors"):
        flip(path, 999)
    done = invoke("run", "--resume", folder)
    assert done.exit_code == 2
    assert done.stderr.endswith(": nothing stored before it is intact: start a new run\n")
    done = invoke("run", "--resume", folder, "--previous")
    assert done.exit_code == 2
    assert done.stderr.endswith("and nothing earlier that is intact: start a new run\n")


def test_if_the_ledger_and_its_copy_are_damaged_the_run_does_not_resume(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    ledger = stores(folder)[0] / "ledger.json"
    for path in (ledger, copy_of(ledger)):
        flip(path, 77)
    for more in ((), ("--previous",)):
        done = invoke("run", "--resume", folder, *more)
        assert done.exit_code == 2
        assert done.stderr.endswith("start a new run\n")


def test_previous_is_for_damaged_runs_only(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    done = invoke("run", "--resume", folder, "--previous")
    assert done.exit_code == 2
    assert "nothing that is stored there is damaged: leave out --previous" in done.stderr
    file = tmp_path / "file.yaml"
    file.write_text(json.dumps(HORIZONTAL))
    for command in (("run", file), ("join", file, "--party", "coordinator", "--insecure")):
        done = invoke(*command, "--previous", "--set", "network.coordinator=127.0.0.1:9")
        assert done.exit_code == 2
        assert "--previous is for a run that is resumed: add --resume RUN" in done.stderr


def test_temporary_files_of_parts_are_removed(finished, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    for store in {folder, *stores(folder)}:
        (store / ".model.safetensors.0123abcd.tmp").write_bytes(b"half")
    RunDirectory.reopen(folder).close()
    assert not list(folder.rglob(".*.tmp"))


def test_predict_refuses_a_damaged_model(tmp_path):
    run = tacit.run(VERTICAL, runs=tmp_path).directory
    (tmp_path / "file.yaml").write_text(json.dumps(VERTICAL))
    damaged = run / "hospital" / "model.safetensors"
    flip(damaged, 8 * len(damaged.read_bytes()) - 5)
    done = invoke("predict", tmp_path / "file.yaml", "--run", run, "--output", tmp_path / "scores.csv")
    assert one_sentence(done, damaged).endswith(f": tacit run --resume {run} --previous\n")


# --- what was released after the earlier state


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """A federation that samples 4 of its 6 clients, stopped in its third round; and how often each client trained."""
    trained: Counter[int] = Counter()
    answer = MemoryEngine._answer

    def told(self, identity, message, fate):
        trained[identity] += 1
        if self.coordinator.round == 2:
            self._should_stop = lambda: True
        return answer(self, identity, message, fate)

    config = HORIZONTAL | {"round": {"start_fl_job_threshold": 4, "abandoned_rounds": 20}}
    with monkeypatch.context() as patched:
        patched.setattr(MemoryEngine, "_answer", told)
        run = tacit.run(config, runs=tmp_path / "runs")
    assert run.status == "stopped"

    def counted(self, identity, message, fate):
        trained[identity] += 1
        return answer(self, identity, message, fate)

    monkeypatch.setattr(MemoryEngine, "_answer", counted)
    return run.directory, trained


@pytest.mark.parametrize("damage", ["model.safetensors", "state-2.safetensors"])
def test_uploads_after_the_earlier_state_stay_paid_for(stopped, damage):
    folder, trained = stopped
    flip(folder / damage, 8 * 300)
    with pytest.raises(ConfigError, match="--previous"):
        tacit.run(resume=folder)
    _, directory = resumed(folder, previous=True)
    state, _ = directory.store.stored()
    directory.close()
    assert state["round"] == 1
    assert state["attempts"] == 3
    paid = dict(zip(state["clients"].tolist(), state["uploads"].tolist(), strict=True))
    assert all(count <= paid[client] for client, count in trained.items())
    run = tacit.run(resume=folder)
    assert run.status == "done"
    assert RunResumed(1, True) in list(read_events(folder / "events.jsonl"))
    assert max(trained.values()) <= run.ledger["ledgers"][0]["lines"][0]["count"]


def test_killed_between_any_two_steps_of_going_back_it_can_be_done_again(stopped, tmp_path, monkeypatch):
    """Each step on disk in turn is the last thing that happens."""
    folder, trained = stopped
    flip(folder / "state-2.safetensors", 8 * 300)
    flip(folder / "ledger.json", 8 * 300)
    for last in itertools.count(1):
        copy = tmp_path / str(last)
        shutil.copytree(folder, copy)
        with killed_at(last, monkeypatch) as reached:
            resumed(copy, previous=True)[1].close()
        if not reached():
            break
        try:
            directory = resumed(copy)[1]  # all was done but the last synchronising
        except ConfigError:
            directory = resumed(copy, previous=True)[1]
        state, _ = directory.store.stored()
        directory.close()
        assert (state["round"], state["attempts"]) == (1, 3)
        assert max(trained.values()) <= max(state["uploads"])
        assert not list(copy.glob(".*"))
    assert last > 8


def test_going_back_counts_nothing_twice():
    settings = load(HORIZONTAL)
    state = {"attempts": 3, "sums": 1, "clients": np.array([0, 4]), "uploads": np.array([3, 1])}
    once = federation.caught_up(settings, state, {"attempts": 5, "sums": 4})
    assert (once["attempts"], once["sums"]) == (5, 4)
    assert once["uploads"].tolist() == [5, 2, 2, 2, 3, 2]
    again = federation.caught_up(settings, once, {"attempts": 5, "sums": 4})
    assert all(np.array_equal(again[key], once[key]) for key in once)
    earlier = federation.caught_up(settings, state, {"attempts": 2, "sums": 0})  # never less than the state itself
    assert (earlier["attempts"], earlier["sums"], earlier["uploads"].tolist()) == (3, 1, [3, 1])


def test_steps_of_a_private_training_that_are_taken_again_are_paid_for_again():
    paid = {"steps": 5, "abandoned": [[3, 1], [5, 1]]}
    once = private_training.caught_up(None, {"steps": 3, "abandoned": [[3, 1]]}, paid)
    assert once["abandoned"] == [[3, 2], [4, 1], [5, 1]]
    assert private_training.caught_up(None, once, paid) == once


def test_a_ledger_without_counters_allows_no_earlier_state(stopped):
    """As an older release left it."""
    folder, _ = stopped
    for path in (folder / "ledger.json", folder / "ledger.copy.json"):
        path.write_text(json.dumps({"version": 1, "ledgers": []}))
    flip(folder / "state-2.safetensors", 8 * 300)
    done = invoke("run", "--resume", folder, "--previous")
    assert one_sentence(done, folder / "ledger.json").endswith("start a new run\n")


# --- over a network


def network_file(folder: Path) -> Path:
    path = folder / "file.yaml"
    path.write_text(json.dumps(HORIZONTAL | {"network": {"coordinator": "127.0.0.1:9"}}))
    return path


def test_the_counters_of_a_client_are_stored_twice(tmp_path):
    file = network_file(tmp_path)
    settings = inside(load(file)).networked()
    with RunDirectory.create(tmp_path / "runs", settings, time.time(), party="client-3") as directory:
        state = {"attempts": 7, "uploads": 5, "sums": 0}
        join._storer(directory.path, 3, Costs(settings, 10), "same")(SimpleNamespace(state=lambda: state))
    folder = directory.path
    path, command = folder / "client-3.json", ("join", file, "--party", "client", "--id", "3", "--insecure")
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 101):
        flip(path, bit)
        words = one_sentence(invoke(*command, "--resume", folder), path)
        assert words.endswith(f": tacit join FILE --party client --id 3 --resume {folder} --previous\n")
        path.write_bytes(whole)
    flip(path, 100)
    (folder / ".client-3.json.0123abcd.tmp").write_bytes(b"half")
    _, directory = resumed(folder, settings.model_dump(), party="client-3", previous=True)
    assert join._stored(directory.path, 3, "same") == state
    directory.close()
    assert path.read_bytes() == whole
    assert not list(folder.glob(".*"))
    path.unlink()
    assert join._stored(directory.path, 3, "same") == state
    flip(copy_of(path), 100)
    assert one_sentence(invoke(*command, "--resume", folder), copy_of(path)).endswith("start a new run\n")


def test_a_damaged_coordinator_names_its_command(stopped, tmp_path):
    folder, _ = stopped
    config = (
        inside(load(folder / "config.yaml", ["network.coordinator=127.0.0.1:9"])).networked().model_dump(mode="json")
    )
    for path in (tmp_path / "file.yaml", folder / "config.yaml"):
        path.write_text(json.dumps(config))
    (folder / "party").write_text("coordinator\n")
    flip(folder / "model.safetensors", 8 * 300)
    done = invoke("join", tmp_path / "file.yaml", "--party", "coordinator", "--insecure", "--resume", folder)
    words = one_sentence(done, folder / "model.safetensors")
    assert words.endswith(f": tacit join FILE --party coordinator --resume {folder} --previous\n")


@pytest.mark.parametrize("data", [b"", b"\n", b"labor\xe1tory\n", b"\x00" * 11, b"labor\x1b[2Jatory\n", b"x" * 5000])
@pytest.mark.parametrize("kind", ["vertical_logistic", "split"])
def test_a_damaged_party_file_is_one_sentence(tmp_path, kind, data):
    file = tmp_path / "file.yaml"
    file.write_text(json.dumps(KINDS[kind]))
    RunDirectory.create(tmp_path / "runs", load(file), 0.0, party="laboratory", at=tmp_path / "state").close()
    path = tmp_path / "state" / "party"
    assert party_of(tmp_path / "state") == "laboratory"
    path.write_bytes(data)
    before = files_of(tmp_path)
    with pytest.raises(ConfigError):
        resumed(tmp_path / "state", party="laboratory")
    join = ("join", file, "--party", "laboratory", "--insecure")
    for arguments in ((*join, "--resume"), (*join, "--state"), ("run", "--resume")):
        words = one_sentence(invoke(*arguments, tmp_path / "state"), path)
        assert words == f"{path}: this file is damaged: write into it whose run this is\n"
    assert files_of(tmp_path) == before


def test_a_damaged_party_file_of_another_run_stops_no_new_one(tmp_path):
    settings = load(HORIZONTAL)
    RunDirectory.create(tmp_path, settings, 0.0, named="small-coordinator", party="coordinator").close()
    (folder,) = tmp_path.iterdir()
    (folder / "party").write_bytes(b"")
    assert unfinished(tmp_path, settings, "coordinator") is None


# --- the order of saving


def test_killed_between_any_two_steps_of_saving_all_that_is_stored_fits(tmp_path, monkeypatch):
    """By a party that opens its store anew for each save, as one that is killed again and again."""
    offered = 0
    for last in itertools.count(1):
        folder = tmp_path / str(last)
        folder.mkdir()
        released = 0
        with killed_at(last, monkeypatch) as reached:
            for number in (0, 0, 1, 2, 2, 3):
                ledger = {"version": 1, "ledgers": [{"count": released + 1}]}
                Store(folder).save({"w": np.full(3, number)}, {"round": number, "w": np.full(3, number)}, ledger)
                released += 1
        if not reached():
            break
        found = Store(folder).stored()
        if found is None:
            assert released == 0
            continue
        state, model = found
        np.testing.assert_array_equal(state["w"], model["w"])
        assert (Store(folder).ledger() or {"ledgers": [{"count": 0}]})["ledgers"][0]["count"] >= released
        previous = folder / "model.previous.safetensors"
        # None before the second state, and for the moment in which the last model becomes the one before.
        if previous.exists() and not previous.samefile(folder / "model.safetensors"):
            offered += 1
            flip(folder / "model.safetensors", 8 * 100)
            for repair in Store(folder).repairs(lambda state, ledger: state):
                repair()
            state, model = Store(folder).stored()
            np.testing.assert_array_equal(state["w"], model["w"])
    assert last > 60
    assert offered > 30


def test_a_file_system_without_links_keeps_the_model_before_too(tmp_path, monkeypatch):
    def no_links(*paths):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    store = Store(tmp_path)
    for number in (0, 1, 2):
        store.save({"w": np.full(3, number)}, {"round": number}, {"version": 1, "ledgers": []})
    assert read_arrays(tmp_path / "model.previous.safetensors")[1] == {"round": "1"}
    assert store.numbers() == [1, 2]
