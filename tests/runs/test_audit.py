"""An audit as a whole: what comes first, what is said, and what is drawn."""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.audit import drawings, summary
from tacit.audit import text as words
from tacit.audit.finding import Cost, Finding, LowerBound, Pictures, Score
from tacit.audit.page import whole_page
from tacit.audit.result import advantage
from tacit.audit.scope import Scope
from tacit.audit.steps import Attacks, Proved, Step, bare
from tacit.audit.tradeoff import CurveTest, claim_curve, gaussian_curve
from tacit.dp.accounting import Ledger, reading
from tacit.dp.claim import Claim
from tacit.dp.release import GaussianEvent, PureEvent
from tacit.errors import PeerError
from tacit.kind import kind_of
from tacit.runs.audit import audit
from tests.browser import MISSING, Browser
from tests.kinds.horizontal.federations import settings_for

CLAIM = Claim(1.0, 0.0, "vector", "replace-one")


def score(value, baseline=0.0, **changed):
    return Score("images", value, value - 0.1, value + 0.1, 0.95, baseline, 10, **changed)


def finding(attack, on=None, audited=None, **changed):
    bound = None if audited is None else LowerBound(audited, 0.0, 0.999, "by hand", 10)
    proved = CLAIM if audited is not None else None
    off = score(1.0) if audited is None else None
    return Finding(attack, "server", "messages", "a protection", proved, bound, off, on, **changed)


FINDINGS = [
    finding("weak", score(0.2)),
    finding("noise", audited=0.5),
    finding("strong", score(0.9), not_tested=("moonlight", "rain"), cost=Cost("accuracy", 0.9, 0.5)),
    finding("error", score(0.3, baseline=1.0, smaller_is_worse=True), not_tested=("rain",)),
    finding("guess", score(0.75, baseline=0.5), cost=Cost("accuracy", 0.9, 0.5)),
]


@pytest.fixture
def made(monkeypatch):
    """An audit of findings that are given."""

    def make(findings=tuple(FINDINGS), tell=lambda number, of, name: None, more=()):
        def attacks(settings, scope):
            ledger = Ledger("client", "replace-one")
            ledger.spend(GaussianEvent(1.0, "client", "replace-one"))
            proved = Proved.of("updates", ledger, 20.0, 1e-5, against="against everybody")
            steps = [Step("first", lambda: findings), Step("second", lambda: [Cost("loss", 1.0, 2.0)]), *more]
            return Attacks("a protection", steps, [proved], ["the weather"])

        given = replace(kind_of(settings_for()), attacks=attacks)
        monkeypatch.setattr("tacit.runs.audit.kind_of", lambda settings: given)
        return audit(settings_for(), Scope(True, 4), tell)

    return make


def test_the_strongest_comes_first(made):
    assert [each.attack for each in made().findings][:4] == ["strong", "error", "guess", "weak"]
    false = finding("false", audited=1.5)
    found = made([*FINDINGS, false])
    assert found.findings[0].attack == "false"
    assert [each.attack for each in found.audited] == ["false", "noise"]
    assert [each.attack for each in found.false_claims] == ["false"]


def test_what_was_not_tested_and_what_it_costs_are_said_once(made):
    assert made().not_tested == ("the weather", "moonlight", "rain")
    assert made().costs == (Cost("loss", 1.0, 2.0), Cost("accuracy (a protection)", 0.9, 0.5))


def test_progress_is_told(made):
    told = []
    made(tell=lambda *step: told.append(step))
    assert told == [(0, 2, "first"), (1, 2, "second")]


def test_a_step_that_fails_silences_no_other(made):
    def trips():
        raise PeerError("client 0 sent two different messages")

    broken = Step("tripping", trips)
    with pytest.raises(PeerError, match="two different"):
        made(more=[broken])
    found = made([*FINDINGS, finding("false", audited=1.5)], more=[broken])
    assert [each.attack for each in found.false_claims] == ["false"]
    assert "tripping: it could not be carried out (client 0 sent two different messages)" in found.not_tested


@given(st.floats(0, 1), st.floats(0, 0.99))
def test_an_advantage_is_a_share_of_the_way(value, baseline):
    found = advantage(score(value, baseline=baseline))
    assert 0 <= found <= 1
    assert (found > 0) == (value > baseline)


def test_errors_run_the_other_way():
    assert advantage(score(0.0, baseline=2.0, smaller_is_worse=True)) == 1
    assert advantage(score(3.0, baseline=2.0, smaller_is_worse=True)) == 0
    assert advantage(score(-0.5)) == 0.5  # a correlation


@given(st.floats(0, 20), st.floats(0, 0.1), st.floats(0, 1))
def test_the_curve_of_one_epsilon_agrees_with_its_reading(epsilon, delta, rate):
    curve = claim_curve(epsilon, delta)
    assert 1 - curve([0.01])[0] == pytest.approx(reading(epsilon, delta).true_positives_at_1_percent)
    assert 0 <= curve([rate])[0] <= 1 - rate + 1e-12


