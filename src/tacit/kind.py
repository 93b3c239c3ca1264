"""What can be done with a file of each kind: one module a kind, imported when it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from tacit.boundary import Forecast
    from tacit.events import Sink
    from tacit.report.sections import Boundary
    from tacit.runs.outcome import Outcome
    from tacit.store.directory import RunDirectory

_MODULES = {
    "horizontal": "tacit.kinds.horizontal.run",
    "private_training": "tacit.kinds.private_training.run",
    "vertical_logistic": "tacit.kinds.vertical_logistic.party",
    "split": "tacit.kinds.split.party",
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

    def caught_up(self, settings: Any, state: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
        """An earlier `state` with all that was spent since, as `ledger` says, which is of the last.

        Raises KeyError, TypeError or ValueError where the ledger does not say it.
        """


def of(settings: Any) -> Kind:
    return cast(Kind, import_module(_MODULES[settings.kind]))
