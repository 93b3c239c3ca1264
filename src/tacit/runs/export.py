"""A run's figures for other tools: TensorBoard and MLflow. Needs the extra `export`.

`read_exported` gathers them from the run's directory; `to_tensorboard` and `to_mlflow` write them in the tool's own
format. Neither starts a server or sends anything, unless the MLflow store that was named is itself on a server.
Exporting a run again replaces what was exported before.

Rounds count from 1, as in `run.log`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.config.source import ConfigError
from tacit.events import (
    Answered,
    EpochFinished,
    Evaluated,
    Event,
    RoundFinished,
    RunFinished,
    RunResumed,
    RunStarted,
    TrainingResumed,
    TrainingStarted,
)
from tacit.kind import kind_of
from tacit.runs.load import load
from tacit.sections import Settings
from tacit.store.directory import read_timed_events

_NUMBERS = (
    *("survivors", "refused", "seconds", "bytes_up", "bytes_down"),
    *("training_loss", "update_norm", "epsilon", "delta", "evaluation_epsilon", "composed_epsilon", "composed_delta"),
)
_EPOCH_NUMBERS = ("seconds", "bytes_sent", "bytes_received", "epsilon", "delta")
_PRICES = frozenset(
    {"epsilon", "delta", "evaluation_epsilon", "composed_epsilon", "composed_delta"}
)  # they say what is covered
_PLACES = ("task_options", "network", "parties", "data", "seed")  # settings that may name a place, or who was sampled
_MISSING = "{} needs the package {}: pip install 'tacit-learning[export]'"


class ExportError(ValueError):
    """A run that cannot be read, or a place that cannot be written to."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one round."""

    name: str
    field: str  # of the event
    round: int  # from 1
    time: float  # seconds since 1970
    value: float


@dataclass(frozen=True, slots=True)
class Exported:
    """What of a run goes to another tool."""

    name: str  # of the run's folder
    federation: str
    protection: str
    status: str
    start: float  # seconds since 1970
    end: float
    figures: tuple[Figure, ...]
    parameters: dict[str, str]
    share: bool  # whether it was cut down to what may be shared


# --- what a run's directory says


def read_exported(path: str | Path, *, share: bool = False) -> Exported:
    """A run's figures, of each round as it was done last.

    With `share` only those that an epsilon covers, at the time when the run started: how long a round took is not
    covered. Settings that may name a place are left out too.
    """
    path = Path(path)
    if not path.is_dir():
        raise ExportError(f"{path}: there is no such folder: give the folder of a run, such as runs/<time>-<name>")
    for name in ("config.yaml", "events.jsonl"):
        if not (path / name).is_file():
            raise ExportError(f"{path}: this is not the folder of a run, it has no {name}: `tacit run` makes one")
    try:
        settings = load(path / "config.yaml")
        run = _told(path.resolve().name, settings, list(read_timed_events(path / "events.jsonl")))
    except (ConfigError, OSError) as error:
        raise ExportError(str(error)) from error
    except (ValueError, TypeError, AttributeError) as error:  # a file that was edited
        raise ExportError(f"{path}: its events cannot be read: {error}") from error
    return _shared(run, settings) if share else run


def _told(name: str, settings: Settings, events: Sequence[tuple[float, Event]]) -> Exported:
    found: dict[tuple[int, str], Figure] = {}
    start, status, protection = None, "unfinished", ""
    for time, event in events:
        match event:
            case RunStarted() | TrainingStarted():
                start, protection = time, event.protection
            case RunResumed() | TrainingResumed():
                status = "unfinished"
                done = event.round if isinstance(event, RunResumed) else event.epoch
                found = {key: figure for key, figure in found.items() if figure.round <= done}
            case RunFinished():
                status = event.status
            case RoundFinished() | Evaluated() | EpochFinished():
                for figure in _figures(event, time):
                    found[figure.round, figure.name] = figure
            case Answered():
                for figure in _own_figures(event, time):
                    before = found.get((figure.round, figure.name))
                    sent = before.value if before is not None and figure.field == "bytes_up" else 0.0
                    found[figure.round, figure.name] = replace(figure, value=figure.value + sent)
    if start is None:
        raise ValueError("none of them is the start of a run")
    return Exported(
        _clean(name),
        settings.name,
        protection,
        status,
        start,
        max(time for time, _ in events),
        tuple(figure for _, figure in sorted(found.items())),
        dict(_flat(settings.model_dump(mode="json"))),
        share=False,
    )


