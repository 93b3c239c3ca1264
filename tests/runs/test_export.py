"""Exported figures, read back by the tools that they are for."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tacit
from tacit import events
from tacit.runs.export import ExportError, read_exported, store_uri, to_mlflow, to_tensorboard
from tacit.runs.load import load
from tacit.store.directory import RunDirectory, read_timed_events
from tests.subprocesses import HANGS

NOW = 1_700_000_000.0
NAME = "20231114-221320-fleet"
# What other packages warn of is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


def settings(**keys):
    base = {"kind": "horizontal", "name": "fleet", "task": "digits", "rounds": 4, "clients": 5}
    return load({**base, "task_options": {"split": "iid"}, **keys})


def finished(number: int, *, accuracy: float | None = 0.5, **keys) -> events.RoundFinished:
    return events.RoundFinished(
        number,
        survivors=4,
        refused=1,
        seconds=0.25,
        bytes_up=100,
        bytes_down=50,
        metrics={"accuracy": accuracy, "loss (ε)": 2.0},
        training_loss=1.5,
        stages={"train": 0.125},
        **keys,
    )


STARTED = events.RunStarted("fleet", "horizontal", 5, 4, "NOT_ENCRYPT", 10)
DONE = events.RunFinished("done", 4, 9.0)


def written(root: Path, told: list[events.Event], **keys) -> Path:
    """A run's folder; each event a second after the one before."""
    directory = RunDirectory.create(root / "runs", settings(**keys), NOW)
    directory.close()
    with (directory.path / "events.jsonl").open("w") as file:
        for count, event in enumerate(told, 1):
            time = datetime.fromtimestamp(NOW + count, UTC).isoformat(timespec="milliseconds")
            file.write(json.dumps({"time": time, **events.to_json(event)}) + "\n")
    return directory.path


def values(exported, name: str) -> dict[int, float]:
    return {figure.round: figure.value for figure in exported.figures if figure.name == name}


def test_lines_come_with_their_time(tmp_path):
    path = written(tmp_path, [STARTED, DONE])
    assert list(read_timed_events(path / "events.jsonl")) == [(NOW + 1, STARTED), (NOW + 2, DONE)]
    (path / "events.jsonl").write_text('{"event": "Noted", "text": "a"}\n')
    assert list(read_timed_events(path / "events.jsonl")) == [(0.0, events.Noted("a"))]
    (path / "events.jsonl").write_text('{"time": "noon", "event": "Noted", "text": "a"}\n')
    with pytest.raises(ValueError, match=r"events.jsonl:1: this line is not an event"):
        list(read_timed_events(path / "events.jsonl"))


def test_every_figure_of_a_round_is_there(tmp_path):
    evaluated = events.Evaluated(0, "SILHOUETTE_SCORE", 0.75, "", 4, 32, 6)
    told = [STARTED, evaluated, finished(0, epsilon=3.0, delta=0.1, evaluation_epsilon=8.0, update_norm=0.5), DONE]
    exported = read_exported(written(tmp_path, told))
    assert {figure.name: figure.value for figure in exported.figures} == {
        "survivors": 4,
        "refused": 1,
        "seconds": 0.25,
        "bytes_up": 100,
        "bytes_down": 50,
        "training_loss": 1.5,
        "update_norm": 0.5,
        "epsilon": 3.0,
        "delta": 0.1,
        "evaluation_epsilon": 8.0,
        "metrics/accuracy": 0.5,
        "metrics/loss ___": 2.0,
        "stages/train": 0.125,
        "score": 0.75,
    }
    assert {figure.round for figure in exported.figures} == {1}
    assert {figure.time for figure in exported.figures if figure.name != "score"} == {NOW + 3}
    assert (exported.name, exported.status, exported.protection) == (NAME, "done", "NOT_ENCRYPT")
    assert (exported.start, exported.end) == (NOW + 1, NOW + 4)
    assert exported.parameters["encrypt.dp_encrypt.dp_eps"] == "50.0"
    assert exported.parameters["task_options.split"] == "iid"
    assert exported.parameters["unsupervised"] == ""


