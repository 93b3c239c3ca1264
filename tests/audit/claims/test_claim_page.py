"""The page of an audited claim."""

from tacit.audit.claims.claim_page import claim_page
from tacit.audit.claims.claim_text import sentence
from tacit.audit.claims.verdict import ClaimAudit, Recomputed, Row
from tacit.audit.finding import LowerBound
from tacit.dp.claim import Claim

BOUND = LowerBound(0.8, 1e-5, 0.975, "counts", 8000)


def made(subject="app"):
    rows = [
        Row(Claim(1.0, 1e-5, "client", relation), Recomputed(2.0, 2.0, f"how {relation}"), (BOUND,))
        for relation in ("zero-out", "replace-one")
    ]
    return ClaimAudit(subject, "LocalDpMod", tuple(rows), 0.95, (("noise", "2.5"),), ("be careful",), ("the server",))


def test_page_shows_claimed_recomputed_measured_and_the_rest():
    found = made()
    page = claim_page(found)
    for part in (sentence(found), "how zero-out", "how replace-one", "be careful", "the server", "refuted", "0.95"):
        assert part in page
    assert "<script" not in page


def test_names_of_others_are_escaped():
    assert "<b>" not in claim_page(made("<b>app</b>"))
