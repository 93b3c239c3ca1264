"""How much one client of an aggregation sends and is sent, known before it starts.

Messages of the right sizes are encoded, so that the numbers are those of the wire. All clients are taken to stay.
"""

from __future__ import annotations

from tacit.crypto import shamir
from tacit.crypto.commitment import COMMITMENT_BYTES
from tacit.crypto.signing import SIGNATURE_BYTES
from tacit.secagg.client import SEALED_BYTES
from tacit.secagg.messages import Advertise, Agreed, Agreements, Inbox, Masked, Reveal, Roster, Shares, Survivors
from tacit.secagg.session import HASH_BYTES
from tacit.secagg.settings import Settings
from tacit.wire import encode

Sizes = dict[str, int]
_DIGEST = bytes(32)
_KEY = bytes(32)


def traffic(settings: Settings) -> tuple[Sizes, Sizes]:
    """Bytes of each message up and down, by its name, in the order in which they are sent."""
    topology = settings.topology(settings.clients)
    others = settings.clients - 1 if topology.neighbours is None else topology.neighbours
    known = others + 1
    held = known if topology.complete else others  # on the complete graph a client also holds a share of its own
    active = settings.mode == "active"
    signature = bytes(SIGNATURE_BYTES if active else 0)
    identity = settings.clients - 1
    up = [
        Advertise(identity, _KEY, _KEY, signature),
        Shares(
            _DIGEST,
            identity,
            bytes(COMMITMENT_BYTES),
            bytes(held * 2 * HASH_BYTES),
            bytes(others * SEALED_BYTES),
            signature,
        ),
        Masked(_DIGEST, identity, memoryview(b"")),
        *([Agreed(_DIGEST, identity, signature)] if active else []),
        Reveal(_DIGEST, identity, bytes(4 * held), bytes(held * shamir.ROW_BYTES)),
    ]
    down = [
        Roster(_DIGEST, settings.clients, bytes(4 * known), _KEY * known, _KEY * known, signature * known),
        Inbox(
            _DIGEST,
            settings.clients,
            bytes(4 * others),
            bytes(others * 2 * HASH_BYTES),
            bytes(others * SEALED_BYTES),
        ),
        Survivors(_DIGEST, settings.clients, bytes(4 * held), b""),
        *([Agreements(_DIGEST, bytes(4 * known), signature * known)] if active else []),
    ]
    sizes_up = {type(message).__name__: len(encode(message)) for message in up}
    sizes_up["Masked"] += settings.vector_bytes + 3  # and a longer length
    return sizes_up, {type(message).__name__: len(encode(message)) for message in down}
