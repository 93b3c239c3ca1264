"""A step of regression on secret shares with a dealer: against the phe loop, the masked protocol, SPU, by itself, and
over a slow network; and between two parties without a dealer, with its bytes and its set-up.

CPU is that of all data parties and the dealer together, on one core, which both sides have: with two, the threads of
one interpreter take twice the time, by handing its lock to each other. Parties have processes of their own in a real
training; the row "each a process" gives that with pipes between them. The phe loop is that of `vertical_logistic`: the
encrypted gradient of one passive, without scores, at 3072 bits. The masked protocol is ours at 2048 bits, both parties.
SPU (two parties: semi2k with its dealer, cheetah without one) runs in an environment of its own, as it does not resolve
with the rest: make one with `pip install spu`, and give its interpreter as SPU_PYTHON; without it these rows are not
judged and say so. Each side's set-up is spread over its steps, 100 of ours and 10 of SPU's. With `--data`, AUC on
credit defaults too. 1,000,000 x 100 is one epoch of one full batch with the opening of the tables; its memory is that
of all parties and the dealer in one process.

A slow network: each message takes 10 ms, so an exchange, in which all parties send at once, may take a round trip of
20 ms and 30% more.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from bench.measure import CPU, WALL, Options, Row, Side, interleave, peak_memory, time_row
from bench.vertical_logistic import Phe, checked, data
from tacit.channel import LIMIT, Channel, open_frame, run_parties
from tacit.crypto import ot, paillier
from tacit.kinds.vertical_logistic.protocol import logistic_masked
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared.costs import costs
from tacit.kinds.vertical_logistic.shared.dealer import deal
from tacit.kinds.vertical_logistic.shared.masked_table import Given
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.shared.training import Trained, train
from tacit.kinds.vertical_logistic.two_party import costs as without_dealer
from tacit.kinds.vertical_logistic.two_party.cell_trees import hold, make
from tacit.kinds.vertical_logistic.two_party.training import train as train_without_dealer
from tacit.tables.plain import read_numbers
from tacit.wire import Message, encode

Floats = NDArray[np.float64]
T = TypeVar("T")
ROUND_TRIP = 0.02  # seconds
ALLOWED = 0.002  # of AUC
SPU_STEPS = 10  # of one call


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


def terms_of(parties: int, rows: int, steps: int, *, dealer: str = "dealer", **changes: Any) -> Terms:
    """Full batches, without figures, unless said otherwise."""
    names = tuple(f"party{number}" for number in range(parties))
    common = {"batch": rows, "held_out": 0.0, "figures": "never"} | changes
    return Terms(names, dealer, names[0], rows, (0.5,) * steps, tuple(range(steps)), **common)


def trained(features: Floats, labels: Floats, terms: Terms, *, slow: bool = False) -> dict[str, Trained | int]:
    """All parties in this process, with the columns dealt out evenly."""
    parts = dict(zip(terms.parties, np.array_split(features, len(terms.parties), axis=1), strict=True))

    def party(name: str, channels: Mapping[str, Channel]) -> Trained | int:
        ends = {other: Slow(channel) if slow else channel for other, channel in channels.items()}
        try:
            if name == terms.dealer:
                return deal(ends, terms)
            part = train if terms.dealer else train_without_dealer
            return part(ends, Given(parts[name], labels if name == terms.active else None), terms, name)
        finally:
            for end in ends.values():
                if slow:
                    end.close()

    return run_parties({name: lambda c, name=name: party(name, c) for name in (*terms.parties, terms.dealer) if name})


@contextmanager
def one_core() -> Iterator[None]:
    """This process, its threads and those that it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run(options: Options) -> list[Row]:
    with one_core():
        rows = [_against_phe(options), _against_masked(options), _against_spu(options, "semi2k")]
        rows += [_against_masked(options, dealer=""), _against_spu(options, "cheetah"), *_without_dealer(options)]
        for batch, columns, steps, floor in ((10_000, 50, 5, 0.1), (100_000, 100, 2, None)):
            if not options.quick:
                rows.append(_alone(batch, columns, steps, floor, options))
    rows += [_apart(options), _slow(options)]
    if not options.quick:
        rows += _million()
    rows += [_auc(f"breast cancer, {parties} parties", *_cancer(), parties, 20, 128) for parties in (2, 3, 5)]
    rows.append(_auc("breast cancer, 2 parties without a dealer", *_cancer(), 2, 20, 128, dealer=""))
    if options.data is not None and not options.quick:
        rows.append(_auc("credit defaults, 2 parties without a dealer", *_credit(options.data), 2, 5, 512, dealer=""))
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


