"""Tokens at the authority: one name, one pair of keys, once, and no secret in any file."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.net.authority_folder import AuthorityFolder
from tacit.net.enrolment_tokens import Spent, Token, authority_digest, create, read_token, redeem, remove_expired
from tacit.net.identity import identity_of, read_request, request
from tacit.net.key_files import init_authority
from tacit.net.revoking import revoke_name

NOW = datetime.now(UTC)


@pytest.fixture
def folder(tmp_path):
    init_authority(tmp_path / "ca")
    return AuthorityFolder(tmp_path / "ca")


def token_for(folder, name="site-1", **options) -> Token:
    return create(folder, name, "127.0.0.1:1", **options)


def redeemed(folder, token, asked, now=None):
    return redeem(folder, token.id, token.secret, asked, now)


names = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
tokens = st.builds(
    Token,
    names,
    st.text(max_size=40),
    st.integers(0, 2**40),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=16, max_size=16),
)


@given(tokens)
def test_a_token_is_read_as_it_was_written(token):
    assert read_token(token.text) == token
    assert read_token(f" {token.text[:30]}\n{token.text[30:]} ") == token  # as a mail may break it
    assert token.secret.hex() not in repr(token)


@given(tokens, st.data())
def test_a_token_that_was_copied_wrongly_is_noticed(token, data):
    at = data.draw(st.integers(0, len(token.text) - 1))
    other = data.draw(st.sampled_from("abcXYZ019-_"))
    changed = token.text[:at] + other + token.text[at + 1 :]
    if changed == token.text:
        return
    if at == len(token.text) - 1:
        return  # the last character has bits that say nothing
    with pytest.raises(ValueError, match="not a whole token"):
        read_token(changed)


@pytest.mark.parametrize("text", ["", "tacit-token-", "tacit-token-AAAA", "x" * 5000, "tacit-token-" + "A" * 400, "é"])
def test_nonsense_is_no_token(text):
    with pytest.raises(ValueError, match="not a whole token"):
        read_token(text)


def test_a_token_gives_a_certificate_for_its_name_and_the_keys_asked_for(folder):
    token = token_for(folder, certificate_days=20)
    _, asked = request("site-1")
    found = identity_of(redeemed(folder, token, asked), folder.certificate_pem)
    assert (found.name, found.fingerprint) == ("site-1", read_request(asked).fingerprint)
    assert (found.expires - NOW).days in (19, 20)
    assert token.authority == authority_digest(folder.certificate_pem)
    assert [each.name for each in folder.issued()] == ["site-1"]


def test_the_secret_is_in_no_file_and_the_files_are_private(folder):
    token = token_for(folder)
    redeemed(folder, token, request("site-1")[1])
    forms = [
        token.secret,
        token.secret.hex().encode(),
        base64.urlsafe_b64encode(token.secret).rstrip(b"="),
        token.text.encode(),
    ]
    for path in folder.folder.rglob("*"):
        if path.is_file():
            assert not any(form in path.read_bytes() for form in forms)
            if path.parent.name == "tokens" or path.suffix == ".jsonl":
                assert path.stat().st_mode & 0o077 == 0
    assert len(token.secret) * 8 == 128
    assert len({token_for(folder).secret for _ in range(20)}) == 20


def test_it_is_used_once_and_the_same_request_may_be_repeated(folder):
    token, (_, asked), (_, other) = token_for(folder), request("site-1"), request("site-1")
    first = redeemed(folder, token, asked)
    assert redeemed(folder, token, asked) == first
    with pytest.raises(Spent, match="used already, for other keys"):
        redeemed(folder, token, other)
    assert redeemed(AuthorityFolder(folder.folder), token, asked) == first  # after a restart
    assert len(folder.issued()) == 1


def test_of_many_at_once_one_gets_a_certificate(folder):
    token, asked = token_for(folder), [request("site-1")[1] for _ in range(16)]

    def attempt(each):
        try:
            return redeemed(AuthorityFolder(folder.folder), token, each)  # as two servers of one folder
        except Spent:
            return None

    with ThreadPoolExecutor(16) as pool:
        given = [each for each in pool.map(attempt, asked) if each is not None]
    assert len(given) == 1
    assert len({each.fingerprint for each in folder.issued()}) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda token: replace_struct(token, secret=bytes(16)), "not known here"),
        (lambda token: replace_struct(token, id=bytes(8)), "not known here"),
        (
            lambda token: replace_struct(token, secret=token.secret[:-1] + bytes([token.secret[-1] ^ 1])),
            "not known here",
        ),
    ],
)
def test_a_guess_is_refused_and_says_nothing(folder, change, why):
    token = token_for(folder)
    with pytest.raises(PeerError, match=why) as error:
        redeemed(folder, change(token), request("site-1")[1])
    assert not isinstance(error.value, Spent)
    assert "site-1" not in str(error.value)
    redeemed(folder, token, request("site-1")[1])  # and does the token no harm


def replace_struct(token, **changes):
    return Token(**({name: getattr(token, name) for name in token.__struct_fields__} | changes))


def test_a_token_of_another_name_authority_or_time_is_refused(folder, tmp_path):
    token, (_, asked) = token_for(folder), request("site-1")
    with pytest.raises(Spent, match="the token is for site-1, and the request for site-2"):
        redeemed(folder, token, request("site-2")[1])
    with pytest.raises(Spent, match=r"the token for site-1 expired on"):
        redeemed(folder, token, asked, NOW + timedelta(days=8))
    init_authority(tmp_path / "other")
    other = AuthorityFolder(tmp_path / "other")
    with pytest.raises(PeerError, match="not known here"):
        redeemed(other, token, asked)
    # Nor where its file is copied there: the hash is over the authority too.
    (other.folder / "tokens").mkdir()
    for path in (folder.folder / "tokens").iterdir():
        copied = other.folder / "tokens" / path.name
        copied.write_bytes(path.read_bytes())
        copied.chmod(0o600)
    with pytest.raises(PeerError, match="not known here"):
        redeemed(other, token, asked)
    redeemed(folder, token, asked)  # nothing of that used it


@pytest.mark.parametrize("field", ["name", "expires"])
def test_what_a_tokens_file_says_cannot_be_changed_without_the_secret(folder, field):
    token = token_for(folder)
    (path,) = (folder.folder / "tokens").iterdir()
    path.write_text(
        path.read_text().replace('"site-1"', '"site-2"')
        if field == "name"
        else path.read_text().replace(str(token.expires), str(token.expires + 9))
    )
    with pytest.raises(PeerError, match="not known here"):
        redeemed(folder, token, request("site-2")[1])


@pytest.mark.parametrize("asked", [b"", b"nothing", bytes(2000)])
def test_a_request_that_is_none_does_not_use_the_token(folder, asked):
    token = token_for(folder)
    with pytest.raises(Spent, match="not a readable request"):
        redeemed(folder, token, asked)
    redeemed(folder, token, request("site-1")[1])


def test_a_request_without_both_private_keys_is_refused(folder):
    """An attacker who saw another party's request on the way does not get it a certificate for a key of their own."""
    token = token_for(folder)
    _, theirs = request("site-1")
    with pytest.raises(Spent):
        redeemed(folder, token, theirs.replace(theirs[100:104], b"AAAA"))


