"""Revocation lists: what is on them, who signed them, and what is refused. OpenSSL reads them too."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from tacit.net.identity import Authority, authority_certificate, identity_of, request
from tacit.net.revocation_list import (
    LARGEST_LIST,
    MOST_REVOKED,
    REASONS,
    REVOKED_KEYS,
    RevocationList,
    Revoked,
    read_list,
    read_unverified,
    signed_list,
)

AUTHORITY = Authority.create()
CERTIFICATE = authority_certificate(AUTHORITY.certificate_pem)
KEY = serialization.load_pem_private_key(AUTHORITY.private_pem, None)
NOW = datetime.now(UTC).replace(microsecond=0)


def entry(name="client-1", reason="unspecified"):
    _, asked = request(name)
    found = identity_of(AUTHORITY.sign(asked), AUTHORITY.certificate_pem)
    return found, Revoked(found.serial, found.fingerprint, NOW, reason)


serials = st.integers(1, 2**159 - 1)
fingerprints = st.binary(min_size=16, max_size=16).map(
    lambda raw: " ".join(raw.hex()[at : at + 4] for at in range(0, 32, 4))
)
entries = st.lists(
    st.builds(Revoked, serials, fingerprints, st.just(NOW), st.sampled_from(sorted(REASONS))),
    max_size=5,
    unique_by=(lambda each: each.serial, lambda each: each.fingerprint),
)


@given(entries, st.integers(1, 2**63 - 1))
def test_what_is_signed_is_read(entries, number):
    made = signed_list(KEY, CERTIFICATE, number, entries, NOW)
    for form in (made.data, made.pem):
        found = read_list(form, CERTIFICATE)
        assert (found.number, found.date, found.entries) == (number, NOW, tuple(entries))
        assert found.data == made.data
    assert read_unverified(made.pem).entries == tuple(entries)


def test_an_entry_is_of_a_certificate_and_of_all_others_with_its_keys_and_of_no_other():
    _, asked = request("client-1")
    first, renewed = (identity_of(AUTHORITY.sign(asked, days), AUTHORITY.certificate_pem) for days in (10, 20))
    other = identity_of(AUTHORITY.sign(request("client-1")[1]), AUTHORITY.certificate_pem)
    made = signed_list(KEY, CERTIFICATE, 1, [Revoked(first.serial, first.fingerprint, NOW, "superseded")])
    assert first.serial != renewed.serial
    for revoked in (first, renewed):
        assert made.entry_of(revoked.serial, revoked.fingerprint).words == f"revoked on {NOW:%Y-%m-%d} (superseded)"
    assert made.entry_of(other.serial, other.fingerprint) is None
    assert made.keys_entry(other.fingerprint) is None
    assert RevocationList().entry_of(first.serial, first.fingerprint) is None


def test_each_list_has_the_entries_of_the_one_before_it_and_the_next_number():
    one, two = entry("client-1")[1], entry("client-2", "key-compromise")[1]
    first = AUTHORITY.revoke(RevocationList(), [one])
    second = AUTHORITY.revoke(first, [two])
    assert (first.number, second.number) == (1, 2)
    assert second.entries == (one, two)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="OpenSSL's command reads it too, where it is")
def test_openssl_reads_and_verifies_it(tmp_path):
    found, revoked = entry(reason="key-compromise")
    (tmp_path / "list.pem").write_bytes(signed_list(KEY, CERTIFICATE, 7, [revoked]).pem)
    (tmp_path / "authority.pem").write_bytes(AUTHORITY.certificate_pem)
    command = ["openssl", "crl", "-in", "list.pem", "-CAfile", "authority.pem", "-text", "-noout"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "verify OK" in done.stderr
    assert f"{found.serial:X}" in done.stdout
    assert "Key Compromise" in done.stdout


def built(number=1, issuer=CERTIFICATE.subject, key=KEY, extra=(), serial=1, keys=b"\x04\x10" + bytes(16)):
    """A list by hand, as one who has the authority's key, or not, would make it."""
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer).last_update(NOW)
    builder = builder.next_update(NOW + timedelta(days=1))
    if number is not None:
        builder = builder.add_extension(x509.CRLNumber(number), critical=False)
    for extension in extra:
        builder = builder.add_extension(extension, critical=True)
    revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(NOW)
    if keys is not None:
        revoked = revoked.add_extension(x509.UnrecognizedExtension(REVOKED_KEYS, keys), critical=False)
    made = builder.add_revoked_certificate(revoked.build()).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


PART_ONLY = x509.IssuingDistributionPoint(None, None, True, False, None, False, False)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"key": ec.generate_private_key(ec.SECP256R1())}, "signed by another authority"),
        ({"issuer": authority_certificate(Authority.create("other").certificate_pem).subject}, "another issuer"),
        ({"number": None}, "has no number"),
        ({"number": 0}, "number 0"),
        ({"number": 2**63}, "from 1 to"),
        ({"extra": [PART_ONLY]}, "not a complete one"),
        ({"extra": [x509.DeltaCRLIndicator(1)]}, "not a complete one"),
    ],
)
def test_a_list_that_is_not_a_tacit_authoritys_is_refused(fault, why):
    assert read_list(built(), CERTIFICATE).number == 1  # the control
    with pytest.raises(ValueError, match=why):
        read_list(built(**fault), CERTIFICATE)


@pytest.mark.parametrize("keys", [None, b"", b"\x04\x08" + bytes(8), b"\x04\x10" + bytes(15), b"\x30\x10" + bytes(16)])
def test_an_entry_without_a_fingerprint_counts_by_its_serial_number(keys):
    """As another program with the authority's key would make it."""
    found = read_list(built(serial=77, keys=keys), CERTIFICATE)
    assert found.entry_of(77, "x") is not None
    assert found.entry_of(78, "") is None


def test_no_byte_of_it_can_be_changed():
    _, revoked = entry()
    made = signed_list(KEY, CERTIFICATE, 3, [revoked])
    for at in range(len(made.data)):
        changed = bytearray(made.data)
        changed[at] ^= 1
        try:
            found = read_list(bytes(changed), CERTIFICATE)
        except ValueError:
            continue
        assert replace(found, data=b"") == replace(made, data=b"")  # a byte that says nothing


@given(st.binary(max_size=200))
def test_random_bytes_are_no_list(data):
    for read in (lambda: read_list(data, CERTIFICATE), lambda: read_unverified(data)):
        with pytest.raises(ValueError, match="revocation list"):
            read()


def test_sizes_are_bounded():
    with pytest.raises(ValueError, match=f"at most {LARGEST_LIST} are read"):
        read_list(bytes(LARGEST_LIST + 1), CERTIFICATE)
    many = [
        Revoked(1 << 150 | number, "ffff " * 7 + f"{number:04x}", NOW, "superseded")
        for number in range(1, MOST_REVOKED + 1)
    ]
    full = signed_list(KEY, CERTIFICATE, 1, many)
    assert len(full.pem) < LARGEST_LIST
    with pytest.raises(ValueError, match=f"at most {MOST_REVOKED}"):
        AUTHORITY.revoke(full, [entry()[1]])
