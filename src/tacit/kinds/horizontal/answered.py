"""What a client has answered in a run, so that it is not twice in nearly the same sum.

Two sums over one model and nearly the same clients differ by the updates of the clients that are in one of them alone.
A client cannot see who else is asked, so it limits what it answers:

    repeats             uploads for a model that it has uploaded for before, in a run: each may cost one difference
    least_difference    lists of survivors that differ by fewer clients are not both opened

    Answered            what one client keeps
    Answers             the same for all simulated clients, as far as their coordinator knows it
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tacit.errors import Declined, Unfit
from tacit.kinds.horizontal.bounded_participation import Participations, check_participations
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Flat, Layout

_DIGEST = re.compile("[0-9a-f]{64}")


def model_digest(layout: Layout, model: Flat) -> str:
    """By which a model is known again. A zero with a sign is a zero."""
    return layout.digest(model, signed_zeros=False).hex()


class Answered:
    """The models that a client uploaded for and the lists of survivors that it helped to open.

    Guarantee: if sums are opened that no epsilon covers, a client uploads at most `repeats` times in a run for a model
    that it has uploaded for before. With `least_difference` m, no two lists that it opened differ by 1 to m - 1
    clients.
    Assumes: what `state` returns is stored before the upload, the signature or the shares leave.
    """

    def __init__(self, settings: Settings) -> None:
        # With an epsilon a repeat is paid for in the ledger like any other answer.
        self._repeats = settings.round.repeats if settings.unpaid_sums else None
        self._least_difference = settings.round.least_difference
        self.restore({})

    def state(self) -> dict[str, Any]:
        return {
            "models": sorted(self._models),
            "repeats": self._repeated,
            "opened": sorted(sorted(survivors) for survivors in self._opened),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up `state`; what an earlier release stored has none of it."""
        self._models: set[str] = set(state.get("models", ()))
        self._repeated: int = state.get("repeats", 0)
        self._opened: set[frozenset[int]] = {frozenset(survivors) for survivors in state.get("opened", ())}

    def begin(self, layout: Layout, model: Flat) -> None:
        """A round begins with this model; raise Declined if this client does not upload for it again."""
        if self._repeats is None:
            return
        self._present = model_digest(layout, model)
        if self._present in self._models and self._repeated >= self._repeats:
            raise Declined(
                "it has uploaded for this very model before, and uploads again for such a model at most "
                f"{self._repeats} times in a run (round.repeats): it answers the next model that is new to it"
            )

    def uploads(self) -> None:
        """An upload for the round's model is about to leave."""
        if self._repeats is None:
            return
        self._repeated += self._present in self._models
        self._models.add(self._present)

    def open(self, survivors: frozenset[int]) -> None:
        """The sum of these clients is about to be opened with this client's help; raise Declined if it does not."""
        if self._least_difference is None:
            return
        nearest = min((len(survivors ^ earlier) for earlier in self._opened - {survivors}), default=None)
        if nearest is not None and nearest < self._least_difference:
            raise Declined(
                f"these survivors and earlier ones differ by {nearest}, and round.least_difference asks for "
                f"{self._least_difference} clients or none: it does not help to open their sum"
            )
        self._opened.add(survivors)


def check_state(state: Mapping[str, Any]) -> None:
    """Raise ValueError unless a stored state can be one of `Answered`."""
    models, repeats, opened = state.get("models", []), state.get("repeats", 0), state.get("opened", [])
    if type(repeats) is not int or repeats < 0:
        raise ValueError(f"repeats is {repeats!r}")
    if not isinstance(models, list) or not all(isinstance(each, str) and _DIGEST.fullmatch(each) for each in models):
        raise ValueError("models is no list of digests")
    lists = isinstance(opened, list) and all(isinstance(each, list) for each in opened)
    if not lists or not all(type(client) is int and client >= 0 for each in opened for client in each):
        raise ValueError("opened is no list of lists of clients")


