"""What a network costs: the engine over gRPC on loopback against the same federation in memory.

- A masked round of 100 clients, without and with mutual TLS, against the engine in memory. All parties share one
  process on either side, so that the ratio is what connections, frames and TLS add. A ratio of 0.5 is twice the time.
- Bytes that one client puts on the wire in that round, against the masked vector that it must send. They are counted at
  a TCP proxy between its socket and the coordinator's, from the first byte of the connection to the last: TLS handshake
  and records, HTTP/2, our own frames, keys and shares, confirmations.
- A small request to one of 100 connected clients until its answer is there. (Flower's SuperLink was measured at 12 s a
  message: there clients poll. Here a stream is open, and nothing polls.)
- A model of 400 MB to a client and back, each end in a process of its own: the time, and the most memory of either.
  It has many arrays, and training makes new ones. What Python and its packages take before anything is done is counted.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from typing import Any

import numpy as np

from bench.measure import Options, Row, peak_memory
from bench.simulation import Still
from tacit.audit.attacks.wiretap import Wiretap
from tacit.config.local import Local
from tacit.events import Kept, RoundFinished, Sink
from tacit.kinds.horizontal.encrypt import Encrypt, PairwiseMasks
from tacit.kinds.horizontal.frames import FramedClient, FramedCoordinator
from tacit.kinds.horizontal.masked import inside_of
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork, Task
from tacit.net.grpc.connection import Connection
from tacit.net.grpc.server import Server
from tacit.net.handshake import Hello
from tacit.net.identity import Authority, Credentials, request
from tacit.net.site import Site
from tacit.net.star import COORDINATOR, client_name
from tacit.net.star_guest import StarGuest
from tacit.net.star_host import StarHost
from tacit.net.transport import Conversation
from tacit.sections import Network

CLIENTS = 100
WORDS = 100_000
ANSWER = 0.05  # seconds
OVERHEAD = 1.1
ARRAYS = 16  # of a large model
_SMALL = bytes(64)
Files = tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class Party:
    """Credentials of all parties, or of none."""

    coordinator: Credentials | None
    clients: tuple[Credentials | None, ...]

    @classmethod
    def unsigned(cls, clients: int) -> Party:
        return cls(None, (None,) * clients)

    @classmethod
    def signed(cls, clients: int) -> Party:
        authority = Authority.create()
        made = [Credentials.of(*files(authority, name)) for name in (COORDINATOR, *map(client_name, range(clients)))]
        return cls(made[0], tuple(made[1:]))


def files(authority: Authority, name: str) -> Files:
    """A new party's private keys, certificate and authority, as PEM."""
    private, asked = request(name)
    return private, authority.sign(asked), authority.certificate_pem


def masked(clients: int, words: int, rounds: int) -> Settings:
    """A federation whose masked vectors have so many words: the last one is the client's weight."""
    masks = PairwiseMasks(mode="semi_honest")
    encrypt = Encrypt(encrypt_type="PW_ENCRYPT", pw_encrypt=masks)
    settings = Settings(task="still", rounds=rounds, clients=clients, encrypt=encrypt)
    columns, _ = inside_of(settings, words - 1).ring
    if columns != words:
        raise RuntimeError(f"vectors of {columns} words, {words} are wanted")
    return settings


# --- rounds


def in_memory(settings: Settings, size: int) -> list[float]:
    """Seconds of each round."""
    kept = Kept()
    MemoryEngine(settings, Still(size), kept).run()
    return _rounds(kept, settings)


def host_of(
    settings: Settings, task: Task, sink: Sink, own: Credentials | None, network: Network | None = None
) -> StarHost:
    """A coordinator on any port of this machine."""
    site = Site("127.0.0.1:0", "127.0.0.1:0", own, Local(), network=network or settings.network)
    return StarHost(FramedCoordinator(Prepared.of(settings, task), sink, time.perf_counter), site, sink)


def guest_of(
    settings: Settings,
    identity: int,
    task: Task,
    port: int,
    own: Credentials | None,
    thread: ThreadPoolExecutor | None = None,
) -> StarGuest:
    """A client of the coordinator at a port of this machine."""
    address = f"127.0.0.1:{port}"
    leaf = FramedClient(Prepared.of(settings, task), identity, own)
    return StarGuest(leaf, Site(address, address, own, Local()), Kept(), thread=thread)


async def over_network(settings: Settings, size: int, parties: Party, tap: Wiretap | None = None) -> list[float]:
    """Seconds of each round, all parties in one event loop. The first client goes through the `tap`."""
    kept, task = Kept(), Still(size)
    coordinator = host_of(settings, task, kept, parties.coordinator)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(coordinator.serve(ready=port.set_result))
    direct = await port
    if tap is not None:
        tap.target = direct
    with ThreadPoolExecutor(1) as thread:
        clients = [
            guest_of(settings, identity, task, tap.port if tap is not None and identity == 0 else direct, own, thread)
            for identity, own in enumerate(parties.clients)
        ]
        await asyncio.gather(*(client.run() for client in clients))
        await serving
    return _rounds(kept, settings)


