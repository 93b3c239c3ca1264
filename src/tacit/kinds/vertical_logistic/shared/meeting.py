"""One meeting of the parties: they compare terms, get new seeds, and open values that are masked.

meet(...)               a data party's `Meeting`: with whom, from which step on, and the dealer's seed
meet_as_dealer(...)     the dealer's side
Meeting.next_deal       the shares of the next deal; an old serial number is refused
Meeting.open            add up all parties' shares of a masked value
Meeting.reveal          send shares of a declared value to one party, which adds them up
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from tacit.channel import Channel, recv_first
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.shared import ring
from tacit.kinds.vertical_logistic.shared.messages import HEAD, Deal, Greeting, Opening, Revealed, Seeds, Used
from tacit.kinds.vertical_logistic.shared.progress import Past
from tacit.kinds.vertical_logistic.shared.ring import Halves, Words
from tacit.kinds.vertical_logistic.shared.streams import SEED_BYTES, Layout, Shares, expand, stream
from tacit.randomness import random_words

MOST_CELLS = 1 << 34  # rows times columns of all parties
AHEAD = 2  # deals that the dealer makes before the first of them is used up
MOST_WORDS = 1 << 24  # 64-bit words of one message; more are sent in parts
FEATURES, STEP, FIGURES, PREDICTION = 1, 2, 3, 4  # purposes of deals


class Agreement(Protocol):
    """What a meeting must know of the terms of a training or a prediction."""

    @property
    def parties(self) -> tuple[str, ...]: ...

    @property
    def dealer(self) -> str: ...

    @property
    def active(self) -> str: ...

    @property
    def rows(self) -> int: ...

    def agreed(self) -> bytes: ...


class Meeting:
    """A data party among the others, until one of them leaves. Its masks are good for this meeting only."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        terms: Agreement,
        me: str,
        *,
        columns: Mapping[str, int],
        position: int,
        seeds: Seeds,
    ) -> None:
        self.terms, self.me = terms, me
        self.columns, self.position, self.session = dict(columns), position, seeds.session
        self.others = {name: channels[name] for name in terms.parties if name != me}
        self.first = me == terms.parties[0]  # who adds public constants to its share
        self._dealer, self._seed = channels[terms.dealer], seeds.seed
        self._last = me == terms.parties[-1]
        self._serial = self._stage = 0

    @property
    def own(self) -> slice:
        """This party's columns among all."""
        before = sum(self.columns[name] for name in self.terms.parties[: self.terms.parties.index(self.me)])
        return slice(before, before + self.columns[self.me])

    @property
    def serial(self) -> int:
        """Of the deal in use."""
        return self._serial

    def next_deal(self, layout: Layout, purpose: int) -> Shares:
        """This party's shares of the dealer's next deal.

        Guarantee: a serial number that is not the next one is refused, so no mask hides two values.
        """
        words = layout.made_words if self._last else 0
        deal = self._dealer.recv(Deal, HEAD + 8 * words)
        if deal.serial != self._serial + 1:
            raise PeerError(
                f"{self.terms.dealer} deals number {deal.serial} after number {self._serial}: masks are used once, in "
                "their order"
            )
        if deal.purpose != purpose:
            raise PeerError(f"{self.terms.dealer} deals for the purpose {deal.purpose}, and {purpose} is due")
        sent = ring.from_bytes(deal.words, (words,), self.terms.dealer, f"deal {deal.serial}")
        self._serial, self._stage = deal.serial, 0
        return expand(layout, self._seed, deal.serial, sent if self._last else None)

    def own_mask(self, purpose: int, count: int) -> Words:
        """A mask that this party and the dealer know, from a deal of its own."""
        self.next_deal(Layout({}, {}, {}), purpose)
        return stream(self._seed, self._serial, count)

    def used(self, *, last: bool = False) -> None:
        """Tell the dealer that the deal in use is used up."""
        self._dealer.send(Used(self._serial, last))

    def open(self, share: Words) -> Words:
        """The value of which each party has a masked share; each sends its own to all others."""
        return self._sum(share, halves=False)

    def open_halves(self, share: Halves) -> Halves:
        """The same for 32-bit words."""
        return self._sum(share, halves=True)

    def _sum(self, share: np.ndarray, *, halves: bool) -> np.ndarray:
        total = np.ascontiguousarray(share).copy()
        mine, summed = share.reshape(-1), total.reshape(-1)
        for first in range(0, max(1, share.size), MOST_WORDS):
            part = slice(first, first + MOST_WORDS)
            self._stage += 1
            for peer in self.others.values():
                peer.send(Opening(self._serial, self._stage, ring.to_bytes(mine[part])))
            for name in self.others:
                summed[part] += self._receive(name, Opening, summed[part].shape, halves=halves)
        return total

    def exchange(self, mine: Words, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Words]:
        """Send masked words of this party's own to all others, and receive theirs, of these shapes."""
        self._stage += 1
        for peer in self.others.values():
            peer.send(Opening(self._serial, self._stage, ring.to_bytes(mine)))
        return {name: self._receive(name, Opening, shapes[name]) for name in self.others}

    def reveal(self, name: str, share: Any, stage: int) -> Any:
        """Open a declared value to the party `name` alone: its value there, None at all others."""
        if name == self.me:
            return self.take(share, stage)
        self.give(name, share, stage)
        return None

    def give(self, name: str, words: Words | Halves, stage: int) -> None:
        """Send this party's share of a declared value to the party that it is declared for."""
        self.others[name].send(Revealed(self._serial, stage, ring.to_bytes(words)))

    def take(self, share: Any, stage: int) -> Any:
        """Add up all parties' shares of a value that is declared for this party."""
        total = share.copy()
        for name in self.others:
            total += self._receive(name, Revealed, share.shape, halves=share.dtype == np.uint32, stage=stage)
        return total

    def _receive(
        self,
        name: str,
        kind: type[Opening] | type[Revealed],
        shape: tuple[int, ...],
        *,
        halves: bool = False,
        stage: int | None = None,
    ) -> np.ndarray:
        message = self.others[name].recv(kind, HEAD + (4 if halves else 8) * math.prod(shape))
        due = self._stage if stage is None else stage
        if (message.serial, message.stage) != (self._serial, due):
            raise PeerError(
                f"{name} sent opening {message.stage} of deal {message.serial}, and opening {due} of deal "
                f"{self._serial} is due: start all parties again"
            )
        return ring.from_bytes(message.words, shape, name, f"opening {due}", halves=halves)  # type: ignore[no-any-return]


