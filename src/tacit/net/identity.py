"""Who is who: a private authority signs each party's name together with its two public keys.

    Authority.create(name)                  the one whom every party trusts with names
    request(name)                           a party's private keys, and what it asks the authority to sign
    Authority.sign(request)                 the certificate: from now on these keys are that name
    Credentials.of(private, certificate, authority)     what a party needs to prove who it is
    identity_of(certificate, authority)     who another party is, and which signing key is its own
    Credentials.identify(certificate)       the same, for a party that goes by a revocation list too

A party has two keys. The one of TLS (ECDSA P-256) proves its name to the party it is connected with; the one of Ed25519
signs what is passed on to others, as in secure aggregation. The second travels in the request and in the certificate as
an extension of our own: an OCTET STRING with the 32 bytes of the public key, under the identifier `SIGNING_KEY`. The
request carries another, `PROOF`, by which the holder of that key agrees to the name and the other key.

Everything is bytes in and bytes out: PEM, where nothing else is said. Files are the business of `tacit.net.key_files`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tacit.crypto.byte_strings import frame
from tacit.crypto.signing import PUBLIC_BYTES, SIGNATURE_BYTES, SigningKey, verify
from tacit.errors import PeerError
from tacit.net.certificates import (
    AUTHORITY_DAYS,
    CERTIFICATE_DAYS,
    DOMAIN,
    ENROLMENT,
    MALFORMED,
    PROOF,
    SIGNING_KEY,
    certificate_builder,
    common_name,
    document_pem,
    extension,
    key_pem,
    key_usage,
    octets,
    party_name,
    read_certificate,
    read_private_key,
    spki,
    subject_of,
    target_name,
    validity,
)
from tacit.net.revocation_list import RevocationList, Revoked, in_fours, signed_list
from tacit.net.revocations import Revocations

_PROOF_CONTEXT = b"tacit certificate request 1"
_BLOCK = re.compile(rb"-----BEGIN PRIVATE KEY-----.+?-----END PRIVATE KEY-----\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a certificate says, once it was verified."""

    name: str
    signing_public: bytes
    expires: datetime
    fingerprint: str  # of both keys
    serial: int  # of the certificate


@dataclass(frozen=True, slots=True)
class Request:
    """What a party asks the authority to sign, once it was verified that the party holds both keys."""

    name: str
    public_key: ec.EllipticCurvePublicKey
    signing_public: bytes

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.public_key, self.signing_public)


@dataclass(frozen=True, slots=True)
class PrivateKeys:
    """Both keys of a party."""

    tls: ec.EllipticCurvePrivateKey
    signing: SigningKey

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.tls.public_key(), self.signing.public)


@dataclass(frozen=True, slots=True)
class Authority:
    """The holder of this certifies which keys belong to which party. Only the certificate is handed out."""

    private_pem: bytes = field(repr=False)
    certificate_pem: bytes

    @classmethod
    def create(cls, name: str = "authority", days: int = AUTHORITY_DAYS, now: datetime | None = None) -> Authority:
        """A new authority with a key of its own. It signs parties and no other authority."""
        begins, ends = validity(days, now)
        key = ec.generate_private_key(ec.SECP256R1())
        # With an organisation, so that no party's certificate has the authority's subject.
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tacit"),
                x509.NameAttribute(NameOID.COMMON_NAME, party_name(name)),
            ]
        )
        own_domain = x509.NameConstraints(permitted_subtrees=[x509.DNSName(DOMAIN)], excluded_subtrees=None)
        certificate = (
            certificate_builder(subject, subject, key.public_key(), key.public_key(), begins, ends)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(key_usage(authority=True), critical=True)
            .add_extension(own_domain, critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(key_pem(key), document_pem(certificate))

    @classmethod
    def of(cls, private_pem: bytes, certificate_pem: bytes) -> Authority:
        """The authority with this key and this certificate; ValueError where they do not belong together."""
        certificate = authority_certificate(certificate_pem)
        key = read_private_key(private_pem)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError("the authority's certificate is not of this private key")
        return cls(private_pem, certificate_pem)

    def sign(self, request_pem: bytes, days: int = CERTIFICATE_DAYS, now: datetime | None = None) -> bytes:
        """A certificate for the name and the keys in a request.

        Guarantee: the author of the request holds both private keys, and nothing but its name and keys is taken over.
        Assumes: a person checked that the request came from the party of that name, by its fingerprint.
        """
        asked = read_request(request_pem)
        begins, ends = self.lasting(days, now)
        own, key = authority_certificate(self.certificate_pem), self._key()
        public = key.public_key()
        both_ends = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            certificate_builder(
                subject_of(asked.name), own.subject, asked.public_key, public, max(begins, _begin(own)), ends
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(authority=False), critical=True)
            .add_extension(both_ends, critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(target_name(asked.name))]), critical=False)
            .add_extension(extension(SIGNING_KEY, asked.signing_public), critical=False)
            .sign(key, hashes.SHA256())
        )
        return document_pem(certificate)

    def lasting(self, days: int, now: datetime | None = None) -> tuple[datetime, datetime]:
        """From when to when a certificate of so many days is valid; ValueError if that is longer than the authority."""
        begins, ends = validity(days, now)
        last = _end(authority_certificate(self.certificate_pem))
        if ends > last:
            left = days + (last - ends) // timedelta(days=1)
            raise ValueError(
                f"{days} days are longer than the authority lasts, until {_day(last)}: "
                + (f"give {left} or fewer" if left > 0 else "make a new authority")
            )
        return begins, ends

    def revoke(self, before: RevocationList, more: Sequence[Revoked], now: datetime | None = None) -> RevocationList:
        """The next revocation list: with the entries of the one before it, and more."""
        own = authority_certificate(self.certificate_pem)
        return signed_list(self._key(), own, before.number + 1, [*before.entries, *more], now)

    def enrolment_certificate(self, public: ec.EllipticCurvePublicKey, now: datetime | None = None) -> bytes:
        """A certificate for the enrolment server of this authority (see `enrolment`). It is no party's."""
        own, key = authority_certificate(self.certificate_pem), self._key()
        begins, ends = validity(CERTIFICATE_DAYS, now)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ENROLMENT)])
        certificate = (
            certificate_builder(
                subject, own.subject, public, key.public_key(), max(begins, _begin(own)), min(ends, _end(own))
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(ENROLMENT)]), critical=False)
            .sign(key, hashes.SHA256())
        )
        return document_pem(certificate)

    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = read_private_key(self.private_pem)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's private key is not ECDSA")
        return key


