"""What is taken back with a name: all its certificates, one of them, or one that an earlier release signed."""

from __future__ import annotations

import subprocess
from contextlib import suppress

import pytest

from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.net import authority_folder, revoking
from tacit.net.authority_folder import AuthorityFolder
from tacit.net.enrolment_tokens import cancel, create, redeem
from tacit.net.identity import Authority, request
from tacit.net.key_files import init_authority
from tacit.net.revoking import revoke_name


@pytest.fixture
def folder(tmp_path):
    init_authority(tmp_path / "ca")
    return AuthorityFolder(tmp_path / "ca")


def signed(folder, name, path=None):
    made = folder.sign(request(name)[1])
    if path is not None:
        path.write_bytes(made)
    return folder.given(made)


def test_all_certificates_of_a_name_and_no_other(folder):
    mine, theirs = [signed(folder, "client-1"), signed(folder, "client-1")], signed(folder, "client-2")
    made, _ = revoke_name(folder, "client-1", reason="key-compromise")
    assert {each.serial for each in made.entries} == {each.serial for each in mine}
    assert made.entry_of(theirs.serial, theirs.fingerprint) is None
    assert {each.reason for each in made.entries} == {"key-compromise"}
    assert AuthorityFolder(folder.folder).revoked() == made
    fresh = signed(folder, "client-1")  # new keys for the same name
    assert made.entry_of(fresh.serial, fresh.fingerprint) is None
    again, _ = revoke_name(folder, "client-1")
    assert (again.number, len(again.entries)) == (made.number + 1, 3)


def test_one_certificate_by_its_file(folder, tmp_path):
    first, second = signed(folder, "client-1", tmp_path / "c.pem"), signed(folder, "client-1")
    made, _ = revoke_name(folder, "client-1", [tmp_path / "c.pem"])
    assert made.entry_of(first.serial, "") is not None
    assert made.entry_of(second.serial, second.fingerprint) is None


def test_an_authority_of_an_earlier_release_has_no_register_and_no_list(folder, tmp_path):
    certificate = folder.authority.sign(request("client-1")[1])  # as that release did
    (tmp_path / "c.pem").write_bytes(certificate)
    folder.revoked_file.unlink()
    (folder.folder / "certificates.jsonl").unlink()
    old = AuthorityFolder(folder.folder)
    with pytest.raises(ConfigError, match=r"client-1 has no certificate in the register .*: check the name, or give"):
        revoke_name(old, "client-1")
    made, _ = revoke_name(old, "client-1", [tmp_path / "c.pem"])
    assert (made.number, len(made.entries)) == (1, 1)


@pytest.mark.parametrize("worse", ["another name", "another authority", "nothing"])
def test_a_file_that_does_not_fit_is_refused(folder, tmp_path, worse):
    path = tmp_path / "c.pem"
    data = {
        "another name": folder.sign(request("client-2")[1]),
        "another authority": Authority.create().sign(request("client-1")[1]),
        "nothing": b"x",
    }
    path.write_bytes(data[worse])
    with pytest.raises(ConfigError, match=r"c\.pem: "):
        revoke_name(folder, "client-1", [path])
    assert folder.revoked().number == 1


def test_a_list_that_was_lost_or_changed_is_not_begun_anew(folder):
    """The number must not fall: parties would refuse the list."""
    signed(folder, "client-1")
    folder.revoked_file.write_bytes(folder.revoked_file.read_bytes()[:-40])
    with pytest.raises(ConfigError, match=r"revoked\.pem: this is not a readable revocation list"):
        revoke_name(AuthorityFolder(folder.folder), "client-1")


