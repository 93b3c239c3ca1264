"""How often one client takes part in a run: `round.participations`.

The noise of distributed DP is sized for the opened sums that one client may be in. Without a cap these are all rounds,
because a coordinator that cheats can ask one client in every round. With a cap of N each client counts its own uploads,
stores the count before an upload leaves, and uploads N times at most, whatever it is asked: the noise is sized for N.

Guarantee: all sums and models of the run together are (epsilon, delta)-DP for zeroing out one client that keeps the
    cap, where N sums cost (epsilon, delta): against anyone who sees them, also a coordinator that chooses who takes
    part from what it has seen.
    Given all earlier sums, a sum without the client has the same distribution with its data and with none: other
    clients train on the model, which is a function of the earlier sums, and add noise of their own. Its Renyi
    divergence is 0. A sum with the client has at most that of one Skellam event. Which rounds the client is in may
    depend on earlier sums, but at most N terms are not 0, always: the divergence of the whole is at most N times that
    of one event.
Assumes: what today's claim for all rounds assumes. Whether the client answers, leaves or declines does not depend on
    its data: it declines by its count alone, and sends noise around a zero update if its training fails. Its stored
    count is not put back to an earlier one by anyone who can write to its disk.
Source: Feldman, Zrnic 2021, section 3: composition in Renyi DP with parameters that are chosen adaptively, and whose
    sum is bounded in every run. Mironov 2017, Proposition 1, if the rounds of each client are fixed beforehand.

    decline_beyond(...)     what a client does of it
    Participations          what the coordinator counts, so that it does not ask clients that would decline
    expected_samples(...)   who will be sampled, if everybody stays
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from tacit.errors import Declined
from tacit.kinds.horizontal.sampling import sample
from tacit.kinds.horizontal.settings import Settings


def decline_beyond(settings: Settings, uploads: int) -> None:
    """Raise Declined if a client that has uploaded so often uploads no more in this run."""
    most = settings.round.participations
    if most is not None and uploads >= most:
        raise Declined(
            f"it has taken part in {uploads} rounds, and takes part in at most {most} of a run "
            "(round.participations): it answers no more"
        )


class Participations:
    """How often each client uploaded, as far as the coordinator knows it; nothing is counted without a cap."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.round.participations
        self._uploads: Counter[int] = Counter()
        self.at_cap: frozenset[int] = frozenset()  # clients that take part no more; another thread may read it

    def __getitem__(self, client: int) -> int:
        return self._uploads[client]

    def uploaded(self, client: int) -> None:
        """A client uploaded: to be told once a round."""
        if self._most is not None:
            self._uploads[client] += 1
            if self._uploads[client] >= self._most:
                self.at_cap |= {client}

    def declined(self, client: int) -> None:
        """A client left a round before it sent anything else: it counts more than came in here. That is not stored, as
        it will say so again."""
        if self._most is not None:
            self.at_cap |= {client}

    def sums(self, opened: int, of: Collection[int] | None = None) -> int:
        """The most sums that one client is in, if so many were opened: of all clients, or `of` these."""
        if self._most is None:
            return opened
        counts = self._uploads.values() if of is None else [self._uploads[client] for client in of]
        return min(opened, self._most, max(counts, default=0))

    def state(self, pending: Collection[int]) -> dict[str, Any]:
        """Arrays, in which those whose upload is `pending` have uploaded; nothing without a cap."""
        if self._most is None:
            return {}
        return _arrays(self._uploads + Counter(set(pending)))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up `state`."""
        if self._most is not None:
            self._uploads = _counted(state)
            self.at_cap = frozenset(client for client, count in self._uploads.items() if count >= self._most)


def caught_up(settings: Settings, state: Mapping[str, Any], since: int) -> dict[str, Any]:
    """An earlier state after so many more rounds, in each of which every client counts as if it had uploaded."""
    if settings.round.participations is None:
        return {}
    counts = _counted(state)
    if since:
        counts.update(dict.fromkeys(range(settings.clients), since))
    return _arrays(counts)


def check_participations(state: Mapping[str, Any], settings: Settings) -> None:
    """Raise ValueError unless a stored state can be one of `Participations`."""
    if settings.round.participations is None:
        return
    found = [state.get(name) for name in ("participants", "participations")]
    whole = all(isinstance(each, np.ndarray) and each.dtype == np.int64 and each.ndim == 1 for each in found)
    if not whole or len(found[0]) != len(found[1]) or len(set(found[0].tolist())) != len(found[0]):  # type: ignore[arg-type, union-attr]
        raise ValueError("the stored state cannot be: how often each client took part is missing or damaged")
    counts = _counted(state)
    if any(not 0 <= client < settings.clients for client in counts):
        raise ValueError(f"the stored state cannot be: it names clients beyond {settings.clients}")
    if any(not 0 < count <= state["attempts"] for count in counts.values()):
        raise ValueError(f"the stored state cannot be: a client took part more often than {state['attempts']} rounds")


def _arrays(counts: Counter[int]) -> dict[str, Any]:
    clients = sorted(counts)
    return {
        "participants": np.array(clients, dtype=np.int64),
        "participations": np.array([counts[client] for client in clients], dtype=np.int64),
    }


def _counted(state: Mapping[str, Any]) -> Counter[int]:
    clients, counts = (state[name].tolist() for name in ("participants", "participations"))
    return Counter(dict(zip(clients, counts, strict=True)))


def expected_samples(settings: Settings) -> Iterator[list[int]]:
    """Who is sampled in each round if all clients are there and upload. It ends early if too few are below the cap.

    Sampling is drawn from the seed, so that this is known.
    """
    counted = Participations(settings)
    for number in range(settings.rounds):
        left_out = counted.at_cap
        if settings.clients - len(left_out) < settings.least:
            return
        sampled = sample(settings, number, None, left_out)
        for client in sampled:
            counted.uploaded(client)
        yield sampled
