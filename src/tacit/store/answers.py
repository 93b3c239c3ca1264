"""What a party has answered with one model: `answers.jsonl` in the folder of its part, one line a prediction.

    Answers(folder).spend(rows, budget, ids=digest, now=time.time())    before anything is sent

A line holds how many rows were answered, how many with this model in all, when, and a digest of their ids; never an id.
It is on disk before `spend` returns, so that no answer is missing in the file, whatever happens after. Rows that are
asked about again count again.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

from tacit.errors import BudgetError
from tacit.store.files import sync_folder

FILE = "answers.jsonl"
_BEGINNING = re.compile(r'\{"total": (\d+), "rows": (\d+),')  # of a line, perhaps cut off behind it


class Answers:
    """The log of one party's answers."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def spend(self, rows: int, budget: int | None, *, ids: bytes, now: float) -> int:
        """Write down that so many rows are about to be answered; how many it makes in all.

        Raises BudgetError if that is above the budget, or if nobody can tell because a line was cut off: nothing is
        written then, and nothing may be sent. Of two processes at once the second one waits for the first one's line.

        Args:
            ids: a digest of the rows' ids.
            now: seconds since 1970.
        """
        opened = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(opened, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            written = file.read()
            lines = written.decode(errors="replace").splitlines()
            found = [_BEGINNING.match(line) for line in lines if line]
            total = max([sum(int(each[2]) for each in found if each), *(int(each[1]) for each in found if each), 0])
            if budget is not None:
                self._check(rows, total, budget, whole=all(found))
            line = {
                "total": total + rows,
                "rows": rows,
                "time": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
                "ids": ids.hex(),
            }
            cut_off = bool(written) and not written.endswith(b"\n")
            file.write(b"\n" * cut_off + json.dumps(line).encode() + b"\n")
            os.fsync(file.fileno())
            sync_folder(self.path.parent)
        return total + rows

    def _check(self, rows: int, total: int, budget: int, *, whole: bool) -> None:
        if not whole:
            raise BudgetError(
                f"{self.path}: a line is cut off, so the number of rows that it answered is unknown, and nothing was "
                "sent: complete it in the form of the other lines, with the most rows that it may stand for"
            )
        if total + rows > budget:
            raise BudgetError(
                f"predict.budget lets this party answer {budget:,} rows with one model: {total:,} are answered, and "
                f"{rows:,} more were asked for, so no score was sent. Ask for fewer, or raise it in your own file"
            )