def test_a_list_that_was_deleted_or_rolled_back_is_not_begun_anew(folder):
    first = folder.revoked_file.read_bytes()
    found = signed(folder, "client-1")
    revoke_name(folder, "client-1")
    newest = folder.revoked_file.read_bytes()
    _, asked = request("client-2")
    for lost, why in (
        (first, "this is list 1, and list 2 was signed here"),
        (None, "there is no such file, and list 2"),
    ):
        folder.revoked_file.unlink()
        if lost is not None:
            folder.revoked_file.write_bytes(lost)
        again = AuthorityFolder(folder.folder)
        for what in (
            again.revoked,
            lambda again=again: again.sign(asked),
            lambda again=again: revoke_name(again, "client-1"),
        ):
            with pytest.raises(ConfigError, match=why):
                what()
        with pytest.raises(ConfigError, match=why):
            folder.revoked()
    folder.revoked_file.write_bytes(newest)
    assert AuthorityFolder(folder.folder).revoked().entry_of(found.serial, "") is not None


def test_a_kill_between_two_steps_leaves_the_old_list(folder, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(*arguments):
        raise Killed

    signed(folder, "client-1")
    before = folder.revoked_file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(authority_folder, "write_file", killed)
        with pytest.raises(Killed):
            revoke_name(folder, "client-1")
    assert folder.revoked_file.read_bytes() == before
    assert revoke_name(folder, "client-1")[0].number == 2


@pytest.mark.parametrize("step", ["issued", "cancel"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_token_that_is_used_while_its_name_is_revoked_gives_nothing_that_lasts(folder, monkeypatch, step, moment):
    """A thief is as fast as can be: between any two steps of the operator's command."""
    token, (_, asked) = create(folder, "client-1", "127.0.0.1:1"), request("client-1")
    signed(folder, "client-1")
    stolen = []

    def used(now):
        if now == moment:
            with suppress(PeerError):
                stolen.append(folder.given(redeem(AuthorityFolder(folder.folder), token.id, token.secret, asked)))

    def meanwhile(function):
        def called(*arguments, **options):
            used("before")
            made = function(*arguments, **options)
            used("after")
            return made

        return called

    owner, function = (AuthorityFolder, AuthorityFolder.issued) if step == "issued" else (revoking, cancel)
    monkeypatch.setattr(owner, step, meanwhile(function))
    made, _ = revoke_name(folder, "client-1")
    assert len(stolen) == ((step, moment) == ("cancel", "before"))
    assert all(made.entry_of(each.serial, "") for each in stolen)


@pytest.mark.parametrize("lost", ["all of it", "all but its newest list"])
def test_a_register_that_was_lost_or_rolled_back_is_not_begun_anew(folder, tmp_path, lost):
    """Certificates that are not in it would stay valid when their name is revoked."""
    found = signed(folder, "client-1", tmp_path / "c.pem")
    register = folder.folder / "certificates.jsonl"
    old = register.read_bytes()
    for _ in range(2):
        folder.revoke([])
    whole = register.read_bytes()
    register.unlink()
    if lost != "all of it":
        register.write_bytes(old)
    again, (_, asked) = AuthorityFolder(folder.folder), request("client-1")
    for what in (lambda: again.sign(asked), lambda: revoke_name(again, "client-1"), lambda: folder.sign(asked)):
        with pytest.raises(ConfigError, match=r"certificates\.jsonl: it was lost, or is older than revocation list 3"):
            what()
    with pytest.raises(ConfigError) as error:
        again.revoked()
    subprocess.run(["/bin/sh", "-c", str(error.value).rpartition("anew by: ")[2]], check=True)
    again.sign(asked)
    made, _ = revoke_name(again, "client-1", [tmp_path / "c.pem"])
    assert made.entry_of(found.serial, "") is not None
    register.write_bytes(whole)


def test_an_authority_that_was_just_made_notices_that_its_register_was_lost(folder):
    signed(folder, "client-1")
    (folder.folder / "certificates.jsonl").unlink()
    with pytest.raises(ConfigError, match="it was lost"):
        revoke_name(AuthorityFolder(folder.folder), "client-1")


def test_lists_that_another_process_signs_are_no_loss(folder):
    """`tacit keys serve` runs on while names are revoked."""
    serving = AuthorityFolder(folder.folder)
    assert serving.revoked().number == 1
    for number in (2, 3, 4):
        AuthorityFolder(folder.folder).revoke([])
        if number != 3:
            assert serving.revoked().number == number
