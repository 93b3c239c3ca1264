"""Federations of Flower nodes inside one process, for tests: what travels is bytes, and so is what is kept."""

from __future__ import annotations

from collections.abc import Iterable

from tacit.events import Kept
from tacit.flower.fleet import FleetEngine
from tacit.flower.node import Node
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.net.identity import Authority, Credentials, request
from tacit.net.star import client_name

AUTHORITY = Authority.create()


def credentials(name: str) -> Credentials:
    private, asked = request(name)
    return Credentials.of(private, AUTHORITY.sign(asked), AUTHORITY.certificate_pem)


class Wire:
    """Nodes that are reached as over Flower: by stage and bytes, and with nothing but bytes kept in between."""

    def __init__(self, nodes: dict[int, Node], lost: dict[int, str] | None = None) -> None:
        self._nodes = nodes
        self._lost = lost or {}  # node -> the stage from which on it is silent
        self._silent: set[int] = set()
        self._replies: dict[str, list[bytes] | None] = {}
        self.states: dict[int, bytes] = dict.fromkeys(nodes, b"")
        self.stages: list[str] = []
        self.now = 0.0

    def nodes(self) -> Iterable[int]:
        return list(self._nodes)

    def send(self, node: int, stage: str, group: str, parts: dict[str, bytes]) -> str | None:
        name = f"m{len(self.stages)}"
        self.stages.append(stage)
        if self._lost.get(node) == stage:
            self._silent.add(node)
        if node in self._silent:
            return name
        if stage == "query.introduce":
            self._replies[name] = [self._nodes[node].introduce(parts["nonce"], node)]
        else:
            answered = self._nodes[node].answer(stage, parts["frame"], parts["known"], self.states[node])
            self._replies[name], self.states[node] = answered
        return name

    def collect(self, waiting: Iterable[str]) -> list[tuple[str, list[bytes] | None]]:
        return [(name, self._replies.pop(name)) for name in list(waiting) if name in self._replies]

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def fleet(
    settings: Settings, lost: dict[int, str] | None = None, task: Task | None = None
) -> tuple[FleetEngine, Kept, Wire]:
    """A federation of nodes; node ids are 1000 + client."""
    made = task or tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    nodes = {
        1000 + i: Node(settings, i, made, credentials(client_name(i)) if settings.signs else None)
        for i in range(settings.clients)
    }
    kept, wire = Kept(), Wire(nodes, lost)
    own = credentials("coordinator") if settings.signs else None
    return FleetEngine(settings, made, kept, wire, own, wire.clock, wire.sleep), kept, wire
