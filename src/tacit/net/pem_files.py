"""Small files with keys and certificates: read with a limit, written as a whole and with their mode.

    read_file(path), read_private_file(path), state_of(path)
    write_file(path, data, mode, overwrite), write_pair(private, public, overwrite=...)
    about(path)                     what goes wrong inside is about this file

Private files are made with mode 0600, never opened wider for a moment, and not read if others can read them too. What
cannot be used is a ConfigError that names the file.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tacit.config.source import ConfigError
from tacit.errors import PeerError

PRIVATE, PUBLIC = 0o600, 0o644
LARGEST_FILE = 1 << 20  # bytes; a key or a certificate has less than 2,000
State = tuple[int, int, int] | None  # by what a file is known to have changed


def state_of(path: Path) -> State:
    """What changes when a file is replaced or written; None where there is none."""
    try:
        at = path.stat()
    except OSError:
        return None
    return at.st_ino, at.st_size, at.st_mtime_ns


@contextmanager
def about(path: Path) -> Iterator[None]:
    """What goes wrong here is about this file."""
    try:
        yield
    except ConfigError:
        raise
    except (ValueError, PeerError) as error:
        raise ConfigError(f"{path}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be used: {error.strerror}") from None


def read_file(path: Path, *, private: bool = False) -> bytes:
    try:
        with path.open("rb") as file:
            # The opened file is asked, not the path: it cannot be exchanged in between.
            if private and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigError(f"{path}: others on this machine can read it: chmod 600 {shlex.quote(str(path))}")
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"{path}: it is too large for a key or a certificate")
    return data


def read_private_file(path: Path) -> bytes:
    return read_file(path, private=True)


def check_free(path: Path, overwrite: bool) -> None:
    if not overwrite and os.path.lexists(path):
        raise ConfigError(f"{path} exists and is not overwritten: choose another place, or move it away")


def write_pair(private: tuple[Path, bytes], public: tuple[Path, bytes], *, overwrite: bool) -> None:
    """Both files or neither."""
    for path, _ in (private, public):
        check_free(path, overwrite)
    write_file(*private, PRIVATE, overwrite)
    try:
        write_file(*public, PUBLIC, overwrite)
    except BaseException:
        private[0].unlink()  # nobody was sent its public half
        raise


def write_file(path: Path, data: bytes, mode: int, overwrite: bool) -> None:
    """Write a file that has its mode from the first moment. In the place of another only as a whole."""
    made = path.with_name(f".{path.name}.tmp") if overwrite else path
    try:
        if overwrite:
            made.unlink(missing_ok=True)
        opened = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        check_free(path, overwrite)
        raise ConfigError(f"{path}: another process is writing it") from None
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be written: {error.strerror}") from None
    try:
        with open(opened, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            made.replace(path)
    except BaseException as error:
        made.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ConfigError(f"{path}: it cannot be written: {error.strerror}") from None
        raise
