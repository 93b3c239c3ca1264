"""Read a file: `load` returns its settings, or raises a `ConfigError` that says where to look."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tacit.config.explain import explain
from tacit.config.source import ConfigError, Source, from_dict, from_file, from_override, to_yaml
from tacit.config.spelling import Placed
from tacit.sections import Settings
from tacit.sections import flat as flat_items

__all__ = ["ConfigError", "fingerprint_without", "flat", "load", "resolved", "write_folder", "write_starter"]

ModelOf = Callable[[Any, str], type[Settings]]  # of a kind's name, None if no source gives one, and where it stands


def load(source: str | Path | Mapping[str, Any], overrides: Sequence[str], model_of: ModelOf) -> Settings:
    """The settings in a file or a dict, after overrides such as `encrypt.dp_eps=8`."""
    first = from_dict(source) if isinstance(source, Mapping) else from_file(Path(source))
    sources = [first, *(from_override(text) for text in overrides)]
    model = model_of(*_kind(sources))
    placed = Placed(model)
    for each in sources:
        placed.add(each)
    try:
        settings = model.model_validate(placed.data)
    except ValidationError as error:
        raise ConfigError("\n".join([*placed.conflicts, *explain(error, placed)])) from None
    if placed.conflicts:
        raise ConfigError("\n".join(placed.conflicts))
    return settings


def resolved(settings: Settings) -> str:
    """The settings as YAML with every default filled in. Python objects among a task's options stand as their type."""
    return to_yaml(settings.model_dump(mode="json", fallback=lambda value: f"<{type(value).__name__}>"))


def fingerprint_without(free: Collection[str], settings: Settings) -> str:
    """A digest of the settings but for the keys that are `free` to change."""
    fixed = {key: value for key, value in flat(settings) if key not in free}
    return hashlib.sha256(json.dumps(fixed, sort_keys=True, default=str).encode()).hexdigest()


def flat(settings: Settings) -> list[tuple[str, Any]]:
    """Each value with its key, as in `encrypt.dp_encrypt.dp_eps`."""
    return list(flat_items(settings.model_dump(mode="json", fallback=lambda value: f"<{type(value).__name__}>")))


def write_starter(text: str, path: Path, *, overwrite: bool = False) -> None:
    """Write a file to start from."""
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except (FileExistsError, IsADirectoryError):
        if path.is_dir():
            raise ConfigError(f"{path} is a folder: name a file in it") from None
        raise ConfigError(f"{path} exists: choose another name, or overwrite it with --force") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def write_folder(texts: Mapping[str, str], path: Path, *, overwrite: bool = False) -> None:
    """Write a folder to start from. Files of other names that it holds already are left alone."""
    there = [name for name in texts if (path / name).exists()]
    if there and not overwrite:
        raise ConfigError(f"{path / there[0]} exists: choose another folder, or overwrite its files with --force")
    try:
        path.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (path / name).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise ConfigError(f"{path} is a file: name a folder, or a file that ends with .yaml") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _kind(sources: Sequence[Source]) -> tuple[Any, str]:
    """The kind that the last source to name one gives, and where."""
    for source in reversed(sources):
        if "kind" in source.data:
            return source.data["kind"], source.where(("kind",))
    return None, sources[0].where()
