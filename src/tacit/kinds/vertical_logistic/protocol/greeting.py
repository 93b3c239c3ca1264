"""How the parties begin: each says what it brings, and stops where that does not fit together.

Both sides compare, so that both can tell their users in one sentence what is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tacit.channel import Channel
from tacit.crypto.paillier import PublicKey
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol import decryption_proof
from tacit.kinds.vertical_logistic.protocol.checks import check_counts
from tacit.kinds.vertical_logistic.protocol.messages import HEAD, Begin, Hello
from tacit.kinds.vertical_logistic.protocol.objective import MOST_CLASSES
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.exchange import exchange, meeting_point


def greet_passives(channels: Mapping[str, Channel], mine: Hello, settings: Settings) -> dict[str, Hello]:
    """The active's part: what each passive brings."""
    found = exchange(channels, dict.fromkeys(settings.passives, mine), HEAD, first=True)
    for name, theirs in found.items():
        _compare(settings.active, mine, name, theirs)
    return found


def greet_active(channel: Channel, mine: Hello, me: str, settings: Settings) -> Hello:
    """A passive's part: what the active brings."""
    theirs = exchange({settings.active: channel}, {settings.active: mine}, HEAD, first=True)[settings.active]
    _compare(settings.active, theirs, me, mine)
    if not 1 <= theirs.outputs <= MOST_CLASSES:
        raise PeerError(
            f"{settings.active} has a model of {theirs.outputs} outputs, one for each class: 1 to {MOST_CLASSES} are "
            "allowed"
        )
    return theirs


def check_shapes(passives: Mapping[str, Hello], rows: int, settings: Settings) -> int:
    """What the active holds against what passives bring, before any residue leaves it: see `checks`. A passive looks
    too, so that its user is told as well. How often a row may be part of a step."""
    allowed = []
    for name, hello in sorted(passives.items(), key=lambda each: -each[1].features):  # the strictest bound first
        if hello.features < 1:
            raise PeerError(f"{name} has no features: leave it out of the parties")
        allowed.append(check_counts(name, hello.features, rows, settings))
    return min(allowed)


def common_position(hellos: Collection[Hello]) -> int:
    """The latest step that all parties can resume at."""
    return meeting_point([hello.positions for hello in hellos], "there is no step that all parties can resume at")


def agreed_position(begin: Begin, positions: Collection[int], session: bytes) -> int:
    """Where the active begins, if this party can begin there. `session`: of the training that was agreed on, if any."""
    if begin.position not in positions:
        raise PeerError(f"the active begins at step {begin.position}, this party can at {list(positions)}")
    if session and begin.session != session:
        raise PeerError("the active begins another training than the one that was agreed on")
    return begin.position


def certified(begin: Begin, settings: Settings) -> PublicKey:
    """The active's key, if it is what it should be."""
    bits = settings.paillier.bits
    if len(begin.key) * 8 != bits:
        raise PeerError(f"the active's key has {len(begin.key) * 8} bits, paillier.bits says {bits}")
    key = PublicKey.from_bytes(begin.key, insecure_bits=bits < 2048)
    decryption_proof.check_certificate(key, begin.certificate)
    return key


def _compare(active: str, first: Hello, passive: str, second: Hello) -> None:
    if first.agreed != second.agreed:
        raise PeerError(f"{active} and {passive} have different settings: give both the same file")
    if first.rows != second.rows:
        raise PeerError(
            f"{active} has {first.rows} rows and {passive} {second.rows}: they must be the same people in the same "
            "order; set align: true"
        )
    if second.outputs and first.outputs != second.outputs:
        raise PeerError(
            f"{active} has a model of {first.outputs} outputs, one for each class, and {passive} of {second.outputs}: "
            "start both anew, or both from the same run"
        )
    if first.session != second.session:
        raise PeerError(
            f"{active} and {passive} do not hold parts of the same training: start both anew, or both from the same run"
        )