def _figures(event: RoundFinished | Evaluated | EpochFinished, time: float) -> Iterator[Figure]:
    """The numbers of an event. What was no number in the run was stored as nothing, and is left out."""
    values: list[tuple[str, str, float | None]]
    match event:
        case Evaluated():
            values = [("score", "score", event.score)]
        case RoundFinished():
            values = [(name, name, getattr(event, name)) for name in _NUMBERS]
            values += [(f"metrics/{_clean(name)}", "metrics", value) for name, value in event.metrics.items()]
            values += [(f"stages/{_clean(name)}", "stages", value) for name, value in event.stages.items()]
        case EpochFinished():
            values = [(name, name, getattr(event, name)) for name in _EPOCH_NUMBERS]
            for field in ("metrics", "local", "stages"):
                values += [(f"{field}/{_clean(name)}", field, value) for name, value in getattr(event, field).items()]
    number = event.epoch if isinstance(event, EpochFinished) else event.round
    for name, field, value in values:
        if value is not None:
            yield Figure(name, field, number + 1, time, float(value))


def _own_figures(event: Answered, time: float) -> Iterator[Figure]:
    """What a client tells of itself: what it sent, and what it paid so far."""
    whose, number = f"client-{event.client}", event.round + 1
    yield Figure(f"{whose}/bytes_up", "bytes_up", number, time, float(sum(event.sent.values())))
    for of, value in event.epsilons.items():
        if value is not None:
            yield Figure(f"{whose}/epsilon of {_clean(of)}", "epsilon", number, time, float(value))


def _clean(name: str) -> str:
    """A name that a user chose, in letters that every tool takes."""
    return re.sub(r"[^A-Za-z0-9_. -]", "_", name).strip() or "_"