def _rounds(kept: Kept, settings: Settings) -> list[float]:
    found = [event for event in kept.events if isinstance(event, RoundFinished)]
    if [event.survivors for event in found] != [settings.clients] * settings.rounds:
        raise RuntimeError(f"rounds with {[event.survivors for event in found]} survivors")
    return [event.seconds for event in found]


def _masked_rounds(options: Options, loop: asyncio.Runner) -> list[Row]:
    words, rounds, turns = (20_000, 1, 2) if options.quick else (WORDS, 2, 3)
    settings, size = masked(CLIENTS, words, rounds), words - 1
    ways: dict[str, Callable[[], list[float]]] = {
        "in memory": lambda: in_memory(settings, size),
        "without TLS": lambda: loop.run(over_network(settings, size, Party.unsigned(CLIENTS))),
    }
    signed = Party.signed(CLIENTS)
    ways["with mutual TLS"] = lambda: loop.run(over_network(settings, size, signed))
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(turns):
        for way in sorted(ways, reverse=bool(turn % 2)):  # in turn: a machine that slows down meets all alike
            seconds[way] += ways[way]()
    memory = statistics.median(seconds.pop("in memory"))
    title = f"masked round, n {CLIENTS}, {words:,} words"
    # A guard against getting worse, not a promise: 0.52 without and 0.45 with TLS were measured on two idle processors,
    # 0.51 and 0.48 with the short vectors of --quick.
    floor, target = (0.3, None) if options.quick else (0.4, 0.8)
    return [
        Row(f"{title}, {way} / in memory", statistics.median(taken), memory, "s", "lower", floor, target)
        for way, taken in seconds.items()
    ]


def _bytes(options: Options, loop: asyncio.Runner) -> list[Row]:
    """With 100,000 words in both cases: with fewer, keys and shares weigh more."""
    rows = []
    clients = 20 if options.quick else CLIENTS
    settings = masked(clients, WORDS, 1)
    _, bits = inside_of(settings, WORDS - 1).ring
    least = WORDS * bits // 8
    for way, parties in (("without TLS", Party.unsigned(clients)), ("with mutual TLS", Party.signed(clients))):
        with Wiretap(0) as tap:
            loop.run(over_network(settings, WORDS - 1, parties, tap))
        title = f"bytes up / masked vector of {WORDS:,} words, n {clients}, {way}"
        rows.append(Row(title, tap.up / least, None, "x", "lower", OVERHEAD, None, "ours"))
    return rows


# --- a small exchange


@dataclass
class _Asker:
    """A server's listener that waits for answers."""

    there: int = 0
    answers: dict[str, asyncio.Event] = field(default_factory=dict)

    async def joined(self, name: str, hello: Hello, certificate: bytes, resumed: bool) -> None:
        self.there += 1

    async def arrived(self, name: str, frame: bytes) -> None:
        self.answers[name].set()

    async def broke(self, name: str, reason: str) -> None:
        raise RuntimeError(f"{name}: {reason}")

    async def lost(self, name: str) -> None: ...


class _Echo:
    """A connection's listener that answers at once with what it was sent."""

    connection: Connection

    async def connected(self, resumed: bool) -> None: ...

    async def arrived(self, frame: bytes) -> None:
        self.connection.send(frame)

    async def waiting(self, reason: str) -> None: ...


async def _exchanges(count: int, parties: Party) -> tuple[list[float], list[float]]:
    """Seconds from request to answer: of one client at a time, and of all at once until the last."""
    asker = _Asker()
    names = [client_name(i) for i in range(len(parties.clients))]
    about = Conversation(COORDINATOR, b"{}", 1 << 20, parties.coordinator)
    server = Server(asker, names.__contains__, about)
    port = await server.start("127.0.0.1:0", len(names))
    running = []
    for name, credentials in zip(names, parties.clients, strict=True):
        echo = _Echo()
        about = Conversation(name, b"{}", 1 << 20, credentials)
        echo.connection = Connection(echo, f"127.0.0.1:{port}", COORDINATOR, about)
        running.append((echo.connection, asyncio.create_task(echo.connection.run())))
    while asker.there < len(names):
        await asyncio.sleep(0.01)

    async def ask(*asked: str) -> float:
        asker.answers = {name: asyncio.Event() for name in asked}
        start = time.perf_counter()
        for name in asked:
            server.send(name, _SMALL)
        for name in asked:
            await asker.answers[name].wait()
        return time.perf_counter() - start

    await ask(*names)
    single = [await ask(names[i * 37 % len(names)]) for i in range(count)]
    burst = [await ask(*names) for _ in range(10)]
    for connection, conversation in running:
        await connection.close(1.0)
        conversation.cancel()
    await asyncio.gather(*(conversation for _, conversation in running), return_exceptions=True)
    await server.stop()
    return single, burst


