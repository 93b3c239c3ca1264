"""How the parties begin: each says what it brings, and stops where that does not fit together.

Both sides compare, so that both can tell their users in one sentence what is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tacit.channel import Channel
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol import batches, encoding
from tacit.kinds.vertical_logistic.protocol.checks import check_batch, check_row_uses, row_uses
from tacit.kinds.vertical_logistic.protocol.messages import HEAD, Hello
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
    return theirs


def check_shapes(passives: Mapping[str, Hello], rows: int, settings: Settings) -> int:
    """What the active holds against what passives bring, before any residue leaves it: see `checks`. A passive looks
    too, so that its user is told as well. How often a row may be part of a step."""
    smallest = batches.smallest(rows, settings.train.batch)
    allowed = []
    for name, hello in passives.items():
        if settings.checks.batch:
            check_batch(name, hello.features, smallest)
        due = encoding.ciphertexts(hello.features, batches.largest(rows, settings.train.batch), settings.paillier.bits)
        if hello.features < 1 or hello.packed != due:
            raise PeerError(
                f"{name} has {hello.features} features and wants {hello.packed} ciphertexts decrypted in each step, "
                f"its gradient needs {due}"
            )
        given = settings.checks.row_uses
        most = row_uses(hello.features, smallest) if given is None else given
        check_row_uses(settings.train.epochs, settings.checks.restarts, most, name, hello.features)
        allowed.append(most)
    return min(allowed)


def common_position(hellos: Collection[Hello]) -> int:
    """The latest step that all parties can resume at."""
    return meeting_point([hello.positions for hello in hellos], "there is no step that all parties can resume at")


def _compare(active: str, first: Hello, passive: str, second: Hello) -> None:
    if first.agreed != second.agreed:
        raise PeerError(f"{active} and {passive} have different settings: give both the same file")
    if first.rows != second.rows:
        raise PeerError(
            f"{active} has {first.rows} rows and {passive} {second.rows}: they must be the same people in the same "
            "order; set align: true"
        )
    if first.session != second.session:
        raise PeerError(
            f"{active} and {passive} do not hold parts of the same training: start both anew, or both from the same run"
        )
