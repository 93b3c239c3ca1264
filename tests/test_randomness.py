"""The generator: RFC vectors, reproducibility, and that no two processes or threads share a stream."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from tacit import randomness
from tacit.randomness import ChaCha20, is_secure, random_words, secure_rng, seeded_rng, shared_rng
from tests.subprocesses import until


def test_words_are_the_chacha20_keystream_of_rfc_8439():
    # Appendix A.1, test vector 1: zero key, zero nonce, counter 0.
    expected = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert ChaCha20(bytes(64), from_os=False).words(4).tobytes() == expected


def test_a_seed_repeats_and_seeds_differ():
    assert (random_words(seeded_rng(7), 100) == random_words(seeded_rng(7), 100)).all()
    assert (seeded_rng(7).integers(0, 2**60, 9) == seeded_rng(7).integers(0, 2**60, 9)).all()
    assert (random_words(seeded_rng(7), 9) != random_words(seeded_rng(8), 9)).all()
    assert (random_words(secure_rng(), 9) != random_words(secure_rng(), 9)).all()


def test_the_stream_does_not_depend_on_how_it_is_cut():
    whole, cut = seeded_rng(1), seeded_rng(1)
    pieces = np.concatenate([random_words(cut, n) for n in (1, 40_000, 3, 20_000)])
    assert (random_words(whole, pieces.size) == pieces).all()


def test_a_stream_takes_a_new_key_after_its_share(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(randomness, "_BYTES_PER_KEY", 1 << 17)
    rng = seeded_rng(1)
    first = random_words(rng, 1 << 14)
    second = random_words(rng, 1 << 14)
    monkeypatch.undo()
    plain = random_words(seeded_rng(1), 1 << 15)
    assert (first == plain[: 1 << 14]).all()
    assert (second != plain[1 << 14 :]).mean() > 0.99


def test_only_keys_from_the_system_count_as_secure():
    assert is_secure(secure_rng())
    assert not is_secure(seeded_rng(1))
    assert not is_secure(np.random.default_rng(1))


def test_any_numpy_generator_gives_words():
    assert random_words(np.random.default_rng(1), 5).dtype == np.uint64


def test_a_forked_child_draws_something_else():
    rng = secure_rng()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, random_words(rng, 2).tobytes() + rng.integers(0, 2**60, 2).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 32)
    ours = random_words(rng, 2).tobytes() + rng.integers(0, 2**60, 2).tobytes()
    assert theirs[:16] != ours[:16]
    assert theirs[16:] != ours[16:]


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.deepcopy])
def test_a_generator_is_not_duplicated(duplicate):
    with pytest.raises(TypeError, match="same noise"):
        duplicate(secure_rng())


def test_threads_never_get_the_same_words():
    rng = secure_rng()
    drawn: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: drawn.append(random_words(rng, 50_000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(np.unique(np.concatenate(drawn))) == 200_000


def test_bad_seeds_and_keys_are_refused():
    with pytest.raises(ValueError, match="-1"):
        seeded_rng(-1)
    with pytest.raises(ValueError, match="64 bytes, got 3"):
        ChaCha20(b"abc", from_os=False)


def test_a_fork_while_another_thread_draws_does_not_hang():
    rng = secure_rng()
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            rng.random(300_000)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                rng.random()
                random_words(rng, 4)
                os._exit(7)
            ended = []
            try:
                until(lambda child=child, ended=ended: ended.extend(os.waitpid(child, os.WNOHANG)) or ended[-2])  # type: ignore[misc]
            except AssertionError:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise
            assert os.waitstatus_to_exitcode(ended[-1]) == 7
    finally:
        stop.set()
        thread.join()


def test_every_generator_keyed_from_the_system_takes_a_new_key_in_a_child():
    made = Generator(ChaCha20(os.urandom(64), from_os=True))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, random_words(made, 2).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 16) != random_words(made, 2).tobytes()


def test_draws_are_serialised():
    """Without the lock two threads would get the same keystream, or a broken one."""
    bit_generator: Any = secure_rng().bit_generator
    with bit_generator._words_lock:
        thread = threading.Thread(target=bit_generator.words, args=(10,))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join()


def test_all_who_hold_a_secret_draw_the_same_numbers_and_others_do_not():
    secret = bytes(range(64))
    drawn = shared_rng(secret).random(100)
    assert np.array_equal(drawn, shared_rng(secret).random(100))
    assert not np.isin(drawn, shared_rng(secret[::-1]).random(100)).any()
    with pytest.raises(ValueError, match="a shared secret has 32 bytes or more, got 31"):
        shared_rng(secret[:31])
