"""Where the random generators stand that a loop may draw from without naming one: torch's, numpy's and Python's."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Generators:
    """A moment to which the default generators can be put back. Generators that a loop makes itself are not seen."""

    cpu: Tensor
    device: tuple[Tensor, ...]  # of the accelerators, where there are any
    numpy: Any
    python: Any

    @classmethod
    def now(cls) -> Generators:
        cuda = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()
        return cls(torch.get_rng_state(), cuda, np.random.get_state(), random.getstate())  # noqa: NPY002

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.device:
            torch.cuda.set_rng_state_all(self.device)
        np.random.set_state(self.numpy)  # noqa: NPY002
        random.setstate(self.python)

    def same(self, other: Generators) -> bool:
        """Whether nothing was drawn between the two."""
        return (
            torch.equal(self.cpu, other.cpu)
            and len(self.device) == len(other.device)
            and all(map(torch.equal, self.device, other.device))
            and self.python == other.python
            and self.numpy[2:] == other.numpy[2:]
            and np.array_equal(self.numpy[1], other.numpy[1])
        )


def seeded(seed: int) -> None:
    """Put the default generators where a seed of 32 bits has them."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
