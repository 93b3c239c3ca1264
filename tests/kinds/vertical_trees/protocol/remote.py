"""A passive's features over channels in memory, for tests: its cells, and what the active asks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tacit.channel import Recorder, run_parties
from tacit.crypto import ot
from tacit.crypto.counter import Counter
from tacit.kinds.vertical_trees.protocol import active, cells, passive
from tacit.randomness import seeded_rng

PATIENCE = 60.0


def new_ends(seed=1):
    """A sender and a receiver of oblivious transfers; every use of one goes with a use of the other."""
    invitation = ot.invite(seeded_rng(seed))
    reply, sender = ot.join(invitation.message, seeded_rng(seed + 1))
    return sender, invitation.receiver(reply)


ends = lru_cache(maxsize=1)(new_ends)  # base transfers take a while, so most tests share them


def counter(first=0):
    return Counter(first, lambda _: None)


def table_of(binned, bins, ordered=None, signs=None):
    count = len(bins)
    return passive.Table(
        np.asarray(binned, dtype=np.uint8),
        np.asarray(bins, dtype=np.int64),
        np.ones(count, dtype=bool) if ordered is None else ordered,
        np.zeros(count, dtype=np.int64) if signs is None else signs,
    )


def random_table(rows, bins, seed=0):
    rng = np.random.default_rng(seed)
    return table_of(np.stack([rng.integers(0, each, rows) for each in bins], axis=1), bins)


def both(first, second, recorders=None):
    """What two functions of a channel return: that of the active, and that of the passive."""
    kept = {} if recorders is None else recorders

    def one(channels):
        kept["active"] = Recorder(channels["passive"])
        return first(kept["active"])

    def other(channels):
        kept["passive"] = Recorder(channels["active"])
        return second(kept["passive"])

    found = run_parties({"active": one, "passive": other}, patience=PATIENCE)
    return found["active"], found["passive"]


def cells_of(table, recorders=None, pair=None):
    """The cells of a table, as both parties have them."""
    sender, receiver = pair or ends()
    return both(
        lambda channel: cells.make(channel, sender, len(table.cells), table.bins),
        lambda channel: cells.hold(channel, receiver, table.cells, table.bins),
        recorders,
    )


def asked(table, ask, *, least=1, hidden=False, recorders=None, tweak=0):
    """What a function of `RemoteFeatures` returns, and what the passive says that it told."""
    made, held = cells_of(table)
    columns = active.Description(table.bins, table.ordered, table.signs)

    def first(channel):
        remote = active.RemoteFeatures(channel, active.Met(columns, made, False), counter(tweak), hidden=hidden)
        found = ask(remote)
        remote.close()
        return found

    return both(first, lambda channel: passive.serve(channel, held, counter(tweak), least, hidden=hidden), recorders)