def test_a_curve_of_many_epsilons_is_the_ledgers():
    ledger = Ledger("record", "replace-one")
    ledger.spend(PureEvent(1.0, "record", "replace-one"), 2)
    proved = Proved.of("bits", ledger, 2.0, 0.0, against="")
    assert proved.curve()([0.1]) == pytest.approx(ledger.trade_off([0.1]), abs=1e-3)
    large = Proved.of("bits", ledger, 50.0, 0.0, against="")
    assert large.curve()([0.1]) == pytest.approx([0])


def test_a_seed_fixes_all_and_purposes_differ():
    assert Scope(seed=1).number("noise") == Scope(seed=1).number("noise")
    assert len({Scope(seed=seed).number(name) for seed in (1, 2) for name in ("noise", "coins")}) == 4
    assert Scope(seed=1).rng("noise").random() == Scope(seed=1).rng("noise").random()


def test_bounds_of_an_audit_hold_together(made):
    assert "99.90% confidence" in words.confidence_words(made())
    assert "99.80% confidence" in words.confidence_words(made([finding("a", audited=0.5), finding("b", audited=0.1)]))


def curve_test(negatives, needed=0.6):
    return CurveTest(0.1, negatives, needed, 0.999, 20, gaussian_curve(1.0))


def test_a_claim_is_refuted_by_its_curve_or_by_a_broken_rule(made):
    below, above = (finding(name, audited=0.5, curve=curve_test(n)) for name, n in (("below", 0.4), ("above", 0.7)))
    rule = finding("rule", score(0.2), broken=("a client answers twice",), watched=3)
    found = made([above, rule, below])
    assert {each.attack for each in found.false_claims} == {"below", "rule"}
    assert found.failure == pytest.approx(0.004)
    assert words.curve_words(below) == "FN 0.400 < 0.600, refuted"
    assert words.curve_words(above) == "FN 0.700 > 0.600, consistent"
    assert words.curve_words(rule) == "rule broken"
    assert "misses at most 0.4 of the true cases at 0.1 false positives, and the claim needs 0.6" in words.false_claim(
        below
    )
    assert words.false_claim(rule).endswith("Found: a client answers twice")
    plain = words.plain(found)
    told = {each["attack"]: each for each in plain["findings"]}
    assert told["below"]["curve"] == {
        "false_positives": 0.1,
        "false_negatives": 0.4,
        "needed": 0.6,
        "confidence": 0.999,
        "samples": 20,
        "refuted": True,
    }
    assert told["below"]["audited"]["epsilon"] == 0.5
    assert told["rule"]["broken"] == ["a client answers twice"]
    assert "FN 0.400 < 0.600" in re.sub(r"\s+", " ", words.print_table(found, 118))
    page = whole_page(found)
    assert "FN 0.400 &lt; 0.600, refuted" in page
    chart = drawings.audited_curve(below, 0)
    claimed, tested, _ = chart.panels[0].series
    assert (0.1, 0.4) in tested.points
    assert dict(claimed.points)[1.0] == pytest.approx(0)


def test_the_false_claim_is_named():
    said = words.false_claim(finding("noise", audited=1.5))
    assert said.startswith("FALSE CLAIM: a protection. Claimed epsilon 1 for each vector (replace-one); found epsilon ")


def test_nothing_that_protects():
    pictures = Pictures(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), np.ones((1, 2, 2)))
    found = bare(finding("a", score(0.5), pictures=pictures, cost=Cost("accuracy", 0.9, 0.5)))
    assert (found.on, found.pictures.on, found.cost) == (None, None, None)
    assert found.off is not None
    audited = bare(finding("a", audited=0.5))
    assert (audited.proved, audited.audited) == (None, None)


def test_the_page_and_the_table_hold_every_attack(made):
    images = np.linspace(0, 1, 3 * 4 * 4).reshape(3, 4, 4)
    shown = finding("<inversion>", score(0.7), pictures=Pictures(images, images, None))
    found = made([*FINDINGS, shown])
    page, table = whole_page(found), words.print_table(found, 110)
    for each in found.findings:
        assert each.attack.replace("<", "&lt;").replace(">", "&gt;") in page
        assert each.attack in table
    assert "<inversion>" not in page
    assert "3 images: originals" in page
    assert "3 images: recovered with it" not in page
    assert "the weather" in page
    assert "the weather" in table
    assert max(map(len, table.splitlines())) <= 110


# --- the first sentence


