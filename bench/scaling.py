"""What a round of secure aggregation costs its coordinator: a model of a few unit costs, checked against measurements.

    masks       survivors + dropped * (surviving neighbours): each expanded and added over d columns
    exchanges   dropped * (surviving neighbours), and each key agreed upon
    secrets     one for each client, put together from t shares
    uploads     n vectors of d columns added up
    relayed     n * k sealed shares taken in, held, handed on; n * k shares revealed

Unit costs are measured here, on one core; the model multiplies. It is compared with the unmasking of `bench secagg`
for n = 100 to 10,000, and with all that the server does in whole rounds of up to 3,000 clients. `docs/scaling.md` says
what it predicts for larger fleets.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.measure import Options, Row
from bench.secagg import MODEL, _growth
from tacit.crypto import shamir
from tacit.crypto.agreement import KeyPair
from tacit.crypto.prg import add_masks
from tacit.randomness import secure_rng
from tacit.secagg.client import Client, mask_key
from tacit.secagg.graph import degree
from tacit.secagg.messages import Advertise, Masked
from tacit.secagg.server import Server, State
from tacit.secagg.session import Context
from tacit.secagg.settings import Settings

CORRUPT, DROPPED = 0.1, 0.3


@dataclass(frozen=True, slots=True)
class Units:
    """Seconds on one core, and bytes."""

    mask: float  # for each column and mask, 32-bit words
    addition: float  # for each column and upload
    exchange: float  # an agreement with one client, key derivation included
    secret: float  # for each share of a secret that is put together
    relayed: float  # for each sealed share: taken in, handed on, and its share revealed
    client: float  # for each client: its messages, its advertised keys tried
    held: float  # bytes for each sealed share


@dataclass(frozen=True, slots=True)
class Cost:
    """A round at the coordinator."""

    neighbours: int
    unmasking: float  # seconds
    handling: float  # seconds: all other work, without the uploads
    uploads: float  # seconds
    memory: float  # bytes


def predicted(n: int, columns: int, units: Units, dropped: float = DROPPED, corrupt: float = CORRUPT) -> Cost:
    """What a round costs its coordinator, by the model."""
    found = degree(n, round(corrupt * n), round(dropped * n))
    if found is None:
        raise ValueError(f"no graph for {n} clients")
    near, gone = found.neighbours, round(dropped * n)
    pairs = gone * near * (1 - dropped)
    unmasking = (n - gone + pairs) * columns * units.mask + pairs * units.exchange + n * found.threshold * units.secret
    return Cost(
        near,
        unmasking,
        n * units.client + n * near * units.relayed,
        (n - gone) * columns * units.addition,
        n * near * units.held + 8 * columns,
    )


def _best(call: Callable[[], object], repeats: int = 5) -> float:
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def measured_units(repeats: int) -> Units:
    """Each on its own, but for what the server does with messages, which comes from a small round."""
    words, other = np.zeros(1_000_000, np.uint32), np.ones(1_000_000, np.uint32)
    keys = [(i.to_bytes(16, "big"), 1) for i in range(20)]
    own = KeyPair.generate()
    adverts = [Advertise(i, bytes(32), KeyPair.generate().public, b"") for i in range(1, 101)]
    rows = shamir.split([bytes(32)] * 20, 88, 36)
    points = list(range(1, 37))
    many = np.ascontiguousarray(rows[:, :36])
    (near, small), (wide, large) = (min(whole_round(n) for _ in range(repeats)) for n in (100, 300))
    exchange = _best(lambda: [mask_key(own, 0, advert, MODEL) for advert in adverts]) / 100
    secret = _best(lambda: [shamir.combine_many(points, many[i : i + 1]) for i in range(20)]) / (20 * 36)
    # A round of 16 columns is exchanges and secrets, which are known, and messages, which are wanted.
    narrow = Units(0, 0, exchange, secret, 0, 0, 0)
    few, more = ((seconds - predicted(n, 16, narrow).unmasking) / n for n, seconds in ((100, small), (300, large)))
    relayed = max(0.0, (more - few) / (wide - near))
    return Units(
        _best(lambda: add_masks(words, keys)) / 20e6,
        _best(lambda: np.add(words, other, out=words)) / 1e6,
        exchange,
        secret,
        relayed,
        few - near * relayed,
        whole_round(300, traced=True)[1] / (300 * wide),
    )


def whole_round(n: int, *, traced: bool = False) -> tuple[int, float]:
    """Neighbours, and what the server spent in a whole round with vectors of no length to speak of.

    Seconds up to where the sum could be opened; or, `traced`, the most bytes while shares are relayed.
    """
    columns = 16
    settings = Settings(n, columns, mode="semi_honest", graph="sparse", corrupt=CORRUPT, drop=DROPPED)
    context = Context(settings, MODEL, 1)
    rng, vector = secure_rng(), np.zeros(columns, np.uint32)
    clients = {i: Client(context, i, vector, rng=rng) for i in range(n)}
    gone = set(range(1, 1 + int(DROPPED * n)))
    server, now, seconds = Server(context, clients), 0.0, 0.0
    server.start(now)
    answers = {i: client.start(now) for i, client in clients.items()}
    near = settings.topology(n).neighbours or n - 1
    while server.state < State.READY:
        if traced and server.state is State.SHARING:
            tracemalloc.start()
        start = time.process_time()
        outgoing = []
        for sender, messages in answers.items():
            for message in messages:
                if not (isinstance(message, Masked) and sender in gone):
                    outgoing += server.receive(sender, message, now)
        if not outgoing and server.state < State.READY:
            now += settings.cipher_time_window
            outgoing = server.tick(now)
        seconds += time.process_time() - start
        if tracemalloc.is_tracing():
            held = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return near, float(held)
        answers = {to: clients[to].receive(message, now) for to, message in outgoing}
    return near, seconds


def run(options: Options) -> list[Row]:
    units = measured_units(1 if options.quick else 3)
    names = ("mask", "addition", "exchange", "secret", "relayed", "client")
    rows = [Row(f"unit cost: {name}", getattr(units, name), None, "s", "lower") for name in names]
    rows.append(Row("unit memory: held", units.held, None, "B", "lower"))
    sizes = (100, 300) if options.quick else (100, 300, 1000, 3000, 10_000)
    compared: list[tuple[str, float, float]] = []
    for columns in (100_000,) if options.quick else (100_000, 1_000_000):
        for n in sizes:
            model = predicted(n, columns, units).unmasking
            compared.append((f"unmasking, n {n}, d {columns}", model, _growth(n, columns).ours))
    for n in () if options.quick else (1000, 3000):
        (near, seconds), cost = whole_round(n), predicted(n, 16, units)
        compared.append((f"a whole round at the server, n {n}, d 16", cost.handling + cost.unmasking, seconds))
        if n <= 1000:
            held = whole_round(n, traced=True)[1]
            name = f"memory while shares are relayed, n {n}: {held / (n * near):.0f} B a share"
            rows.append(Row(name, held, None, "B", "lower"))
    rows += [Row(f"model against measured: {name}", model, found, "s", "lower") for name, model, found in compared]
    off = max(max(model / found, found / model) for _, model, found in compared)
    rows.append(Row("the model is off by a factor of at most", off, None, "", "lower", 1.6, 1.25, "ours"))
    return rows
