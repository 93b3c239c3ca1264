"""What a party brings to a training, and what it keeps of one, whatever the protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from tacit.crypto.paillier import PrivateKey, Workers, generate
from tacit.events import Event, Sink
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic import release
from tacit.kinds.vertical_logistic.own_table import TRANSFORMS, stored_transforms
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.protocol.journal import Records
from tacit.kinds.vertical_logistic.protocol.metrics import Labels as Known
from tacit.kinds.vertical_logistic.protocol.model import Model
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.evaluation import evaluated
from tacit.store.journal_files import RecordFiles
from tacit.tables.fitted import Fitted


class Judgement(Protocol):
    """By what the active judges a model."""

    def edges(self, model: Model) -> Floats | None:
        """The nine scores between tenths, in the label's own unit, that a prediction may use; None if not known."""

    def events(self, model: Model) -> list[Event]:
        """Curves and tables for the active's page."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Raw scores (rows, K) and labels, of rows held out or of those trained on."""

    scores: Floats
    labels: Known
    held_out: bool

    def edges(self, model: Model) -> Floats | None:
        return release.deciles(self._original(model)) if len(self.scores) and model.outputs == 1 else None

    def events(self, model: Model) -> list[Event]:
        linear = model.target is not None
        return evaluated(self._original(model), self.labels, model.classes, held_out=self.held_out, linear=linear)

    def _original(self, model: Model) -> Floats:
        return self.scores if model.target is None else model.target.original(self.scores)


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """What a party has stored of a training."""

    state: Mapping[str, Any]  # of its protocol
    session: bytes
    rows: Rows
    transforms: Fitted


@dataclass(frozen=True, slots=True, eq=False)
class Brought:
    """A party at the start of a training.

    Args:
        names: of the features, for messages.
        labels: at the active: codes of `classes`, or numbers.
        order: a digest of the rows' ids in their order; nothing where the parties say that their rows fit as they are.
        state: what was stored of an interrupted training.
        keep: stores a state of the protocol (with `round`, the epochs done, and `ended`, whether it ended before all of
            them), the part so far if this party knows it, and by what it was judged.
    """

    settings: Settings
    name: str
    features: Floats
    names: tuple[str, ...]
    labels: NDArray[Any] | None
    classes: tuple[str, ...]
    session: bytes
    order: bytes
    records: Records
    workers: Workers
    sink: Sink
    state: Mapping[str, Any] | None
    keep: Callable[[Mapping[str, Any], Model | None, Judgement | None], None]

    @property
    def active(self) -> bool:
        return self.name == self.settings.active


def model_file(
    settings: Settings, model: Model | None, transforms: Fitted, judged: Judgement | None
) -> dict[str, NDArray[Any]]:
    """A party's part. Without a model, what it knows before the weights are opened."""
    found: dict[str, NDArray[Any]] = {TRANSFORMS: stored_transforms(transforms)}
    if model is None:
        return found
    found |= model.state() | release.protocol_of(settings)
    edges = None if judged is None else judged.edges(model)
    return found if edges is None else {**found, release.DECILES: edges}


def paillier_key(settings: Settings, records: Records) -> PrivateKey:
    """The active's key: the one that old answers of this run were made with, if there is one."""
    weak = settings.paillier.bits < 2048
    if not isinstance(records, RecordFiles):
        return generate(settings.paillier.bits, insecure_bits=weak)
    if (kept := records.key()) is not None:
        return PrivateKey.from_bytes(kept, insecure_bits=weak)
    key = generate(settings.paillier.bits, insecure_bits=weak)
    records.write_key(key.to_bytes())
    return key


def flat(state: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Arrays and plain values under names such as `now.weights`; JSON has no infinite numbers, so they are text."""
    found: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{above}{key}.")
        else:
            infinite = isinstance(value, float) and not math.isfinite(value)
            found[above + key] = str(value) if infinite else value
    return found


def nested(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state that `flat` was given."""
    found: dict[str, Any] = {}
    for key, value in state.items():
        outer, _, inner = key.partition(".")
        if inner:
            found.setdefault(outer, {})[inner] = value
        else:
            found[key] = value
    return found
