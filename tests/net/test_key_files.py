"""The files of keys: their modes, what is never overwritten, and what is refused with which words."""

import os
import stat
from datetime import UTC, datetime, timedelta

import pytest

from tacit.config.source import ConfigError
from tacit.net import key_files

NOW = datetime.now(UTC)


@pytest.fixture
def parties(tmp_path):
    """An authority, and client-3 with its certificate beside its request."""
    key_files.init_authority(tmp_path / "authority")
    key_files.make_request("client-3", tmp_path)
    key_files.sign_request(tmp_path / "authority", tmp_path / "client-3.request.pem")
    return tmp_path


def loaded(folder, now=None, authority="authority"):
    return key_files.load_credentials(
        folder / "client-3.private.pem",
        folder / "client-3.certificate.pem",
        folder / authority / "authority.pem",
        now,
    )


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_from_nothing_to_credentials(parties):
    found = loaded(parties)
    assert found.name == "client-3"
    assert (found.expires - NOW).days in (364, 365)
    assert sorted(path.name for path in parties.iterdir()) == [
        "authority",
        "client-3.certificate.pem",
        "client-3.private.pem",
        "client-3.request.pem",
    ]


def test_private_files_are_private_whatever_the_umask(tmp_path, monkeypatch):
    opened = []
    real = os.open

    def watched(path, flags, given=0o777, **more):
        opened.append((os.fspath(path), flags, given))
        return real(path, flags, given, **more)

    monkeypatch.setattr(os, "open", watched)
    before = os.umask(0)
    try:
        key_files.init_authority(tmp_path / "authority")
        key_files.make_request("client-3", tmp_path)
        key_files.make_request("client-3", tmp_path, overwrite=True)
    finally:
        os.umask(before)
    for path in (tmp_path / "authority" / "authority.private.pem", tmp_path / "client-3.private.pem"):
        assert mode(path) == 0o600
    assert mode(tmp_path / "authority") == 0o700
    made = [
        (flags, given) for path, flags, given in opened if "private" in os.path.basename(path) and flags & os.O_CREAT
    ]
    assert len(made) == 3
    assert all(flags & os.O_EXCL and given == 0o600 for flags, given in made)  # from the first moment


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o620])
def test_a_private_file_that_others_can_use_is_not_read(parties, wide):
    private = parties / "client-3.private.pem"
    private.chmod(wide)
    with pytest.raises(ConfigError, match=f"chmod 600 {private}"):
        loaded(parties)
    with pytest.raises(ConfigError, match=f"chmod 600 {private}"):
        key_files.describe(private)
    (parties / "authority" / "authority.private.pem").chmod(wide)
    with pytest.raises(ConfigError, match="chmod 600"):
        key_files.sign_request(parties / "authority", parties / "client-3.request.pem", parties / "new.pem")


def test_nothing_is_overwritten(parties):
    before = {path: path.read_bytes() for path in parties.rglob("*.pem")}
    with pytest.raises(ConfigError, match="exists"):
        key_files.init_authority(parties / "authority")
    with pytest.raises(ConfigError, match="exists"):
        key_files.make_request("client-3", parties)
    with pytest.raises(ConfigError, match="exists"):
        key_files.sign_request(parties / "authority", parties / "client-3.request.pem")
    (parties / "client-4.request.pem").write_bytes(b"")
    with pytest.raises(ConfigError, match="exists"):
        key_files.make_request("client-4", parties)
    assert not (parties / "client-4.private.pem").exists()
    assert all(path.read_bytes() == data for path, data in before.items())


def test_a_full_disk_leaves_no_half_written_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        key_files.make_request("client-3", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_overwriting_on_purpose_replaces_the_keys(parties):
    old = (parties / "client-3.private.pem").read_bytes()
    key_files.make_request("client-3", parties, overwrite=True)
    assert (parties / "client-3.private.pem").read_bytes() != old
    assert mode(parties / "client-3.private.pem") == 0o600
    with pytest.raises(ConfigError, match=r"client-3\.certificate\.pem: .* not of this private key"):
        loaded(parties)


def test_signing_the_same_request_again_renews(parties):
    later = NOW + timedelta(days=400)
    with pytest.raises(ConfigError, match=r"client-3\.certificate\.pem: the certificate of client-3 expired on"):
        loaded(parties, later)
    key_files.sign_request(parties / "authority", parties / "client-3.request.pem", overwrite=True, now=later)
    assert loaded(parties, later).name == "client-3"


def test_the_file_at_fault_is_named(parties):
    key_files.init_authority(parties / "other")
    with pytest.raises(ConfigError, match=r"client-3\.certificate\.pem: .* another authority"):
        loaded(parties, authority="other")
    with pytest.raises(ConfigError, match=r"gone.*no such file"):
        loaded(parties, authority="gone")
    (parties / "other" / "authority.pem").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match=r"authority\.pem: this is not a readable certificate"):
        loaded(parties, authority="other")
    private = parties / "client-3.private.pem"
    private.write_bytes(private.read_bytes().split(b"-----END PRIVATE KEY-----\n")[0] + b"-----END PRIVATE KEY-----\n")
    with pytest.raises(ConfigError, match=r"client-3\.private\.pem: .* lack the signing key"):
        loaded(parties)


def test_a_refusal_signs_nothing(parties):
    class No(Exception):
        pass

    seen = []

    def refuse(request):
        seen.append((request.name, request.fingerprint))
        raise No

    out = parties / "new.pem"
    with pytest.raises(No):
        key_files.sign_request(parties / "authority", parties / "client-3.request.pem", out, approve=refuse)
    assert not out.exists()
    assert seen == [("client-3", key_files.describe(parties / "client-3.request.pem").fingerprint)]


def test_a_request_that_is_none_is_not_signed(parties):
    with pytest.raises(ConfigError, match=r"client-3\.certificate\.pem: this is not a readable request"):
        key_files.sign_request(parties / "authority", parties / "client-3.certificate.pem")
    key_files.init_authority(parties / "other")
    (parties / "authority" / "authority.pem").write_bytes((parties / "other" / "authority.pem").read_bytes())
    with pytest.raises(ConfigError, match="authority's certificate is not of this private key"):
        key_files.sign_request(parties / "authority", parties / "client-3.request.pem", parties / "new.pem")


def test_files_are_described_and_share_a_fingerprint(parties):
    private, request, certificate = (
        key_files.describe(parties / f"client-3.{kind}.pem", NOW) for kind in ("private", "request", "certificate")
    )
    assert (private.kind, request.kind, certificate.kind) == ("private keys", "request", "certificate")
    assert private.fingerprint == request.fingerprint == certificate.fingerprint
    assert (request.name, certificate.name, private.name) == ("client-3", "client-3", None)
    assert certificate.days_left in (364, 365)
    assert (request.expires, private.expires) == (None, None)
    authority = key_files.describe(parties / "authority" / "authority.pem")
    assert (authority.kind, authority.name) == ("authority", "authority")
    assert key_files.describe(parties / "authority" / "authority.private.pem").kind == "authority's private key"
