"""A PostgreSQL server of a test's own, from Debian's package: on a socket in its own folder, ended by process id."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

USER, DATABASE = "bank", "postgres"
_READY = 60  # seconds


def binaries() -> Path | None:
    """The folder of the newest server that is installed."""
    if (found := shutil.which("initdb")) is not None:
        return Path(found).resolve().parent
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((each.parent for each in folders), key=lambda each: float(each.parent.name), default=None)


@contextmanager
def server(folder: Path, password: str) -> Iterator[str]:
    """Start a server that asks for the password; gives its url, without it."""
    home = Path(tempfile.mkdtemp(prefix="tacit-postgresql-"))
    secret = home / "secret"
    secret.write_text(password + "\n")
    drop = _as_another(home)
    data = home / "data"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": home}
    try:
        options = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run([*drop, folder / "initdb", "-D", data, *options], check=True, **quiet)
        secret.unlink()
        settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={home}", "-c", "fsync=off"]
        with subprocess.Popen([*drop, folder / "postgres", "-D", data, *settings], **quiet) as process:
            try:
                _wait(folder, home, process)
                yield f"postgresql://{USER}@/{DATABASE}?host={home}"
            finally:
                process.send_signal(signal.SIGINT)  # the fast way: it does not wait for connections
                process.wait(_READY)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _as_another(home: Path) -> list[str | Path]:
    """PostgreSQL refuses to run as root: then the files and processes are those of another user."""
    if os.geteuid() != 0:
        return []
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    for path in (home, *home.iterdir()):
        os.chown(path, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]


def _wait(folder: Path, home: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(_READY * 10):
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended with {process.returncode}")
        if subprocess.run([folder / "pg_isready", "-q", "-h", home], check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise RuntimeError("PostgreSQL did not get ready")
