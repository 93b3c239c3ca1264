"""A pool of processes gives what one process gives, and ends with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit.crypto import paillier
from tacit.crypto.paillier import Workers
from tests.subprocesses import HANGS, launch, until

KEY = paillier.generate(512, insecure_bits=True)
PUBLIC = KEY.public


@pytest.fixture(scope="module", params=[1, 2])
def workers(request):
    with Workers(request.param) as pool:
        yield pool


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_every_operation_gives_the_same_as_the_key(workers, count):
    rng = np.random.default_rng(count)
    values = rng.integers(-(2**40), 2**40, count).tolist()
    vector = workers.encrypt(KEY, values)
    assert KEY.decrypt(vector) == values
    assert KEY.decrypt(workers.encrypt(PUBLIC, values)) == values
    assert workers.decrypt(KEY, vector) == values
    assert workers.decrypt_unsigned(KEY, vector) == KEY.decrypt_unsigned(vector)
    again = workers.rerandomize(PUBLIC, vector)
    assert KEY.decrypt(again) == values
    assert not set(again.values) & set(vector.values)
    for rows in (1, 2, 5):
        matrix = rng.integers(-(2**20), 2**20, (rows, count))
        assert workers.multiply(PUBLIC, matrix, vector) == PUBLIC.multiply(matrix, vector)
        groups = rng.integers(0, 7, (rows, count))
        assert workers.sums(PUBLIC, groups, 7, vector) == PUBLIC.sums(groups, 7, vector)


def test_mistakes_are_found_before_anything_is_sent(workers):
    other = paillier.generate(512, insecure_bits=True)
    foreign = other.encrypt([1, 2])
    ones = np.ones((2, 2), dtype=np.int64)
    with pytest.raises(ValueError, match="value 1 has 512 bits"):
        workers.encrypt(KEY, [0, PUBLIC.n])
    with pytest.raises(ValueError, match="another key"):
        workers.decrypt(KEY, foreign)
    with pytest.raises(ValueError, match="another key"):
        workers.rerandomize(PUBLIC, foreign)
    with pytest.raises(ValueError, match="another key"):
        workers.multiply(PUBLIC, ones, foreign)
    with pytest.raises(ValueError, match="another key"):
        workers.sums(PUBLIC, ones, 2, foreign)
    with pytest.raises(ValueError, match="numbered from 0 to 0, got 1 to 1"):
        workers.sums(PUBLIC, ones, 1, KEY.encrypt([1, 2]))
    with pytest.raises(ValueError, match="with 2 columns"):
        workers.sums(PUBLIC, ones[:, :1], 2, KEY.encrypt([1, 2]))
    with pytest.raises(ValueError, match="can leave the plaintexts"):
        workers.multiply(PUBLIC, ones, KEY.encrypt([1, 2]), bound=PUBLIC.n)


def test_closed_workers_say_so():
    pool = Workers(2)
    pool.close()
    pool.close()
    with pytest.raises(ValueError, match="these workers are closed"):
        pool.encrypt(KEY, [1, 2])


@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_worker(count):
    with pytest.raises(ValueError, match="workers must be 1 or more"):
        Workers(count)


SCRIPT = """
import multiprocessing, sys, time
from tacit.crypto import paillier
if __name__ == "__main__":
    key = paillier.generate(512, insecure_bits=True)
    pool = paillier.Workers(2)
    assert key.decrypt(pool.encrypt(key, list(range(40)))) == list(range(40))
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    if sys.argv[1] == "wait":
        time.sleep(3600)
"""


def gone(pid):
    """Ended, or waiting for a parent that never asks."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("ending", ["return", "wait"])
def test_the_processes_end_with_the_one_that_started_them(ending, tmp_path):
    """Without `close`: when the script ends, and when it is killed."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = launch([sys.executable, str(script), ending], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2
    if ending == "wait":
        process.send_signal(signal.SIGKILL)
    process.wait(HANGS)
    until(lambda: all(map(gone, pids)))
