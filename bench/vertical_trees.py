"""Boosted trees between parties: AUC against XGBoost and scikit-learn on the whole table, and what a tree costs.

AUC is that of held-out rows with the same bins, depth, rate and number of trees, with breast cancer and, with `--data`,
the 30,000 rows of UCI's credit defaults. Every party but the active works over a channel, with the whole protocol.

The cost of a tree is the CPU of both parties together, on one core, at 10,000 rows, 50 features of the passive, 32 bins
and depth 5, with the rows of nodes shown to the passive, as its peers have it; with hidden nodes, the default, beside
it. Its peer is the same growth with histograms of Paillier ciphertexts, as SecureBoost has them, at its best:
our Paillier at 2048 bits, g and h packed into one plaintext, the smaller child only, sums packed before they are sent.
XGBoost works on one core too, on the columns of all parties in one place. Memory is that of both parties in one
process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from bench.measure import CPU, Options, Row, peak_memory
from bench.vertical_shared import one_core
from tacit.channel import LIMIT, Channel, run_parties
from tacit.crypto import paillier
from tacit.crypto.counter import Counter
from tacit.kinds.vertical_trees.protocol import active, passive
from tacit.kinds.vertical_trees.protocol.bins import Bins, numbers
from tacit.kinds.vertical_trees.protocol.boosting import Labelled, State, Terms, boost
from tacit.kinds.vertical_trees.protocol.features import BoolArray, Chosen, Features, IntArray, PlainFeatures
from tacit.kinds.vertical_trees.protocol.growth import Options as Growth
from tacit.kinds.vertical_trees.protocol.losses import Logistic
from tacit.kinds.vertical_trees.protocol.rounding import unpack
from tacit.kinds.vertical_trees.protocol.splits import Rules
from tacit.tables.plain import read_numbers
from tacit.wire import Message, encode

Floats = NDArray[np.float64]
T = TypeVar("T")

BINS, FEW_BINS = 32, 9  # with that of missing values
DEPTH, RATE = 5, 0.1
ALLOWED = 0.005  # of AUC
SECONDS, MEGABYTES = 1.8, 5.0  # of a tree
GIGABYTES = 4.0
AGAINST_PAILLIER, AGAINST_XGBOOST = 8.0, 40.0
PAILLIER_BITS = 2048


def run(options: Options) -> list[Row]:
    import xgboost  # noqa: F401 -- if it is missing, the user is told before anything is measured

    x, y = load_breast_cancer(return_X_y=True)
    rounds = 10 if options.quick else 50
    rows = _accuracy("breast cancer", x, y, rounds, Rules(1.0, 1.0))
    with one_core():
        rows += _cost(*((2000, 10, 2) if options.quick else (10_000, 50, 5)), judged=not options.quick)
        if options.data is not None and not options.quick:
            x, y = _credit(options.data)
            rows += _accuracy("credit defaults", x, y, 100, Rules(1.0, 30.0))
            rows.append(_against_xgboost(x, y))
        if not options.quick:
            rows += _large()  # last, as memory is the most that this process has had
    return rows


@dataclass(slots=True)
class Cost:
    """What a training took: CPU of all parties, and bytes of all messages."""

    set_up: float = 0.0
    set_up_bytes: int = 0
    trees: list[float] = field(default_factory=list)
    tree_bytes: float = 0.0


class Counted:
    """A channel that counts the bytes this party sends."""

    def __init__(self, channel: Channel, sent: list[int]) -> None:
        self._channel, self._sent = channel, sent

    def send(self, message: Message) -> None:
        self._sent.append(len(encode(message)))
        self._channel.send(message)

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        return self._channel.recv(kind, limit)

    def close(self) -> None:
        self._channel.close()


class Table:
    """The columns of all parties in bins, and the labels; every third row is held out. The active has the first."""

    def __init__(
        self, x: Floats, y: Floats, parts: Sequence[int], terms: Terms, *, held_out: bool = True, most: int = BINS
    ) -> None:
        self.terms, self.x, self.y = terms, x, y.astype(float)
        every = np.arange(len(y))
        self.held_out = every[::3] if held_out else every[:0]
        self.rows = np.setdiff1d(every, self.held_out)
        self.known = Labelled(Logistic(), self.y, np.ones(len(y)), self.rows, self.held_out)
        bins = Bins(tuple(numbers(column[self.rows], most) for column in x.T))
        binned, ends = bins.apply(list(x.T)), np.cumsum([0, *parts])
        zeros = np.zeros(x.shape[1], dtype=np.int64)
        self.tables = [
            passive.Table(binned[:, a:b], bins.bins[a:b], bins.ordered[a:b], zeros[a:b])
            for a, b in pairwise(ends.tolist())
        ]

    def plain(self) -> list[Features]:
        """All sources in one place."""
        return [PlainFeatures(table.cells, table.bins) for table in self.tables]

    def auc(self, state: State) -> float:
        return float(roc_auc_score(self.y[self.held_out], state.scores[self.held_out, 0]))


def trained(table: Table, *, hidden: bool = False) -> tuple[State, Cost]:
    """The state after training with every party but the first over a channel, and what it took."""
    names = [f"passive{number}" for number in range(1, len(table.tables))]
    cost = Cost()
    sent: list[int] = []
    begin = CPU()

    def leader(channels: Mapping[str, Channel]) -> State:
        own: list[Features] = [PlainFeatures(table.tables[0].cells, table.tables[0].bins)]
        sources = own if len(table.tables[0].bins) else []
        others = []
        for name in names:
            channel, counter = Counted(channels[name], sent), Counter(0, lambda _: None)
            met = active.meet(channel, len(table.y), counter)
            others.append(active.RemoteFeatures(channel, met, counter, hidden=hidden))
        cost.set_up, cost.set_up_bytes = CPU() - begin, sum(sent)
        last = [CPU()]

        def after(_: State) -> None:
            cost.trees.append(CPU() - last[0])
            last[0] = CPU()

        state = boost([*sources, *others], table.known, table.terms, after=after)
        cost.tree_bytes = (sum(sent) - cost.set_up_bytes) / state.rounds
        for other in others:
            other.close()
        return state

    def follower(own: passive.Table) -> Callable[[Mapping[str, Channel]], Any]:
        def serve(channels: Mapping[str, Channel]) -> object:
            channel, counter = Counted(channels["active"], sent), Counter(0, lambda _: None)
            held = passive.meet(channel, own, counter)
            return passive.serve(channel, held, counter, table.terms.growth.least, hidden=hidden)

        return serve

    followers = {name: follower(own) for name, own in zip(names, table.tables[1:], strict=True)}
    return run_parties({"active": leader} | followers, patience=600)["active"], cost


def _accuracy(name: str, x: Floats, y: Floats, rounds: int, rules: Rules) -> list[Row]:
    terms = Terms(rounds, RATE, growth=Growth(DEPTH, rules))
    whole = Table(x, y, [x.shape[1]], terms)
    theirs = {
        "XGBoost": _xgboost(rounds, rules).fit(whole.x[whole.rows], whole.y[whole.rows]),
        "HistGradientBoosting": _scikit_learn(rounds, rules).fit(whole.x[whole.rows], whole.y[whole.rows]),
    }
    judged = whole.y[whole.held_out]
    peers = {
        peer: float(roc_auc_score(judged, made.predict_proba(whole.x[whole.held_out])[:, 1]))
        for peer, made in theirs.items()
    }
    rows = []
    for parties in (2, 3):
        parts = [len(part) for part in np.array_split(np.arange(x.shape[1]), parties)]
        ours = _auc(Table(x, y, parts, terms))
        for peer, auc in peers.items():
            floor = 1 - ALLOWED / auc if peer == "XGBoost" else None
            rows.append(Row(f"AUC, {name}, {parties} parties, {peer}", ours, auc, "", "higher", floor=floor))
    return rows


def _credit(folder: Path) -> tuple[Floats, Floats]:
    guest = read_numbers(folder / "default_credit_hetero_guest.csv", label=True)
    host = read_numbers(folder / "default_credit_hetero_host.csv")
    if guest.ids != host.ids or guest.labels is None:
        raise ValueError("the two files of the credit data do not hold the same rows")
    return np.hstack([guest.features, host.features]), guest.labels.codes.astype(np.float64)


def _auc(table: Table) -> float:
    """Of a training between the parties, after its scores were found equal to those of the same in one place."""
    state, _ = trained(table)
    if not np.array_equal(state.scores, boost(table.plain(), table.known, table.terms).scores):
        raise RuntimeError("trees between parties differ from those in one place")
    return table.auc(state)


def _xgboost(rounds: int, rules: Rules) -> Any:
    import xgboost

    return xgboost.XGBClassifier(
        n_estimators=rounds, max_depth=DEPTH, learning_rate=RATE, max_bin=BINS - 1, reg_lambda=rules.l2,
        min_child_weight=rules.min_child_weight, tree_method="hist", n_jobs=1,
    )  # fmt: skip


def _scikit_learn(rounds: int, rules: Rules) -> Any:
    return HistGradientBoostingClassifier(
        max_iter=rounds, max_depth=DEPTH, max_leaf_nodes=None, learning_rate=RATE, max_bins=BINS - 1,
        l2_regularization=rules.l2, early_stopping=False,
    )  # fmt: skip


def _drawn(rows: int, features: int, trees: int, most: int = BINS) -> Table:
    """All features at the passive, so that no sum is the active's own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, features))
    y = (x @ rng.normal(size=features) / np.sqrt(features) + rng.normal(size=rows) > 0).astype(float)
    return Table(x, y, [0, features], Terms(trees, RATE, growth=Growth(DEPTH)), held_out=False, most=most)


