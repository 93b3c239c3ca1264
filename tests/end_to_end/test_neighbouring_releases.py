"""Parties of this release and of the one before it train one model: real processes, over the network.

The older release is the real one, from `tests/older`: it knows nothing of this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tacit.version import __version__
from tests.commands import certify, ended, start
from tests.subprocesses import free_port, kill, launch, until

ARCHIVE = Path(__file__).parents[1] / "older" / "tacit-0.2.0.tar.xz"
FLEET = {
    "kind": "horizontal",
    "name": "digits",
    "task": "digits",
    "rounds": 2,
    "clients": 4,
    "encrypt": {"encrypt_type": "PW_ENCRYPT"},
}


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """The folder to import the older release from."""
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def start_older(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """`tacit` of the older release, as a process of its own."""
    code = (
        "import runpy, sys, tacit; assert tacit.__version__ == '0.2.0'; runpy.run_module('tacit', run_name='__main__')"
    )
    return launch(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "OMP_NUM_THREADS": "1"},
    )


def join(older_at: Path | None, *arguments: str) -> subprocess.Popen[str]:
    words = ("join", *arguments)
    return start(*words) if older_at is None else start_older(older_at, *words)


def fleet(here: Path, **keys) -> Path:
    file = here / "fleet.yaml"
    file.write_text(yaml.safe_dump(FLEET | keys | {"network": {"coordinator": f"127.0.0.1:{free_port()}"}}))
    return file


def metrics(folder: Path) -> list[dict]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "RoundFinished"]


@pytest.mark.parametrize("old", ["coordinator", pytest.param("clients", marks=pytest.mark.slow)])
def test_a_fleet_of_both_releases_aggregates_securely(here, older, old):
    """A session of secure aggregation hashes what both sides compare: one byte more, and no mask would cancel."""
    file = fleet(here)
    keys = certify(here, "coordinator", *(f"client-{number}" for number in range(4)))
    for name, files in keys.items():
        (here / f"{name}.yaml").write_text(yaml.safe_dump({"keys": files}))

    def party(name: str, is_old: bool, *more: str) -> subprocess.Popen[str]:
        local = ("--local", str(here / f"{name}.yaml"), "--state", str(here / f"state-{name}"))
        return join(older if is_old else None, str(file), *more, *local)

    coordinator = party("coordinator", old == "coordinator", "--party", "coordinator")
    clients = [
        party(f"client-{number}", old == "clients" and number < 2, "--party", "client", "--id", str(number))
        for number in range(4)
    ]
    out, err = ended(coordinator)
    said = [ended(client) for client in clients]
    rounds = metrics(here / "state-coordinator")
    assert [each["survivors"] for each in rounds] == [4, 4], out + err
    if old == "coordinator":
        assert all("runs Tacit 0.2" in out + err for out, err in said)
    else:
        assert f"runs Tacit 0.2, this side {__version__}" in out + err


DEAL = {
    "kind": "vertical_logistic",
    "task": "cancer",
    "align": False,
    "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}},
    "train": {"epochs": 1, "batch": 128},
}


@pytest.mark.parametrize("old", ["bank", pytest.param("shop", marks=pytest.mark.slow)])
def test_two_companies_of_both_releases_train_on_shares(here, older, old):
    deal = json.loads(json.dumps(DEAL))
    deal["parties"]["bank"]["address"] = f"127.0.0.1:{free_port()}"
    (here / "deal.yaml").write_text(yaml.safe_dump(deal))
    processes = [
        join(older if name == old else None, str(here / "deal.yaml"), "--party", name, "--insecure", "--state", name)
        for name in ("bank", "shop")
    ]
    for process in processes:
        ended(process)
    for name in ("bank", "shop"):
        assert json.loads((here / name / "events.jsonl").read_text().splitlines()[-1])["status"] == "done"


@pytest.mark.parametrize("old", ["coordinator", pytest.param("clients", marks=pytest.mark.slow)])
def test_a_federation_whose_messages_changed_says_so_and_spends_nothing(here, older, old):
    """Few bits under distributed DP have other columns now: every round would fail, after the clients paid for it."""
    bits = {
        "encrypt_type": "DDP_ENCRYPT",
        "ddp_encrypt": {"ddp_eps": 100, "ddp_delta": 1e-5},
        "pw_encrypt": {"bits": 16},
    }
    file = fleet(here, encrypt=bits)
    coordinator = join(older if old == "coordinator" else None, str(file), "--party", "coordinator", "--insecure")
    clients = join(older if old == "clients" else None, str(file), "--party", "client", "--id", "0-3", "--insecure")
    clients.wait(300)
    said = "".join(clients.communicate())
    assert clients.returncode == 3, said
    assert "the messages of such a federation have changed: Tacit 0.3 or newer is needed" in said
    assert ("coordinator runs Tacit 0.2: " in said) == (old == "coordinator")
    assert not [path for path in here.glob("runs/*/ledger.json") if json.loads(path.read_text())["ledgers"]]
    kill(coordinator)


@pytest.mark.parametrize("old", ["bank", "shop"])
def test_companies_of_both_releases_do_not_begin_to_grow_trees(here, older, old):
    deal = DEAL | {"kind": "vertical_trees", "privacy": {"partition": "shown"}, "train": {"trees": 2, "depth": 2}}
    deal["parties"] = {"bank": {"role": "active", "address": f"127.0.0.1:{free_port()}"}, "shop": {"role": "passive"}}
    (here / "deal.yaml").write_text(yaml.safe_dump(deal))
    bank, shop = (
        join(older if name == old else None, str(here / "deal.yaml"), "--party", name, "--insecure")
        for name in ("bank", "shop")
    )
    shop.wait(300)
    assert shop.returncode == 3
    assert "the messages of such a federation have changed: Tacit 0.3" in "".join(shop.communicate())
    kill(bank)


@pytest.mark.slow  # 6 s or more
def test_a_coordinator_is_updated_while_clients_of_this_release_wait_for_it(here, older):
    """They said hello as 0.2 does, because it did. To the one that takes its place they say what they are."""
    file = fleet(here, rounds=6, clients=3, train={"epochs": 5})
    where = ("--party", "coordinator", "--insecure", "--state", "coordinator")
    old = join(older, str(file), *where)
    clients = join(None, str(file), "--party", "client", "--id", "0-2", "--insecure", "--state", "clients")
    events = here / "coordinator" / "events.jsonl"
    until(lambda: events.exists() and "RoundFinished" in events.read_text(), old)
    kill(old)
    new = join(None, str(file), *where)
    out, err = ended(new)
    ended(clients)
    # A round that ended when the old coordinator was killed, and was not yet stored, is done again.
    assert {each["round"] for each in metrics(here / "coordinator")} == set(range(6))
    assert "runs Tacit" not in out + err


# Prints what a release says on the wire: each message's fields, and each key's default, with whether it is `Added`.
SAID = """
import contextlib, importlib, json, pkgutil, tacit
for found in pkgutil.walk_packages(tacit.__path__, "tacit."):
    if not any(part in found.name for part in (".flower", ".ray", "__main__", ".attacks")):
        with contextlib.suppress(ImportError):  # of what the archive has not
            importlib.import_module(found.name)