def _small(options: Options, loop: asyncio.Runner) -> list[Row]:
    single, burst = loop.run(_exchanges(500 if options.quick else 3000, Party.signed(CLIENTS)))
    single.sort()
    title = f"request to answer of one of {CLIENTS} clients, mutual TLS"
    last = single[int(0.99 * len(single))]
    return [
        Row(f"{title}: median", statistics.median(single), None, "s", "lower", ANSWER, None, "ours"),
        Row(f"{title}: 99th percentile", last, None, "s", "lower", ANSWER, None, "ours"),
        Row(f"requests to all {CLIENTS} until the last answer", statistics.median(burst), None, "s", "lower"),
    ]


# --- a large model


class Moving:
    """A task whose training returns new arrays, each a little off the one that came."""

    def __init__(self, size: int) -> None:
        self._size = size // ARRAYS

    def model(self) -> Arrays:
        rng = np.random.default_rng(0)
        return {f"weights{place}": rng.standard_normal(self._size, dtype=np.float32) for place in range(ARRAYS)}

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        return Fitted({name: array + np.float32(0.01) for name, array in model.items()}, 1, 0.0)


def large_coordinator(pipe: Pipe, settings: Settings, size: int, own: Files) -> None:
    """Serve one run, and tell the port, then the seconds of each round and the peak of memory."""
    kept = Kept()
    asyncio.run(host_of(settings, Moving(size), kept, Credentials.of(*own)).serve(ready=pipe.send))
    pipe.send((_rounds(kept, settings), peak_memory()))


def large_client(pipe: Pipe, settings: Settings, size: int, own: Files, port: int, identity: int) -> None:
    """Take part in one run, and tell the peak of memory."""

    async def take_part() -> None:
        await guest_of(settings, identity, Moving(size), port, Credentials.of(*own)).run()

    asyncio.run(take_part())
    pipe.send(peak_memory())


def large(settings: Settings, size: int) -> tuple[list[float], float, float]:
    """Seconds of each round, and the most memory of the coordinator and of a client, in models."""
    authority = Authority.create()
    context = multiprocessing.get_context("spawn")

    def started(what: Callable[..., None], name: str, *more: int) -> Pipe:
        here, there = context.Pipe()
        arguments = (there, settings, size, files(authority, name), *more)
        context.Process(target=what, args=arguments, daemon=True).start()
        there.close()
        return here

    coordinator = started(large_coordinator, COORDINATOR)
    port = _told(coordinator)
    clients = [started(large_client, client_name(each), port, each) for each in range(settings.clients)]
    seconds, served = _told(coordinator)
    trained = max(_told(client) for client in clients)
    return seconds, served / (4 * size), trained / (4 * size)


def _large(size: int) -> list[Row]:
    (seconds,), served, trained = large(Settings(task="moving", rounds=1, clients=1), size)
    title = f"a model of {4 * size // 10**6} MB to a client and back, mutual TLS"
    floor = 4 * size / 20e6  # 20 MB/s
    rows = [
        Row(title, seconds, None, "s", "lower", floor, floor / 2, "ours"),
        Row(f"{title}: peak memory of the coordinator", served, None, "models", "lower", 4, 3.7, "ours"),
        Row(f"{title}: peak memory of the client", trained, None, "models", "lower", 3, 2.8, "ours"),
    ]
    several = size // 2
    masked = Encrypt(encrypt_type="PW_ENCRYPT", pw_encrypt=PairwiseMasks(cipher_time_window=590_000))
    for what, encrypt in (("3 clients", Encrypt()), ("3 clients, under masks", masked)):
        _, served, trained = large(Settings(task="moving", rounds=1, clients=3, encrypt=encrypt), several)
        title = f"a model of {4 * several // 10**6} MB, {what}"
        rows.append(Row(f"{title}: peak memory of the coordinator", served, None, "models", "lower"))
        rows.append(Row(f"{title}: peak memory of a client", trained, None, "models", "lower"))
    return rows


def _told(pipe: Pipe) -> Any:
    if not pipe.poll(600):
        raise RuntimeError("a party said nothing for 600 s")
    return pipe.recv()  # EOFError: it ended before


def run(options: Options) -> list[Row]:
    with asyncio.Runner() as loop:  # one for all: gRPC does not follow from one event loop to the next
        rows = [*_small(options, loop), *_bytes(options, loop), *_masked_rounds(options, loop)]
    return rows if options.quick else [*rows, *_large(100_000_000)]
