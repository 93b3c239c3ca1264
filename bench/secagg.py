"""Secure aggregation against what its protocol cannot avoid, and against Flower's SecAgg+ in one process.

- The server's unmasking, and a client's whole part, in CPU time, against their unavoidable work done in the same run:
  X25519 exchanges, mask expansions and one addition pass, as many as the protocol counts. A ratio of 0.67 is 1.5 times
  the unavoidable.
- The whole round of 50 clients (30% vanish before they upload) against Flower's.
- Growth: the server's CPU for n = 100 to 10,000, from a sample of owners; flat seconds/(n log n) is what is promised.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from bench.measure import CPU, Options, Row, Side, interleave, time_row
from tacit.crypto import shamir
from tacit.crypto.agreement import KeyPair
from tacit.crypto.prg import add_masks
from tacit.randomness import secure_rng, seeded_rng
from tacit.secagg.client import Client, mask_key
from tacit.secagg.encode import Encoding
from tacit.secagg.graph import degree
from tacit.secagg.messages import Advertise, Masked, ToClient, ToServer
from tacit.secagg.server import Aggregate, Server, State
from tacit.secagg.session import Context
from tacit.secagg.settings import Settings
from tacit.secagg.unmask import Words, plan_of, unmask

MODEL = bytes(32)
WITNESS = 0  # the client whose part is measured; its keys are known, so that its messages can be played again


class Round:
    """One aggregation in memory, stopped where the server could open the sum."""

    def __init__(self, settings: Settings, vectors: dict[int, Words], leaving: set[int]) -> None:
        self.context = Context(settings, MODEL, 1)
        self.vectors = vectors
        self.server = Server(self.context, vectors)
        self.told: list[ToClient] = []  # what the witness received
        rng = secure_rng()
        clients = {i: Client(self.context, i, v, rng=rng) for i, v in vectors.items()}
        clients[WITNESS] = self.witness()
        self.server.start(0.0)
        outgoing = self._deliver({i: client.start(0.0) for i, client in clients.items()}, leaving)
        now = 0.0
        while self.server.state < State.READY:
            if not outgoing:
                now += settings.cipher_time_window
                outgoing = self.server.tick(now)
                continue
            self.told += [message for to, message in outgoing if to == WITNESS]
            answers = {to: clients[to].receive(message, now) for to, message in outgoing}
            outgoing = self._deliver(answers, leaving)
        if self.server.state is not State.READY:
            raise RuntimeError(self.server.reason)

    def _deliver(self, answers: dict[int, list[ToServer]], leaving: set[int]) -> list[tuple[int, ToClient]]:
        outgoing = []
        for sender, messages in answers.items():
            for message in messages:
                if not (isinstance(message, Masked) and sender in leaving):
                    outgoing += self.server.receive(sender, message, 0.0)
        return outgoing

    def witness(self) -> Client:
        return Client(self.context, WITNESS, self.vectors[WITNESS], rng=seeded_rng(1))

    def play_witness(self) -> None:
        client = self.witness()
        client.start(0.0)
        for message in self.told:
            client.receive(message, 0.0)

    def open(self) -> Words:
        """What `finish` does, without ending the round."""
        words = self.server._sum.copy()  # type: ignore[union-attr]
        if not self.server._reconstruct(decode=False):
            raise RuntimeError("the secrets do not fit")
        unmask(words, self.server._plan)  # type: ignore[arg-type]
        return words

    def exchanges(self) -> int:
        """Agreements that the server must make: one for each mask of a dropped client with a survivor."""
        return len(self.server._plan) - len(self.server._uploaded)  # type: ignore[arg-type]


def unavoidable(exchanges: int, masks: int, additions: int, columns: int) -> Callable[[], None]:
    """The bare work: exchanges on ready keys, masks expanded and added, vectors added."""
    own = X25519PrivateKey.generate()
    public = X25519PrivateKey.generate().public_key().public_bytes_raw()
    keys = [(i.to_bytes(16, "big"), 1) for i in range(masks)]
    total = np.zeros(columns, dtype=np.uint32)
    vector = np.ones(columns, dtype=np.uint32)

    def work() -> None:
        for _ in range(exchanges):
            own.exchange(X25519PublicKey.from_public_bytes(public))
        add_masks(total, keys)
        for _ in range(additions):
            np.add(total, vector, out=total)

    return work


def run(options: Options) -> list[Row]:
    from bench import flower_secagg  # a peer: if it is missing, the user is told the extra

    n, columns = (200, 20_000) if options.quick else (1000, 100_000)
    rows = _against_the_unavoidable(n, columns, options)
    rows.append(_against_flower(flower_secagg.aggregate, options))
    sizes = (100, 1000) if options.quick else (100, 300, 1000, 3000, 10_000)
    for d in (100_000,) if options.quick else (100_000, 1_000_000):
        rows += [_growth(size, d) for size in sizes]
    return rows


def _against_the_unavoidable(n: int, columns: int, options: Options) -> list[Row]:
    settings = Settings(n, columns, mode="semi_honest", graph="sparse", corrupt=0.1, drop=0.3)
    rng = np.random.default_rng(7)
    vectors: dict[int, Words] = {i: rng.integers(0, 2**32, columns, dtype=np.uint32) for i in range(n)}
    gone = set(range(1, 1 + int(0.3 * n)))
    one = Round(settings, vectors, gone)
    expected = np.sum([v for i, v in vectors.items() if i not in gone], axis=0, dtype=np.uint32)
    if (one.open() != expected).any():
        raise RuntimeError("the sum is wrong")
    del vectors, expected
    masks, exchanges = len(one.server._plan), one.exchanges()  # type: ignore[arg-type]
    title = f"n {n}, d {columns}, 30% dropped"
    # The additions of the uploads happen as they arrive; the pass is part of the floor and of neither side's unmasking.
    server = interleave(
        Side(one.open), Side(unavoidable(exchanges, masks, 1, columns)), options.budget.share(4), rounds=5, clock=CPU
    )
    near = settings.topology(n).neighbours or 0
    client = interleave(
        Side(one.play_witness),
        Side(unavoidable(2 * near + 2, near + 1, 1, columns)),
        options.budget.share(3),
        rounds=15,
        clock=CPU,
    )
    tracemalloc.start()
    one.open()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [
        time_row(f"unmasking / unavoidable, {title}", server, floor=1 / 1.5, target=1 / 1.2),
        time_row(f"client / unavoidable, {title}", client, floor=1 / 1.5, target=1 / 1.2),
        Row(f"unmasking memory / vector, {title}", peak / (4 * columns), None, "words", "lower", 20, None, "ours"),
    ]


def _against_flower(peer: Callable[..., NDArray[np.float64]], options: Options) -> Row:
    n, columns = (20, 20_000) if options.quick else (50, 100_000)
    rng = np.random.default_rng(7)
    floats = {i: rng.uniform(-1, 1, columns) for i in range(n)}
    gone = set(range(1, 1 + int(0.3 * n)))
    threshold = n // 2 + 1
    expected = np.mean([v for i, v in floats.items() if i not in gone], axis=0)
    encoding = Encoding(values=columns, bound=1.0, clients=n)
    settings = Settings(n, columns, mode="semi_honest", graph="complete", reconstruct_secrets_threshold=threshold)

    def ours() -> None:
        vectors = {i: encoding.encode(v) for i, v in floats.items()}
        result: Aggregate = Round(settings, vectors, gone).server.finish()
        mean = encoding.decode(result.words, len(result.survivors)).mean
        if np.abs(mean - expected).max() > 1e-4:
            raise RuntimeError("our mean is wrong")

    def theirs() -> None:
        # Flower's node ids start at 1: 0 means nobody.
        mean = peer({i + 1: v for i, v in floats.items()}, {i + 1 for i in gone}, threshold)
        if np.abs(mean - expected).max() > 1e-4:
            raise RuntimeError("Flower's mean is wrong")

    pair = interleave(Side(ours), Side(theirs), options.budget.share(2), rounds=2, warm_up=0, clock=CPU)
    floor, target = (None, None) if options.quick else (50, 100)
    return time_row(f"whole round against Flower SecAgg+, n {n}, d {columns}", pair, floor=floor, target=target)


def _growth(n: int, columns: int, sample: int = 12) -> Row:
    """The server's CPU for unmasking with 30% dropped, from `sample` survivors and `sample` dropped."""
    found = degree(n, round(0.1 * n), round(0.3 * n))
    if found is None:
        raise RuntimeError(f"no graph for {n} clients")
    survivors = round(0.7 * n)
    alive = round(0.7 * found.neighbours)
    rng = seeded_rng(3)
    pairs = [KeyPair.generate(rng) for _ in range(sample + alive)]
    secrets = [bytes(pair.private) for pair in pairs[:sample]]
    shares = shamir.split(secrets, found.neighbours, found.threshold, rng)
    points = sorted(np.random.default_rng(1).choice(found.neighbours, alive, replace=False).tolist())
    words = np.zeros(columns, dtype=np.uint32)
    adverts = [Advertise(i, bytes(32), pair.public, b"") for i, pair in enumerate(pairs[sample:], start=1)]

    def recover(place: int) -> bytes:
        rows = {point + 1: shares[place, point] for point in points}
        return shamir.recover(rows, found.threshold, lambda secret: secret == secrets[place])[0]

    start = time.process_time()
    unmask(words, plan_of([(recover(place)[:16], -1) for place in range(sample)]))
    survivor = (time.process_time() - start) / sample
    start = time.process_time()
    for place in range(sample):
        pair = KeyPair(recover(place))
        keys = [(mask_key(pair, 0, advert, MODEL), 1) for advert in adverts]
        unmask(words, plan_of(keys))
    dropped = (time.process_time() - start) / sample
    seconds = survivors * survivor + (n - survivors) * dropped
    per = seconds / (n * math.log(n)) * 1e6
    return Row(
        f"growth, n {n}, d {columns}, k {found.neighbours}: {per:.0f} µs per n log n", seconds, None, "s", "lower"
    )
