"""What a model says about rows, as a table and as a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.store.files import replace_file


@dataclass(frozen=True, slots=True)
class Scores:
    """Rows with what the model says about them; the first column is the id."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


def write_scores(scores: Scores, output: Path) -> None:
    """Store the scores as CSV, in one step."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(scores.header)
    writer.writerows(scores.rows)
    replace_file(output, text.getvalue().encode())
