"""The engine on Ray: what the driver holds, what it costs compared with one process, and unmasking by two workers.

- A round of 1000 clients with 1,000,000 floats whose training does nothing. The driver's memory is what its process
  holds for itself (RssAnon) at its largest, above what it held with the cluster running and a small round behind it;
  Ray's object store is shared memory and counted by itself.
- The same round in one process, for the price of Ray where there is only one machine.
- The masks of a sum of 10,000,000 columns, by one worker and by two, one thread each, alternating. On a machine whose
  cores others use as well, the fastest of each is what tells.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from bench.measure import Options, Row
from bench.simulation import Still
from tacit.events import Kept, RoundFinished
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine

SIZE = 1_000_000
COLUMNS = 10_000_000
WORKERS = 2


def make_task(clients: int, seed: int, size: int) -> Still:
    return Still(size)


def federation(clients: int, size: int, encrypt_type: str, rounds: int = 1) -> Settings:
    return Settings(
        task="bench.ray:make_task",
        task_options={"size": size},
        clients=clients,
        rounds=rounds,
        encrypt={"encrypt_type": encrypt_type},
        engine={"kind": "ray", "workers": WORKERS},
    )


class Resident:
    """The largest memory of this process while a block runs: its own, and what it shares."""

    def __enter__(self) -> Resident:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        self._over = threading.Event()
        self.own, self.shared = self._start = _resident()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.001):
            own, shared = _resident()
            self.own, self.shared = max(self.own, own), max(self.shared, shared)

    def __exit__(self, *ended: object) -> None:
        self._over.set()
        self._thread.join()
        self.own -= self._start[0]
        self.shared -= self._start[1]


def _resident() -> tuple[int, int]:
    text = Path("/proc/self/status").read_text()
    return tuple(1024 * int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in ("RssAnon", "RssShmem"))  # type: ignore[index,return-value]


def _processor(pid: int) -> float:
    """The seconds that a process has computed."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def driver(clients: int, encrypt_type: str, rounds: int) -> dict[str, object]:
    """One run on Ray, in this process: its rounds' seconds, and its memory in models."""
    from tacit.kinds.horizontal.simulate.ray_engine import RayEngine
    from tacit.ray.cluster import cluster

    def carried_out(settings: Settings) -> tuple[list[float], list[float]]:
        kept, workers = Kept(), set()
        marks: list[float] = []
        engine = RayEngine(settings, Still(settings.task_options["size"]), kept, started=workers.update)
        engine.run(store=lambda coordinator: marks.append(time.process_time() + sum(map(_processor, workers))))
        seconds = [event.seconds for event in kept.events if isinstance(event, RoundFinished)]
        return seconds, [after - before for before, after in zip(marks[::2], marks[1::2], strict=False)]

    engine = federation(clients, SIZE, encrypt_type).engine
    with cluster(engine.address, engine.workers):
        carried_out(federation(max(20, clients // 10), 1000, encrypt_type))
        with Resident() as held:
            seconds, processor = carried_out(federation(clients, SIZE, encrypt_type, rounds))
    return {
        "seconds": seconds,
        "processor": processor,
        "own": held.own / (4 * SIZE),
        "shared": held.shared / (4 * SIZE),
    }


def _apart(clients: int, encrypt_type: str, rounds: int) -> dict[str, object]:
    """The same in a process of its own, whose memory nothing else has used before."""
    code = (
        f"import json; from bench.ray import driver; print(json.dumps(driver({clients}, {encrypt_type!r}, {rounds})))"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)  # noqa: S603
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def in_memory(clients: int, rounds: int) -> tuple[list[float], list[float]]:
    """The wall time of each round, and its processor time."""
    kept = Kept()
    marks: list[float] = []
    engine = MemoryEngine(federation(clients, SIZE, "NOT_ENCRYPT", rounds), Still(SIZE), kept)
    engine.run(store=lambda coordinator: marks.append(time.process_time()))
    seconds = [event.seconds for event in kept.events if isinstance(event, RoundFinished)]
    return seconds, [after - before for before, after in zip(marks[::2], marks[1::2], strict=False)]


def unmasking(masks: int, pairs: int) -> dict[int, list[tuple[float, float]]]:
    """By two workers and by one, alternating: wall seconds, and processor seconds on the longest path.

    The longest path is what the busiest worker and the driver computed: the wall time, had each a core of its own.
    """
    from tacit.ray.cluster import SpreadUnmasking, _masks, cluster
    from tacit.secagg.unmask import Plan, Words, plan_of, unmask

    rng = np.random.default_rng(3)
    plan = plan_of([(rng.bytes(16), 1 if i % 2 else -1) for i in range(masks)])
    some = rng.integers(0, 2**32, COLUMNS, dtype=np.uint32)
    found: dict[int, list[tuple[float, float]]] = {2: [], 1: []}
    engine = federation(10, 10, "NOT_ENCRYPT").engine
    with tempfile.TemporaryDirectory() as folder, cluster(engine.address, engine.workers) as ray:

        def timed(plan: Plan, first: int, columns: int, dtype: str) -> Words:
            start = time.process_time()
            words = _masks(plan, first, columns, dtype)
            with Path(folder, str(os.getpid())).open("a") as file:
                file.write(f"{time.process_time() - start}\n")
            return words

        def once(workers: int) -> Words:
            words, spread = some.copy(), SpreadUnmasking(ray, workers)
            spread._task = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(timed)
            wall, processor = time.perf_counter(), time.process_time()
            spread(words, plan, [0, COLUMNS])
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            notes = list(Path(folder).iterdir())
            busiest = max(sum(map(float, note.read_text().split())) for note in notes)
            for note in notes:
                note.unlink()
            found[workers].append((wall, busiest + processor))
            return words

        for turn in range(pairs + 1):
            if (once(2) != once(1)).any():
                raise RuntimeError("two workers and one do not agree")
            if turn == 0:  # which starts the workers' processes
                found = {2: [], 1: []}
        words = once(2)
    start_column = COLUMNS // 3
    check = some[start_column : start_column + 1000].copy()
    unmask(check, plan, first_column=start_column)
    if (check != words[start_column : start_column + 1000]).any():
        raise RuntimeError("the masks are wrong")
    return found


def run(options: Options) -> list[Row]:
    import ray  # noqa: F401 -- if it is missing, the user is told the extra

    clients, rounds = (100, 2) if options.quick else (1000, 3)
    title = f"{clients} clients, {SIZE:,} floats"
    clear = _apart(clients, "NOT_ENCRYPT", rounds)
    own = Row(f"driver's memory, {title}", clear["own"], None, "models", "lower", floor=6, target=5, judged="ours")  # type: ignore[arg-type]
    rows = [own, Row(f"driver's view of the object store, {title}", clear["shared"], None, "models", "lower")]  # type: ignore[arg-type]
    wall, processor = in_memory(clients, rounds)
    for what, ours, peer in (("processor time", clear["processor"], processor), ("wall time", clear["seconds"], wall)):
        name = f"{what} of a round on Ray against memory, {title}"
        rows.append(Row(name, statistics.median(ours), statistics.median(peer), "s", "lower"))  # type: ignore[call-overload]
    if not options.quick:
        masked = _apart(clients, "PW_ENCRYPT", 1)
        rows.append(Row(f"driver's memory under masks, {title}", masked["own"], None, "models", "lower"))  # type: ignore[arg-type]
        rows.append(Row(f"a masked round on Ray, {title}", masked["seconds"][0], None, "s", "lower"))  # type: ignore[index]
    masks = 100 if options.quick else 400
    found = unmasking(masks, 2 if options.quick else 5)
    name = f"unmasking by 2 workers against 1, {COLUMNS:,} columns, {masks} masks"
    for place, what in enumerate(("wall time", "processor time on the longest path")):
        two, one = (min(times[place] for times in found[workers]) for workers in (2, 1))
        floor = None if options.quick else 1.6
        rows.append(Row(f"{what} of {name}", two, one, "s", "lower", floor, None if floor is None else 1.8))
    return rows
