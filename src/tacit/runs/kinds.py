"""What can be done with a file of each kind: one module a kind, imported when it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from tacit.boundary import Forecast
    from tacit.events import Sink
    from tacit.runs.directory import RunDirectory
    from tacit.runs.outcome import Outcome
    from tacit.runs.report.sections import Boundary

_MODULES = {
    "horizontal": "tacit.runs.federation",
    "private_training": "tacit.runs.private_training",
    "vertical_logistic": "tacit.runs.vertical_logistic",
    "split": "tacit.runs.split",
}


class Kind(Protocol):
    """The functions of such a module."""

    def execute(self, settings: Any, *, sink: Sink, directory: RunDirectory | None) -> Outcome:
        """Run every party in this process."""

    boundary: Boundary

    def forecast(self, settings: Any) -> Forecast:
        """What the file will cost and show. The task may be made; nothing is trained."""

    def may_change(self, stored: Any) -> frozenset[str]:
        """The keys that a resumed run may change."""

    def finished(self, settings: Any, state: dict[str, Any]) -> str | None:
        """Why a stored run has nothing left to do; None if it has."""


def of(settings: Any) -> Kind:
    return cast(Kind, import_module(_MODULES[settings.kind]))
