"""An error in the code of a task: what its author needs to see of the traceback."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from pathlib import Path

import tacit

_FRAME = re.compile(r'  File "(.+?)", line \d+, in .+\n(?:    .*\n)*')
_INSTALLED = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_NOT_THEIRS = tuple(f"{Path(folder).resolve()}{os.sep}" for folder in (str(Path(tacit.__file__).parent), *_INSTALLED))


def task_traceback(error: BaseException) -> str | None:
    """The traceback with the frames of the user's own code alone; None if there are none.

    Frames of Tacit, Python and installed packages are left out. An error of a worker process has its frames as text.
    """
    remote = str(getattr(error.__cause__, "tb", ""))
    frames = _FRAME.finditer(remote + "".join(traceback.format_tb(error.__traceback__)))
    own = [frame[0] for frame in frames if _theirs(frame[1])]
    if not own:
        return None
    last = "".join(traceback.format_exception_only(error))
    return (
        f"The task failed. Traceback, with the frames of your code only (most recent call last):\n{''.join(own)}{last}"
    )


def _theirs(name: str) -> bool:
    return not name.startswith("<") and not str(Path(name).resolve()).startswith(_NOT_THEIRS)