# --- with revocation


def test_revoking_a_name_voids_its_tokens_and_its_keys(folder):
    used, unused, other = token_for(folder), token_for(folder), token_for(folder, "site-2")
    _, asked = request("site-1")
    redeemed(folder, used, asked)
    made, cancelled = revoke_name(folder, "site-1")
    assert (len(made.entries), cancelled) == (1, 1)
    for token in (used, unused):
        with pytest.raises(PeerError, match="not known here"):
            redeemed(folder, token, asked)
    redeemed(folder, other, request("site-2")[1])
    fresh = token_for(folder)
    with pytest.raises(Spent, match=r"the keys of this request for site-1 were revoked on .*: it has to make new ones"):
        redeemed(folder, fresh, asked)
    with pytest.raises(ConfigError, match="revoked already"):
        revoke_name(folder, "site-1")


def test_a_token_whose_request_was_refused_for_revoked_keys_is_not_lost(folder):
    """The party makes new keys, and uses the same token."""
    _, old = request("site-1")
    folder.sign(old)
    revoke_name(folder, "site-1")
    token = token_for(folder)
    with pytest.raises(Spent, match="revoked"):
        redeemed(folder, token, old)
    redeemed(folder, token, request("site-1")[1])


@pytest.mark.parametrize(
    ("days", "why"),
    [
        (0, "a certificate lasts from 1 to"),
        (24, r"24 days are longer than the authority lasts, .*: give 2[23] or fewer"),
    ],
)
def test_a_token_whose_certificate_could_not_be_signed_is_not_made(tmp_path, days, why):
    """It would be used for these keys, and never give a certificate."""
    init_authority(tmp_path / "short", days=30)
    folder = AuthorityFolder(tmp_path / "short")
    with pytest.raises(ConfigError, match=why):
        token_for(folder, certificate_days=days)
    assert not (folder.folder / "tokens").exists()
    token, (_, asked) = token_for(folder, certificate_days=22), request("site-1")
    assert redeemed(folder, token, asked, datetime.fromtimestamp(token.expires, UTC))


def test_days_are_bounded_and_old_tokens_are_removed(folder):
    for days in (0, 91):
        with pytest.raises(ConfigError, match="a token lasts from 1 to 90"):
            token_for(folder, days=days)
    with pytest.raises(ConfigError, match="not a valid name"):
        token_for(folder, "Site 1")
    token_for(folder)
    token_for(folder, days=90)
    remove_expired(folder, NOW + timedelta(days=8))
    assert len(list((folder.folder / "tokens").iterdir())) == 2  # the words for an expired one are better
    remove_expired(folder, NOW + timedelta(days=98))
    assert len(list((folder.folder / "tokens").iterdir())) == 1
