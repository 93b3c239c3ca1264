"""Which list a party goes by: the newest that it has seen, over restarts; nothing older, and nobody else's."""

from __future__ import annotations

import re

import pytest

from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.net import revocations as module
from tacit.net.identity import Authority, authority_certificate, identity_of, request
from tacit.net.pins import Pins
from tacit.net.revocation_list import RevocationList, Revoked
from tacit.net.revocations import Revocations
from tacit.runs.join import keep_revocations
from tacit.store.party_folder import check_copies
from tests.net.loopback import certified

AUTHORITY, STRANGER = Authority.create(), Authority.create()
CERTIFICATE = authority_certificate(AUTHORITY.certificate_pem)


def someone(name="client-1"):
    return identity_of(AUTHORITY.sign(request(name)[1]), AUTHORITY.certificate_pem)


def lists(count, *identities, authority=AUTHORITY):
    """Lists 1 to `count`: the first of nobody, then of all of them."""
    found = [authority.revoke(RevocationList(), [])]
    for _ in range(count - 1):
        more = [Revoked(each.serial, each.fingerprint, found[0].date) for each in identities]
        found.append(authority.revoke(found[-1], more if len(found) == 1 else []))
    return found


def test_a_newer_list_is_used_and_an_older_one_refused():
    found, other = someone(), someone("client-2")
    first, second, third = lists(3, found)
    known = Revocations(CERTIFICATE)
    known.check(found)
    assert known.take(first.data)
    known.check(found)
    assert known.take(third.pem)
    assert not known.take(third.data)  # once more
    with pytest.raises(PeerError, match=r"the certificate of client-1 was revoked on .* \(revocation list 3 of"):
        known.check(found)
    known.check(other)
    with pytest.raises(PeerError, match=r"revocation list 2 of .* is older than revocation list 3"):
        known.take(second.data)
    assert known.newest.number == 3


def test_two_lists_with_one_number_are_noticed():
    first = AUTHORITY.revoke(RevocationList(), [])
    found = someone()
    second = AUTHORITY.revoke(RevocationList(), [Revoked(found.serial, found.fingerprint, first.date)])
    known = Revocations(CERTIFICATE)
    known.take(first.data)
    with pytest.raises(PeerError, match="two different lists with the number 1"):
        known.take(second.data)


@pytest.mark.parametrize("data", [b"", b"nothing", lists(1, authority=STRANGER)[0].data, bytes(2_000_000)])
def test_what_is_not_the_authoritys_changes_nothing(data):
    known = Revocations(CERTIFICATE)
    with pytest.raises(PeerError):
        known.take(data)
    assert known.newest.number == 0
    with pytest.raises(PeerError, match="without certificates"):
        Revocations().take(lists(1)[0].data)


# --- the file


def test_a_file_is_read_again_when_it_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_RETRY", 0.0)
    path, found, said = tmp_path / "revoked.pem", someone(), []
    first, second, third = lists(3, found)
    path.write_bytes(second.pem)
    known = Revocations(CERTIFICATE, path)
    assert known.newest.number == 2
    assert not known.read(said.append)
    path.write_bytes(third.pem)
    assert known.read(said.append)
    assert said.pop().startswith("revocation list 3")

    for data, why in (
        (b"half a li", "not a readable revocation list: get the newest from the authority; what was read before stays"),
        (lists(9, authority=STRANGER)[-1].pem, "signed by another authority than ours"),
        (first.pem, "revocation list 1 of .* is older than revocation list 3 .*, which was seen before; the newer"),
    ):
        path.write_bytes(data)
        assert not known.read(said.append)
        assert not known.read(said.append)
        (only,) = said  # it is said once
        assert only.startswith(str(path))
        assert re.search(why, only)
        said.clear()
        assert known.newest.number == 3
    path.unlink()
    assert not known.read(said.append)
    assert "there is no such file; what was read before stays in use" in said.pop()
    with pytest.raises(PeerError):
        known.check(found)


def test_a_list_that_cannot_be_stored_is_not_used_and_is_read_again(tmp_path):
    path, (first, second) = tmp_path / "r.pem", lists(2, someone())
    path.write_bytes(first.pem)
    known, full = Revocations(CERTIFICATE, path), True

    def store(newest):
        if full:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        known.keep(b"", store)
    path.write_bytes(second.pem)
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            known.read(print)
        assert known.newest.number == 1
    full = False
    assert known.read(lambda text: None)
    assert known.newest.number == 2


