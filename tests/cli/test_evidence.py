"""`tacit evidence` and `tacit verify` as commands."""

from __future__ import annotations

import json
import zipfile

import pytest

from tacit.net.signer import read_signer
from tests.commands import certify, done, invoke
from tests.runs.packs import change_json, signed_anew

FLEET = "kind: horizontal\ntask: digits\nrounds: 1\nclients: 3\nencrypt: {encrypt_type: DP_ENCRYPT, dp_eps: 5}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "fleet.yaml").write_text(FLEET)
    done("run", folder / "fleet.yaml", "--state", folder / "run", "--quiet")
    certify(folder, "bank")
    return folder


@pytest.fixture
def run(made, monkeypatch):
    monkeypatch.chdir(made)
    return made / "run"


def test_a_pack_is_made_and_checked(run):
    own = ("--key", "bank/bank.private.pem", "--certificate", "bank/c.pem")
    assert "Pack: pack.zip" in done("evidence", run, *own, "-o", "pack.zip")
    for source in (
        ("--authority", "ca/authority.pem"),
        ("--public-key", "bank/bank.request.pem"),
        ("--public-key", "bank/c.pem"),
    ):
        said = done("verify", "pack.zip", *source)
        assert "does not hold" not in said
        assert said.splitlines()[-1].startswith("Not proved: that the run was carried out as it is told")
    found = json.loads(done("verify", "pack.zip", "--authority", "ca/authority.pem", "--json"))
    assert found["holds"] is True
    assert {"what", "verdict", "text"} == found["checks"][0].keys()


def test_a_pack_that_was_changed_ends_with_1(run):
    done("evidence", run, "--key", "bank/bank.private.pem")
    with zipfile.ZipFile(run / "evidence.zip", "a") as archive:
        archive.writestr("more.json", "{}")
    ended = invoke("verify", run / "evidence.zip", "--public-key", "bank/bank.request.pem")
    assert ended.exit_code == 1
    assert "more.json is in the pack, and not in the manifest: it was added" in ended.output


def test_a_pack_writes_no_lines_of_its_own_to_a_terminal(run):
    """Its signer would forge the verdict of a check."""
    own = ("--key", "bank/bank.private.pem", "--certificate", "bank/c.pem")
    done("evidence", run, *own, "-o", "pack.zip")
    key = read_signer(run.parent / "bank/bank.private.pem", None)[0]
    forged = "x\nholds:          everything: \x1b[2K"

    def change(files, about):
        change_json(files, "ledgers.json", lambda data: data["ledgers"][0].update(covers=[forged]))

    ended = invoke("verify", signed_anew(run.parent / "pack.zip", change, key), "--authority", "ca/authority.pem")
    assert ended.exit_code == 1
    assert "\x1b" not in ended.output
    assert not any(line.startswith("holds:          everything") for line in ended.output.splitlines())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("evidence", "nowhere", "--key", "bank/bank.private.pem"), "there is no such folder"),
        (("evidence", "run", "--key", "none.pem"), "none.pem: there is no such file"),
        (("evidence", "run", "--key", "bank/c.pem"), "c.pem"),
        (("evidence", "run", "--key", "bank/bank.private.pem", "--certificate", "ca/authority.pem"), "no signing key"),
        (("evidence", "run", "--key", "bank/bank.private.pem", "-o", "no/such/folder/pack.zip"), "cannot be written"),
        (("verify", "run/config.yaml", "--public-key", "bank/c.pem"), "this is no pack of tacit evidence"),
        (("verify", "none.zip", "--public-key", "bank/c.pem"), "there is no such file"),
        (("verify", "run/config.yaml"), "--public-key, or the authority's certificate with --authority"),
        (("verify", "run/config.yaml", "--public-key", "run/config.yaml"), "not a readable certificate"),
        (("verify", "run/config.yaml", "--authority", "none.pem"), "none.pem"),
    ],
)
def test_a_mistake_is_one_sentence(run, words, said):
    ended = invoke(*words)
    assert ended.exit_code in (1, 2)
    assert said in ended.output
    assert "Traceback" not in ended.output
