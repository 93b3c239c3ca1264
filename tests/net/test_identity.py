"""Certificates: who holds which keys, and what is refused in a sentence."""

import shutil
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.byte_strings import frame
from tacit.crypto.signing import SigningKey
from tacit.errors import PeerError
from tacit.net.certificates import PROOF, SIGNING_KEY, target_name
from tacit.net.identity import Authority, Credentials, identity_of, request
from tests.net.loopback import certified

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=20)
AUTHORITY = Authority.create(now=LONG_AGO)
OTHER = Authority.create(now=LONG_AGO)
CLIENT = certified(AUTHORITY, "client-3")


def der(pem):
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


def test_a_certificate_says_who_holds_which_signing_key():
    for form in (CLIENT.certificate, der(CLIENT.certificate)):
        found = identity_of(form, AUTHORITY.certificate_pem)
        assert (found.name, found.signing_public) == ("client-3", CLIENT.signing_key.public)
        assert found.expires == CLIENT.expires


@pytest.mark.parametrize(
    ("authority", "now", "why"),
    [
        (OTHER, None, "signed by another authority"),
        (AUTHORITY, NOW + timedelta(days=101), "the certificate of client-3 expired on"),
        (AUTHORITY, NOW - timedelta(days=1), "the certificate of client-3 is not valid before"),
    ],
)
def test_a_certificate_is_refused_in_a_sentence(authority, now, why):
    private, asked = request("client-3")
    certificate = AUTHORITY.sign(asked, 100, NOW)
    with pytest.raises(ValueError, match=why):
        Credentials.of(private, certificate, authority.certificate_pem, now)
    with pytest.raises(PeerError, match=why):
        identity_of(certificate, authority.certificate_pem, now)


def test_credentials_of_another_key_are_refused():
    private, _ = request("client-3")
    with pytest.raises(ValueError, match="not of this private key"):
        Credentials.of(private, CLIENT.certificate, AUTHORITY.certificate_pem)


def test_private_keys_without_the_signing_key_are_refused():
    with pytest.raises(ValueError, match="lack the signing key"):
        Credentials.of(CLIENT.private_key, CLIENT.certificate, AUTHORITY.certificate_pem)


def test_a_private_file_put_together_from_two_parties_is_refused():
    block = b"-----BEGIN PRIVATE KEY-----"
    (first, asked), (second, _) = request("client-3"), request("client-4")
    mixed = block + first.split(block)[1] + block + second.split(block)[2]
    with pytest.raises(ValueError, match="not of this private key"):
        Credentials.of(mixed, AUTHORITY.sign(asked), AUTHORITY.certificate_pem)


def signed_by_hand(*, replaced=None, left_out=None):
    """A certificate with the authority's signature that has an extension other than `sign` gives it."""
    given = x509.load_pem_x509_certificate(CLIENT.certificate)
    builder = (
        x509.CertificateBuilder()
        .subject_name(given.subject)
        .issuer_name(given.issuer)
        .public_key(given.public_key())
        .serial_number(given.serial_number)
        .not_valid_before(given.not_valid_before_utc)
        .not_valid_after(given.not_valid_after_utc)
    )
    for extension in given.extensions:
        if extension.oid != left_out:
            value = replaced if replaced is not None and extension.oid == replaced.oid else extension.value
            builder = builder.add_extension(value, extension.critical)
    key = serialization.load_pem_private_key(AUTHORITY.private_pem, None)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    "fault",
    [
        {"replaced": x509.BasicConstraints(ca=True, path_length=None)},
        {"replaced": x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])},
        {"replaced": x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])},
        {"replaced": x509.SubjectAlternativeName([x509.DNSName("client-4.tacit.invalid")])},
        {"replaced": x509.SubjectAlternativeName([x509.DNSName("client-3.example.org")])},
        {"replaced": x509.UnrecognizedExtension(SIGNING_KEY, bytes([4, 31]) + bytes(31))},
        {"left_out": x509.SubjectAlternativeName.oid},
        {"left_out": x509.ExtendedKeyUsage.oid},
        {"left_out": SIGNING_KEY},
    ],
)
def test_a_certificate_of_another_shape_is_refused_though_the_authority_signed_it(fault):
    assert identity_of(signed_by_hand(), AUTHORITY.certificate_pem).name == "client-3"
    with pytest.raises(PeerError):
        identity_of(signed_by_hand(**fault), AUTHORITY.certificate_pem)


