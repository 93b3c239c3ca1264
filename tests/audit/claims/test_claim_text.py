"""An audited claim in words and as data."""

import json
import math

import pytest

from tacit.audit.claims.claim_text import plain, print_claim, sentence
from tacit.audit.claims.verdict import ClaimAudit, Recomputed, Row
from tacit.audit.finding import LowerBound
from tacit.dp.claim import Claim

BOUND = LowerBound(0.76543, 1e-5, 0.975, "counts", 8000, assumes="the noise is Gaussian")


def made(recomputed, *measured, broken=()):
    row = Row(Claim(1.0, 1e-5, "client", "zero-out"), recomputed, measured, broken)
    return ClaimAudit("app", "LocalDpMod", (row,), 0.95, (("noise", "2.5"),), ("be careful",), ("the server",))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            made(Recomputed(1.0, 1.0, "σ"), BOUND),
            "holds for its parameters, and no sample contradicts it: ε 1 recomputed",
        ),
        (made(Recomputed(math.inf, math.inf, "σ"), BOUND), "IS FALSE: ε infinite recomputed, ε ≥ 0.7654 measured"),
        (made(Recomputed(4.0, 0.5, "σ"), BOUND), "is not proved by what the code does: ε from 0.5 to 4 recomputed"),
        (made(None, BOUND), "was not refuted, and its parameters are not known: nothing recomputed"),
    ],
)
def test_sentence_has_the_verdict_and_the_numbers(found, words):
    assert words in sentence(found)
    assert "app" in sentence(found)
    assert sentence(found) in " ".join(print_claim(found, 118).split())


def test_text_says_how_the_numbers_came_about_and_what_was_not_tested():
    text = " ".join(print_claim(made(Recomputed(1.0, 1.0, "σ 2"), BOUND, broken=("no Poisson",)), 118).split())
    for part in ("LocalDpMod", "recomputed: σ 2", "if the noise is Gaussian", "8,000 samples", "no Poisson"):
        assert part in text
    for part in ("noise: 2.5", "be careful", "the server", "client, zero-out"):
        assert part in text


def test_data_is_json_and_has_every_number():
    data = json.loads(json.dumps(plain(made(Recomputed(math.inf, 2.0, "σ"), BOUND)), allow_nan=False))
    assert data["verdict"] == "refuted"
    (row,) = data["rows"]
    assert row["claim"] == {"epsilon": 1.0, "delta": 1e-5, "unit": "client", "relation": "zero-out"}
    assert row["recomputed"] == {"epsilon": "infinite", "at_least": 2.0, "how": "σ"}
    assert row["measured"][0]["epsilon"] == 0.76543
    assert data["facts"] == {"noise": "2.5"}
