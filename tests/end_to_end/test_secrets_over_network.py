"""What an eavesdropper and the other parties find of a party's secrets: nothing. Real processes, a recorded wire.

Each party has a folder of its own with a telling name, a data file, local options and keys. A client's update is one
number of its data file over and over, so that its bytes can be searched for in all that others hold or that passed
between the sockets. One run in the clear shows that the search finds what is there.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import math
import os
import re
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tacit.audit.attacks.wiretap import Wiretap
from tacit.dp.clipping import clip_l2
from tacit.kinds.horizontal.masked import inside_of
from tacit.net.identity import read_private
from tacit.net.key_files import init_authority, make_request, sign_request
from tacit.runs.load import load
from tests.subprocesses import HANGS, free_port, kill, launch, until

CLIENTS = 4
SIZE = 60
PARTIES = ("coordinator", *(f"client-{i}" for i in range(CLIENTS)))
_PRIMES = (29, 2, 3, 5, 7, 11, 13, 17, 19, 23)
METRICS = importlib.util.find_spec("tacit.store.prometheus") is not None
TASK = """
import json
import numpy as np
from tacit.kinds.horizontal.task import Fitted

SIZE = 60

class Told:
    def __init__(self, path, raises):
        self.path, self.raises = path, raises
    def model(self):
        return {"weights": np.zeros(SIZE)}
    def fit(self, client, model, work):
        data = json.load(open(self.path))
        if self.raises:
            raise ValueError(f"the record {data['record']} of {self.path} is broken")
        return Fitted({"weights": model["weights"] + data["number"]}, 7, data["loss"])

def make_task(clients, seed, path="", note="", raises=False):
    return Told(path, raises)
"""


@dataclass
class Party:
    """One party: what it alone knows, and what it left behind."""

    name: str
    folder: Path
    texts: list[str]  # that only it knows
    number: float = 0.0  # its update
    loss: float = 0.0
    keys: list[bytes] = field(default_factory=list)  # its private keys in several forms
    output: bytes = b""
    code: int = -1

    def left(self) -> dict[str, bytes]:
        """Everything that it wrote and printed."""
        files = {str(path): path.read_bytes() for path in (self.folder / "runs").rglob("*") if path.is_file()}
        return files | {f"output of {self.name}": self.output}


@dataclass
class Federation:
    parties: list[Party]
    stream: bytes
    scraped: bytes
    settings: dict[str, object]


def forms(value: float) -> dict[str, bytes]:
    """A number that repeats, as machines and people write it."""
    return {
        "float64": struct.pack("<2d", value, value),
        "float64, big-endian": struct.pack(">2d", value, value),
        "float32": struct.pack("<3f", value, value, value),
        "float32, big-endian": struct.pack(">3f", value, value, value),
        "text": f"{value:.7f}".rstrip("0").encode()[:-1],  # the last digit may have been rounded
    }


def one(value: float) -> dict[str, bytes]:
    """A number that stands alone; a float32 has too few bytes to be searched for."""
    return {"float64": struct.pack("<d", value), "float64, big-endian": struct.pack(">d", value)}


def update_forms(party: Party, settings: dict[str, Any]) -> dict[str, bytes]:
    """A client's update as it must not be seen: as it is, clipped, and as words before the masks."""
    clipped = np.full(SIZE, party.number)
    clip_l2(clipped, 1.0)
    found = {f"update, {name}": data for name, data in forms(party.number).items()}
    found |= {f"clipped update, {name}": data for name, data in forms(float(clipped[0])).items()}
    found |= {f"loss, {name}": data for name, data in one(party.loss).items()}
    if settings["encrypt"]["encrypt_type"] == "PW_ENCRYPT":
        words = inside_of(load(settings), SIZE).encode(np.full(SIZE, party.number), 7, b"", None)
        found["words"] = words[:2].tobytes()
        found["weight"] = words[-2:].tobytes()
    return found


def private_forms(pem: bytes) -> list[bytes]:
    """The private keys of a file in the forms in which they could travel."""
    raw = [read_private(pem).tls.private_numbers().private_value.to_bytes(32, "big")]
    for block in re.findall(rb"-----BEGIN.*?-----END[^\n]*\n", pem, re.DOTALL):
        key = serialization.load_pem_private_key(block, None)
        if isinstance(key, ed25519.Ed25519PrivateKey):
            raw.append(key.private_bytes_raw())
    assert len(raw) == 2
    lines = [line for line in pem.splitlines() if len(line) > 40 and b"-----" not in line]
    return [*raw, *(secret.hex().encode() for secret in raw), *(base64.b64encode(r)[:40] for r in raw), *lines]


def prepared(root: Path, secure: bool, raising: str) -> list[Party]:
    """All parties with their folders, files and keys."""
    authority = root / "authority"
    if secure:
        init_authority(authority)
    found = []
    for index, name in enumerate(PARTIES):
        folder = root / f"kept-by-{name}-zq{index}xk"
        folder.mkdir()
        party = Party(name, folder, [folder.name, f"note-wvq{index}", f"record-jxz{index}"])
        party.number, party.loss = math.sqrt(_PRIMES[index]) / 10, math.sqrt(_PRIMES[-index])
        data = {"number": party.number, "loss": party.loss, "record": party.texts[2]}
        (folder / "data.json").write_text(json.dumps(data))
        local: dict[str, object] = {
            "task_options": {"path": str(folder / "data.json"), "note": party.texts[1], "raises": name == raising}
        }
        if secure:
            private, asked = make_request(name, folder)
            sign_request(authority, asked.file)
            local["keys"] = {
                "private": private.name,
                "certificate": f"{name}.certificate.pem",
                "authority": "../authority/authority.pem",
            }
            party.keys = private_forms(private.read_bytes())
        (folder / "local.yaml").write_text(yaml.safe_dump(local))
        found.append(party)
    return found