@pytest.mark.parametrize("broken", [b"", b"0", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_unreadable_files_are_refused(broken):
    private, asked = request("client-3")
    certificate = AUTHORITY.sign(asked)
    for three in ((broken, certificate, AUTHORITY.certificate_pem), (private, broken, AUTHORITY.certificate_pem)):
        with pytest.raises(ValueError, match="readable"):
            Credentials.of(*three)
    with pytest.raises(ValueError, match="readable"):
        Credentials.of(private, certificate, broken)
    with pytest.raises(ValueError, match="readable"):
        AUTHORITY.sign(broken)


def test_two_authorities_in_one_file_are_refused():
    both = AUTHORITY.certificate_pem + OTHER.certificate_pem
    with pytest.raises(ValueError, match="2 certificates, one is expected"):
        identity_of(CLIENT.certificate, both)


def test_a_party_is_no_authority():
    private, asked = request("client-3")
    certificate = AUTHORITY.sign(asked)
    with pytest.raises(ValueError, match="not an authority's"):
        Authority.of(CLIENT.private_key, CLIENT.certificate)
    # Even where it signs all the same: the authority's certificate is the only one that is trusted.
    rogue = Authority(CLIENT.private_key, OTHER.certificate_pem)
    with pytest.raises(PeerError, match="another authority"):
        identity_of(rogue.sign(asked, 10), AUTHORITY.certificate_pem)
    assert Credentials.of(private, certificate, AUTHORITY.certificate_pem).name == "client-3"


@pytest.mark.filterwarnings("ignore")  # of `cryptography`, about odd serial numbers
@given(at=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_certificate_with_a_changed_byte_is_refused_or_says_the_same(at, flip):
    original = der(CLIENT.certificate)
    signed = x509.load_der_x509_certificate(original).tbs_certificate_bytes
    begin = original.index(signed)
    changed = bytearray(original)
    changed[begin + at % len(signed)] ^= flip
    with pytest.raises(PeerError):
        identity_of(bytes(changed), AUTHORITY.certificate_pem)
    # Outside of what is signed, one bit has no meaning to the parser: how many bits the signature leaves unused.
    changed = bytearray(original)
    changed[at % len(original)] ^= flip
    try:
        found = identity_of(bytes(changed), AUTHORITY.certificate_pem)
    except PeerError:
        return
    assert found == identity_of(original, AUTHORITY.certificate_pem)


@given(data=st.binary(max_size=200))
def test_random_bytes_are_no_certificate(data):
    with pytest.raises(PeerError):
        identity_of(data, AUTHORITY.certificate_pem)


def test_nothing_secret_is_in_the_representation():
    for shown in (repr(CLIENT), repr(AUTHORITY)):
        assert "PRIVATE" not in shown
    assert CLIENT.signing_key.seed.hex() not in repr(CLIENT)


# --- requests


def forged(name="client-3", proof_name=None, signing=None, signer=None, extensions=True, curve=None):
    """A request made by hand, with one thing wrong."""
    key = ec.generate_private_key(curve or ec.SECP256R1())
    signing = signing or SigningKey.generate()
    spki = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    proof = (signer or signing).sign(b"tacit certificate request 1", frame((proof_name or name).encode(), spki))
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    )
    if extensions:
        for identifier, value in ((SIGNING_KEY, signing.public), (PROOF, proof)):
            value = bytes([4, len(value)]) + value
            builder = builder.add_extension(x509.UnrecognizedExtension(identifier, value), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_the_forger_can_also_make_a_good_request():
    assert identity_of(AUTHORITY.sign(forged()), AUTHORITY.certificate_pem).name == "client-3"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"signer": SigningKey.generate()}, "does not hold the signing key"),
        ({"proof_name": "client-4"}, "does not hold the signing key"),
        ({"extensions": False}, "has no signing key"),
        ({"curve": ec.SECP384R1()}, "other than ECDSA P-256"),
        ({"name": "Client 3"}, "not for the name of a party"),
    ],
)
def test_a_faulty_request_is_not_signed(fault, why):
    with pytest.raises(PeerError, match=why):
        AUTHORITY.sign(forged(**fault))


def test_a_request_that_was_changed_is_not_signed():
    data = x509.load_pem_x509_csr(forged()).public_bytes(serialization.Encoding.DER)
    changed = x509.load_der_x509_csr(data.replace(b"client-3", b"client-4"))
    with pytest.raises(PeerError, match="changed on the way"):
        AUTHORITY.sign(changed.public_bytes(serialization.Encoding.PEM))


@pytest.mark.parametrize("name", ["", "Client", "3", "client_3", "client-", "a.b", "a" * 61, "client-3\n", "é"])
def test_names_are_labels(name):
    with pytest.raises(ValueError, match="not a valid name for a party"):
        request(name)
    with pytest.raises(ValueError, match="not a valid name for a party"):
        target_name(name)


def test_no_certificate_outlives_its_authority():
    _, asked = request("a" * 60)
    short = Authority.create(days=10, now=NOW)
    with pytest.raises(ValueError, match="give 10 or fewer"):
        short.sign(asked, 11, NOW)
    with pytest.raises(ValueError, match="make a new authority"):
        short.sign(asked, 1, NOW + timedelta(days=20))
    assert identity_of(short.sign(asked, 10, NOW), short.certificate_pem, NOW).name == "a" * 60
    with pytest.raises(ValueError, match="from 1 to"):
        short.sign(asked, 0)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
@pytest.mark.parametrize("purpose", ["sslserver", "sslclient"])
def test_openssl_agrees(tmp_path, purpose):
    (tmp_path / "authority.pem").write_bytes(AUTHORITY.certificate_pem)
    (tmp_path / "other.pem").write_bytes(OTHER.certificate_pem)
    (tmp_path / "party.pem").write_bytes(CLIENT.certificate)

    def verified(authority, host):
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-verify_hostname", host]
        command += ["-CAfile", str(tmp_path / authority), str(tmp_path / "party.pem")]
        return subprocess.run(command, capture_output=True).returncode == 0

    assert verified("authority.pem", "client-3.tacit.invalid")
    assert not verified("authority.pem", "coordinator.tacit.invalid")
    assert not verified("other.pem", "client-3.tacit.invalid")