@pytest.mark.parametrize(
    ("data", "why"),
    [(None, "no such file"), (b"x", "not a readable"), (lists(1, authority=STRANGER)[0].pem, "another authority")],
)
def test_a_party_does_not_start_with_a_file_that_cannot_be_used(tmp_path, data, why):
    if data is not None:
        (tmp_path / "r.pem").write_bytes(data)
    with pytest.raises(ConfigError, match=rf"r\.pem.*{why}"):
        Revocations(CERTIFICATE, tmp_path / "r.pem")


# --- across restarts


def test_the_newest_is_kept_in_the_runs_folder_and_counts_after_a_restart(tmp_path):
    found = someone()
    first, second = lists(2, found)
    own = certified(AUTHORITY, "client-0")
    assert keep_revocations(own, tmp_path) == ""
    assert not list(tmp_path.iterdir())
    own.revocations.take(second.data)

    again = certified(AUTHORITY, "client-0")
    keep_revocations(again, tmp_path)
    assert again.revocations.newest == own.revocations.newest
    with pytest.raises(PeerError, match="older"):
        again.revocations.take(first.data)
    with pytest.raises(PeerError, match="revoked"):
        again.revocations.check(found)


def test_an_own_file_that_was_rolled_back_is_said_and_not_used(tmp_path):
    first, second = lists(2, someone())
    own = certified(AUTHORITY, "client-0")
    keep_revocations(own, tmp_path)
    own.revocations.take(second.data)
    (tmp_path / "r.pem").write_bytes(first.pem)
    known = Revocations(CERTIFICATE, tmp_path / "r.pem")
    said = known.keep(second.pem, lambda newest: None)
    assert "r.pem: revocation list 1" in said
    assert "is older than revocation list 2" in said
    assert known.newest.number == 2


def test_what_is_damaged_or_another_authoritys_in_the_folder_is_not_taken_for_none(tmp_path):
    own = certified(AUTHORITY, "client-0")
    keep_revocations(own, tmp_path)
    own.revocations.take(lists(1)[0].data)
    with pytest.raises(ConfigError, match=r"revoked\.json: .* signed by another authority .*: start a new run"):
        keep_revocations(certified(STRANGER, "client-0"), tmp_path)
    for path in tmp_path.iterdir():
        path.write_text(path.read_text().replace("X509", "X508", 1))
    for read in (lambda: keep_revocations(certified(AUTHORITY, "client-0"), tmp_path), lambda: check_copies(tmp_path)):
        with pytest.raises(ConfigError, match="damaged"):
            read()


def test_a_party_whose_own_certificate_is_revoked_does_not_start(tmp_path):
    own = certified(AUTHORITY, "client-0")
    mine = own.identify(own.certificate)
    own.revocations.take(lists(2, mine)[-1].data)
    with pytest.raises(ConfigError, match="the certificate of client-0 was revoked"):
        keep_revocations(own, tmp_path)


def test_another_party_is_not_identified_once_its_certificate_is_revoked():
    own, theirs = certified(AUTHORITY, "client-0"), certified(AUTHORITY, "client-1")
    found = own.identify(theirs.certificate)
    assert found.name == "client-1"
    own.revocations.take(lists(2, found)[-1].data)
    with pytest.raises(PeerError, match="the certificate of client-1 was revoked"):
        own.identify(theirs.certificate)


# --- what it means for pins


def test_a_name_whose_keys_are_revoked_may_come_back_with_others():
    old, new = someone(), someone()
    known, stored = Revocations(CERTIFICATE), []
    pins = Pins({"client-1": old.fingerprint}, lambda peers: stored.append(dict(peers)))
    with pytest.raises(PeerError, match="other keys"):
        pins.meet(new, known)
    known.take(lists(2, old)[-1].data)
    pins.meet(new, known)
    pins.save()
    assert stored == [{"client-1": new.fingerprint}]
    with pytest.raises(PeerError, match="other keys"):
        pins.meet(someone(), known)