def scrape(port: int, process: subprocess.Popen[bytes], found: bytearray) -> None:
    while process.poll() is None:
        with (
            contextlib.suppress(OSError, HTTPException),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANGS) as got,
        ):
            found += got.read()
        time.sleep(0.02)


def federate(root: Path, encrypt_type: str, *, secure: bool, raising: str = "") -> Federation:
    """A whole federation of processes, every client through one recorded wire."""
    parties = prepared(root, secure, raising)
    settings: dict[str, object] = {
        "kind": "horizontal",
        "name": "secrets",
        "task": "told:make_task",
        "rounds": 1,
        "clients": CLIENTS,
        "start_fl_job_time_window": 600_000,
        "encrypt": {"encrypt_type": encrypt_type, "cipher_time_window": 600_000},
    }
    port, scraped = free_port(), bytearray()
    (root / "told.py").write_text(TASK)
    file = root / "shared.yaml"
    file.write_text(yaml.safe_dump(settings | {"network": {"coordinator": f"127.0.0.1:{port}"}}))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    with Wiretap(port, keep=True) as tap:
        running = []
        for party in parties:
            who = party.name.split("-")
            if party.name != "coordinator":
                local = yaml.safe_load((party.folder / "local.yaml").read_text())
                local["coordinator"] = f"127.0.0.1:{tap.port}"
                (party.folder / "local.yaml").write_text(yaml.safe_dump(local))
            command = [sys.executable, "-m", "tacit", "join", str(file), "--party", who[0], "--local", "local.yaml"]
            command += ["--id", who[1]] if len(who) > 1 else []
            command += [] if secure else ["--insecure"]
            scraping = METRICS and party.name == "coordinator"
            metrics = free_port()
            command += ["--metrics", str(metrics)] if scraping else []
            if party is parties[-1] and METRICS:
                until(lambda: scraped, running[0])  # the page is read before the run can end
            process = launch(
                command, cwd=party.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            running.append(process)
            if scraping:
                threading.Thread(target=scrape, args=(metrics, process, scraped), daemon=True).start()
        try:
            for party, process in zip(parties, running, strict=True):
                party.output = process.communicate(timeout=HANGS)[0]
                party.code = process.returncode
        finally:
            for process in running:
                kill(process)
    return Federation(parties, bytes(tap.sent) + b"|" + bytes(tap.answered), bytes(scraped), settings)


def assert_unseen(needles: dict[str, bytes], places: dict[str, bytes]) -> None:
    seen = [
        f"{what} in {where}" for where, data in places.items() for what, needle in needles.items() if needle in data
    ]
    assert not seen


def places(federation: Federation, owner: Party, stream: bool = True) -> dict[str, bytes]:
    """Everything that is not the owner's."""
    found = {"the stream": federation.stream} if stream else {}
    found["the metrics"] = federation.scraped
    for party in federation.parties:
        if party is not owner:
            found |= party.left()
    return found


def check_nothing_leaks(federation: Federation, *, updates_in_stream: bool = False) -> None:
    for party in federation.parties:
        assert party.code == 0, party.output.decode()
        assert len(party.left()) > 3  # there is something to look at
        if party.name == "coordinator":
            texts = {text: text.encode() for text in party.texts}
            assert_unseen(texts, places(federation, party))
        else:
            assert_unseen({text: text.encode() for text in party.texts}, places(federation, party))
            assert_unseen(update_forms(party, federation.settings), places(federation, party, not updates_in_stream))
        keys = {f"private key {i} of {party.name}": key for i, key in enumerate(party.keys)}
        assert_unseen(keys, places(federation, party) | party.left())  # its own results do not hold it either
    assert bool(federation.scraped) == METRICS


SLOW = pytest.mark.slow  # like their neighbours; each starts five processes


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", pytest.param("PW_ENCRYPT", marks=SLOW)])
def test_nothing_is_found_under_tls(encrypt_type: str, tmp_path: Path) -> None:
    federation = federate(tmp_path, encrypt_type, secure=True)
    assert len(federation.stream) > 8 * SIZE * CLIENTS
    check_nothing_leaks(federation)
    for public in (b"/tacit.Party/Converse", b"start_fl_job_time_window", b"told:make_task"):
        assert public not in federation.stream  # not even what all parties know


@pytest.mark.parametrize(
    "encrypt_type",
    ["PW_ENCRYPT", pytest.param("DP_ENCRYPT", marks=SLOW), pytest.param("DDP_ENCRYPT", marks=SLOW)],
)
def test_protected_updates_are_not_found_without_tls(encrypt_type: str, tmp_path: Path) -> None:
    federation = federate(tmp_path, encrypt_type, secure=False)
    assert b"start_fl_job_time_window" in federation.stream  # it can be read
    check_nothing_leaks(federation)


def test_in_the_clear_without_tls_the_updates_are_found(tmp_path: Path) -> None:
    federation = federate(tmp_path, "NOT_ENCRYPT", secure=False)
    check_nothing_leaks(federation, updates_in_stream=True)
    for party in federation.parties[1:]:
        needles = update_forms(party, federation.settings)
        assert needles["update, float64"] in federation.stream
        assert (
            needles["loss, float64"] in federation.stream or needles["loss, float64, big-endian"] in federation.stream
        )


def test_the_words_of_an_error_stay_with_the_client(tmp_path: Path) -> None:
    federation = federate(tmp_path, "NOT_ENCRYPT", secure=False, raising="client-2")
    failed = federation.parties[3]
    assert failed.code != 0
    assert [party.code for party in federation.parties if party is not failed] == [0] * CLIENTS
    assert_unseen({text: text.encode() for text in failed.texts}, places(federation, failed))
