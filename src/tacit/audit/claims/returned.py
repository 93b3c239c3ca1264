"""The dictionary that a function of the audited code returns, checked for its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def keyed(made: object, needed: Sequence[str], optional: Sequence[str]) -> Mapping[str, Any]:
    """What was returned, if it is a dictionary with all needed keys and no unknown one; ValueError otherwise."""
    if not isinstance(made, Mapping):
        raise ValueError(f"it must return a dictionary with {', '.join(needed)}, got {type(made).__name__}")
    lacking = [key for key in needed if key not in made]
    if lacking:
        raise ValueError(f"what it returns lacks {', '.join(lacking)}")
    known = (*needed, *optional)
    unknown = [str(key) for key in made if key not in known]
    if unknown:
        raise ValueError(f"what it returns has unknown keys {', '.join(unknown)}: known are {', '.join(known)}")
    return made
