"""What two parties say before anything else on a new connection, and the frames that are about the party itself.

client                                      server
  Hello   who, which conversation, the file   ──►
          ◄──   Proven    whose certificate the server has, to a client that brought a nonce
          ◄──   Welcome   resume from here, or Refused and the end

`session` names the client's process, `epoch` the server's: if both are as before, the conversation resumes where it
broke; otherwise it begins anew, and what was under way is lost.

Versions. Both say which release they are and what they can do beyond the messages that every neighbour knows
(`CAPABILITIES`). Releases of two neighbouring minor versions talk to each other, others refuse each other. From 0.3 on
a hello may have fields at its end that its reader does not know. One of 0.2 may not, and says no version: a client that
a server of 0.2 does not understand says hello again as 0.2 does (`as_of_0_2`), and is answered as 0.2 does.

The files are compared by their resolved values: a default that another release changed is a difference. A key that one
side does not know is ignored only if its value is what was done before the key existed: such keys are not in `shared`
at all (`sections.Added`), on either side. A federation whose messages a neighbour would not understand says so
(`LEAST_RELEASE`): then both sides need this release.

A transport may hide the server's certificate from the client, as gRPC does: TLS says that it is valid and in the
server's name, and not which one it is. With `Proven` the server shows it, and that it has the signing key in it, to a
client whose hello has a nonce.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from tacit.crypto.byte_strings import frame
from tacit.crypto.signing import verify
from tacit.errors import PeerError
from tacit.net.identity import Credentials, Identity
from tacit.net.revocation_list import LARGEST_LIST
from tacit.sections import flat
from tacit.version import __version__
from tacit.wire import VERSION, Message, Text, decode, encode

Key16 = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
LARGEST_FILE = 100_000  # bytes of the shared settings
CAPABILITIES: tuple[str, ...] = ("pause", "revocation")  # what this release can take that not every neighbour can
SILENT = "0.2"  # the version of a party that says none
NONCE_BYTES = 16
_PROVEN = b"tacit server certificate 1"
# In addition to the settings:
FROZEN_WEIGHTS = "frozen_weights"  # a digest of what is not trained and not sent
LEAST_RELEASE = "least_release"  # that knows the messages of such a federation, if a neighbour of this one does not


Version = Annotated[str, msgspec.Meta(max_length=40)]
Capability = Annotated[str, msgspec.Meta(max_length=40)]
_NUMBERS = re.compile(r"(\d{1,6})\.(\d{1,6})([.a-z+][0-9A-Za-z.+]*)?", re.ASCII)
_NO_MESSAGE = "a frame that is not a message"  # how a reader of 0.2 begins its refusal of a longer hello


class Hello(Message, frozen=True, tag=40, forbid_unknown_fields=False):
    party: Text
    session: Key16
    epoch: Annotated[bytes, msgspec.Meta(max_length=16)]  # of the server as it was known; empty at first
    received: Count
    settings: Annotated[bytes, msgspec.Meta(max_length=LARGEST_FILE)]  # the shared file, as JSON
    signing_key: Annotated[bytes, msgspec.Meta(max_length=32)]  # if no certificate says it
    answered: Count = 0  # rounds of the run, by a client: a coordinator that began fewer was started without its state
    version: Version = ""  # of the release; none is said by 0.2
    capabilities: Annotated[tuple[Capability, ...], msgspec.Meta(max_length=64)] = ()
    nonce: Annotated[bytes, msgspec.Meta(max_length=NONCE_BYTES)] = b""  # of a client that has credentials


class Welcome(Message, frozen=True, tag=41, forbid_unknown_fields=False):
    epoch: Key16
    received: Count
    resumed: bool
    version: Version = ""
    capabilities: Annotated[tuple[Capability, ...], msgspec.Meta(max_length=64)] = ()


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


class Pause(Message, frozen=True, tag=45):
    """The coordinator's operator has paused the run, or ended the pause: to clients that know "pause".

    A paused client waits without limit, until the pause ends or another process of the coordinator says otherwise.
    """

    begins: bool


class RevokedList(Message, frozen=True, tag=47):
    """The authority's revocation list, as the sender has it."""

    data: Annotated[bytes, msgspec.Meta(max_length=LARGEST_LIST)]  # DER


class Proven(Message, frozen=True, tag=46):
    """The server's certificate, and its signature over the client's nonce."""

    certificate: Annotated[bytes, msgspec.Meta(max_length=8192)]
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


def parting_of(said: bytes | memoryview) -> Parting | None:
    """The frame by which a party leaves, if it is one."""
    try:
        return decode(said, Parting, 2048)
    except PeerError:
        return None


