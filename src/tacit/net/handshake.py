"""What two parties say before anything else on a new connection, and the frames that are about the party itself.

client                                      server
  Hello   who, which conversation, the file   ──►
          ◄──   Proven    whose certificate the server has, to a client that brought a nonce
          ◄──   Welcome   resume from here, or Refused and the end

`session` names the client's process, `epoch` the server's: if both are as before, the conversation resumes where it
broke; otherwise it begins anew, and what was under way is lost.

A transport may hide the server's certificate from the client, as gRPC does: TLS says that it is valid and in the
server's name, and not which one it is. With `Proven` the server shows it, and that it has the signing key in it. The
nonce comes with the call and not in `Hello`, where an older server would not expect it; it also says that this client
knows the frames `Proven` and `RevokedList`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from tacit.crypto.byte_strings import frame
from tacit.crypto.signing import verify
from tacit.errors import PeerError
from tacit.net.identity import Credentials, Identity
from tacit.net.revocation_list import LARGEST_LIST
from tacit.sections import flat
from tacit.wire import Message, Text

Key16 = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
LARGEST_FILE = 100_000  # bytes of the shared settings
NONCE_BYTES = 16
_PROVEN = b"tacit server certificate 1"
FROZEN_WEIGHTS = "frozen_weights"  # a digest, in addition to the settings, of what is not trained and not sent


class Hello(Message, frozen=True, tag=40):
    party: Text
    session: Key16
    epoch: Annotated[bytes, msgspec.Meta(max_length=16)]  # of the server as it was known; empty at first
    received: Count
    settings: Annotated[bytes, msgspec.Meta(max_length=LARGEST_FILE)]  # the shared file, as JSON
    signing_key: Annotated[bytes, msgspec.Meta(max_length=32)]  # if no certificate says it
    answered: Count = 0  # rounds of the run, by a client: a coordinator that began fewer was started without its state


class Welcome(Message, frozen=True, tag=41):
    epoch: Key16
    received: Count
    resumed: bool


class Refused(Message, frozen=True, tag=42):
    reason: Text


class Parting(Message, frozen=True, tag=43):
    """The last frame: why a party leaves. If its status is `stopped`, it comes back, and the other side waits."""

    status: Text
    reason: Text


class Identities(Message, frozen=True, tag=44):
    """Whose signing key is whose: certificates, or bare keys if there are no certificates."""

    ids: bytes
    proofs: list[Annotated[bytes, msgspec.Meta(max_length=8192)]]


class RevokedList(Message, frozen=True, tag=45):
    """The authority's revocation list, as the sender has it."""

    data: Annotated[bytes, msgspec.Meta(max_length=LARGEST_LIST)]  # DER


class Proven(Message, frozen=True, tag=46):
    """The server's certificate, and its signature over the client's nonce."""

    certificate: Annotated[bytes, msgspec.Meta(max_length=8192)]
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


def proven(credentials: Credentials, client: str, nonce: bytes) -> Proven:
    """What shows `client` whose certificate a server has."""
    return Proven(credentials.certificate, credentials.signing_key.sign(_PROVEN, _statement(client, nonce)))


def check_proven(
    proof: Proven | None, credentials: Credentials, server: str, client: str, nonce: bytes
) -> Identity | None:
    """Who the server is, if it proves it; PeerError unless it has a certificate in its name that is not revoked.

    A server of an older release proves nothing: it is refused if anything is revoked at all.

    Guarantee: the holder of the signing key of a certificate that is not revoked answered this nonce to a client whose
        TLS certificate is in the name `client`. Somebody who has a revoked key of the server and sits in between has
        neither that signing key nor a certificate in the client's name to ask the server with.
    """
    if proof is None:
        if credentials.revocations.newest.entries:
            raise PeerError(
                f"{server} does not prove that its certificate is not revoked: it runs an older release. Run the same "
                "release at all parties that have a revocation list"
            )
        return None
    found = credentials.identify(proof.certificate)
    if found.name != server:
        raise PeerError(f"the certificate is of {found.name}, not of {server}")
    verify(found.signing_public, proof.signature, _PROVEN, _statement(client, nonce))
    return found


def _statement(client: str, nonce: bytes) -> bytes:
    return frame(client.encode(), nonce)


def shared(settings: Mapping[str, Any]) -> bytes:
    """The settings that all parties must agree on, in one form."""
    return json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()


def difference(ours: bytes, theirs: bytes) -> str | None:
    """The first key whose value differs between two shared files, in words; None if they are the same."""
    if ours == theirs:
        return None
    try:
        mine, other = dict(flat(json.loads(ours))), dict(flat(json.loads(theirs)))
    except (ValueError, AttributeError, RecursionError):
        return "the settings that were sent cannot be read: run the same release on both sides"
    for key in sorted(mine.keys() | other.keys()):
        if mine.get(key) != other.get(key) and key == FROZEN_WEIGHTS:
            here, there = (str(side.get(key, "none"))[:16] for side in (mine, other))
            return (
                f"the frozen weights of the model differ: their digest begins with {here} at the coordinator and with "
                f"{there} here. Load the same base model at all parties"
            )
        if mine.get(key) != other.get(key):
            here, there = (json.dumps(side.get(key))[:80] for side in (mine, other))
            return f"the files differ: {key} is {here} at the coordinator and {there} here. Give all parties one file"
    return None


def check_hello(hello: Hello, certified: str | None, expected: Callable[[str], bool], ours: bytes) -> None:
    """PeerError unless an expected party says hello, in its own name and with our settings.

    `certified` is the name in its certificate; None where there are no certificates.
    """
    if certified is not None and hello.party != certified:
        raise PeerError(f"the certificate is of {certified}, who claims to be {hello.party}")
    if not expected(hello.party):
        raise PeerError(f"{hello.party} is not a party of this federation")
    differs = difference(ours, hello.settings)
    if differs is not None:
        raise PeerError(differs)