def _flat(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{_clean(key)}.")
        else:
            yield above + _clean(key), "" if value is None else str(value)


def _shared(run: Exported, settings: Settings) -> Exported:
    kept = kind_of(settings).boundary(settings).covered
    if not settings.insecure:
        kept |= _PRICES
    return replace(
        run,
        end=run.start,
        figures=tuple(replace(figure, time=run.start) for figure in run.figures if figure.field in kept),
        parameters={key: text for key, text in run.parameters.items() if key.split(".")[0] not in _PLACES},
        status="",  # how it ended tells who was there
        share=True,
    )


# --- TensorBoard


def to_tensorboard(run: Exported, root: str | Path) -> Path:
    """Write an event file to `root/<name of the run>` and return that folder. TensorBoard's numbers have 32 bits.

    The file's name says nothing of the machine, which TensorBoard's own writers put there.
    """
    try:
        from tensorboardX.proto.event_pb2 import Event as Record
        from tensorboardX.proto.summary_pb2 import Summary
        from tensorboardX.record_writer import RecordWriter
        from tensorboardX.summary import text
    except ModuleNotFoundError as error:
        raise ExportError(_MISSING.format("--tensorboard", error.name)) from error

    folder = Path(root) / run.name
    unfinished = folder / ".unfinished"  # TensorBoard reads only names with `tfevents`
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writer = RecordWriter(str(unfinished))
        writer.write(Record(wall_time=run.start, file_version="brain.Event:2").SerializeToString())
        words = text("settings", _table({"protection": run.protection, "status": run.status, **run.parameters}))
        writer.write(Record(wall_time=run.start, summary=words).SerializeToString())
        for figure in run.figures:
            summary = Summary(value=[Summary.Value(tag=figure.name, simple_value=figure.value)])
            writer.write(Record(wall_time=figure.time, step=figure.round, summary=summary).SerializeToString())
        writer.close()
        unfinished.replace(folder / "events.out.tfevents.tacit")
    except OSError as error:
        raise ExportError(f"{folder}: figures cannot be stored there: {error.strerror}") from error
    return folder


def _table(data: Mapping[str, str]) -> str:
    """In Markdown, which TensorBoard shows."""
    rows = [f"| {key} | {re.sub(r'[|<>]|[^ -~]', '_', value)} |" for key, value in data.items()]
    return "\n".join(["| setting | value |", "| --- | --- |", *rows])


# --- MLflow

_RUN, _SHARE = "tacit.run", "tacit.share"
_BATCH = 1000  # of figures, the most that a store takes at once
_PARAMETERS = 100  # likewise
_ENDED = {"done": "FINISHED", "budget reached": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


def store_uri(place: str) -> str:
    """The URI of an MLflow store. A folder stands for a database in it, which needs no server."""
    if "://" in place or place.startswith("databricks"):
        return place
    return f"sqlite:///{(Path(place).resolve() / 'mlflow.db').as_posix()}"


def to_mlflow(run: Exported, place: str, experiment: str | None = None) -> str:
    """Write a run to the MLflow store at `place`, a URI or a folder, and return its id there.

    A run that was exported before is deleted once the new one is whole. MLflow only hides what it deletes: what may be
    shared is not put where all of the run has been.
    """
    # MLflow tells its makers of each use unless it is told not to, before it is imported.
    os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # its 7 take minutes where there is no server
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    try:
        import alembic  # noqa: F401  (MLflow finds out late that it is missing, and does not say so)
        import sqlalchemy.exc
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ModuleNotFoundError as error:
        raise ExportError(_MISSING.format("--mlflow", error.name)) from error

    uri = store_uri(place)
    try:
        if uri != place:
            Path(place).mkdir(parents=True, exist_ok=True)
        return _stored(MlflowClient(uri), run, experiment or run.federation, Path(place) if uri != place else None)
    except OSError as error:
        raise ExportError(f"{place}: figures cannot be stored there: {error.strerror}") from error
    except (MlflowException, sqlalchemy.exc.SQLAlchemyError) as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise ExportError(f"{place}: MLflow cannot store figures there: {why}") from error


def _stored(client: Any, run: Exported, experiment: str, folder: Path | None) -> str:
    from mlflow.entities import Metric, Param, RunTag, ViewType

    known = client.get_experiment_by_name(experiment)
    if known is None:
        artifacts = (folder.resolve() / "artifacts").as_uri() if folder else None  # its default is where we are
        number = client.create_experiment(experiment, artifact_location=artifacts)
    else:
        number = known.experiment_id
    earlier = client.search_runs([number], f"tags.`{_RUN}` = '{run.name}'", run_view_type=ViewType.ALL)
    if run.share and any(each.data.tags.get(_SHARE) != "yes" for each in earlier):
        raise ExportError(
            f"{run.name} is in the experiment {experiment!r} with all its figures, and MLflow keeps what it deletes: "
            "share it from another store"
        )
    made: str = client.create_run(number, start_time=_milliseconds(run.start), run_name=run.name).info.run_id
    tags = {_RUN: run.name, _SHARE: "yes" if run.share else "no", "protection": run.protection, "status": run.status}
    client.log_batch(made, tags=[RunTag(key, value) for key, value in tags.items()])
    parameters = [Param(key, text[:6000]) for key, text in run.parameters.items()]  # longer ones are refused
    for start in range(0, len(parameters), _PARAMETERS):
        client.log_batch(made, params=parameters[start : start + _PARAMETERS])
    metrics = [Metric(f.name, f.value, _milliseconds(f.time), f.round) for f in run.figures]
    for start in range(0, len(metrics), _BATCH):
        client.log_batch(made, metrics=metrics[start : start + _BATCH])
    if run.status in _ENDED:
        client.set_terminated(made, _ENDED[run.status], _milliseconds(run.end))
    for each in earlier:
        if each.info.lifecycle_stage == "active":
            client.delete_run(each.info.run_id)
    return made


def _milliseconds(time: float) -> int:
    return round(time * 1000)
