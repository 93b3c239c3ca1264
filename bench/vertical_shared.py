"""A step of regression on secret shares with a dealer: against the phe loop, by itself, and over a slow network.

CPU is that of all data parties and the dealer together, one core. The phe loop is that of `vertical_logistic`: the
encrypted gradient of one passive, without scores, at 3072 bits. With `--data`, AUC on credit defaults too.
A slow network: each message takes 10 ms, so an exchange, in which all parties send at once, may take a round trip of
20 ms and 30% more.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from tacit.data import read_table

from bench.measure import CPU, WALL, Options, Row, Side, interleave, time_row
from bench.vertical_logistic import Phe, checked, data
from tacit.channel import LIMIT, Channel, run_parties
from tacit.kinds.vertical_logistic.shared.costs import costs
from tacit.kinds.vertical_logistic.shared.dealer import deal
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.shared.training import Trained, train
from tacit.wire import Message

Floats = NDArray[np.float64]
T = TypeVar("T")
ROUND_TRIP = 0.02  # seconds
ALLOWED = 0.002  # of AUC


class Slow:
    """A channel whose messages take half a round trip each, in order; sending does not wait."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sent: queue.SimpleQueue[tuple[float, Message] | None] = queue.SimpleQueue()
        self._carrier = threading.Thread(target=self._carry, daemon=True)
        self._carrier.start()

    def send(self, message: Message) -> None:
        self._sent.put((time.perf_counter() + ROUND_TRIP / 2, message))

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        return self._channel.recv(kind, limit)

    def close(self) -> None:
        """Wait until all is sent."""
        self._sent.put(None)
        self._carrier.join()

    def _carry(self) -> None:
        while (entry := self._sent.get()) is not None:
            due, message = entry
            time.sleep(max(0.0, due - time.perf_counter()))
            self._channel.send(message)


def terms_of(parties: int, rows: int, steps: int, **changes: Any) -> Terms:
    """Full batches, without figures, unless said otherwise."""
    names = tuple(f"party{number}" for number in range(parties))
    common = {"batch": rows, "held_out": 0.0, "figures": "never"} | changes
    return Terms(names, "dealer", names[0], rows, (0.5,) * steps, tuple(range(steps)), **common)


def trained(features: Floats, labels: Floats, terms: Terms, *, slow: bool = False) -> dict[str, Trained | int]:
    """All parties in this process, with the columns dealt out evenly."""
    parts = dict(zip(terms.parties, np.array_split(features, len(terms.parties), axis=1), strict=True))

    def party(name: str, channels: Mapping[str, Channel]) -> Trained | int:
        ends = {other: Slow(channel) if slow else channel for other, channel in channels.items()}
        try:
            if name == terms.dealer:
                return deal(ends, terms)
            return train(ends, parts[name], terms, name, labels if name == terms.active else None)
        finally:
            for end in ends.values():
                if slow:
                    end.close()

    return run_parties({name: lambda c, name=name: party(name, c) for name in (*terms.parties, terms.dealer)})


def run(options: Options) -> list[Row]:
    rows = [_against_phe(options)]
    for batch, columns, steps, floor in ((10_000, 50, 5, 0.1), (100_000, 100, 2, None)):
        if not options.quick:
            rows.append(_alone(batch, columns, steps, floor, options))
    rows.append(_slow(options))
    rows += [_auc(f"breast cancer, {parties} parties", *_cancer(), parties, 20, 128) for parties in (2, 3, 5)]
    if options.data is not None and not options.quick:
        rows += [_auc(f"credit defaults, {n} parties", *_credit(options.data), n, 5, 512) for n in (2, 3, 5)]
    return rows


def _table(batch: int, columns: int) -> tuple[Floats, Floats]:
    features, _ = data(batch, columns)
    return features, (features.sum(axis=1) > 0).astype(np.float64)


def _against_phe(options: Options) -> Row:
    batch, columns, bits = (32, 10, 2048) if options.quick else (512, 30, 3072)
    steps = 20 if options.quick else 100
    features, labels = _table(batch, columns)
    terms, peer = terms_of(2, batch, steps), Phe(bits)
    pair = interleave(
        Side(lambda: trained(features, labels, terms), steps),
        Side(checked(peer.step, *data(batch, columns))),
        options.budget.share(4),
        rounds=1 if options.quick else 3,
        warm_up=0,
        clock=CPU,
    )
    floor = None if options.quick else 1000.0
    return time_row(f"step against phe, CPU, {batch} x {columns}, {bits} bits", pair, floor=floor)


def _alone(batch: int, columns: int, steps: int, floor: float | None, options: Options) -> Row:
    """With the opening of the tables, spread over the steps."""
    features, labels = _table(batch, columns)
    terms = terms_of(2, batch, steps)
    pair = interleave(
        Side(lambda: trained(features, labels, terms), steps), None, options.budget.share(4), rounds=3, clock=CPU
    )
    return time_row(f"step, CPU, {batch:,} x {columns}", pair, floor=floor, judged="ours")


def _slow(options: Options) -> Row:
    steps = 3 if options.quick else 20
    features, labels = _table(512, 30)
    one, all_of_them = terms_of(2, 512, 1), terms_of(2, 512, steps + 1)
    columns = dict.fromkeys(one.parties, 15)
    exchanges = costs(all_of_them, columns).exchanges - costs(one, columns).exchanges
    seconds = []
    for terms in (one, all_of_them):
        started = WALL()
        trained(features, labels, terms, slow=True)
        seconds.append(WALL() - started)
    name = f"step of {exchanges // steps} exchanges, round trip of 20 ms, wall, 512 x 30"
    allowed = exchanges * ROUND_TRIP * 1.3 / steps
    return Row(name, (seconds[1] - seconds[0]) / steps, None, "s", "lower", floor=allowed, judged="ours")


def _cancer() -> tuple[Floats, Floats]:
    x, y = load_breast_cancer(return_X_y=True)
    return x, y.astype(np.float64)


def _credit(folder: Path) -> tuple[Floats, Floats]:
    guest = read_table(folder / "default_credit_hetero_guest.csv", label_column=True)
    host = read_table(folder / "default_credit_hetero_host.csv")
    if guest.ids != host.ids or guest.labels is None:
        raise ValueError("the two files of the credit data do not hold the same rows")
    return np.hstack([guest.features, host.features]), np.asarray(guest.labels, dtype=np.float64)


def _auc(name: str, x: Floats, y: Floats, parties: int, epochs: int, batch: int) -> Row:
    """Of held-out rows, against the same steps in floats."""
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    terms = terms_of(parties, len(x), epochs, batch=batch, held_out=0.2)
    models = trained(x, y, terms)
    weights = np.concatenate([models[party].weights[:, 0] for party in terms.parties])  # type: ignore[union-attr]
    held_out = terms.split[1]
    ours, plain = (roc_auc_score(y[held_out], x[held_out] @ found) for found in (weights, _plain(x, y, terms)))
    return Row(f"AUC, {name}", ours, plain, "", "higher", floor=1 - ALLOWED / plain)


def _plain(x: Floats, y: Floats, terms: Terms) -> Floats:
    weights, intercept = np.zeros(x.shape[1]), 0.0
    for number, batch in terms.schedule.from_step(0):
        rows, rate = terms.split[0][batch], terms.rates[number // terms.schedule.steps]
        residue = 1 / (1 + np.exp(-(x[rows] @ weights + intercept))) - y[rows]
        weights, intercept = weights - rate * (x[rows].T @ residue / len(rows)), intercept - rate * residue.mean()
    return weights
