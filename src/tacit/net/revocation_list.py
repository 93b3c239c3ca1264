"""The list of certificates that the authority takes back: an X.509 revocation list (RFC 5280, section 5).

    signed_list(key, authority, number, entries, now)       made by the authority
    read_list(data, authority)                              verified: ValueError unless this authority signed it
    RevocationList.entry_of(serial, fingerprint)            whether a certificate is on it

An entry is of one certificate, by its serial number. It also holds the fingerprint of the certificate's two keys, in an
extension of our own: a certificate that was renewed for the same keys is revoked too. A certificate with new keys for
the same name is not.

The list has a number (the extension CRLNumber) that grows by one each time. It is complete: a newer one takes the place
of all older ones. Nothing is ever taken off it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tacit.net.certificates import MALFORMED, OWN_ARC, extension, octets

REVOKED_KEYS = x509.ObjectIdentifier(f"{OWN_ARC}.3")  # of an entry: an OCTET STRING, the fingerprint of both keys
MOST_REVOKED = 5_000
LARGEST_LIST = 1 << 20  # bytes, as PEM too: 5,000 entries have less
_FINGERPRINT_BYTES = 16
REASONS = {
    "unspecified": x509.ReasonFlags.unspecified,
    "key-compromise": x509.ReasonFlags.key_compromise,
    "superseded": x509.ReasonFlags.superseded,
    "affiliation-changed": x509.ReasonFlags.affiliation_changed,
    "cessation-of-operation": x509.ReasonFlags.cessation_of_operation,
    "privilege-withdrawn": x509.ReasonFlags.privilege_withdrawn,
}


@dataclass(frozen=True, slots=True)
class Revoked:
    """One certificate that was taken back."""

    serial: int
    fingerprint: str  # of both keys; empty in a list that was not made by Tacit
    date: datetime
    reason: str = "unspecified"

    @property
    def words(self) -> str:
        why = "" if self.reason == "unspecified" else f" ({self.reason.replace('-', ' ')})"
        return f"revoked on {self.date:%Y-%m-%d}{why}"


@dataclass(frozen=True, slots=True)
class RevocationList:
    """What a list says, once it was verified. Number 0 is no list."""

    number: int = 0
    date: datetime | None = None
    entries: tuple[Revoked, ...] = ()
    data: bytes = field(default=b"", repr=False)  # DER
    _by_serial: dict[int, Revoked] = field(default_factory=dict, repr=False)
    _by_keys: dict[str, Revoked] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._by_serial.update({each.serial: each for each in self.entries})
        self._by_keys.update({each.fingerprint: each for each in self.entries if each.fingerprint})

    def entry_of(self, serial: int, fingerprint: str) -> Revoked | None:
        """The entry of a certificate, or of another one with its keys."""
        return self._by_serial.get(serial) or self._by_keys.get(fingerprint)

    def keys_entry(self, fingerprint: str) -> Revoked | None:
        """The entry of these keys."""
        return self._by_keys.get(fingerprint)

    @property
    def words(self) -> str:
        dated = f" of {self.date:%Y-%m-%d}" if self.date is not None else ""
        return f"revocation list {self.number}{dated}"

    @property
    def pem(self) -> bytes:
        return x509.load_der_x509_crl(self.data).public_bytes(serialization.Encoding.PEM)


def signed_list(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    number: int,
    entries: Sequence[Revoked],
    now: datetime | None = None,
) -> RevocationList:
    """A list with this number and these entries; ValueError if they are too many."""
    if len(entries) > MOST_REVOKED:
        raise ValueError(
            f"{len(entries)} certificates are revoked, and a list has at most {MOST_REVOKED}: make a new authority"
        )
    date = (now or datetime.now(UTC)).replace(microsecond=0)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(date)
        .next_update(max(date, authority.not_valid_after_utc))
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .add_extension(x509.CRLNumber(number), critical=False)
    )
    for each in entries:
        builder = builder.add_revoked_certificate(_entry(each))
    return read_list(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER), authority)


def _entry(each: Revoked) -> x509.RevokedCertificate:
    builder = x509.RevokedCertificateBuilder().serial_number(each.serial).revocation_date(each.date)
    if each.reason != "unspecified":  # RFC 5280, 5.3.1: then it is left out
        builder = builder.add_extension(x509.CRLReason(REASONS[each.reason]), critical=False)
    if each.fingerprint:
        builder = builder.add_extension(
            extension(REVOKED_KEYS, bytes.fromhex(each.fingerprint.replace(" ", ""))), critical=False
        )
    return builder.build()


def read_list(data: bytes, authority: x509.Certificate) -> RevocationList:
    """The list in these bytes, DER or PEM.

    Guarantee: this authority signed all of it, as a complete list with a number.
    Raises: ValueError, in a sentence, for anything else.
    Source: RFC 5280, sections 5.1 to 5.3 and 6.3.
    """
    public = authority.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise ValueError("the authority's key is not ECDSA")
    try:
        found = _parsed(data)
        # First: what is looked at below was written by our authority. The algorithm is ours, whatever the list names.
        public.verify(found.signature, found.tbs_certlist_bytes, ec.ECDSA(hashes.SHA256()))
        if found.issuer != authority.subject:
            raise _Unfit("the revocation list is of another issuer than our authority")
        return _read(found)
    except InvalidSignature:
        raise ValueError("the revocation list was signed by another authority than ours, or changed since") from None
    except MALFORMED as error:
        raise _unreadable(error) from None


def read_unverified(data: bytes) -> RevocationList:
    """What a list says, without looking at who signed it: to show it to a person."""
    try:
        return _read(_parsed(data))
    except MALFORMED as error:
        raise _unreadable(error) from None


class _Unfit(ValueError):
    """A list that is not one that a Tacit authority makes; in a sentence."""


def _unreadable(error: Exception) -> ValueError:
    return error if isinstance(error, _Unfit) else ValueError("this is not a readable revocation list")


def _parsed(data: bytes) -> x509.CertificateRevocationList:
    if len(data) > LARGEST_LIST:
        raise _Unfit(f"a revocation list of {len(data)} bytes, at most {LARGEST_LIST} are read")
    return x509.load_der_x509_crl(data) if data[:1] == b"0" else x509.load_pem_x509_crl(data)


def _read(found: x509.CertificateRevocationList) -> RevocationList:
    if any(each.critical for each in found.extensions):  # a part of a list, or one for some certificates only
        raise _Unfit("the revocation list has a critical extension: it is not a complete one")
    try:
        number = found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        raise _Unfit("the revocation list has no number") from None
    if not 0 < number < 2**63:
        raise _Unfit(f"the revocation list has number {number}, and they are from 1 to 2^63 - 1")
    if len(found) > MOST_REVOKED:
        raise _Unfit(f"the revocation list has {len(found)} entries, at most {MOST_REVOKED} are read")
    entries = tuple(_revoked(each) for each in found)
    return RevocationList(number, found.last_update_utc, entries, found.public_bytes(serialization.Encoding.DER))


def _revoked(each: x509.RevokedCertificate) -> Revoked:
    try:
        flag = each.extensions.get_extension_for_class(x509.CRLReason).value.reason
    except x509.ExtensionNotFound:
        flag = x509.ReasonFlags.unspecified
    keys = octets(each.extensions, REVOKED_KEYS, _FINGERPRINT_BYTES)
    reason = next((name for name, known in REASONS.items() if known is flag), "unspecified")
    return Revoked(each.serial_number, "" if keys is None else in_fours(keys), each.revocation_date_utc, reason)


def in_fours(digest: bytes) -> str:
    """16 bytes for people to compare, as fingerprints are written."""
    text = digest[:_FINGERPRINT_BYTES].hex()
    return " ".join(text[at : at + 4] for at in range(0, 2 * _FINGERPRINT_BYTES, 4))