def claim_of(protection, audited):
    bound = LowerBound(audited, 0.0, 0.999, "by hand", 10)
    return Finding("canaries", "server", "messages", f"{protection}: words", CLAIM, bound)


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ([], "No attack was made and no privacy claim was tested, so this audit says nothing about privacy."),
        (
            [finding("inversion", score(0.9)), finding("weak", score(0.2))],
            "2 attacks were made on NAME; the best one (inversion) got 0.9, compared with 0 by guessing (measured: "
            "images); no privacy claim was tested.",
        ),
        (
            [finding("labels", score(0.55, baseline=0.5)), claim_of("noise", 0.5), claim_of("noise", 0.1)],
            "3 attacks were made on NAME; the one that tries to recover data (labels) did not clearly do better than "
            "guessing: it got 0.55, compared with 0.5 by guessing (measured: images); the one privacy claim that was "
            "tested was not refuted (“noise”).",
        ),
        (
            [claim_of("noise", 0.5), claim_of("labels", 0.3)],
            "2 attacks were made on NAME; none of them tries to recover data, each tests a claim; 2 privacy claims "
            "were tested and none was refuted (“noise”, “labels”).",
        ),
        (
            [claim_of(name, 0.5) for name in "abcde"] + [claim_of("noise", 1.5)],
            "6 attacks were made on NAME; none of them tries to recover data, each tests a claim; of 6 privacy claims "
            "tested, 1 IS FALSE: “noise”.",
        ),
        (
            [finding("columns", score(0.3, baseline=1.0, smaller_is_worse=True)), finding("weak", score(0.2))],
            "2 attacks were made on NAME; the best one (columns) got 0.3, compared with 1 by guessing (measured: "
            "images; smaller is better for the attacker); no privacy claim was tested.",
        ),
        (
            [finding("columns", score(0.95, baseline=1.0, smaller_is_worse=True))],
            "1 attack was made on NAME; the one that tries to recover data (columns) did not clearly do better than "
            "guessing: it got 0.95, compared with 1 by guessing (measured: images; smaller is better for the "
            "attacker); no privacy claim was tested.",
        ),
        (
            [
                finding("ranks", replace(score(0.9, baseline=0.5), metric="AUC of membership")),
                finding("weak", score(0.2)),
            ],
            "2 attacks were made on NAME; the best one (ranks) got 0.9, compared with 0.5 by guessing (measured: how "
            "often the attack ranks a true case above a false one, for membership); no privacy claim was tested.",
        ),
        (
            [finding("read")],
            "1 attack was made on NAME; the one that tries to recover data (read) got 1 without any protection, "
            "compared with 0 by guessing (measured: images); no privacy claim was tested.",
        ),
    ],
)
def test_the_first_sentence_says_what_was_tried_and_found(made, findings, said):
    found = made(findings)
    said = said.replace("NAME", found.settings.name)
    assert summary.sentence(found) == said
    assert words.plain(found)["summary"] == next(iter(words.plain(found).values())) == said
    assert " ".join(words.print_table(found, 110).split()).startswith(said)
    page = whole_page(found)
    assert page.index(said) < page.index("Proved ε")


def test_the_glossary_ends_the_page_and_names_every_claim_that_is_false(made):
    page = whole_page(made([claim_of(name, 1.5) for name in "abcd"]))
    assert "of 4 privacy claims tested, 4 ARE FALSE: “a”, “b”, “c” and 1 more." in page
    place = page.index(">Glossary</h2>")
    assert all(f"<dt>{term}</dt>" in page[place:] for term in summary.GLOSSARY)
    assert len(summary.GLOSSARY) >= 12
    assert list(summary.GLOSSARY) == sorted(summary.GLOSSARY)


def test_a_picture_is_a_png():
    pixels = np.arange(2 * 3 * 2, dtype=np.uint8).reshape(2, 3, 2)
    data = drawings.png(pixels)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        assert struct.unpack(">I", data[place + 8 + size : place + 12 + size])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + size
    assert struct.unpack(">IIBB", chunks[b"IHDR"][:10]) == (3, 2, 8, 4)
    lines = zlib.decompress(chunks[b"IDAT"])
    assert [lines[row * 7 + 1 : row * 7 + 7] for row in range(2)] == [row.tobytes() for row in pixels]


CUT_OFF = """
[...document.querySelectorAll('td, dd, .reach p, .reach circle, .reach line, .reach span')]
  .filter((each) => each.getBoundingClientRect().right > innerWidth || each.getBoundingClientRect().left < 0)
  .map((each) => each.outerHTML)
  .concat([...document.querySelectorAll('.scroll, figure')].filter((each) => each.scrollWidth > each.clientWidth)
    .map((each) => each.innerText))
"""
SMALLEST = (
    "Math.min(...[...document.querySelectorAll('.reach *')].map((e) => parseFloat(getComputedStyle(e).fontSize)))"
)


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_on_a_phone_and_elsewhere_nothing_of_an_audit_is_cut_off(made, tmp_path):
    wide = f"gradient inversion of {'many ' * 20}records"
    claimed = replace(
        finding(wide, score(0.125), audited=0.54321, curve=curve_test(0.7)),
        off=score(0.99),
        sees="the two inputs that the release may come from, neighbours by zero-out, and all messages of two rounds",
        also=((score(0.987654), score(0.123456)),),
    )
    (tmp_path / "audit.html").write_text(whole_page(made([claimed, finding("b", score(0.4))])))
    with Browser(tmp_path / "profile") as browser:
        for width in (390, 1280):
            shown = browser.page(width=width)
            shown.go(f"file://{tmp_path}/audit.html")
            assert shown.run(CUT_OFF) == []
            assert shown.sideways() <= 0
            assert shown.run("document.querySelectorAll('.reach circle').length") == 4
            assert shown.run(SMALLEST) >= 12
