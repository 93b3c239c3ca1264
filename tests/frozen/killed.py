"""A process that starts a run and dies before it replaces a file for the n-th time: python -m tests.frozen.killed"""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path

from tests.frozen import observed

if __name__ == "__main__":
    kind, place, last = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    replace, numbers = Path.replace, count(1)

    def counted(self: Path, target: Path) -> Path:
        if next(numbers) == last:
            os._exit(0)
        return replace(self, target)

    Path.replace = counted
    observed.run_of(kind, place)
    sys.exit(f"the run ended: it replaced files {next(numbers) - 1} times")
