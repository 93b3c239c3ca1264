"""Packs for tests: of real runs, and of signers who lie."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

import tacit
from tacit.crypto.signing import SigningKey
from tacit.kind import kind_of
from tacit.report.statement import Facts, statement
from tacit.runs.evidence import make, read_settings
from tacit.runs.verification import verified
from tacit.store import chain
from tacit.store.pack import MANIFEST, SIGNATURE, write_pack

KEY = SigningKey(bytes(range(32)))
PRIVATE = {
    "kind": "private_training",
    "name": "training",
    "task": "digits",
    "privacy": {"noise_multiplier": 2.0},
    "train": {"epochs": 2, "batch": 256},
}


def packed(settings: Mapping[str, Any], folder: Path) -> Path:
    """Of a run with these settings, signed with `KEY`."""
    run = tacit.run(settings, runs=folder).directory
    make(run, run / "pack.zip", KEY)
    return run / "pack.zip"


def wrong(pack: Path, public: bytes = KEY.public) -> dict[str, str]:
    """What does not hold."""
    return {each.what: each.text for each in verified(pack, public=public).checks if each.verdict == "does not hold"}


def unpacked(pack: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(pack) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def repacked(pack: Path, files: Mapping[str, bytes]) -> Path:
    """A zip file of these bytes, the old manifest and signature among them: what anyone without the key can make."""
    path = pack.with_name("changed.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def signed_anew(pack: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None], key: SigningKey = KEY) -> Path:
    """What the holder of the key can make: any files, with a manifest and a signature that fit."""
    files = unpacked(pack)
    about = json.loads(files.pop(MANIFEST))
    del files[SIGNATURE], about["files"], about["format"]
    change(files, about)
    path = pack.with_name("signed-anew.zip")
    write_pack(path, files, about, key)
    return path


def change_json(files: dict[str, bytes], name: str, change: Callable[[Any], None]) -> None:
    data = json.loads(files[name])
    change(data)
    files[name] = json.dumps(data).encode()


def stated_anew(files: dict[str, bytes], about: dict[str, Any]) -> None:
    """The page for auditors, made of the files as they are."""
    settings = read_settings(yaml.safe_load(files["config.yaml"]))
    read = {name: json.loads(data) for name, data in files.items() if name.endswith(".json")}
    facts = Facts(
        settings,
        kind_of(settings).boundary(settings),
        about["party"],
        read["ledgers.json"]["ledgers"],
        read.get("audit.json"),
        read["environment.json"],
        about["made"],
    )
    files["statement.html"] = statement(facts).encode()


def events_without(files: dict[str, bytes], about: dict[str, Any], *kinds: str) -> None:
    """The log without the events of these kinds, under a chain that fits."""
    lines = files["events.jsonl"].splitlines(keepends=True)
    files["events.jsonl"] = b"".join(
        line for line in lines if json.loads(line).get("shown", {}).get("event") not in kinds
    )
    events_with(files, about, lambda number, shown: None)


def events_with(files: dict[str, bytes], about: dict[str, Any], change: Callable[[int, dict[str, Any]], None]) -> None:
    """The log with other values, under a chain that fits."""
    before, lines = bytes.fromhex(about["events"]["begin"]), []
    for number, text in enumerate(files["events.jsonl"].splitlines()):
        line = json.loads(text)
        if "line" in line:
            own = bytes.fromhex(line["line"])
        else:
            change(number, line["shown"])
            digests = {name: bytes.fromhex(digest) for name, digest in line["withheld"].items()}
            for name, value in line["shown"].items():
                digests[name] = chain.field_digest(name, bytes.fromhex(line["salts"][name]), value)
            own = chain.line_digest(digests)
        before = chain.follow(before, own)
        lines.append(json.dumps({**line, "chain": before.hex()}))
    files["events.jsonl"] = "".join(f"{text}\n" for text in lines).encode()
    about["events"] |= {"end": before.hex(), "lines": len(lines)}