def _against_masked(options: Options, dealer: str = "dealer") -> Row:
    """Both protocols whole, with the same table in two parties: ours in many steps, the other in few."""
    batch, columns, steps = (32, 10, 20) if options.quick else (512, 30, 100)
    features, labels = _table(batch, columns)
    terms, key = terms_of(2, batch, steps, dealer=dealer), paillier.generate(2048)
    few = 2
    settings = Settings.model_validate(
        {
            "protocol": "masked",
            "parties": {"active": {"role": "active"}, "passive": {"role": "passive"}},
            "train": {"epochs": few, "batch": batch, "test": 0.0, "learning_rate": 0.5},
            "paillier": {"bits": 2048},
            "checks": {"row_uses": 100},
        }
    )
    half = columns // 2

    def masked() -> None:
        own = PaillierContext(key=key)
        run_parties(
            {
                "active": lambda c: logistic_masked.active(c, features[:, :half], labels.astype(int), settings, own),
                "passive": lambda c: logistic_masked.passive(c, features[:, half:], settings, "passive"),
            }
        )

    ours = Side(lambda: trained(features, labels, terms), steps)
    pair = interleave(ours, Side(masked, few), options.budget.share(6), rounds=3, warm_up=0, clock=CPU)
    name = "step" if dealer else "step without a dealer"
    floor = None if dealer or options.quick else 1 / 0.6
    return time_row(f"{name} against the masked protocol, CPU, {batch} x {columns}, 2048 bits", pair, floor=floor)


