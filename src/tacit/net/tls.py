"""Why a TLS connection to a party fails, in a sentence: a transport often says no more than "unavailable".

    diagnose(host, port, credentials, party)

An address proves nothing here: a certificate names a party, `client-3.tacit.invalid`, wherever it runs.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tacit.errors import PeerError
from tacit.net.certificates import target_name
from tacit.net.identity import Credentials, identity_of

# OpenSSL's names for what the other end says about our certificate, and its numbers for what we find about theirs.
_ALERTS = {
    "UNKNOWN_CA": "it trusts another authority than the one that signed ours",
    "CERTIFICATE_EXPIRED": "to it, ours is expired: compare the clocks",
    "CERTIFICATE_REQUIRED": "it got none",
    "CERTIFICATE_REVOKED": "to it, ours is revoked",
}
# gRPC's server sends no alert, it only closes the connection.
_SILENT = "it gave no reason; see whether both have the same authority.pem, and compare the clocks"
_CUT = "the connection was cut: it may have too many at the moment, or is starting"
_EXPIRED, _NOT_YET_VALID = 10, 9


def diagnose(host: str, port: int, credentials: Credentials, party: str, *, timeout: float = 5.0) -> str | None:
    """Why a connection to `party` at this address fails, in one sentence; None if it works.

    It blocks for up to three times `timeout` seconds, judges by the system's clock, and sends nothing but a handshake.
    """
    where = f"{host}:{port}"
    try:
        plain = socket.create_connection((host, port), timeout)
    except socket.gaierror:
        return f"{host}: there is no machine of this name, or no name server"
    except ConnectionRefusedError:
        return f"{where}: no process listens there: is {party} started, and is the port right?"
    except TimeoutError:
        return f"{where}: no answer within {timeout:g} s: is the address right, and does a firewall let it through?"
    except ConnectionResetError:
        return f"{where}: {_CUT}"
    except OSError as error:
        return f"{where}: the machine cannot be reached: {error.strerror}"
    with plain:
        family = plain.family
    # A second connection: Python loses a socket that is cut while it is wrapped.
    with _context(credentials).wrap_socket(socket.socket(family), server_hostname=target_name(party)) as secure:
        secure.settimeout(timeout)
        try:
            secure.connect((host, port))
            return _judged(secure, where, credentials, party)
        except ssl.SSLCertVerificationError as error:
            return f"{where}: {_their_fault(error, party)}"
        except TimeoutError:
            return f"{where}: a process listens there, but does not answer a TLS handshake"
        except ConnectionResetError:
            return f"{where}: {_CUT}"
        except OSError as error:  # ssl.SSLError is one
            reason = getattr(error, "reason", None) or ""
            if "ALERT" in reason and "PROTOCOL_VERSION" not in reason:
                return f"{where}: {_our_fault(reason, credentials, party)}"
            return f"{where}: a process listens there, but does not speak TLS 1.3"


def _judged(secure: ssl.SSLSocket, where: str, credentials: Credentials, party: str) -> str | None:
    """After the handshake: who is there, and what do they say to our certificate?"""
    try:
        there = identity_of(secure.getpeercert(binary_form=True) or b"", credentials.authority)
    except PeerError as error:
        return f"{where}: {error}"
    if there.name != party:
        return f"{where}: {there.name} is there, not {party}: is the address right?"
    # In TLS 1.3 a server judges our certificate after our handshake is over. One of gRPC speaks first if it is content.
    try:
        if secure.recv(1):
            return None
        reason = None
    except TimeoutError:
        return f"{where}: {party} accepted the connection and then sent nothing: is it busy, or not a gRPC server?"
    except ConnectionResetError:
        return f"{where}: {_CUT}"
    except OSError as error:
        reason = getattr(error, "reason", None)
    return f"{where}: {_our_fault(reason, credentials, party)}"


def _our_fault(reason: str | None, credentials: Credentials, party: str) -> str:
    """They ended it: a TLS alert, or just the end of the connection."""
    if credentials.expires < datetime.now(UTC):
        said = f"it expired on {credentials.expires:%Y-%m-%d}"
    else:
        said = next((words for alert, words in _ALERTS.items() if alert in (reason or "")), _SILENT)
    return f"{party} did not accept the certificate of {credentials.name}: {said}"


def _their_fault(error: ssl.SSLCertVerificationError, party: str) -> str:
    """We ended it, at their certificate."""
    match error.verify_code:
        case code if code == _EXPIRED:
            return f"the certificate that should be {party}'s is expired: it has to be signed again"
        case code if code == _NOT_YET_VALID:
            return f"the certificate that should be {party}'s is not valid yet: compare the clocks"
        case _:
            return (
                f"the certificate that should be {party}'s was not signed by our authority ({error.verify_message}): "
                "do both have the same authority.pem?"
            )


def _context(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # `_judged` compares the name itself, so as to say who is there instead
    context.load_verify_locations(cadata=credentials.authority.decode())
    context.set_alpn_protocols(["h2"])  # gRPC's server refuses to talk without
    with readable(credentials.certificate) as certificate, readable(credentials.private_key) as key:
        context.load_cert_chain(certificate, key)
    return context


@contextmanager
def readable(data: bytes) -> Iterator[str]:
    """A path that holds the data. `ssl` reads keys from paths only: with a pipe, no key comes to lie on a disk."""
    reading, writing = os.pipe()
    try:
        with open(writing, "wb") as file:
            file.write(data)  # a PEM file is smaller than any pipe's buffer
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