def _cost(rows: int, features: int, trees: int, *, judged: bool) -> list[Row]:
    state, cost = trained(_drawn(rows, features, trees))
    seconds = float(np.median(cost.trees))
    one = _drawn(rows, features, 1)
    paillier_features = PaillierFeatures(one.tables[1])
    begin = CPU()
    encrypted = boost([paillier_features], one.known, one.terms)
    peer = CPU() - begin
    if not np.array_equal(encrypted.ensemble.trees[0].gain, state.ensemble.trees[0].gain):
        raise RuntimeError("the tree from Paillier histograms is another one")
    name, cells = f"a tree, {rows:,} × {features} × {BINS}, depth {DEPTH}", f"{rows * features:,} cells"
    most_seconds, most_sent, ratio = (SECONDS, MEGABYTES, AGAINST_PAILLIER) if judged else (None, None, None)
    sent = cost.tree_bytes / 1e6
    return [
        Row(f"{name}: CPU of both", seconds, None, "s", "lower", floor=most_seconds, judged="ours"),
        Row(f"{name}: sent", sent, None, "MB", "lower", floor=most_sent, judged="ours"),
        Row(f"{name}: against Paillier, CPU", seconds, peer, "s", "lower", floor=ratio),
        Row(f"set-up of {cells}: CPU of both", cost.set_up, None, "s", "lower"),
        Row(f"set-up of {cells}: sent", cost.set_up_bytes / 1e6, None, "MB", "lower"),
        *_hidden(rows, features),
    ]


