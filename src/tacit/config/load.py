"""Read a federation's file: `load` returns its settings, or raises a `ConfigError` that says where to look."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tacit import kind as kinds
from tacit.config.explain import explain, nearest
from tacit.config.source import ConfigError, Source, from_dict, from_file, from_override, to_yaml
from tacit.config.spelling import Placed
from tacit.kinds.horizontal.settings import Settings as Horizontal
from tacit.kinds.private_training.settings import Settings as PrivateTraining
from tacit.kinds.split.settings import Settings as Split
from tacit.kinds.vertical_logistic.settings import Settings as VerticalLogistic
from tacit.sections import flat as flat_items

__all__ = [
    "KINDS",
    "ConfigError",
    "Settings",
    "changeable",
    "fingerprint",
    "flat",
    "load",
    "load_horizontal",
    "resolved",
    "starter",
    "write_starter",
]

Settings = Horizontal | PrivateTraining | VerticalLogistic | Split
KINDS: dict[str, type[Settings]] = {
    "horizontal": Horizontal,
    "private_training": PrivateTraining,
    "vertical_logistic": VerticalLogistic,
    "split": Split,
}


def load(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Settings:
    """The settings in a file or a dict, after overrides such as `encrypt.dp_eps=8`."""
    first = from_dict(source) if isinstance(source, Mapping) else from_file(Path(source))
    sources = [first, *(from_override(text) for text in overrides)]
    model = _kind(sources)
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


def load_horizontal(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Horizontal:
    """The same, where only a horizontal federation will do."""
    settings = load(source, overrides)
    if not isinstance(settings, Horizontal):
        raise ConfigError(f"kind is {settings.kind}: only a horizontal federation can be run like this")
    return settings


def resolved(settings: Settings) -> str:
    """The settings as YAML with every default filled in. Python objects among a task's options stand as their type."""
    return to_yaml(settings.model_dump(mode="json", fallback=lambda value: f"<{type(value).__name__}>"))


def fingerprint(settings: Settings) -> str:
    """A digest of the settings that a resumed run must not change."""
    fixed = {key: value for key, value in flat(settings) if not changeable(key, settings)}
    return hashlib.sha256(json.dumps(fixed, sort_keys=True, default=str).encode()).hexdigest()


def changeable(key: str, stored: Settings) -> bool:
    """Whether a resumed run may change this key: what its kind allows, and how a party treats its network."""
    return key in kinds.of(stored).may_change(stored) or key.partition(".")[0] == "network"


def flat(settings: Settings) -> list[tuple[str, Any]]:
    """Each value with its key, as in `encrypt.dp_encrypt.dp_eps`."""
    return list(flat_items(settings.model_dump(mode="json", fallback=lambda value: f"<{type(value).__name__}>")))


def starter(kind: str) -> str:
    """A commented file to start from."""
    _known(kind)
    return files(f"tacit.kinds.{kind}").joinpath("starter.yaml").read_text(encoding="utf-8")


def write_starter(kind: str, path: Path, *, overwrite: bool = False) -> None:
    """Write a file to start from."""
    text = starter(kind)
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except (FileExistsError, IsADirectoryError):
        if path.is_dir():
            raise ConfigError(f"{path} is a folder: name a file in it") from None
        raise ConfigError(f"{path} exists: choose another name, or overwrite it with --force") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _kind(sources: Sequence[Source]) -> type[Settings]:
    """The model that the last source to name a kind stands for."""
    for source in reversed(sources):
        if "kind" in source.data:
            return KINDS[_known(source.data["kind"], source.where(("kind",)))]
    raise ConfigError(f"{sources[0].where()}kind is missing: give {' or '.join(KINDS)}")


def _known(kind: Any, where: str = "") -> str:
    if not isinstance(kind, str) or kind not in KINDS:
        near = nearest(str(kind), KINDS)
        advice = f"did you mean {near}?" if near else f"give {' or '.join(KINDS)}"
        raise ConfigError(f"{where}kind is {kind!r}, which does not exist: {advice}")
    return kind
