"""What a party's first weights are drawn from.

In a simulation that is the file's seed, so that it can be repeated. Over a network all parties know the seed, and who
knows the first network before a cut can read what crosses it: there they are drawn from the operating system.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from tacit.kinds.split.task import Seat

_FIRST, _WORDS = 24, 624  # where the words of the Mersenne Twister begin in torch's state, and how many there are

_ONE_AT_A_TIME = threading.RLock()  # parties in threads of one process would draw from each other's seeds


@contextmanager
def first_weights(seat: Seat, seed: int) -> Iterator[None]:
    """Have torch draw from `seed` in a simulation, and from the operating system where the weights are secret."""
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
        if seat.secret:
            torch.set_rng_state(_secret_state())
        else:
            torch.manual_seed(seed)
        yield


def _secret_state() -> Tensor:
    """A state of torch's generator that nobody can search for: of a seed it takes 32 bits only."""
    state = torch.Generator().manual_seed(0).get_state().numpy().copy()
    words = state[_FIRST : _FIRST + 8 * _WORDS].view(np.uint64)
    words[:] = np.frombuffer(secrets.token_bytes(4 * _WORDS), dtype=np.uint32)
    return torch.from_numpy(state)
