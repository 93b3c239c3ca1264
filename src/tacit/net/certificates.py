"""The X.509 documents of parties and their authority: how they are made, and read without being verified.

A party's name is one label of a domain name, and the common name of its certificate. Its signing key travels in an
extension of our own: see `identity`, which says whom to believe.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

DOMAIN = "tacit.invalid"  # RFC 2606: it never resolves, so that no certificate of ours names a host
ENROLMENT = f"enrolment.authority.{DOMAIN}"  # two labels: no party has this name
AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
WARNING_DAYS = 30
CLOCK_SKEW = timedelta(hours=1)  # by which a party's clock may be behind the authority's

# X.667: 2.25 and a random UUID (eee87f9c-6be9-4229-b782-a23e379c562e) need no registry.
OWN_ARC = "2.25.317563464126999961960887478602822342190"
SIGNING_KEY = x509.ObjectIdentifier(f"{OWN_ARC}.1")
PROOF = x509.ObjectIdentifier(f"{OWN_ARC}.2")

# One label of a domain name, short enough for X.509's 64 characters.
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,58}[a-z0-9])?")
_OCTET_STRING = 0x04

# What `cryptography` raises, at once or when a part is looked at, for a document that is not as it should be.
MALFORMED = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


# --- making


def certificate_builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    authority: ec.EllipticCurvePublicKey,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    """What the certificates of authority and parties have in common."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority), critical=False)
    )


def key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def validity(days: int, now: datetime | None) -> tuple[datetime, datetime]:
    if not 1 <= days <= AUTHORITY_DAYS:
        raise ValueError(f"{days} days: a certificate lasts from 1 to {AUTHORITY_DAYS}")
    begins = (now or datetime.now(UTC)).replace(microsecond=0)  # a certificate has whole seconds
    return begins - CLOCK_SKEW, begins + timedelta(days=days)


def party_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a valid name for a party: use up to 60 of a-z, 0-9 and -, "
            "from a letter to a letter or digit, such as client-17"
        )
    return name


def target_name(party: str) -> str:
    """The domain name in a party's certificate, which grpc's option `grpc.ssl_target_name_override` asks for."""
    return f"{party_name(party)}.{DOMAIN}"


def subject_of(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, party_name(name))])


def extension(identifier: x509.ObjectIdentifier, value: bytes) -> x509.UnrecognizedExtension:
    """A value of less than 128 bytes as a DER OCTET STRING."""
    return x509.UnrecognizedExtension(identifier, bytes([_OCTET_STRING, len(value)]) + value)


# --- reading


def octets(extensions: x509.Extensions, identifier: x509.ObjectIdentifier, length: int) -> bytes | None:
    """The bytes in an extension of ours; None where it is missing or has another length."""
    try:
        extension = extensions.get_extension_for_oid(identifier).value
    except x509.ExtensionNotFound:
        return None
    value = extension.public_bytes()
    return value[2:] if value[:2] == bytes([_OCTET_STRING, length]) and len(value) == 2 + length else None


def common_name(subject: x509.Name) -> str | None:
    """The name of a party, if that is all the subject is."""
    parts = list(subject)
    if len(parts) != 1 or parts[0].oid != NameOID.COMMON_NAME:
        return None
    name = parts[0].value
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def read_certificate(data: bytes) -> x509.Certificate:
    """One certificate, DER or PEM, unverified."""
    try:
        # DER begins with a SEQUENCE, the byte of "0".
        found = [x509.load_der_x509_certificate(data)] if data[:1] == b"0" else x509.load_pem_x509_certificates(data)
    except MALFORMED:
        raise ValueError("this is not a readable certificate") from None
    if len(found) != 1:
        raise ValueError(f"there are {len(found)} certificates, one is expected")
    return found[0]


def read_private_key(pem: bytes) -> object:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a password
        raise ValueError("it holds no readable private key") from None


def key_pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def document_pem(document: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    return document.public_bytes(serialization.Encoding.PEM)


def document_der(certificate_pem: bytes) -> bytes:
    return read_certificate(certificate_pem).public_bytes(serialization.Encoding.DER)


def spki(public: ec.EllipticCurvePublicKey) -> bytes:
    return public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
