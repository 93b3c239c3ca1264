"""Whether ring words that a party receives on shares are uniform, by their bytes; tables without masks are not.

audit_words(transcript, tables)     the finding
"""

from __future__ import annotations

from collections.abc import Mapping

from tacit.audit.attacks.uniform_bytes import LEAST, guessed_bytes, p_value
from tacit.audit.finding import Finding
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.attacks.shared_transcript import Transcript
from tacit.kinds.vertical_logistic.shared import ring
from tacit.kinds.vertical_logistic.shared.scales import scales


def audit_words(transcript: Transcript, tables: Mapping[str, Floats]) -> Finding:
    """All words that each party receives; as the control the tables without masks, as words."""
    terms = transcript.terms
    received = {name: transcript.received(name) for name in terms.parties}
    if opened := transcript.sums():
        received["each, by adding up all shares,"] = opened
    chances = {name: p_value(words) for name, words in received.items()}
    bare = b"".join(ring.encode(tables[name], scales(terms).feature).tobytes() for name in terms.parties)
    broken = [
        f"the words that {name} receives are not uniform: p = {p:.1e}" for name, p in chances.items() if p < LEAST
    ]
    return Finding(
        attack="words that are not uniform, by a χ² test for each party",
        adversary="any party with data, honest but curious",
        sees="all ring words that it receives: "
        + ", ".join(f"{name} {len(words) // 8:,} of 64 bits" for name, words in received.items()),
        protection="masks that are uniform and used once",
        off=guessed_bytes(bare),
        on=guessed_bytes(b"".join(received.values())),
        broken=tuple(broken),
        watched=len(received),
    )
