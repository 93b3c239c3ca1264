"""The compose file: what it says, and its commands run as processes, with folders in the place of volumes."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.commands import done, ended
from tests.subprocesses import free_port, launch

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "compose"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
PARTIES = [name for name in SERVICES if name != "keys"]


def mounts(service: dict) -> dict[str, str]:
    """Where each volume or file of a service is, by its path inside."""
    return {volume.split(":")[1]: volume.split(":")[0] for volume in service["volumes"]}


@pytest.fixture
def outside(tmp_path):
    """A folder for each volume, and copies of the files, which name a port of this machine."""
    port = free_port()
    for name in COMPOSE["volumes"]:
        (tmp_path / name).mkdir(mode=0o700)
    for file in FOLDER.rglob("*"):
        if file.is_file() and file.name != "compose.yaml":
            place = tmp_path / file.relative_to(FOLDER)
            place.parent.mkdir(exist_ok=True)
            text = file.read_text(encoding="utf-8")
            place.write_text(
                text.replace("coordinator:8443", f"127.0.0.1:{port}").replace("0.0.0.0:8443", f"127.0.0.1:{port}")
            )
    return tmp_path


def mapped(text: str, places: dict[str, Path]) -> str:
    """A command or a file with paths of this machine in the place of those inside a container."""
    for inside, place in places.items():
        text = re.sub(rf"(?<![\w.-]){re.escape(inside)}(?![\w.-])", str(place), text)
    return text


def places_of(service: dict, outside: Path) -> dict[str, Path]:
    return {inside: outside / source.removeprefix("./") for inside, source in mounts(service).items()}


def run_keys(outside: Path) -> None:
    keys = SERVICES["keys"]
    places = {inside: place for inside, place in places_of(keys, outside).items() if not inside.startswith("/issued/")}
    places["/issued"] = outside / "issued"  # in it, under the name of each party, its volume
    if not places["/issued"].exists():
        places["/issued"].mkdir()
        for name in PARTIES:
            (places["/issued"] / name).symlink_to(outside / mounts(keys)[f"/issued/{name}"])
    program = outside / "bin" / "tacit"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tacit "$@"\n')
    program.chmod(0o755)
    (script,) = keys["command"]
    words = [*keys["entrypoint"], mapped(script.replace("$$", "$"), places)]
    environment = os.environ | {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    ended(launch(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))


def start_party(name: str, outside: Path) -> subprocess.Popen[str]:
    service = SERVICES[name]
    places = places_of(service, outside)
    local = places["/etc/tacit/party.yaml"]
    local.write_text(mapped(local.read_text(), places))
    words = [mapped(word, places) for word in service["command"]]
    return launch(
        [sys.executable, "-m", "tacit", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )


def test_its_commands_make_keys_and_train_to_the_end(outside):
    run_keys(outside)
    for name in PARTIES:
        private = outside / f"{name}-keys" / f"{name}.private.pem"
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
        assert not list((outside / f"{name}-keys").glob("authority.private*"))
    running = [start_party(name, outside) for name in PARTIES]
    for process in running:
        ended(process)
    events = (outside / "coordinator-state" / "run" / "events.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["status"] == "done"
    certificate = outside / "client-0-keys" / "client-0.certificate.pem"
    before = certificate.read_bytes()
    run_keys(outside)  # `up` again: the keys stay those of the run
    assert certificate.read_bytes() == before


def test_a_revoked_site_is_known_to_every_party(outside):
    run_keys(outside)
    done("keys", "revoke", "client-1", "--authority", outside / "authority" / "ca")
    run_keys(outside)
    newest = (outside / "authority" / "ca" / "revoked.pem").read_bytes()
    for name in PARTIES:
        assert (outside / f"{name}-keys" / "revoked.pem").read_bytes() == newest
        local = yaml.safe_load((outside / "parties" / f"{name}.yaml").read_text())
        assert local["keys"]["revoked"] == "/keys/revoked.pem"
    _, refused = ended(start_party("client-1", outside), 2)
    assert "the certificate of client-1 was revoked" in refused


def test_a_service_sees_no_keys_but_its_own():
    for name in PARTIES:
        assert mounts(SERVICES[name])["/keys"] == f"{name}-keys"
        assert all(volume.split(":")[0] in (f"{name}-keys", f"{name}-state") for volume in named(SERVICES[name]))
        assert next(volume for volume in named(SERVICES[name]) if "-keys" in volume).endswith(":ro")
    users = [name for name, service in SERVICES.items() if "authority" in mounts(service).values()]
    assert users == ["keys"]


def named(service: dict) -> list[str]:
    """Its volumes that are no files of this folder."""
    return [volume for volume in service["volumes"] if not volume.startswith("./")]


def test_every_volume_file_and_name_of_it_is_there():
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in named(service)}
    assert used == set(COMPOSE["volumes"])
    files = {volume.split(":")[0] for service in SERVICES.values() for volume in service["volumes"]} - used
    assert all((FOLDER / file).is_file() for file in files)
    assert (FOLDER / "names.txt").read_text().split() == PARTIES
    build = SERVICES["coordinator"]["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def folders_of_the_image(place: Path) -> list[str]:
    """Those that the Dockerfile makes for its user: its own commands make them, below `place`."""
    text = re.sub(r"\\\n", " ", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"))
    parties = dict(re.findall(r"^ARG (\w+)=(?:\"?)(.*?)\"?$", text, re.MULTILINE))["PARTIES"]
    (made,) = re.findall(r"^RUN (groupadd .*)$", text, re.MULTILINE)
    owned = "install -d -o 10001 -g 10001 -m 0700"
    commands = [each.strip() for each in made.split("&&") if owned in each]
    script = "\n".join(commands).replace(owned, "install -d -m 0700")
    script = re.sub(r'(?<= )("?)/', rf"\g<1>{place}/", script)
    subprocess.run(["/bin/sh", "-euc", script], check=True, env=os.environ | {"PARTIES": parties})
    return [f"/{each.relative_to(place)}" for each in place.rglob("*") if stat.S_IMODE(each.stat().st_mode) == 0o700]


def test_a_new_volume_belongs_to_the_user_of_the_image(tmp_path):
    """An engine gives it the owner of the folder that it hides. One that hides none is root's: nobody could write."""
    folders = folders_of_the_image(tmp_path)
    for name, service in SERVICES.items():
        assert {volume.split(":")[1] for volume in named(service)} <= set(folders), name
        for inside in folders:  # what lies in a folder of the image would be copied into a volume on it
            beneath = [other for other in folders if other.startswith(f"{inside}/")]
            assert not (beneath and inside in mounts(service)), (name, inside)


def test_services_are_confined_and_are_told_to_stop_in_time():
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    assert all(SERVICES[name]["restart"] == "on-failure:5" for name in PARTIES)
