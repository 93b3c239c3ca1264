"""A signed pack of files: what a party hands to people who check it without the party's data.

    write_pack(path, files, about, key)     a zip file with a manifest of all others, and its signature
    read_pack(path)                         the files, bounded and compared with the manifest
    Pack.check_signature(public)            raises BadPack unless the holder of that key signed the manifest

The manifest names each file with its size and SHA-256. The signature (Ed25519) is of the manifest's bytes, under a
context of its own. Nothing in a pack says whether the signer's key is the right one: the reader brings it.

A pack comes from others. Its names must be plain, each once; sizes are bounded before anything is read, and as it is
inflated.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.crypto.signing import SIGNATURE_BYTES, SigningKey, verify
from tacit.errors import PeerError
from tacit.store.files import json_file, replace_file

FORMAT = 1
MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
MOST_FILES = 32
LARGEST = 64 << 20  # bytes of one file
_LARGEST_PACK = 128 << 20  # packed, and unpacked
_CONTEXT = b"tacit evidence 1"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}\.(json|jsonl|yaml|html|pem|sig)", re.ASCII)
_TIME = (1980, 1, 1, 0, 0, 0)  # the same files make the same bytes
_HEADER, _ENTRY, _END = 30, 46, 22  # bytes of a zip file beside names and data: of a file, its entry, and at the end


class BadPack(ValueError):
    """A pack that is damaged, was changed, or is none."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack whose files are those of its manifest. Who signed it is not known before `check_signature`."""

    manifest: Mapping[str, Any]
    files: Mapping[str, bytes]  # without the manifest and its signature
    signed: bytes  # the manifest's own bytes
    signature: bytes

    def check_signature(self, public: bytes) -> None:
        """Raise BadPack unless the holder of this Ed25519 key signed the manifest."""
        try:
            verify(public, self.signature, _CONTEXT, self.signed)
        except PeerError:
            raise BadPack(
                "the signature is not of this key: the pack was changed, or another party signed it"
            ) from None


def write_pack(path: Path, files: Mapping[str, bytes], about: Mapping[str, Any], key: SigningKey) -> None:
    """Write the files, a manifest with `about` and what they are, and its signature."""
    entries = {name: {"bytes": len(data), "sha256": _sha256(data)} for name, data in sorted(files.items())}
    manifest = json_file({"format": FORMAT, **about, "files": entries})
    whole = {MANIFEST: manifest, SIGNATURE: key.sign(_CONTEXT, manifest).hex().encode() + b"\n", **files}
    for name, data in whole.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a file in a pack")
        if len(data) > LARGEST:
            raise ValueError(f"{name} has {len(data):,} bytes, at most {LARGEST:,} fit into a pack")
    if (size := sum(map(len, whole.values()))) > _LARGEST_PACK:
        raise ValueError(f"the files have {size:,} bytes, at most {_LARGEST_PACK:,} fit into a pack")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in [MANIFEST, SIGNATURE, *sorted(files)]:
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(info, whole[name])
    replace_file(path, buffer.getvalue())


def read_pack(path: Path) -> Pack:
    """The pack, once every file is that of the manifest. Raises BadPack."""
    found = _inflated(path)
    try:
        manifest, signed, signature = _manifest(found[MANIFEST]), found.pop(MANIFEST), found.pop(SIGNATURE)
    except KeyError as error:
        raise BadPack(f"{path}: {error.args[0]} is missing: this is no pack of tacit evidence") from None
    if not re.fullmatch(rb"[0-9a-f]{%d}\n" % (2 * SIGNATURE_BYTES), signature):
        raise BadPack(f"{SIGNATURE} is no signature")
    listed = manifest["files"]
    for name in sorted(listed.keys() | found.keys()):
        if name not in found:
            raise BadPack(f"{name} is in the manifest, and not in the pack: it was removed")
        if name not in listed:
            raise BadPack(f"{name} is in the pack, and not in the manifest: it was added")
        if listed[name] != {"bytes": len(found[name]), "sha256": _sha256(found[name])}:
            raise BadPack(f"{name} is not the file that the manifest names: it was changed")
    return Pack(manifest, found, signed, bytes.fromhex(signature.decode()))


def _inflated(path: Path) -> dict[str, bytes]:
    try:
        if path.stat().st_size > _LARGEST_PACK:
            raise BadPack(f"{path}: {path.stat().st_size:,} bytes, a pack has at most {_LARGEST_PACK:,}")
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_FILES:
                raise BadPack(f"{path}: {len(entries)} files, a pack has at most {MOST_FILES}")
            found: dict[str, bytes] = {}
            for entry in entries:
                if not _NAME.fullmatch(entry.filename):
                    raise BadPack(f"{path}: {entry.filename!r} cannot be the name of a file in a pack")
                if entry.filename in found:
                    raise BadPack(f"{path}: {entry.filename} is there twice")
                if entry.file_size > LARGEST or entry.flag_bits & 1:
                    raise BadPack(f"{path}: {entry.filename} is too large, or encrypted")
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise BadPack(f"{path}: {entry.filename} is packed in a way that tacit evidence does not use")
                left = min(LARGEST, _LARGEST_PACK - sum(map(len, found.values())))
                with archive.open(entry) as file:
                    data = file.read(left + 1)
                if len(data) > left:
                    raise BadPack(f"{path}: {entry.filename} is too large")
                found[entry.filename] = data
            if not _nothing_else(archive, path.stat().st_size):
                raise BadPack(f"{path}: it holds bytes that belong to no file of the pack")
            return found
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, ValueError) as error:
        if isinstance(error, BadPack):
            raise
        raise BadPack(f"{path}: this is no pack of tacit evidence: {error}") from None
    except Exception as error:  # zlib.error is none of these
        raise BadPack(f"{path}: this pack is damaged: {error}") from None


def _nothing_else(archive: zipfile.ZipFile, size: int) -> bool:
    """Whether a zip file is its files one after the other, and their entries: nobody signs what is around them."""
    end = 0
    for entry in sorted(archive.infolist(), key=lambda entry: entry.header_offset):
        if entry.header_offset != end:
            return False
        end += _HEADER + len(entry.filename) + entry.compress_size
    entries = sum(_ENTRY + len(entry.filename) for entry in archive.infolist())
    return end == archive.start_dir and size == end + entries + _END


def _manifest(data: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
        if manifest["format"] != FORMAT:
            raise BadPack(f"the pack has the format {manifest['format']!r}, this release reads {FORMAT}")
        if not isinstance(manifest["files"], dict):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, BadPack):
            raise
        raise BadPack(f"{MANIFEST} is none") from None
    return manifest  # type: ignore[no-any-return]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
