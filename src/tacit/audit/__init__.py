"""The audit: what an attacker recovers from the messages that the protocols send, compared with what is proved.

    finding       the shape of every result: who attacks and sees what, the audited bound, scores off and on
    bounds        lower bounds on epsilon from samples, each with its confidence
    tradeoff      the trade-off curve of a claim, and the test of scores against all of it; `separation` learns scores
    intervals     scores with the interval of a bootstrap over records
    similarity    how alike two images are: PSNR, SSIM
    steps         what an audit is made of; `result` what came of it
    text, page    what came out, for a terminal and as `audit.html`; `summary` is its first sentence, `drawings` the
                  pictures
    attacks/      that fit any kind: `inversion` of gradients and `decoders` of activations, `membership`, bounds from
                  `one_run`, auditors of single `mechanisms`, `canaries`, what is read off the `wire` (`wiretap`)
    claims/       the ε that code of others claims: recomputed from its parameters, and measured

Attacks on one kind lie in its folder: `tacit.kinds.horizontal.attacks` and the others.

An attack takes only what its adversary sees, and returns `Finding`s. A `Finding` states the adversary, the unit and
the neighbouring relation, the proved (epsilon, delta) or None, the audited lower bound, the attack's score without and
with the protection, each with an interval and the score of a guess without any information, reconstructions next to
originals, what the protection costs, and what was not tested. An audited bound above the proof refutes the claim
(`Finding.refuted`); an audited bound below it proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.door import door

if TYPE_CHECKING:
    from tacit.audit import bounds, tradeoff
    from tacit.audit.finding import Cost, Finding, LowerBound, Pictures, Score
    from tacit.dp.claim import Claim

__all__ = ["Claim", "Cost", "Finding", "LowerBound", "Pictures", "Score", "bounds", "tradeoff"]
__getattr__, __dir__ = door(
    __name__, __all__, {"tacit.audit.finding": "Cost Finding LowerBound Pictures Score", "tacit.dp.claim": "Claim"}
)
