"""A party's first weights are those of its seed, whatever other parties of the process draw."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import torch

from tacit.kinds.split.initial_weights import first_weights
from tests.subprocesses import HANGS

SEAT = SimpleNamespace(secret=False)


def drawn(seed: int) -> list[float]:
    with first_weights(SEAT, seed):
        return torch.rand(4).tolist()


def test_parties_in_threads_draw_from_their_own_seeds():
    """Each is about to draw when the other one is: the second has to wait, or both would draw from its seed."""
    alone = {seed: drawn(seed) for seed in (1, 2)}
    second_is_in, first_has_drawn, found = threading.Event(), threading.Event(), {}

    def second() -> None:
        with first_weights(SEAT, 2):
            second_is_in.set()
            first_has_drawn.wait(HANGS)
            found[2] = torch.rand(4).tolist()

    thread = threading.Thread(target=second)
    with first_weights(SEAT, 1):
        thread.start()
        second_is_in.wait(0.5)  # in vain
        found[1] = torch.rand(4).tolist()
        first_has_drawn.set()
    thread.join(HANGS)
    assert found == alone


def test_the_generator_of_the_process_is_left_as_it_was():
    torch.manual_seed(5)
    expected = torch.rand(3).tolist()
    torch.manual_seed(5)
    drawn(1)
    assert torch.rand(3).tolist() == expected
