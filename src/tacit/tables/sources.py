"""Where a table comes from: a file, a query or a frame."""

from __future__ import annotations

from pathlib import Path

from tacit.tables.assembly import without_copies
from tacit.tables.cells import Raw
from tacit.tables.files import read_file
from tacit.tables.frames import read_frame
from tacit.tables.settings import Data
from tacit.tables.sql import read_query


def read(data: Data, folder: Path) -> Raw:
    """The table that a section `data` names, as its source gives it. Paths are relative to `folder`."""
    if data.path is not None:
        return without_copies(read_file(folder / data.path))
    return without_copies(read_query(data.source, folder) if data.source is not None else read_frame(data.frame))