from tacit.sections import Section
from tacit.wire import Message

def below(kind):
    for each in kind.__subclasses__():
        yield each
        yield from below(each)

def name(kind):
    return f"{kind.__module__}.{kind.__qualname__}"

def key(info):
    added = [each for each in info.metadata if type(each).__name__ == "Added"]
    default = "required" if info.is_required() else repr(info.get_default(call_default_factory=True, validated_data={}))
    return default, bool(added), any(each.changes for each in added)

print(json.dumps({
    "messages": {name(each): [each.__struct_config__.tag, list(each.__struct_fields__)] for each in below(Message)},
    "keys": {f"{name(each)}.{at}": key(info) for each in below(Section) for at, info in each.model_fields.items()},
}))
"""
HELLOS = {"tacit.net.handshake.Hello", "tacit.net.handshake.Welcome"}  # `as_of_0_2`
CHANGED = {"tacit.kinds.vertical_trees.protocol.messages.Begun"}  # of federations that say `LEAST_RELEASE`


def test_no_message_and_no_key_changed_without_a_word(older):
    """A message that changes needs `LEAST_RELEASE`, a new key `Added`; the default of one with that mark is final."""
    then, now = (said_by(*paths) for paths in ((str(older), *sys.path), sys.path))
    messages = {name for name, form in then["messages"].items() if now["messages"].get(name) != form}
    assert messages == HELLOS | CHANGED
    assert then["keys"].keys() <= now["keys"].keys()
    for key, (default, added, changes) in now["keys"].items():
        if key not in then["keys"]:
            assert added, key
        elif added and not changes:
            assert then["keys"][key][0] == default, f"{key}: both sides would leave it out, and mean different values"


def said_by(*paths: str) -> dict:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return json.loads(subprocess.run([sys.executable, "-c", SAID], env=env, check=True, capture_output=True).stdout)


def test_a_key_that_the_older_release_does_not_have_is_a_difference_only_if_it_changes_something(here, older):
    """`stop` is such a key to a release that never heard of it: played here by taking it out of the older one."""
    settings = older / "tacit" / "kinds" / "horizontal" / "settings.py"
    before = settings.read_text()
    settings.write_text(before.replace("    stop: Stop | None = None\n", "    stop: ClassVar[Stop | None] = None\n"))
    assert settings.read_text() != before
    try:
        file = fleet(here, clients=3, rounds=1)
        same = _together(older, file, here / "same")
        ours = here / "ours.yaml"
        ours.write_text(
            yaml.safe_dump(yaml.safe_load(file.read_text()) | {"stop": {"metric": "accuracy", "patience": 3}})
        )
        differs = _together(older, file, here / "differs", ours)
    finally:
        settings.write_text(before)
    assert same == (0, "")
    assert differs[0] == 3
    assert "the files differ: stop" in differs[1]


def _together(older: Path, file: Path, states: Path, ours: Path | None = None) -> tuple[int, str]:
    """An older coordinator and clients of this release: how the clients ended, and what they said if not well."""
    coordinator = join(older, str(file), "--party", "coordinator", "--insecure", "--state", str(states / "coordinator"))
    until(lambda: (states / "coordinator" / "run.log").exists(), coordinator)
    where = ("--party", "client", "--id", "0-2", "--insecure", "--state", str(states / "clients"))
    clients = join(None, str(ours or file), *where)
    clients.wait(300)
    if clients.returncode == 0:
        ended(coordinator)
        return 0, ""
    return clients.returncode, "".join(clients.communicate())
