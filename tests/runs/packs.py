"""Packs for tests: of real runs, and of signers who lie."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tacit.crypto.signing import SigningKey
from tacit.store.pack import MANIFEST, SIGNATURE, write_pack

KEY = SigningKey(bytes(range(32)))


def unpacked(pack: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(pack) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def repacked(pack: Path, files: Mapping[str, bytes]) -> Path:
    """A zip file of these bytes, the old manifest and signature among them: what somebody without the key can make."""
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
