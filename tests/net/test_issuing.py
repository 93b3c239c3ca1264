"""Keys for many names: complete or not there, again where it was interrupted, and mistakes named by their line."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from tacit.config.source import ConfigError
from tacit.net import issuing
from tacit.net.authority_folder import AuthorityFolder
from tacit.net.identity import request
from tacit.net.issuing import issue, names_in
from tacit.net.key_files import init_authority, load_credentials
from tacit.net.pem_files import write_file
from tacit.net.revoking import revoke_name


@pytest.fixture
def folder(tmp_path):
    init_authority(tmp_path / "ca")
    return AuthorityFolder(tmp_path / "ca")


def held(out, name):
    at = out / name
    return load_credentials(
        at / f"{name}.private.pem", at / f"{name}.certificate.pem", at / "authority.pem", revoked=at / "revoked.pem"
    )


def test_each_name_gets_a_folder_with_all_that_it_needs(folder, tmp_path):
    names, heard = [f"client-{number}" for number in range(20)], []
    issue(folder, names, tmp_path / "out", made=lambda name, new: heard.append((name, new)))
    assert heard == [(name, True) for name in names]
    for name in names:
        assert held(tmp_path / "out", name).name == name
        assert (tmp_path / "out" / name).stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "out" / name / f"{name}.private.pem").stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in folder.issued()) == sorted(names)
    assert len({held(tmp_path / "out", name).signing_key.public for name in names}) == 20
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(names)


def test_a_thousand_names_need_less_than_a_minute_of_a_processor(folder, tmp_path):
    count, begun = 100, time.process_time()
    issue(folder, [f"client-{number}" for number in range(count)], tmp_path / "out")
    assert time.process_time() - begun < 60 * count / 1000


def test_names_that_are_done_are_skipped_and_force_replaces_their_keys(folder, tmp_path):
    issue(folder, ["client-0", "client-1"], tmp_path)
    first, heard = held(tmp_path, "client-0"), []
    (tmp_path / "client-0" / "site.yaml").write_text("the party's own")
    issue(folder, ["client-0", "client-2"], tmp_path, made=lambda name, new: heard.append((name, new)))
    assert heard == [("client-0", False), ("client-2", True)]
    assert held(tmp_path, "client-0").certificate == first.certificate
    issue(folder, ["client-0"], tmp_path, overwrite=True)
    assert held(tmp_path, "client-0").signing_key.public != first.signing_key.public
    assert (tmp_path / "client-0" / "site.yaml").exists()
    made, _ = revoke_name(folder, "client-0")  # both, the replaced one too
    assert len(made.entries) == 2


def test_a_certificate_that_is_left_and_of_no_use_is_named(tmp_path):
    init_authority(tmp_path / "ca", now=datetime.now(UTC) - timedelta(days=20))
    folder = AuthorityFolder(tmp_path / "ca")
    assert issue(folder, ["client-0", "client-1", "client-2"], tmp_path / "out") == {}
    expired = folder.authority.sign(request("client-2")[1], 1, datetime.now(UTC) - timedelta(days=9))
    (tmp_path / "out" / "client-2" / "client-2.certificate.pem").write_bytes(expired)
    revoke_name(folder, "client-1")
    left = issue(folder, ["client-0", "client-1", "client-2", "client-3"], tmp_path / "out")
    assert sorted(left) == ["client-1", "client-2"]
    assert left["client-1"].startswith("it was revoked on ")
    assert "expired" in left["client-2"]
    assert issue(folder, ["client-1", "client-2"], tmp_path / "out", overwrite=True) == {}
    assert issue(folder, ["client-1", "client-2"], tmp_path / "out") == {}
    init_authority(tmp_path / "other")
    left = issue(AuthorityFolder(tmp_path / "other"), ["client-0"], tmp_path / "out")
    assert "authority" in left["client-0"]


@pytest.mark.parametrize("at", range(1, 6))
def test_a_run_that_is_killed_leaves_no_half_of_a_folder(folder, tmp_path, monkeypatch, at):
    """Wherever it ends, what is there is complete, and the same command completes the rest."""
    names, writes, write = ["client-0", "client-1"], 0, write_file
    monkeypatch.setattr(issuing, "_WRITERS", 1)

    class Killed(BaseException):
        pass

    def doomed(*arguments):
        nonlocal writes
        writes += 1
        if writes == 5 + at:
            raise Killed
        write(*arguments)

    monkeypatch.setattr(issuing, "write_file", doomed)
    with pytest.raises(Killed):
        issue(folder, names, tmp_path / "out")
    assert held(tmp_path / "out", "client-0")
    assert not (tmp_path / "out" / "client-1").exists()
    monkeypatch.setattr(issuing, "write_file", write)
    issue(folder, names, tmp_path / "out")
    assert held(tmp_path / "out", "client-1")
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_keys_that_are_being_replaced_have_no_certificate_of_the_old_ones(folder, tmp_path, monkeypatch):
    """A kill would leave a folder whose certificate is not of its keys, and that counts as complete."""
    issue(folder, ["client-0"], tmp_path / "out")
    write = write_file

    class Killed(BaseException):
        pass

    def doomed(path, *arguments):
        write(path, *arguments)
        if path.name == "client-0.private.pem":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(issuing, "write_file", doomed)
        with pytest.raises(Killed):
            issue(folder, ["client-0"], tmp_path / "out", overwrite=True)
    with pytest.raises(ConfigError, match=r"client-0 exists and has no client-0\.certificate\.pem: .*--force"):
        issue(folder, ["client-0"], tmp_path / "out")
    issue(folder, ["client-0"], tmp_path / "out", overwrite=True)
    assert held(tmp_path / "out", "client-0")


def test_two_that_issue_in_one_folder_do_not_mix_their_files(folder, tmp_path):
    refused = []

    def meanwhile(name, new):
        with pytest.raises(ConfigError, match=r"another `tacit keys issue` writes there: wait for it") as error:
            issue(folder, [name], tmp_path / "out", overwrite=True)
        refused.append(str(error.value))

    issue(folder, ["client-0", "client-1"], tmp_path / "out", made=meanwhile)
    assert len(refused) == 2
    assert held(tmp_path / "out", "client-0")


def test_a_folder_of_something_else_is_not_touched(folder, tmp_path):
    (tmp_path / "client-1").mkdir()
    (tmp_path / "client-1" / "mine").write_text("x")
    with pytest.raises(ConfigError, match=r"client-1 exists and has no client-1\.certificate\.pem: move it away"):
        issue(folder, ["client-1"], tmp_path)
    assert [path.name for path in (tmp_path / "client-1").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"client-0\nClient 1\n", r"names\.txt:2: 'Client 1' is not a valid name"),
        (
            b"# a fleet\n\nclient-0\nclient-1 # the north\nclient-0\n",
            r"names\.txt:5: client-0 stands on line 3 already",
        ),
        (b"client-0\n../etc\n", r"names\.txt:2: '../etc' is not a valid name"),
        (b"client-0,client-1\n", r"names\.txt:1: "),
        (b"\n# nothing\n", "there is no name in it"),
        (b"client-0\n\xff\n", "it is not text in UTF-8"),
    ],
)
def test_a_bad_line_is_named_before_anything_is_made(tmp_path, text, why):
    (tmp_path / "names.txt").write_bytes(text)
    with pytest.raises(ConfigError, match=why):
        names_in(tmp_path / "names.txt")
    with pytest.raises(ConfigError, match="no such file"):
        names_in(tmp_path / "gone.txt")


def test_names_are_read_in_order(tmp_path):
    (tmp_path / "n").write_bytes(b"b\r\n  a  \n# c\nd # e\n")
    assert names_in(tmp_path / "n") == ["b", "a", "d"]


def test_the_most_names_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(issuing, "MOST_NAMES", 2)
    (tmp_path / "n").write_text("a\nb\nc\n")
    with pytest.raises(ConfigError, match="3 names, at most 2"):
        names_in(tmp_path / "n")


# --- the register, which all of that is in


def test_a_register_whose_last_line_is_half_written_is_whole_again(folder, tmp_path):
    issue(folder, ["client-0"], tmp_path)
    register = folder.folder / "certificates.jsonl"
    whole = register.read_bytes()
    register.write_bytes(whole + whole[:40])  # the process was killed within the write
    assert [each.name for each in folder.issued()] == ["client-0"]
    issue(folder, ["client-1"], tmp_path)
    assert [each.name for each in folder.issued()] == ["client-0", "client-1"]


def test_a_register_that_was_changed_is_said_with_its_line(folder, tmp_path):
    issue(folder, ["client-0", "client-1"], tmp_path)
    register = folder.folder / "certificates.jsonl"
    register.write_bytes(register.read_bytes().replace(b"serial", b"cereal", 1))
    with pytest.raises(ConfigError, match=r"certificates\.jsonl:2: this line is no certificate"):
        folder.issued()
    assert os.stat(register).st_mode & 0o077 == 0


def test_a_full_disk_registers_and_signs_nothing(folder, tmp_path, monkeypatch):
    """The system writes as much of a line as there is room for, and calls that no error."""
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
        with pytest.raises(ConfigError, match=r"certificates\.jsonl: it cannot be used: No space left on device"):
            folder.sign(request("client-0")[1])
    assert folder.issued() == []
    folder.sign(request("client-1")[1])
    assert [each.name for each in folder.issued()] == ["client-1"]
