"""Where each key was written: in a file, in a dict, or after `--set`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Keys = tuple[str, ...]

# YAML 1.1 reads 1e-5 as text, for want of a dot; everybody means the number.
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$")


class ConfigError(ValueError):
    """The file, or a key given on the command line, is not what a federation needs. One line for each mistake."""


@dataclass(frozen=True, slots=True)
class Source:
    """Keys and values as they were written, and on which lines."""

    name: str  # of the file, or the `--set` with its text; empty for a dict
    data: dict[str, Any]
    lines: dict[Keys, int] = field(default_factory=dict)

    def where(self, keys: Keys = ()) -> str:
        """How an error about a key begins."""
        line = next((self.lines[keys[:end]] for end in range(len(keys), 0, -1) if keys[:end] in self.lines), None)
        return f"{self.name}:{line}: " if line is not None else f"{self.name}: " if self.name else ""


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not taken: write the value out", problem_mark=mark)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Writes what `_Loader` reads back as the same value."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _reader_or_writer in (_Loader, _Dumper):
    _reader_or_writer.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def from_file(path: Path) -> Source:
    """Read a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; `tacit init` writes one to start from") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: it is a folder: give the file in it, such as {path / 'fleet.yaml'}") from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: it is not text in UTF-8: save it as such") from error
    data, node = _parse(text, str(path))
    if not isinstance(data, dict):
        found = "is empty" if data is None else "holds no keys"
        raise ConfigError(f"{path}: the file {found}; `tacit init` writes one to start from")
    return Source(str(path), data, _lines(node, str(path)))


def from_override(text: str) -> Source:
    """Read the `key=value` of one `--set`."""
    name = f"--set {text}"
    key, equals, value = text.partition("=")
    keys = key.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(f"{name}: write it as key=value, for example rounds=5 or encrypt.dp_eps=8")
    data, node = _parse(value, name)
    _lines(node, name)
    for part in reversed(keys):
        data = {part: data}
    return Source(name, data)


def from_dict(data: Mapping[str, Any]) -> Source:
    return Source("", dict(data))


def to_yaml(data: dict[str, Any]) -> str:
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False)  # escapes in place of letters: some do not come back
    return text


def _parse(text: str, name: str) -> tuple[Any, yaml.Node | None]:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return (None, None) if node is None else (loader.construct_document(node), node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark and not name.startswith("--set") else ""
        advice = ": indent with spaces, not with tabs" if "'\\t'" in (error.problem or "") else ""
        raise ConfigError(f"{name}{line}: it is not YAML that can be read: {error.problem}{advice}") from error
    except (yaml.YAMLError, ValueError) as error:  # odd characters; or a date with a 13th month, and the like
        raise ConfigError(f"{name}: it is not YAML that can be read: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise ConfigError(f"{name}: it is not YAML that can be read: it is nested too deeply") from None


def _lines(node: yaml.Node | None, name: str) -> dict[Keys, int]:
    """The line of each key. A key that stands twice in one place is an error: one of the values would be lost."""
    found: dict[Keys, int] = {}
    twice: list[str] = []

    def walk(node: yaml.Node | None, keys: Keys) -> None:
        if isinstance(node, yaml.SequenceNode):
            for item in node.value:
                walk(item, keys)
        if not isinstance(node, yaml.MappingNode):
            return
        seen: dict[str, int] = {}
        for key, value in node.value:
            path, line = (*keys, str(key.value)), key.start_mark.line + 1
            if path[-1] in seen:
                place = name if name.startswith("--set") else f"{name}:{line}"
                twice.append(f"{place}: {'.'.join(path)} was given on line {seen[path[-1]]} already: keep one of them")
            seen[path[-1]] = line
            found.setdefault(path, line)
            walk(value, path)

    walk(node, ())
    if twice:
        raise ConfigError("\n".join(twice))
    return found
