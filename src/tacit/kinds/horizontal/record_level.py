"""What private training at clients costs their records: each client's own ledger, and what holds for all of them.

    RecordLedger        at a client: the events of its rounds, within the budget of the file
    promised(settings)  what the coordinator can say: at most epsilon for each record, of whichever client

A client's events depend on how many records it has, which the coordinator does not know. So they stay at the client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.dp.accounting import Budget, Ledger
from tacit.dp.release import Event
from tacit.errors import BudgetError
from tacit.kinds.horizontal.costs import Spent
from tacit.kinds.horizontal.protections.contract import Covers
from tacit.kinds.horizontal.record_privacy import RecordPrivacy, most_answers
from tacit.kinds.horizontal.settings import Settings

RECORDS: Covers = "training records"
_TOLERANCE = 1 + 1e-9  # of a budget: what was calibrated to it meets it
_WHOM = {"record": "record of a client", "owner": "owner of a client's records, with all of them"}


def against(privacy: RecordPrivacy) -> str:
    """For whom the epsilon holds, and against whom."""
    return (
        f"for each {_WHOM[privacy.unit]}, for adding it or leaving it out, against anyone who sees all uploads of that "
        "client, the coordinator included"
    )


def promised(settings: Settings) -> list[Spent]:
    """What holds for the records of every client over the whole run; nothing without `train.privacy`.

    Without events: those of a client depend on how many records it has, and stay there.
    """
    privacy = settings.train.privacy
    if privacy is None:
        return []
    ledger = Ledger(privacy.unit, "add-remove", Budget(privacy.epsilon, privacy.delta))
    return [Spent("records", (RECORDS,), ledger, privacy.epsilon, privacy.delta, against(privacy))]


def records_spent(settings: Settings, state: Mapping[str, Any]) -> list[Spent]:
    """What the records of a client with this state paid."""
    ledger = RecordLedger(settings)
    ledger.restore(state)
    return ledger.spent()


def check_records(state: Mapping[str, Any]) -> None:
    """Raise ValueError unless a stored state can be one of `RecordLedger`."""
    trained = state.get("trained", 0)
    if type(trained) is not int or trained < 0:
        raise ValueError(f"trained is {trained!r}")
    for unit in ("record", "owner") if "records" in state else ():
        Ledger.from_json({
            "version": 1, "unit": unit, "relation": "add-remove", "budget": None, "lines": state["records"]
        })  # fmt: skip


class RecordLedger:
    """The events that a client's records paid for, over all rounds of a run.

    Guarantee: `pay` raises BudgetError, and nothing may leave, before the events exceed the epsilon of the file.
    Assumes: what `state` returns is stored before an upload leaves.
    """

    def __init__(self, settings: Settings) -> None:
        self._privacy = settings.train.privacy
        self._most = most_answers(settings)
        self._masked = settings.masked
        self.restore({})

    def state(self) -> dict[str, Any]:
        """Plain data; nothing without `train.privacy`."""
        if self._privacy is None:
            return {}
        return {"trained": self._trained, "records": self._ledger.to_json()["lines"]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up `state`. A simulated client is told only how often it was asked: its next events count as often."""
        self._trained = state.get("trained", 0)
        self._unpaid = 0
        if self._privacy is None:
            return
        lines = state.get("records", [])
        data = {"version": 1, "unit": self._privacy.unit, "relation": "add-remove", "budget": None, "lines": lines}
        self._ledger = Ledger.from_json(data)
        if "records" not in state:
            asked, summed = state.get("uploads", 0), state.get("sums", 0)
            self._trained = self._unpaid = min(asked, summed) if self._masked else asked

    def check(self) -> None:
        """Before a round: raise BudgetError if this client has trained as often as its noise was sized for."""
        if self._privacy is not None and self._trained >= self._most:
            raise BudgetError(
                f"its records have paid for {self._trained} trainings, and train.privacy.epsilon "
                f"{self._privacy.epsilon:g} was sized for {self._most}: this client answers no more"
            )

    def pay(self, events: Sequence[tuple[Event, int]]) -> None:
        """Before an upload with these events leaves. Raises BudgetError where they are not within the budget."""
        privacy = self._privacy
        if privacy is None:
            return
        if not events:
            raise TypeError(
                "train.privacy: fit must return Fitted(..., events=...), the events of its private training"
            )
        ledger = Ledger.from_json(self._ledger.to_json())
        for event, count in events:
            ledger.spend(event, count * (1 + self._unpaid))
        epsilon = ledger.epsilon(privacy.delta, "pld")
        if epsilon > privacy.epsilon * _TOLERANCE:
            raise BudgetError(
                f"this round would bring the epsilon of each {privacy.unit} to {epsilon:.4g} at delta "
                f"{privacy.delta:.3g}, above train.privacy.epsilon {privacy.epsilon:g}: this client answers no more"
            )
        self._ledger, self._unpaid = ledger, 0
        self._trained += 1

    def spent(self) -> list[Spent]:
        """What this client's records paid so far."""
        privacy = self._privacy
        if privacy is None or not self._ledger.lines:
            return []
        epsilon = self._ledger.epsilon(privacy.delta, "pld")
        return [Spent("records", (RECORDS,), self._ledger, epsilon, privacy.delta, against(privacy))]