def _hidden(rows: int, features: int) -> list[Row]:
    """With as many bins as by default; the peer is the same with the rows of nodes shown."""
    table = _drawn(rows, features, 3, FEW_BINS)
    shown, hidden = trained(table)[1], trained(table, hidden=True)[1]
    seconds = [float(np.median(each.trees)) for each in (hidden, shown)]
    sent = [each.tree_bytes / 1e6 for each in (hidden, shown)]
    name = f"a tree, {rows:,} × {features} × {FEW_BINS}, depth {DEPTH}, hidden nodes against shown"
    return [Row(f"{name}: CPU of both", *seconds, "s", "lower"), Row(f"{name}: sent", *sent, "MB", "lower")]


def _large() -> list[Row]:
    """Both parties in one process."""
    _, cost = trained(_drawn(100_000, 50, 2))
    name, memory = f"100,000 × 50 × {BINS}", peak_memory() / 1e9
    return [
        Row(f"{name}: memory of both", memory, None, "GB", "lower", floor=GIGABYTES, judged="ours"),
        Row(f"a tree, {name}, depth {DEPTH}: CPU of both", cost.trees[-1], None, "s", "lower"),
        Row(f"set-up of {name}: CPU of both", cost.set_up, None, "s", "lower"),
    ]


def _against_xgboost(x: Floats, y: Floats) -> Row:
    rules, rounds = Rules(1.0, 30.0), 5
    table = Table(x, y, [13, x.shape[1] - 13], Terms(rounds, RATE, growth=Growth(DEPTH, rules)), held_out=False)
    _, cost = trained(table)
    model = _xgboost(20 * rounds, rules)
    begin = CPU()
    model.fit(x, y)
    peer = (CPU() - begin) / (20 * rounds)
    ours = float(np.median(cost.trees))
    return Row("a tree, credit defaults: against XGBoost, CPU", ours, peer, "s", "lower", floor=1 / AGAINST_XGBOOST)


class PaillierFeatures:
    """A passive's features by Paillier histograms, both parties in turn: the peer to measure against.

    The active encrypts the word of every row; the passive adds the ciphertexts of each bin, packs the sums, and makes
    them look new, as the active knows the randomness of what it encrypted; the active decrypts.
    """

    def __init__(self, table: passive.Table) -> None:
        self.bins, self.ordered, self.signs = table.bins, table.ordered, table.signs
        self._table = table
        self._key = paillier.generate(PAILLIER_BITS)
        self._plain = PlainFeatures(table.cells, table.bins)
        self._low = self._slot = 0
        self._words = self._key.encrypt([0])  # makes the tables of the key

    def start(self, words: IntArray, used: BoolArray | None = None) -> None:
        gradients, hessians = unpack(words)
        self._low = int(hessians.sum()).bit_length()  # as few bits as the sums need
        self._slot = self._low + int(np.abs(gradients).sum()).bit_length() + 2
        values = [(g << self._low) + h for g, h in zip(gradients.tolist(), hessians.tolist(), strict=True)]
        self._words = self._key.encrypt(values)

    def histograms(self, nodes: Sequence[IntArray]) -> list[IntArray]:
        return [self._sums(rows) for rows in nodes]

    def divide(self, chosen: Sequence[Chosen]) -> list[BoolArray]:
        return self._plain.divide(chosen)

    def _sums(self, rows: IntArray) -> IntArray:
        public, most, count = self._key.public, int(self.bins.max()), len(self.bins)
        chosen = paillier.Ciphertexts(public, tuple(self._words.values[row] for row in rows))
        groups = np.ascontiguousarray((self._table.cells[rows] + most * np.arange(count)).T)
        packed = public.rerandomize(public.pack(public.sums(groups, count * most, chosen), self._slot))
        found = public.unpack(self._key.decrypt_unsigned(packed), self._slot, count * most)
        low = 2**self._low
        return np.array([((v // low) << 32) + v % low for v in found], dtype=np.int64).reshape(count, most)
