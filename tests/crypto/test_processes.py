"""Chunks on several processes: in order, a few ahead, and errors where they are asked for."""

import operator
import os
import sys
from functools import partial

import pytest

from tacit.crypto.curve import Scalar, multiply
from tacit.crypto.processes import Pool, Processes
from tacit.errors import PeerError


def test_one_worker_stays_in_this_thread_and_takes_one_chunk_at_a_time():
    taken = []
    with Processes(1) as processes:
        results = processes.map(
            lambda chunk: (chunk, os.getpid()), (taken.append(index) or index for index in range(9))
        )
        assert next(results) == (0, os.getpid())
        assert taken == [0]


def test_two_workers_answer_in_order_a_few_chunks_ahead_and_pass_errors_on():
    taken = []
    with Processes(2) as processes:
        results = processes.map(partial(operator.mul, 3), (taken.append(index) or index for index in range(100)))
        assert next(results) == 0
        assert len(taken) <= 6
        assert list(results) == [3 * index for index in range(1, 100)]
        with pytest.raises(PeerError, match="small order"):
            list(processes.map(partial(multiply, Scalar.generate()), [bytes(32)]))


def test_no_worker_is_the_callers_mistake():
    with pytest.raises(ValueError, match="1 or more, got 0"):
        Processes(0)


def _fail(reason):
    raise PeerError(reason)


def test_an_error_at_the_start_of_a_process_is_raised_by_what_is_submitted():
    with Pool(1, _fail, "no key") as pool:
        for _ in range(2):
            with pytest.raises(PeerError, match="no key"):
                pool.submit(operator.mul, 2, 3).result()


def test_processes_do_not_import_the_script_that_runs():
    before = sys.modules["__main__"]
    with Pool(1) as pool:
        assert pool.submit(eval, "__import__('sys').modules['__main__']._imported").result() is False
    assert sys.modules["__main__"] is before
