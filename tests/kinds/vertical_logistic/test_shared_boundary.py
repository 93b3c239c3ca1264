"""What the boundary of the protocol on shares lists is what its runs send, to whom, and nothing else."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tacit.channel import Recorder, run_parties
from tacit.events import Nowhere
from tacit.kinds.vertical_logistic import boundary
from tacit.kinds.vertical_logistic.party import party, predictor
from tacit.kinds.vertical_logistic.shared.messages import COUNTS, RELEASED, Revealed
from tacit.kinds.vertical_logistic.shared_boundary import declared
from tacit.lockstep.run import Place
from tacit.oblivious import Hidden
from tests.kinds.vertical_logistic.shared_tables import of_tables
from tests.subprocesses import HANGS

CASES: dict[str, dict[str, Any]] = {
    "two classes": {},
    "two classes, never judged": {"shares": {"figures": "never"}},
    "nothing held out": {"train": {"test": 0.0}},
    "three classes": {"labels": "three"},
    "linear": {"labels": "linear"},
    "class weights": {"train": {"class_weight": "balanced"}},
    "patience": {"train": {"patience": 1, "epochs": 2}},
    "woe": {"woe": True},
    "not aligned": {"align": False},
}
LONG = {"two classes, never judged", "nothing held out", "class weights", "not aligned"}  # but for the shortest way
RELEASES = {
    "two": ("points", "decile", "decision", "exact"),
    "three": ("points", "exact"),
    "linear": ("decile", "exact"),
}


def recorded(settings, parties):
    """What each party returns; (message, field, role of the sender, role of the receiver) of all that was sent; and
    each declared opening with the party that it is opened to."""
    logs = {}

    def live(me, work, channels):
        own = {other: Recorder(channel) for other, channel in channels.items()}
        logs.update({(me, other): recorder for other, recorder in own.items()})
        return work(own)

    parts = run_parties({me: partial(live, me, work) for me, work in parties.items()}, patience=HANGS)
    sent, opened = set(), set()
    for (me, other), recorder in logs.items():
        roles = settings.parties[me].role, settings.parties[other].role
        sent |= {(type(m).__name__, name, *roles) for m in recorder.sent for name in m.__struct_fields__}
        opened |= {(min(m.stage, COUNTS), other) for m in recorder.sent if isinstance(m, Revealed)}
        if me != settings.active and any(isinstance(m, Hidden) for m in recorder.sent):  # a prediction without a dealer
            opened.add((RELEASED, other))
    return parts, sent, opened


def listed(settings):
    return {(r.message, r.field, r.sender, r.receiver) for r in boundary.releases(settings)}


@pytest.mark.parametrize(
    ("case", "passives", "dealer"),
    [
        pytest.param(case, *who, marks=[pytest.mark.slow] * (case in LONG and who != (1, True)))
        for case in CASES
        for who in ((1, True), (2, True), (1, False))
    ],
)
def test_messages_of_a_run_on_shares_are_those_of_the_boundary(case, passives, dealer, tmp_path):
    settings = of_tables(tmp_path, passives, dealer=dealer, **CASES[case])
    place = Place(None, Nowhere())
    parts, sent, opened = recorded(settings, {me: party(settings, me, place) for me in settings.parties})
    session = parts[settings.active].model["session"]
    models = {me: part.model or {"session": session} for me, part in parts.items()}
    for release in RELEASES[CASES[case].get("labels", "two")]:
        if release == "decile" and "deciles" not in models[settings.active]:
            continue
        told = settings.model_copy(update={"predict": settings.predict.model_copy(update={"release": release})})
        sources = {me: Path(settings.data[me].path) if me in settings.data else None for me in settings.parties}
        using = {me: predictor(told, me, models[me], sources[me], place) for me in settings.parties}
        tables, answered, told_of = recorded(settings, using)
        assert tables[settings.active] is not None
        assert sent | answered == listed(told), release
        assert opened | told_of == {(each.stage, each.reader) for each in declared(told)}
    assert ("EncryptedLabels" in {message for message, *_ in sent}) == (case == "woe")


def test_every_declared_opening_is_listed_for_its_reader(tmp_path):
    settings = of_tables(tmp_path, 2)
    said = {(r.receiver, r.what) for r in boundary.releases(settings) if (r.message, r.field) == ("Revealed", "words")}
    assert said == {(settings.parties[each.reader].role, each.what) for each in declared(settings)}
    assert not any("dealer" in (r.receiver, r.sender) for r in boundary.releases(settings) if r.message == "Opening")


def test_a_prediction_without_a_dealer_is_listed_as_what_is_looked_up(tmp_path):
    settings = of_tables(tmp_path, 1, dealer=False)
    (hidden,) = [r for r in boundary.releases(settings) if (r.message, r.sender) == ("Hidden", "passive")]
    assert hidden.what.startswith("predictions: the tenth")
    assert not any(r.what.startswith("predictions") for r in boundary.releases(settings) if r.message == "Revealed")


def test_sentences_say_what_the_file_asks_for(tmp_path):
    usual = " ".join(boundary.sentences(of_tables(tmp_path, 1)))
    assert "at the end the sum of the losses" in usual
    assert "notary has no data" in usual
    never = of_tables(tmp_path, 1, shares={"figures": "never"})
    assert "bank sees no loss" in " ".join(boundary.sentences(never))
    assert not any("figures" in text for text in boundary.unprotected(never))
    assert "after each epoch" in " ".join(boundary.sentences(of_tables(tmp_path, 1, train={"patience": 2})))
    assert "squared errors" in " ".join(boundary.sentences(of_tables(tmp_path, 1, labels="linear")))
    assert "notary together with any one of bank, shop0" in " ".join(boundary.unprotected(of_tables(tmp_path, 1)))
    alone = of_tables(tmp_path, 1, dealer=False)
    assert "notary" not in " ".join([*boundary.sentences(alone), *boundary.unprotected(alone)])
    assert "None" not in " ".join([*boundary.sentences(alone), *boundary.unprotected(alone)])
    assert "as long as AES and Diffie-Hellman" in " ".join(boundary.unprotected(alone))
    exact = of_tables(tmp_path, 1, predict={"release": "exact"})
    assert any("Exact predictions" in text for text in boundary.unprotected(exact))