def known(hello: Hello) -> frozenset[str]:
    """What a client says that it can take, among what there is."""
    return frozenset(hello.capabilities).intersection(CAPABILITIES)


def as_of_0_2(message: Hello | Welcome) -> bytes:
    """The frame that a party of 0.2 reads: with the fields that it knows."""
    fields = msgspec.to_builtins(message, builtin_types=(bytes,))
    return bytes([VERSION]) + msgspec.msgpack.encode(fields[: _fields_of_0_2(message)])


def _fields_of_0_2(message: Hello | Welcome) -> int:
    """How many it has in 0.2, its tag among them."""
    return 8 if isinstance(message, Hello) else 4


def answer_to(hello: Hello, epoch: bytes, received: int, resumed: bool) -> bytes:
    """The frame of a welcome, in the form that the client reads."""
    welcome = Welcome(epoch, received, resumed, __version__, CAPABILITIES)
    return encode(welcome) if hello.version else as_of_0_2(welcome)


def speaks_0_2(refused: Refused) -> bool:
    """Whether a server refuses a hello because it is one of 0.2 and does not understand it."""
    return refused.reason.startswith(_NO_MESSAGE)


def check_version(party: str, version: str, ours: str = __version__) -> None:
    """PeerError unless `party` runs our minor version, or the one before or after it."""
    here, there = (_NUMBERS.fullmatch(each or SILENT) for each in (ours, version))
    if here is None or there is None:
        raise PeerError(f"{party} says a version that is none")
    if here[1] != there[1] or abs(int(here[2]) - int(there[2])) > 1:
        raise PeerError(
            f"{party} runs Tacit {version or SILENT}, and this side {ours}: only neighbouring minor versions talk to "
            "each other. Install the same release at all parties"
        )


def differing_version(version: str) -> str | None:
    """The release of another party if it is not of our minor version, as a word; None if it is."""
    here, there = (_NUMBERS.fullmatch(each or SILENT) for each in (__version__, version))
    same = here is not None and there is not None and here.groups()[:2] == there.groups()[:2]
    return None if same else version or SILENT


def proven(credentials: Credentials, client: str, nonce: bytes) -> Proven:
    """What shows `client` whose certificate a server has."""
    return Proven(credentials.certificate, credentials.signing_key.sign(_PROVEN, _statement(client, nonce)))


def unproven(server: str, credentials: Credentials) -> str | None:
    """Why a server that does not say whose certificate it has is refused: anything is revoked at all. None if not."""
    if not credentials.revocations.newest.entries:
        return None
    return (
        f"{server} does not prove that its certificate is not revoked: it runs an older release. Run the same release "
        "at all parties that have a revocation list"
    )


def check_proven(
    proof: Proven | None, credentials: Credentials, server: str, client: str, nonce: bytes
) -> Identity | None:
    """Who the server is, if it proves it; PeerError unless it has a certificate in its name that is not revoked.

    A server of an older release proves nothing: it is refused if anything is revoked at all.

    Guarantee: the holder of the signing key of a certificate that is not revoked answered this nonce to a client whose
        TLS certificate is in the name `client`. An attacker in between with a revoked key of the server has
        neither that signing key nor a certificate in the client's name to ask the server with.
    """
    if proof is None:
        if (reason := unproven(server, credentials)) is not None:
            raise PeerError(reason)
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
    if mine.get(LEAST_RELEASE) != other.get(LEAST_RELEASE):
        return too_old(ours if LEAST_RELEASE in mine else theirs)
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


def too_old(ours: bytes) -> str | None:
    """Why a party of the release before this one cannot take part, in words; None if it can."""
    least = json.loads(ours).get(LEAST_RELEASE)
    if least is None:
        return None
    needed = f"Tacit {least} or newer" if _NUMBERS.fullmatch(str(least)) else "another release"
    return (
        f"the messages of such a federation have changed: {needed} is needed. Install the same release at all parties"
    )


def check_hello(hello: Hello, certified: str | None, expected: Callable[[str], bool], ours: bytes) -> None:
    """PeerError unless an expected party says hello, in its own name, of a neighbouring release and with our settings.

    `certified` is the name in its certificate; None where there are no certificates.
    """
    if certified is not None and hello.party != certified:
        raise PeerError(f"the certificate is of {certified}, who claims to be {hello.party}")
    if not expected(hello.party):
        raise PeerError(f"{hello.party} is not a party of this federation")
    check_version(hello.party, hello.version)
    differs = difference(ours, hello.settings)
    if differs is not None:
        raise PeerError(differs)
