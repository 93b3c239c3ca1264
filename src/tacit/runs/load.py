"""Reading a file of any kind that is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.config import load as config
from tacit.kind import model_of
from tacit.sections import Settings


def load(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Settings:
    """The settings in a file or a dict, after overrides such as `encrypt.dp_eps=8`."""
    return config.load(source, overrides, model_of)