Source = Callable[[Callable[[str], None]], "Credentials"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """With these a party proves who it is, and judges who others are."""

    name: str
    private_key: bytes = field(repr=False)  # of TLS, as PEM
    certificate: bytes = field(repr=False)
    authority: bytes = field(repr=False)
    signing_key: SigningKey
    expires: datetime
    revocations: Revocations = field(default_factory=Revocations, repr=False, compare=False)
    source: Source | None = field(default=None, repr=False, compare=False)  # where newer ones may be

    def renewed(self, say: Callable[[str], None] = lambda text: None) -> Credentials:
        """The same party's credentials as they are now: for a new connection. `say` is told what is new or wrong."""
        return self if self.source is None else self.source(say)

    def identify(self, certificate: bytes, now: datetime | None = None) -> Identity:
        """Who the holder of a certificate is; PeerError unless our authority signed it, it is valid and not revoked.

        Guarantee: as of `identity_of`, and no revocation list that this party has seen takes it back.
        """
        found = identity_of(certificate, self.authority, now)
        self.revocations.check(found)
        return found

    @classmethod
    def of(
        cls, private_pem: bytes, certificate_pem: bytes, authority_pem: bytes, now: datetime | None = None
    ) -> Credentials:
        """The three together; ValueError, in a sentence, where they would not be accepted or do not fit."""
        keys = read_private(private_pem)
        authority = authority_certificate(authority_pem)
        certificate = read_certificate(certificate_pem)
        identity = _verified(certificate, authority, now)
        if certificate.public_key() != keys.tls.public_key() or identity.signing_public != keys.signing.public:
            raise ValueError(f"the certificate of {identity.name} is not of this private key")
        return cls(
            identity.name,
            key_pem(keys.tls),
            document_pem(certificate),
            document_pem(authority),
            keys.signing,
            identity.expires,
            Revocations(authority),
        )


def request(name: str) -> tuple[bytes, bytes]:
    """New keys for a party: what it keeps (both private keys), and what it sends to the authority."""
    asked_name = subject_of(name)
    key = ec.generate_private_key(ec.SECP256R1())
    signing = SigningKey.generate()
    proof = signing.sign(_PROOF_CONTEXT, _proven(name, key.public_key()))
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(asked_name)
        .add_extension(extension(SIGNING_KEY, signing.public), critical=False)
        .add_extension(extension(PROOF, proof), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key_pem(key) + key_pem(ed25519.Ed25519PrivateKey.from_private_bytes(signing.seed))
    return private, document_pem(asked)


def read_request(request_pem: bytes) -> Request:
    """What a request asks for.

    ValueError: it cannot be read. PeerError: its maker does not hold both keys, or asks for what is never signed.
    """
    try:
        asked = x509.load_pem_x509_csr(request_pem)
        public, extensions, name = asked.public_key(), asked.extensions, common_name(asked.subject)
    except MALFORMED:
        raise ValueError("this is not a readable request: `tacit keys request` makes one") from None
    if name is None:
        raise PeerError("the request is not for the name of a party")
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        raise PeerError(f"the request for {name} has a key other than ECDSA P-256")
    if not asked.is_signature_valid:
        raise PeerError(f"the request for {name} was not signed with its own key: it was changed on the way")
    signing_public = octets(extensions, SIGNING_KEY, PUBLIC_BYTES)
    proof = octets(extensions, PROOF, SIGNATURE_BYTES)
    if signing_public is None or proof is None:
        raise PeerError(f"the request for {name} has no signing key, or no proof that its maker holds it")
    try:
        verify(signing_public, proof, _PROOF_CONTEXT, _proven(name, public))
    except PeerError:
        raise PeerError(f"the maker of the request for {name} does not hold the signing key in it") from None
    return Request(name, public, signing_public)


def identity_of(certificate: bytes, authority_pem: bytes, now: datetime | None = None) -> Identity:
    """Who the holder of a certificate (DER or PEM) is; PeerError unless the authority signed it and it is valid.

    Guarantee: the authority signed this name for this signing key, and the certificate is valid at `now`.
    Assumes: the holder of the TLS key is at the other end, which the handshake shows; a certificate alone is public.
    """
    authority = authority_certificate(authority_pem)
    try:
        return _verified(read_certificate(certificate), authority, now)
    except ValueError as error:
        raise PeerError(str(error)) from None


def read_private(private_pem: bytes) -> PrivateKeys:
    """Both keys of a party's private file."""
    keys = [read_private_key(block) for block in _BLOCK.findall(private_pem)]
    tls = [key for key in keys if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)]
    signing = [key for key in keys if isinstance(key, ed25519.Ed25519PrivateKey)]
    if not keys:
        raise ValueError("it holds no readable private key")
    if len(tls) == 1 and not signing:
        raise ValueError("the private keys lack the signing key (Ed25519)")
    if len(keys) != 2 or len(tls) != 1 or len(signing) != 1:
        raise ValueError("the private keys of a party are one of ECDSA P-256 and one of Ed25519, and this is not that")
    return PrivateKeys(tls[0], SigningKey(signing[0].private_bytes_raw()))


def authority_certificate(authority_pem: bytes) -> x509.Certificate:
    """The one certificate of an authority. More would all be trusted by TLS, so more are refused."""
    certificate = read_certificate(authority_pem)
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (*MALFORMED, x509.ExtensionNotFound):
        constraints = None
    if constraints is None or not constraints.ca:
        raise ValueError("the certificate is a party's, not an authority's")
    return certificate


def fingerprint(public_key: ec.EllipticCurvePublicKey, signing_public: bytes = b"") -> str:
    """128 bits for people to compare: alike in a party's private file, request and certificate."""
    return in_fours(hashlib.sha256(frame(b"tacit fingerprint 1", spki(public_key), signing_public)).digest())


def certificate_fingerprint(certificate: x509.Certificate) -> str:
    """The fingerprint of the keys in a certificate."""
    try:
        public, extensions = certificate.public_key(), certificate.extensions
    except MALFORMED:
        raise ValueError("this is not a readable certificate") from None
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise ValueError("the certificate has a key other than ECDSA P-256")
    return fingerprint(public, octets(extensions, SIGNING_KEY, PUBLIC_BYTES) or b"")


# --- verifying


def _verified(certificate: x509.Certificate, authority: x509.Certificate, now: datetime | None) -> Identity:
    """What the certificate says; ValueError, in a sentence, unless all of it holds."""
    now = now or datetime.now(UTC)
    check_signature(certificate, authority)  # first: what is looked at below was written by our authority
    try:
        name, extensions = common_name(certificate.subject), certificate.extensions
    except MALFORMED:
        raise ValueError("this is not a readable certificate") from None
    if name is None:
        raise ValueError("the certificate is not for the name of a party")
    check_dates(f"the certificate of {name}", certificate, now)
    check_dates("the authority's certificate", authority, now)
    try:
        # The sentences above are for people; this is the whole of RFC 5280, among it the authority's name constraints.
        PolicyBuilder().store(Store([authority])).time(now).build_client_verifier().verify(certificate, [])
        usages = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (VerificationError, x509.ExtensionNotFound, *MALFORMED) as error:
        raise ValueError(f"the certificate of {name} is not one that a Tacit authority signs: {error}") from None
    if ExtendedKeyUsageOID.SERVER_AUTH not in usages or list(names) != [x509.DNSName(target_name(name))]:
        raise ValueError(f"the certificate of {name} is not one that a Tacit authority signs: its names or uses differ")
    signing_public = octets(extensions, SIGNING_KEY, PUBLIC_BYTES)
    if signing_public is None:
        raise ValueError(f"the certificate of {name} has no signing key")
    fingerprint = certificate_fingerprint(certificate)
    return Identity(name, signing_public, certificate.not_valid_after_utc, fingerprint, certificate.serial_number)


def check_signature(certificate: x509.Certificate, authority: x509.Certificate) -> None:
    """ValueError unless the authority signed the certificate."""
    public = authority.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise ValueError("the authority's key is not ECDSA")
    try:
        public.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise ValueError("the certificate was signed by another authority than ours, or changed since") from None


def check_dates(whose: str, certificate: x509.Certificate, now: datetime) -> None:
    """ValueError, that begins with `whose`, unless the certificate is valid now."""
    if now < _begin(certificate):
        raise ValueError(f"{whose} is not valid before {_begin(certificate):%Y-%m-%d %H:%M} UTC: is this clock right?")
    if now > certificate.not_valid_after_utc:
        raise ValueError(f"{whose} expired on {_day(certificate.not_valid_after_utc)}: a new one has to be signed")


def _proven(name: str, public: ec.EllipticCurvePublicKey) -> bytes:
    return frame(name.encode(), spki(public))


def _begin(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc


def _end(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_after_utc


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"
