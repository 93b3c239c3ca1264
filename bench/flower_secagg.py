"""Flower's SecAgg+ in one process: its own client mod and server workflow over a grid that calls instead of sending.

Not a benchmark by itself: `bench.secagg` measures it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # protobuf's remarks on flwr's generated code
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
    from flwr.common import (
        Code,
        FitIns,
        FitRes,
        Status,
        ndarrays_to_parameters,
        parameters_to_ndarrays,
    )
    from flwr.compat.common import recorddict_compat as compat
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
    from flwr.server.workflow.secure_aggregation.secaggplus_workflow import SecAggPlusWorkflow, WorkflowState
    from flwr.supercore.task_identity import TaskIdentity

logging.getLogger("flwr").setLevel(logging.ERROR)
TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1


class Grid:
    """Hands each message to the client mod at once. Clients in `leaving` are gone from the third exchange on."""

    def __init__(self, vectors: dict[int, NDArray[np.float64]], leaving: Collection[int]) -> None:
        self.vectors = vectors
        self.leaving = leaving
        self.exchanges = 0
        self.contexts = {node: SimpleNamespace(state=RecordDict()) for node in vectors}

    def send_and_receive(self, messages: list[Message], timeout: float | None = None) -> list[Message]:
        self.exchanges += 1
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            if self.exchanges < 3 or node not in self.leaving:
                replies.append(secaggplus_mod(self._own_copy(message), self.contexts[node], self._fit))
        return replies

    def _own_copy(self, message: Message) -> Message:
        content = RecordDict()
        for key, record in message.content.items():
            content[key] = ConfigRecord(dict(record)) if isinstance(record, ConfigRecord) else record
        metadata = message.metadata
        return Message(content, dst_node_id=metadata.dst_node_id, message_type=metadata.message_type, group_id="1")

    def _fit(self, message: Message, context: Any) -> Message:
        parameters = ndarrays_to_parameters([self.vectors[message.metadata.dst_node_id]])
        result = FitRes(Status(Code.OK, ""), parameters, 1, {})
        return Message(compat.fitres_to_recorddict(result, False), reply_to=message)


class Strategy:
    """Samples everybody and keeps the results."""

    def __init__(self, nodes: Collection[int]) -> None:
        self.nodes = nodes
        self.results: list[Any] = []

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        return [(SimpleNamespace(node_id=node), FitIns(parameters, {})) for node in self.nodes]

    def aggregate_fit(self, server_round: int, results: list[Any], failures: list[Any]) -> tuple[Any, dict[str, Any]]:
        self.results = results
        return results[0][1].parameters, {}


def aggregate(vectors: dict[int, NDArray[np.float64]], leaving: Collection[int], threshold: int) -> NDArray[np.float64]:
    """One round over the complete graph; `leaving` vanish before they upload. Returns the mean of the others."""
    strategy = Strategy(list(vectors))
    columns = len(next(iter(vectors.values())))
    context: Any = SimpleNamespace(
        state=RecordDict(),
        strategy=strategy,
        client_manager=SimpleNamespace(num_available=lambda: len(vectors)),
        history=SimpleNamespace(add_metrics_distributed_fit=lambda **_: None),
    )
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    start = ndarrays_to_parameters([np.zeros(columns)])
    context.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(start, True)
    workflow = SecAggPlusWorkflow(len(vectors), threshold, max_weight=1.0)
    grid: Any = Grid(vectors, leaving)
    state = WorkflowState()
    stages = (
        workflow.setup_stage,
        workflow.share_keys_stage,
        workflow.collect_masked_vectors_stage,
        workflow.unmask_stage,
    )
    for stage in stages:
        if not stage(grid, context, state):
            raise RuntimeError(f"Flower's SecAgg+ halted in {stage.__name__}")
    mean: NDArray[np.float64] = parameters_to_ndarrays(strategy.results[0][1].parameters)[0]
    return mean
