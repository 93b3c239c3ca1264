"""Bring what was written under the names of a settings model, and remember where each value came from.

A key may be written under another name (`encrypt_train_type`), or one level up from its section (`encrypt.dp_eps`).
After placing, each stands once, nested and under its own name, so that a later source replaces it however either of
them spelled it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel

from tacit.config.source import Keys, Source


@dataclass(frozen=True, slots=True)
class Origin:
    """How a key was written."""

    where: str  # how an error about it begins
    key: str


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a key belongs, seen from the section it is written in."""

    keys: Keys
    section: type[BaseModel] | None  # if its value is a section again


def spots(model: type[BaseModel]) -> dict[str, Spot]:
    """Every key that may stand in a section."""
    found: dict[str, Spot] = {}
    flat: dict[str, type[BaseModel]] = getattr(model, "flat", {})
    for before, section in [((), model), *(((outer,), inner) for outer, inner in flat.items())]:
        for name, info in section.model_fields.items():
            spot = Spot((*before, name), _section(info.annotation))
            found |= dict.fromkeys((name, info.alias or name), spot)
    return found


def _section(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


@dataclass(slots=True)
class Placed:
    """Values under the model's names, where they were written, and keys that one source gave in two spellings."""

    model: type[BaseModel]
    data: dict[str, Any] = field(default_factory=dict)
    origins: dict[Keys, Origin] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    def add(self, source: Source) -> None:
        """Take over what a source says. It replaces what earlier ones said of the same keys."""
        self.origins.setdefault((), Origin(source.where(), ""))
        self._take(source, source.data, (), self.model, self.data, (), {})

    def origin(self, path: Keys) -> Origin:
        """How a key was written, or else the section around it."""
        end = next(end for end in range(len(path), -1, -1) if path[:end] in self.origins)
        written = self.origins[path[:end]]
        return Origin(written.where, ".".join(key for key in (written.key, *path[end:]) if key))

    def _take(
        self,
        source: Source,
        values: dict[Any, Any],
        written: Keys,  # the keys that lead to these values, as written
        model: type[BaseModel] | None,  # None: any key may stand here
        target: dict[Any, Any],
        path: Keys,  # the keys that lead to the target
        given: dict[Keys, str],
    ) -> None:
        known = spots(model) if model else {}
        for key, value in values.items():
            spot = known.get(key, Spot((str(key),), None))
            here, there = (*written, str(key)), (*path, *spot.keys)
            origin = self.origins[there] = Origin(source.where(here), ".".join(here))
            place = target
            for outer in spot.keys[:-1]:
                place = _opened(place, outer)
            name = spot.keys[-1] if model else key
            if isinstance(value, dict):
                self._take(source, value, here, spot.section, _opened(place, name), there, given)
                continue
            if given.setdefault(there, origin.key) != origin.key:
                self.conflicts.append(f"{origin.where}{origin.key} is the same key as {given[there]}: keep one of them")
            place[name] = value


def _opened(target: dict[Any, Any], key: Any) -> dict[Any, Any]:
    """The section of that name, made if there is none."""
    if not isinstance(target.get(key), dict):
        target[key] = {}
    section: dict[Any, Any] = target[key]
    return section
