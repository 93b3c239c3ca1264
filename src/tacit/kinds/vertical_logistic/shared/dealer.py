"""The dealer: a party without data, that sends the others correlated random words and sees nothing of theirs.

Guarantee: it receives sizes, numbers of deals that are used up, and whether the training ends; no share and no opening.
Assumes: it colludes with no data party. Together with any one of them it opens everything.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from tacit.channel import Channel
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.shared import deals
from tacit.kinds.vertical_logistic.shared.meeting import AHEAD, FEATURES, FIGURES, STEP, Agreement, meet_as_dealer
from tacit.kinds.vertical_logistic.shared.messages import HEAD, Deal, Used
from tacit.kinds.vertical_logistic.shared.ring import Words, to_bytes
from tacit.kinds.vertical_logistic.shared.scales import scales
from tacit.kinds.vertical_logistic.shared.streams import stream
from tacit.kinds.vertical_logistic.shared.terms import Terms


class Outbox:
    """Sends deals in order, at most `AHEAD` more than the slowest party has used up."""

    def __init__(self, channels: Mapping[str, Channel], terms: Agreement) -> None:
        self._channels = {name: channels[name] for name in terms.parties}
        self._receiver = terms.parties[-1]
        self.serial = 0  # of the last deal
        self._used = 0

    @property
    def next(self) -> int:
        """The serial number of the next deal, which no deal of this meeting had."""
        return self.serial + 1

    def send(self, purpose: int, words: Words) -> None:
        self.wait(self.serial - AHEAD + 1)
        self.serial += 1
        for name, channel in self._channels.items():
            channel.send(Deal(self.serial, purpose, to_bytes(words) if name == self._receiver else b""))

    def wait(self, serial: int) -> bool:
        """Wait until all parties have used up the deal; whether it was the last one."""
        last = False
        while self._used < serial:
            answers = {name: channel.recv(Used, HEAD) for name, channel in self._channels.items()}
            for name, answer in answers.items():
                if answer.serial != self._used + 1:
                    raise PeerError(f"{name} has used deal {answer.serial}, and {self._used + 1} is next")
            if len({answer.last for answer in answers.values()}) > 1:
                raise PeerError("some parties end the training and others do not: start all of them again")
            last = answers[self._receiver].last
            self._used += 1
        return last


def deal(channels: Mapping[str, Channel], terms: Terms, rng: Generator | None = None) -> int:
    """Deal for one training, or the rest of one. The number of deals.

    Args:
        rng: a known generator, for tests only: anyone who knows it opens everything. By default the operating system's.
    """
    columns, seeds, position = meet_as_dealer(channels, terms, rng)
    chosen = scales(terms)  # takes room for all rows: only once all parties have said that there are so many
    outbox = Outbox(channels, terms)
    masks = _masks(terms, columns, seeds, outbox.next)
    outbox.send(FEATURES, np.empty(0, dtype=np.uint64))
    maker = deals.Maker(terms, chosen, masks, tuple(seeds[name] for name in terms.parties))
    for step in deals.steps(terms, chosen, position):
        for block in step.blocks:
            outbox.send(STEP, maker.step(outbox.next, step, block))
        if terms.evaluates(step.number + 1):
            for block in deals.held_out(terms):
                outbox.send(FIGURES, maker.figures(outbox.next, block))
            if terms.patience is not None and outbox.wait(outbox.serial):
                break
    outbox.wait(outbox.serial)
    return outbox.serial


def _masks(terms: Terms, columns: Mapping[str, int], seeds: Mapping[str, bytes], serial: int) -> deals.Masks:
    """The masks of all tables, which each owner expands from its own seed."""
    features = np.empty((terms.rows, sum(columns.values())), dtype=np.uint64)
    beside = np.empty(0, dtype=np.uint64)
    first = 0
    for name in terms.parties:
        cells = terms.rows * columns[name]
        words = stream(seeds[name], serial, cells + (terms.own_words if name == terms.active else 0))
        features[:, first : first + columns[name]] = words[:cells].reshape(terms.rows, columns[name])
        if name == terms.active:
            beside = words[cells:]
        first += columns[name]
    weighed = terms.rows * terms.weighted
    return deals.Masks(features, beside[:weighed], beside[weighed:].reshape(-1, terms.outputs))