class Answers:
    """What simulated clients have answered: they are made anew when a run resumes, and on a cluster in each round.

    An honest coordinator sends no model again but the present one, so that only who uploaded for that one is kept.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.participations = Participations(settings)
        self.counts = settings.unpaid_sums
        self._keeps_lists = settings.round.least_difference is not None
        self._answered: set[int] = set()  # who uploaded for the present model
        self._again: Counter[int] = Counter()  # how often each uploaded again, for any model
        self._opened: list[list[int]] = []
        self._this_round: set[int] = set()
        self._declined: set[int] = set()  # who declined the present model; not stored, as they will say so again

    def begin(self) -> None:
        """A round begins."""
        self._this_round = set()

    def uploaded(self, client: int) -> None:
        """A client uploaded: once in a round, however often its message comes."""
        if client in self._this_round:
            return
        self._this_round.add(client)
        self.participations.uploaded(client)
        if not self.counts:
            return
        if client in self._answered:
            self._again[client] += 1
        self._answered.add(client)

    def opened(self, survivors: Collection[int]) -> None:
        """The sum of these clients is about to be opened."""
        if self._keeps_lists and (ids := sorted(survivors)) not in self._opened:
            self._opened.append(ids)

    def declined(self, client: int) -> None:
        """A client left a round before it answered the model."""
        self.participations.declined(client)
        if self.counts:
            self._declined.add(client)

    def willing(self, available: Collection[int] | None) -> Collection[int] | None:
        """Of the clients that are there those that did not decline the present model; Unfit if they are too few."""
        if not self._declined:
            return available
        settings = self._settings
        there = range(settings.clients) if available is None else available
        willing = [client for client in there if client not in self._declined]
        if len(there) >= settings.least > len(willing):
            raise Unfit(
                f"the model is the same as in earlier rounds, and {len(self._declined)} clients declined to answer it "
                f"again (round.repeats is {settings.round.repeats}): {len(willing)} are left, and a round needs "
                f"{settings.least}. To resume, raise round.repeats in the file of every party"
            )
        return willing

    def moved(self) -> None:
        """The model is another one from here on."""
        self._answered = set()
        self._declined = set()

    def of(self, client: int, digest: str) -> dict[str, Any]:
        """What a client had answered before a round with a model of this digest: see `Answered.state`."""
        return {
            "models": [digest] if client in self._answered else [],
            "repeats": self._again[client],
            "opened": [survivors for survivors in self._opened if client in survivors],
        }

    def state(self, under_way: Collection[int]) -> dict[str, Any]:
        """Arrays and plain data, in which all clients of a round that is under way have uploaded."""
        absent = set(under_way) - self._this_round
        pending = absent if self.counts else set()
        again = self._again + Counter(pending & self._answered)
        clients = sorted(again)
        return {
            **self.participations.state(absent),
            "answered": np.array(sorted(self._answered | pending), dtype=np.int64),
            "repeating": np.array(clients, dtype=np.int64),
            "repeats": np.array([again[client] for client in clients], dtype=np.int64),
            "opened": self._opened,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up `state`; what an earlier release stored has none of it."""
        nothing = np.array([], dtype=np.int64)
        self._answered = set(state.get("answered", nothing).tolist())
        pairs = zip(state.get("repeating", nothing).tolist(), state.get("repeats", nothing).tolist(), strict=True)
        self._again = Counter(dict(pairs))
        self._opened = [list(survivors) for survivors in state.get("opened", ())]
        self._this_round = set()
        self.participations.restore(state)


def check_answers(state: Mapping[str, Any], settings: Settings) -> None:
    """Raise ValueError unless a stored state can be one of `Answers`."""
    nothing = np.array([], dtype=np.int64)
    found = [state.get(name, nothing) for name in ("answered", "repeating", "repeats")]
    whole = all(isinstance(each, np.ndarray) and each.dtype == np.int64 and each.ndim == 1 for each in found)
    if not whole or len(found[1]) != len(found[2]) or any((each < 0).any() for each in found):
        raise ValueError("the stored state cannot be: what its clients answered is damaged")
    check_participations(state, settings)
    opened = state.get("opened", [])
    check_state({"opened": opened})
    clients = [*found[0].tolist(), *found[1].tolist(), *(client for survivors in opened for client in survivors)]
    if any(client >= settings.clients for client in clients):
        raise ValueError(f"the stored state cannot be: it names clients beyond {settings.clients}")
