"""Alignment by private set intersection against openmined-psi, in one process and the same run.

- CPU of two parties that share half of their ids, with one worker each; all arithmetic is then in this process.
- Wall time of the same with two workers each. On two cores that is four processes; their start is counted.
- Bytes on the wire of both parties. The peer's are those of its serialised messages.
- Memory of a million ids on each side: the peak of a fresh process in which both parties live, with their ids.

The peer reveals the intersection to one side, from its smallest structure (Golomb-compressed sets); ours to both. A
quick run has few ids: starting the worker processes outweighs their work, so wall time and memory are not judged.
"""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from bench.measure import CPU, SHORTEST, WALL, Options, Row, peak_memory
from tacit.align.intersection import align
from tacit.channel import Recorder, run_parties

FALSE_POSITIVES = 1e-9  # of the peer's compressed set, over all ids of a request
MIB = 1 << 20


def id_sets(count: int) -> list[list[str]]:
    """Two sets of which the second half of the first is the first half of the second."""
    return [[f"customer-{index:08d}" for index in range(start, start + count)] for start in (0, count // 2)]


def ours(sets: list[list[str]], workers: int) -> int:
    """Align two parties in threads of this process; bytes that crossed."""
    recorders: list[Recorder] = []

    def party(name: str, ids: list[str], channels: Any) -> int:
        (other,) = channels
        recorder = Recorder(channels[other])
        recorders.append(recorder)
        return align({other: recorder}, name, "bank", ids, workers=workers).common

    found = run_parties({name: partial(party, name, ids) for name, ids in zip(("bank", "shop"), sets, strict=True)})
    _check(found["bank"], sets)
    return sum(len(msgspec.msgpack.encode(message)) + 1 for recorder in recorders for message in recorder.sent)


def theirs(sets: list[list[str]]) -> int:
    """The same with openmined-psi; bytes of its messages."""
    import private_set_intersection.python as psi

    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(FALSE_POSITIVES, len(sets[0]), sets[1], psi.DataStructure.GCS)
    request = client.CreateRequest(sets[0])
    response = server.ProcessRequest(request)
    _check(len(client.GetIntersection(setup, response)), sets)
    return sum(len(message.SerializeToString()) for message in (setup, request, response))


def _check(found: int, sets: list[list[str]]) -> None:
    if found != len(sets[0]) - len(sets[0]) // 2:
        raise RuntimeError(f"{found} common ids were found among {len(sets[0])}")


def both_clocks(call: Callable[[], int]) -> tuple[float, float, int]:
    """CPU seconds of this process, wall seconds, and what the call returned."""
    cpu, wall = CPU(), WALL()
    result = call()
    return max(CPU() - cpu, SHORTEST), max(WALL() - wall, SHORTEST), result


def both_parties(pipe: Connection, count: int) -> None:
    """Align two parties in this process, and tell the wall seconds and the peak of memory."""
    sets = id_sets(count)

    def party(name: str, ids: list[str], channels: Any) -> int:
        return align(channels, name, "bank", ids).common

    start = WALL()
    found = run_parties({name: partial(party, name, ids) for name, ids in zip(("bank", "shop"), sets, strict=True)})
    _check(found["bank"], sets)
    pipe.send((WALL() - start, peak_memory()))


def _memory(count: int, judged: bool) -> list[Row]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=both_parties, args=(there, count), daemon=True).start()
    there.close()
    seconds, peak = here.recv()  # EOFError: it ended before
    title = f"{count:,} × {count:,} ids in one process, one worker each"
    return [
        Row(title, seconds, None, "s", "lower"),
        Row(f"{title}: peak memory of both", peak / MIB, None, "MiB", "lower", 1024 if judged else None, None, "ours"),
    ]


def run(options: Options) -> list[Row]:
    import private_set_intersection.python  # noqa: F401 # if it is missing, the user is told before anything is measured

    count = 3_000 if options.quick else 100_000
    memory = _memory(3_000 if options.quick else 1_000_000, judged=not options.quick)
    sets = id_sets(count)
    ours(id_sets(100), 1)
    theirs(id_sets(100))
    rounds: list[tuple[tuple[float, float, int], ...]] = []
    longest = 0.0
    while not rounds or (len(rounds) < 3 and options.budget.remaining() > longest):
        start = WALL()
        one, peer = both_clocks(lambda: ours(sets, 1)), both_clocks(lambda: theirs(sets))
        rounds.append((one, peer, both_clocks(lambda: ours(sets, 2))))
        longest = max(longest, WALL() - start)

    def median(side: int, figure: int) -> float:
        return statistics.median(measured[side][figure] for measured in rounds)

    title = f"{count:,} × {count:,} ids"
    wall_floor = None if options.quick else 3.0
    return [
        Row(f"{title}: CPU, one worker each", median(0, 0), median(1, 0), "s", "lower", 1.8),
        Row(f"{title}: wall, two workers each", median(2, 1), median(1, 1), "s", "lower", wall_floor),
        Row(f"{title}: bytes", median(0, 2), median(1, 2), "bytes", "lower"),
        *memory,
    ]
