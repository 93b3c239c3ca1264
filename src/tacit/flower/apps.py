"""Flower's two apps, and what they are told by their operator.

A SuperNode's configuration (--node-config): `tacit-local="/path/site.yaml"`, the same file as for `tacit join
--local`, with the client's keys and its own `task_options`; `tacit-client=3` (or Flower's `partition-id`) where there
are no keys. The run's configuration (pyproject.toml or --run-config): `local`, the coordinator's own file; `runs`,
where results go.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from logging import ERROR
from pathlib import Path
from typing import Any

from tacit.config.local import load_local
from tacit.events import Sink
from tacit.flower import MISSING
from tacit.flower.fleet import FleetEngine
from tacit.flower.node import STAGES, Node
from tacit.flower.once import Once
from tacit.flower.project import load_federation
from tacit.kind import fingerprint
from tacit.kinds.horizontal.run import execute
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.net.identity import Credentials
from tacit.net.site import credentials_of
from tacit.net.star import COORDINATOR, client_identity
from tacit.runs.outcome import carried_out
from tacit.store.directory import RunDirectory

try:
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.common.logger import log
    from flwr.serverapp import Grid, ServerApp
except ModuleNotFoundError:
    raise ValueError(MISSING) from None

_RECORD = "tacit"
_MARGIN = 60.0  # seconds that a message lives beyond the window of its stage


class GridPost:
    """Flower's grid, by frames."""

    def __init__(self, grid: Grid, settings: Settings) -> None:
        self._grid = grid
        window = max(settings.encrypt.pw_encrypt.cipher_time_window, settings.round.update_model_time_window)
        self._lifetime = window / 1000 + _MARGIN

    def nodes(self) -> Iterable[int]:
        return list(self._grid.get_node_ids())

    def send(self, node: int, stage: str, group: str, parts: dict[str, bytes]) -> str | None:
        content = RecordDict({_RECORD: ConfigRecord(parts)})
        message = Message(content, dst_node_id=node, message_type=stage, group_id=group, ttl=self._lifetime)
        (name,) = self._grid.push_messages([message])
        return name or None

    def collect(self, waiting: Iterable[str]) -> Iterator[tuple[str, list[bytes] | None]]:
        names = list(waiting)
        for reply in self._grid.pull_messages(names) if names else ():
            name = reply.metadata.reply_to_message_id
            if name in names:
                yield name, None if reply.has_error() else _frames(reply)


def _frames(reply: Message) -> list[bytes] | None:
    """The frames in a reply; None where it is not one of ours."""
    record: Any = reply.content.config_records.get(_RECORD)
    frames = record.get("frames") if record is not None else None
    if not isinstance(frames, list) or not all(isinstance(each, bytes) for each in frames):
        return None
    return frames


def make_server_app(file: Path) -> ServerApp:
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        settings = _settings(file)
        local, folder = load_local(_path(context.run_config.get("local")))
        credentials = None
        if local.keys is not None:
            keys = local.keys
            credentials = credentials_of(keys, folder)

        def engine(settings: Settings, task: Task, sink: Sink) -> FleetEngine:
            return FleetEngine(settings, task, sink, GridPost(grid, settings), credentials)

        runs = Path(str(context.run_config.get("runs") or "runs"))
        directory = RunDirectory.create(
            runs,
            settings,
            time.time(),
            named=f"{settings.name}-flower",
            party=COORDINATOR,
            fingerprint=fingerprint(settings),
        )
        with directory:
            carried_out(
                settings,
                lambda kind, here: execute(settings, here, engine, local.task_options),
                sink=directory,
                directory=directory,
            )

    return app


def make_client_app(file: Path) -> ClientApp:
    app = ClientApp()

    @app.query("introduce")  # type: ignore[untyped-decorator]
    def introduce(message: Message, context: Context) -> Message:
        nonce = bytes(message.content[_RECORD]["nonce"])
        return _reply(message, [_node(file, context).introduce(nonce, context.node_id)])

    for stage in STAGES:
        category, _, action = stage.partition(".")
        register = app.train if category == "train" else app.query
        register(action)(_handler(file, stage))
    return app


def _handler(file: Path, stage: str) -> Callable[[Message, Context], Message]:
    """What a node does with a message of one stage."""

    def handle(message: Message, context: Context) -> Message:
        node = _node(file, context)
        asked: Any = message.content[_RECORD]
        stored = context.state.config_records.get(_RECORD, ConfigRecord({"state": b""}))
        frames, state = node.answer(stage, bytes(asked["frame"]), bytes(asked["known"]), bytes(stored["state"]))
        context.state[_RECORD] = ConfigRecord({"state": state})
        if node.failure is not None:
            log(ERROR, "the task failed", exc_info=node.failure)
        return _reply(message, frames)

    return handle


def _reply(message: Message, frames: list[bytes]) -> Message:
    return Message(RecordDict({_RECORD: ConfigRecord({"frames": frames})}), reply_to=message)


def _node(file: Path, context: Context) -> Node:
    """The client that this SuperNode is."""
    settings, config = _settings(file), context.node_config
    local, folder = load_local(_path(config.get("tacit-local")))
    if local.policy is not None:
        raise ValueError("policy: it counts what tacit join pays, and not what Flower asks of a client: use tacit join")
    credentials: Credentials | None = None
    if local.keys is not None:
        keys = local.keys
        credentials = credentials_of(keys, folder)
        client = client_identity(credentials.name)
        if client is None:
            raise ValueError(f"the certificate is of {credentials.name}, which is not a client")
    else:
        client = config.get("tacit-client", config.get("partition-id"))
    if not isinstance(client, int) or not 0 <= client < settings.clients:
        raise ValueError(
            f"this node does not say which client it is: give --node-config 'tacit-client=N', N from 0 to "
            f"{settings.clients - 1}, or its keys by tacit-local"
        )
    options = {**settings.task_options, **local.task_options}
    made = tasks.make(settings.task, settings.clients, settings.seed, options)
    kept = folder / f"tacit-answered-{client}-{context.run_id}.json" if config.get("tacit-local") else None
    return Node(settings, client, made, credentials, Once(kept))


def _settings(file: Path) -> Settings:
    sys.path += [folder for folder in (str(file.parent), str(file.parent.parent)) if folder not in sys.path]
    settings = load_federation(file).networked()
    if settings.simulation.insecure_noise_seed is not None:
        raise ValueError("simulation.insecure_noise_seed fixes the noise of real parties: leave it out of the file")
    return settings


def _path(value: object) -> Path | None:
    return Path(str(value)) if value else None