def test_what_was_no_number_is_left_out(tmp_path):
    no_score = events.Evaluated(0, "SILHOUETTE_SCORE", None, "one cluster", 4, 32, 1)
    exported = read_exported(written(tmp_path, [STARTED, no_score, finished(0, accuracy=None)]))
    assert not values(exported, "score")
    assert not values(exported, "metrics/accuracy")
    assert values(exported, "training_loss") == {1: 1.5}
    assert exported.status == "unfinished"


def test_of_a_round_that_was_done_again_the_later_counts(tmp_path):
    told = [
        STARTED,
        *(finished(number, accuracy=0.1 * number, epsilon=9.0) for number in range(3)),
        events.RunFinished("stopped", 3, 1.0),
        events.RunResumed(1, abandoned=True),
        finished(1, accuracy=0.7),  # without an epsilon, so that the earlier one would show
        events.RoundAborted(2, "too few", 0.5),
        finished(3, accuracy=0.9),
        DONE,
    ]
    exported = read_exported(written(tmp_path, told))
    assert values(exported, "metrics/accuracy") == {1: 0.0, 2: 0.7, 4: 0.9}
    assert values(exported, "epsilon") == {1: 9.0}
    assert exported.status == "done"
    assert read_exported(written(tmp_path / "b", told[:6])).status == "unfinished"


@pytest.mark.parametrize(
    ("encrypt", "names"),
    [
        ({"encrypt_type": "NOT_ENCRYPT"}, {"epsilon", "delta"}),
        ({"encrypt_type": "DP_ENCRYPT"}, {"metrics/accuracy", "metrics/loss ___", "update_norm", "epsilon", "delta"}),
    ],
)
def test_what_is_shared_is_what_an_epsilon_covers(tmp_path, encrypt, names):
    told = [STARTED, finished(0, epsilon=3.0, delta=0.1, update_norm=0.5), finished(1), DONE]
    path = written(tmp_path, told, encrypt=encrypt, task_options={"path": "private/place"})
    exported = read_exported(path, share=True)
    assert {figure.name for figure in exported.figures} == names
    assert {figure.time for figure in exported.figures} == {exported.start} == {exported.end}  # nor how long it took
    assert "private" not in repr(exported)
    assert "private" in repr(read_exported(path))


def test_with_a_known_seed_nothing_is_covered(tmp_path):
    keys = {"encrypt": {"encrypt_type": "DP_ENCRYPT"}, "simulation": {"insecure_noise_seed": 1}}
    path = written(tmp_path, [STARTED, finished(0, epsilon=3.0, delta=0.1), DONE], **keys)
    assert read_exported(path).figures
    assert not read_exported(path, share=True).figures


def test_folders_that_are_no_run_are_refused(tmp_path):
    def refused(words: str, path: Path) -> None:
        with pytest.raises(ExportError, match=words):
            read_exported(path)

    refused("there is no such folder", tmp_path / "none")
    refused("it has no config.yaml", tmp_path)
    refused("none of them is the start of a run", written(tmp_path / "a", [events.Noted("x")]))
    path = written(tmp_path / "b", [STARTED])
    for broken in ('{"event": "Strange"}', "{", '{"event": "RoundFinished", "round": 0}'):
        (path / "events.jsonl").write_text(f"{broken}\n")
        refused("events.jsonl:1: this line is not an event", path)
    for edited in ('"round": "x"', '"round": 0, "metrics": 3', '"round": 0, "metrics": {"a": "x"}'):
        line = f'{{"event": "RoundFinished", {edited}, "survivors": 1, "refused": 0, "seconds": 1, "bytes_up": 1}}'
        (path / "events.jsonl").write_text(line + "\n")
        refused("its events cannot be read", path)
    (path / "config.yaml").write_text("kind: horizontal\nrouds: 2\n")
    refused("rouds is not a known key", path)
    (path / "events.jsonl").unlink()
    refused("it has no events.jsonl", path)