def meet(
    channels: Mapping[str, Channel],
    terms: Agreement,
    me: str,
    columns: int,
    past: Past | None = None,
) -> Meeting:
    """Compare terms and past with the other parties, and get a seed from the dealer."""
    past = past or Past()
    position, found = greet(channels, terms, me, columns, past)
    dealer = channels[terms.dealer]
    dealer.send(Greeting(terms.agreed(), columns, (position,), past.session))  # and no mark: it knows the masks
    seeds = dealer.recv(Seeds, HEAD)
    if past.session and position and seeds.session != past.session:
        raise PeerError(f"{terms.dealer} deals for another training: start all parties again")
    return Meeting(channels, terms, me, columns=found, position=position, seeds=seeds)


def greet(
    channels: Mapping[str, Channel], terms: Agreement, me: str, columns: int, past: Past
) -> tuple[int, dict[str, int]]:
    """Exchange greetings with all other data parties: the step to begin after, and each one's number of columns."""
    if me not in terms.parties:
        raise ValueError(f"{me} is none of the parties {', '.join(terms.parties)}")
    mine = Greeting(terms.agreed(), columns, past.positions, past.session, past.marks)
    greetings = {me: mine}
    for name in terms.parties:
        if name != me:
            channels[name].send(mine)
    for name in terms.parties:
        if name != me:
            greetings[name] = _greeted(channels[name], name, mine)
    found = {name: greetings[name].columns for name in terms.parties}
    position = common_position(greetings)
    check_cells(terms, found)
    return position, found


def meet_as_dealer(
    channels: Mapping[str, Channel], terms: Agreement, rng: Generator | None
) -> tuple[dict[str, int], dict[str, bytes], int]:
    """Each party's columns, each one's new seed, and the step that the training begins after.

    Guarantee: seeds are new in each meeting, so whatever was dealt before an interruption is never dealt again.
    """
    mine = Greeting(terms.agreed(), 0, (0,))
    greetings = {name: _greeted(channels[name], name, mine) for name in terms.parties}
    positions = {name: greeting.positions for name, greeting in greetings.items()}
    if len(set(positions.values())) != 1:
        raise PeerError(f"the parties begin after different steps {positions}: start all of them again")
    columns = {name: greeting.columns for name, greeting in greetings.items()}
    check_cells(terms, columns)
    sessions = {greeting.session for greeting in greetings.values()}
    position = greetings[terms.parties[0]].positions[0]
    session = next(iter(sessions)) if len(sessions) == 1 and position else b""
    session = session or _token(rng)[:16]
    seeds = {name: _token(rng) for name in terms.parties}
    for name, seed in seeds.items():
        channels[name].send(Seeds(session, seed))
    return columns, seeds, position


def common_position(greetings: Mapping[str, Greeting]) -> int:
    """The last step that all parties can begin after; PeerError if they do not resume the same training.

    One that has stored nothing yet can only begin at the start, and others with it if they can. A step that was done
    twice, after an interruption, left other shares each time: only those of one time belong together.
    """
    resumed = {greeting.session for greeting in greetings.values() if greeting.session}
    new = any(not greeting.session for greeting in greetings.values())
    if len(resumed) > 1 or (new and not all(0 in greeting.positions for greeting in greetings.values())):
        begun = [name for name, greeting in greetings.items() if greeting.session]
        raise PeerError(
            f"{', '.join(begun)} resume a training that the others do not: start all parties alike, all anew or all "
            "with --resume"
        )
    if new:
        return 0
    common = set.intersection(*(_kept(greeting) for greeting in greetings.values()))
    if not common:
        raise PeerError("there is no step that all parties can begin after: start all of them anew")
    return max(common)[0]


def _kept(greeting: Greeting) -> set[tuple[int, bytes]]:
    marks = (*greeting.marks, *[b""] * len(greeting.positions))
    return set(zip(greeting.positions, marks, strict=False))


def check_cells(terms: Agreement, columns: Mapping[str, int]) -> None:
    """Refuse tables that no machine holds, before room is made for them."""
    cells = terms.rows * sum(columns.values())
    if not 0 < cells <= MOST_CELLS:
        raise PeerError(
            f"{terms.rows} rows of {sum(columns.values())} columns in all: at least 1 and at most {MOST_CELLS} cells"
        )


def _greeted(channel: Channel, name: str, mine: Greeting) -> Greeting:
    theirs = recv_first(channel, Greeting, HEAD)
    if theirs.agreed != mine.agreed:
        raise PeerError(
            f"{name} has other terms, or another release whose constants differ: use the same file and release"
        )
    return theirs


def _token(rng: Generator | None) -> bytes:
    return secrets.token_bytes(SEED_BYTES) if rng is None else random_words(rng, SEED_BYTES // 8).tobytes()