def _without_dealer(options: Options) -> list[Row]:
    """Bytes of a step, and the set-up of trees, which a step's time above has spread over 100 steps."""
    rows, columns = 512, 30
    spent = without_dealer.costs(terms_of(2, rows, 1, dealer=""), dict.fromkeys(("party0", "party1"), columns // 2))
    table = np.random.default_rng(0).integers(-(2**19), 2**19, (rows, columns))
    invitation = ot.invite()
    reply, sender = ot.join(invitation.message)
    receiver = invitation.receiver(reply)

    def set_up() -> None:
        run_parties(
            {
                "owner": lambda c: hold(c["other"], receiver, table),
                "other": lambda c: make(c["owner"], sender, rows, columns),
            }
        )

    pair = interleave(Side(set_up, table.size), None, options.budget.share(6), rounds=3, clock=CPU)
    return [
        Row(
            f"step without a dealer, {rows} x {columns}: bytes",
            spent.step.bytes,
            None,
            "B",
            "lower",
            floor=3e6,
            judged="ours",
        ),
        time_row("set-up of a cell without a dealer, CPU", pair),
        Row("set-up of a cell without a dealer: bytes", spent.setup.bytes / table.size, None, "B", "lower"),
    ]


class Spu:
    """A protocol of SPU in a process of its own interpreter; `seconds` of its processor time so far."""

    def __init__(self, python: str, protocol: str, rows: int, columns: int) -> None:
        script = str(Path(__file__).with_name("spu_peer.py"))
        command = [python, script, protocol, str(rows), str(columns), str(SPU_STEPS)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603  # as the user names it
        self.seconds = 0.0
        if self._answer() != "ready":
            raise RuntimeError(f"SPU did not start: run {' '.join(command)} to see why")
        self.steps()  # so that what it took to compile counts for nothing

    def steps(self) -> None:
        if self._process.stdin is None:
            raise RuntimeError("SPU takes no steps")
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.seconds = float(self._answer())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _answer(self) -> str:
        return "" if self._process.stdout is None else self._process.stdout.readline().strip()


def _against_spu(options: Options, protocol: str) -> Row:
    """Ours with a dealer against semi2k, and without one against cheetah."""
    batch, columns = (64, 10) if options.quick else (512, 30)
    steps = 20 if options.quick else 100
    features, labels = _table(batch, columns)
    dealt = protocol == "semi2k"
    terms = terms_of(2, batch, steps, dealer="dealer" if dealt else "")
    ours, name = Side(lambda: trained(features, labels, terms), steps), f"CPU, {batch} x {columns}"
    what = "step" if dealt else "step without a dealer"
    python = os.environ.get("SPU_PYTHON")
    if python is None:
        pair = interleave(ours, None, options.budget.share(6), rounds=1, clock=CPU)
        return time_row(f"{what}, {name} (SPU skipped: SPU_PYTHON names no interpreter that has it)", pair)
    spu = Spu(python, protocol, batch, columns)
    try:
        rounds = 1 if options.quick else 5 if dealt else 3
        peer = Side(spu.steps, SPU_STEPS)
        clock = lambda: CPU() + spu.seconds  # noqa: E731  # only one of them moves at a time
        pair = interleave(ours, peer, options.budget.share(6), rounds=rounds, clock=clock)
    finally:
        spu.close()
    floor = 10.0 if dealt and not options.quick else None
    return time_row(f"{what} against SPU {protocol}, {name}", pair, floor=floor)


def _million() -> list[Row]:
    """One epoch of a full batch, and the most memory that this process had."""
    rows, columns = 1_000_000, 100
    features = np.random.default_rng(7).normal(size=(rows, columns)).clip(-16, 16)
    labels = (features.sum(axis=1) > 0).astype(np.float64)
    terms = terms_of(2, rows, 1)
    started, clocked = CPU(), WALL()
    trained(features, labels, terms)
    name = f"epoch of one full batch, {rows:,} x {columns}"
    return [
        Row(f"{name}, CPU", CPU() - started, None, "s", "lower"),
        Row(f"{name}, wall", WALL() - clocked, None, "s", "lower"),
        Row(f"{name}, memory of all parties", peak_memory() / 1e9, None, "GB", "lower"),
    ]


def _alone(batch: int, columns: int, steps: int, floor: float | None, options: Options) -> Row:
    """With the opening of the tables, spread over the steps."""
    features, labels = _table(batch, columns)
    terms = terms_of(2, batch, steps)
    pair = interleave(
        Side(lambda: trained(features, labels, terms), steps), None, options.budget.share(4), rounds=3, clock=CPU
    )
    return time_row(f"step, CPU, {batch:,} x {columns}", pair, floor=floor, judged="ours")


class Piped:
    """A channel between two processes."""

    def __init__(self, end: Pipe) -> None:
        self._end = end

    def send(self, message: Message) -> None:
        self._end.send_bytes(encode(message))

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        return open_frame(self._end.recv_bytes(), kind, limit, "the other party")

    def close(self) -> None:
        self._end.close()


def _process(name: str, ends: Mapping[str, Pipe], terms: Terms, rows: int, columns: int, answer: Pipe) -> None:
    """One party in a process of its own: answers with its processor time."""
    features, labels = _table(rows, columns)
    parts = np.array_split(features, len(terms.parties), axis=1)
    channels = {other: Piped(end) for other, end in ends.items()}
    started = CPU()
    if name == terms.dealer:
        deal(channels, terms)
    else:
        part = parts[terms.parties.index(name)]
        train(channels, Given(part, labels if name == terms.active else None), terms, name)
    answer.send(CPU() - started)


def _apart(options: Options) -> Row:
    rows, columns, steps = 512, 30, 20 if options.quick else 200
    terms, context = terms_of(2, rows, steps), multiprocessing.get_context("spawn")
    names = (*terms.parties, terms.dealer)
    ends: dict[str, dict[str, Pipe]] = {name: {} for name in names}
    for one, other in combinations(names, 2):
        ends[one][other], ends[other][one] = context.Pipe()
    answers = {name: context.Pipe() for name in names}
    processes = [
        context.Process(target=_process, args=(name, ends[name], terms, rows, columns, answers[name][1]))
        for name in names
    ]
    for process in processes:
        process.start()
    seconds = sum(answers[name][0].recv() for name in names)
    for process in processes:
        process.join()
    return Row(f"step, CPU, {rows} x {columns}, each a process", seconds / steps, None, "s", "lower")


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
    guest = read_numbers(folder / "default_credit_hetero_guest.csv", label=True)
    host = read_numbers(folder / "default_credit_hetero_host.csv")
    if guest.ids != host.ids or guest.labels is None:
        raise ValueError("the two files of the credit data do not hold the same rows")
    return np.hstack([guest.features, host.features]), guest.labels.codes.astype(np.float64)


def _auc(name: str, x: Floats, y: Floats, parties: int, epochs: int, batch: int, *, dealer: str = "dealer") -> Row:
    """Of held-out rows, against the same steps in floats."""
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    terms = terms_of(parties, len(x), epochs, batch=batch, held_out=0.2, dealer=dealer)
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