# --- TensorBoard, by its own reader


def accumulated(folder: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


def test_tensorboard_reads_what_was_written(tmp_path):
    told = [STARTED, *(finished(number, accuracy=number / 4) for number in range(4)), DONE]
    folder = to_tensorboard(read_exported(written(tmp_path, told)), tmp_path / "board")
    assert folder == tmp_path / "board" / NAME
    found = accumulated(folder)
    assert {"metrics/accuracy", "stages/train", "survivors", "bytes_down"} <= set(found.Tags()["scalars"])
    assert [(event.step, event.wall_time, event.value) for event in found.Scalars("metrics/accuracy")] == [
        (number + 1, NOW + 2 + number, number / 4) for number in range(4)
    ]
    (name,) = found.Tags()["tensors"]
    (table,) = found.Tensors(name)[0].tensor_proto.string_val
    assert "| status | done |" in table.decode()
    assert "| encrypt.encrypt_type | NOT_ENCRYPT |" in table.decode()


def test_a_second_export_to_tensorboard_takes_the_place_of_the_first(tmp_path):
    path = written(tmp_path, [STARTED, finished(0), finished(1), DONE])
    (tmp_path / "board" / NAME).mkdir(parents=True)
    (tmp_path / "board" / NAME / "events.out.tfevents.1.other").write_bytes(b"")  # not ours
    for share, count in ((False, 2), (False, 2), (True, 0)):
        folder = to_tensorboard(read_exported(path, share=share), tmp_path / "board")
        assert len(list(folder.iterdir())) == 2
        found = accumulated(folder)
        assert (len(found.Scalars("survivors")) if "survivors" in found.Tags()["scalars"] else 0) == count


def test_the_event_file_says_nothing_of_the_machine(tmp_path):
    folder = to_tensorboard(read_exported(written(tmp_path, [STARTED, finished(0), DONE])), tmp_path / "board")
    (file,) = folder.iterdir()
    assert platform.node() not in file.name
    assert platform.node().encode() not in file.read_bytes()
    assert str(tmp_path).encode() not in file.read_bytes()


@pytest.mark.slow  # 5 s
def test_a_place_that_cannot_be_written_to(tmp_path):
    exported = read_exported(written(tmp_path, [STARTED, finished(0), DONE]))
    (tmp_path / "file").write_text("no database")
    with pytest.raises(ExportError, match=r"file.*cannot be stored there: "):
        to_tensorboard(exported, tmp_path / "file")
    with pytest.raises(ExportError, match="file: figures cannot be stored there: "):
        to_mlflow(exported, str(tmp_path / "file"))
    for uri in (f"sqlite:///{tmp_path / 'file'}", f"file://{tmp_path / 'old'}", "strange://place"):
        with pytest.raises(ExportError, match=r"MLflow cannot store figures there: .") as raised:
            to_mlflow(exported, uri)
        assert "\n" not in str(raised.value)


# --- MLflow, by its client


@pytest.fixture
def store(tmp_path) -> str:
    return str(tmp_path / "store")


def experiment_runs(store: str, name: str = "fleet"):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(store_uri(store))
    return client, client.search_runs([client.get_experiment_by_name(name).experiment_id])


def test_mlflow_reads_what_was_written(tmp_path, store):
    told = [STARTED, *(finished(number, accuracy=number / 4) for number in range(4)), DONE]
    number = to_mlflow(read_exported(written(tmp_path, told)), store)
    client, (run,) = experiment_runs(store)
    assert run.info.run_id == number
    assert (run.info.status, run.info.run_name) == ("FINISHED", NAME)
    assert (run.info.start_time, run.info.end_time) == ((NOW + 1) * 1000, (NOW + 6) * 1000)
    history = client.get_metric_history(number, "metrics/accuracy")
    assert [(m.step, m.timestamp, m.value) for m in history] == [
        (number + 1, (NOW + 2 + number) * 1000, number / 4) for number in range(4)
    ]
    assert {"survivors", "stages/train", "metrics/loss ___"} <= run.data.metrics.keys()
    assert run.data.params["rounds"] == "4"
    assert run.data.params["encrypt.pw_encrypt.share_secrets_ratio"] == "0.8"
    assert (run.data.tags["protection"], run.data.tags["status"]) == ("NOT_ENCRYPT", "done")
    assert {path.name for path in Path(store).iterdir()} == {"mlflow.db"}


def test_a_second_export_to_mlflow_takes_the_place_of_the_first(tmp_path, store):
    path = written(tmp_path, [STARTED, finished(0), events.RunFinished("stopped", 1, 1.0)])
    first = to_mlflow(read_exported(path), store)
    other = to_mlflow(read_exported(written(tmp_path, [STARTED, finished(0)])), store)  # another run stays
    second = to_mlflow(read_exported(path), store)
    client, runs = experiment_runs(store)
    assert {run.info.run_id: run.info.status for run in runs} == {other: "RUNNING", second: "KILLED"}
    assert len(client.get_metric_history(second, "survivors")) == 1
    assert first != second
    to_mlflow(read_exported(path), store, "elsewhere")
    assert len(experiment_runs(store, "elsewhere")[1]) == 1


def test_what_may_be_shared_is_not_put_where_everything_was(tmp_path, store):
    path = written(tmp_path, [STARTED, finished(0), DONE], encrypt={"encrypt_type": "DP_ENCRYPT"})
    to_mlflow(read_exported(path, share=True), store)
    to_mlflow(read_exported(path, share=True), store)
    to_mlflow(read_exported(path), store)
    with pytest.raises(ExportError, match="share it from another store"):
        to_mlflow(read_exported(path, share=True), store)
    client, (run,) = experiment_runs(store)
    client.delete_run(run.info.run_id)
    with pytest.raises(ExportError, match="share it from another store"):
        to_mlflow(read_exported(path, share=True), store)
    assert not experiment_runs(store)[1]


def test_more_figures_than_a_store_takes_at_once(tmp_path, store):
    path = written(tmp_path, [STARTED, *(finished(number) for number in range(150)), DONE], rounds=150)
    number = to_mlflow(read_exported(path), store)
    client, _ = experiment_runs(store)
    assert [m.step for m in client.get_metric_history(number, "survivors")] == list(range(1, 151))


@pytest.mark.slow  # 6 s or more
def test_nobody_is_told_of_an_export(tmp_path):
    """No name is looked up and no connection made: in a process of its own, without the marks of a test."""
    path = written(tmp_path, [STARTED, finished(0), DONE])
    code = (
        "import socket, sys\n"
        "def refuse(*arguments):\n"
        "    print('NETWORK', arguments, flush=True)\n"
        "    raise OSError('no network')\n"
        "socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse\n"
        "from tacit.cli import main\n"
        "main(sys.argv[1:], prog_name='tacit')\n"
    )
    marks = ("PYTEST_CURRENT_TEST", "CI", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK")
    clean = {key: value for key, value in os.environ.items() if key not in marks}
    clean["PYTHONPATH"] = str(Path(tacit.__file__).parents[1])
    command = [sys.executable, "-c", code, "export", path, "--mlflow", tmp_path / "s", "--tensorboard", tmp_path / "t"]
    done = subprocess.run(command, env=clean, cwd=tmp_path, capture_output=True, text=True, timeout=HANGS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "NETWORK" not in done.stdout
    assert done.stdout.count("is written") == 2
    assert {each.name for each in tmp_path.iterdir()} == {"runs", "s", "t"}


def test_a_folder_stands_for_a_database_in_it(tmp_path):
    assert store_uri(str(tmp_path)) == f"sqlite:///{tmp_path}/mlflow.db"
    for uri in ("sqlite:///x.db", "https://host/x", "databricks"):
        assert store_uri(uri) == uri
