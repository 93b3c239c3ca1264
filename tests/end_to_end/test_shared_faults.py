"""Parties of a regression on shares, and dealers, that leave, disagree or send what cannot be: one sentence each."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest

from tacit.channel import run_parties
from tacit.errors import PeerError
from tacit.events import Noted, Nowhere
from tacit.kinds.vertical_logistic.party import party, predictor
from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.shared.messages import Deal, Greeting, Groups, Opening, Revealed, Seeds, Sizes, Used
from tacit.lockstep.run import Place
from tests.kinds.vertical_logistic.parties import errors_of
from tests.kinds.vertical_logistic.shared_tables import of_tables
from tests.subprocesses import HANGS

changed = msgspec.structs.replace
PLACE = Place(None, Nowhere())


class Changing:
    """A channel whose messages of one kind are changed from the n-th on."""

    def __init__(self, channel, kind, change, nth):
        self._channel, self._kind, self._change, self._nth = channel, kind, change, nth
        self.recv, self.close = channel.recv, channel.close

    def send(self, message):
        if isinstance(message, self._kind):
            self._nth -= 1
            if self._nth < 0:
                message = self._change(message)
        self._channel.send(message)


def broken(settings, name, kind, change, nth=0, parties=None):
    """What each party raises if `name` changes its messages of a kind."""

    def live(work, channels):
        return work({other: Changing(channel, kind, change, nth) for other, channel in channels.items()})

    made = parties or {me: party(settings, me, PLACE) for me in settings.parties}
    return errors_of({me: partial(live, work) if me == name else work for me, work in made.items()})


def leave(message):
    raise KeyError("the power went")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("bank", Sizes), ("bank", Groups), ("shop0", Greeting), ("shop0", Opening), ("shop0", Revealed), ("shop0", Used),
     ("notary", Seeds), ("notary", Deal)],
)  # fmt: skip
def test_a_party_leaves_and_all_others_hear_of_it(tmp_path, name, kind):
    errors = broken(of_tables(tmp_path, 2, align=False), name, kind, leave)
    assert isinstance(errors.pop(name), KeyError)
    assert errors
    assert {str(error) for error in errors.values()} == {f"{name} failed (KeyError)"}


CASES = {
    "short opening": ("shop0", Opening, lambda m: changed(m, words=m.words[8:]), 2, "bytes"),
    "long opening": ("shop0", Opening, lambda m: changed(m, words=m.words * 9), 2, "are allowed"),
    "old opening": ("shop0", Opening, lambda m: changed(m, serial=1), 2, "start all parties again"),
    "other stage": ("shop0", Opening, lambda m: changed(m, stage=m.stage + 1), 2, "start all parties again"),
    "short weights": ("bank", Revealed, lambda m: changed(m, words=b""), 0, "bytes"),
    "a deal again": ("notary", Deal, lambda m: changed(m, serial=1), 1, "masks are used once"),
    "a deal skipped": ("notary", Deal, lambda m: changed(m, serial=m.serial + 1), 1, "masks are used once"),
    "other purpose": ("notary", Deal, lambda m: changed(m, purpose=3), 1, "is due"),
    "short deal": ("notary", Deal, lambda m: changed(m, words=m.words[:-8]), 1, "bytes"),
    "used too early": ("shop0", Used, lambda m: changed(m, serial=m.serial + 5), 0, "is next"),
    "few in a group": ("bank", Groups, lambda m: changed(m, ends=b"\x01" * len(m.ends)), 0, "fewer than 10"),
    "many rows": ("bank", Sizes, lambda m: changed(m, rows=m.rows + 1), 0, "set align: true"),
    "other columns": ("shop0", Greeting, lambda m: changed(m, columns=0), 0, "are allowed here"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_is_refused(tmp_path, case):
    name, kind, change, nth, words = CASES[case]
    errors = broken(of_tables(tmp_path, 1, align=False), name, kind, change, nth)
    assert all(isinstance(error, PeerError) for error in errors.values())
    assert any(words in str(error) for error in errors.values()), errors  # all others hear that this party failed


@pytest.mark.parametrize("name", ["shop0", "notary"])
def test_another_file_is_refused(tmp_path, name):
    one = of_tables(tmp_path, 1, align=False)
    other = of_tables(tmp_path, 1, align=False, train={"learning_rate": 0.2})
    errors = errors_of({me: party(other if me == name else one, me, PLACE) for me in one.parties})
    assert any("has other terms" in str(error) for error in errors.values())


def test_parts_of_different_trainings_do_not_predict_together(tmp_path):
    settings = of_tables(tmp_path, 1, align=False)
    first, second = (
        run_parties({me: party(settings, me, PLACE) for me in settings.parties}, patience=HANGS) for _ in range(2)
    )
    models = {"bank": first["bank"].model, "shop0": second["shop0"].model}
    models["notary"] = {"session": models["bank"]["session"]}
    sources = {me: Path(settings.data[me].path) if me in settings.data else None for me in settings.parties}
    errors = errors_of({me: predictor(settings, me, models[me], sources[me], PLACE) for me in settings.parties})
    assert any("has other terms" in str(error) for error in errors.values())


def predicting(settings):
    """Each party of a prediction of the rows that a training had."""
    parts = run_parties({me: party(settings, me, PLACE) for me in settings.parties}, patience=HANGS)
    models = {me: part.model for me, part in parts.items()} | {"notary": {"session": parts["bank"].model["session"]}}
    sources = {me: Path(settings.data[me].path) if me in settings.data else None for me in settings.parties}
    return {me: predictor(settings, me, models[me], sources[me], PLACE) for me in settings.parties}


GRID = tuple(range(-31 << 18, 33 << 18, 1 << 18))  # 64 thresholds: six bits of every score instead of one
THRESHOLDS = {
    "a grid for decisions": ("decision", lambda told: GRID, "has 1, rising"),
    "a second decision": ("decision", lambda told: (-(1 << 20), *told), "has 1, rising"),
    "another decision": ("decision", lambda told: (1 << 20,), "another threshold than predict.threshold 0.5"),
    "a grid for tenths": ("decile", lambda told: GRID, "has 10, rising"),
    "tenths without a decision": ("decile", lambda told: tuple(range(1, 11)), "another threshold"),
    "falling tenths": ("decile", lambda told: told[::-1], "has 10, rising"),
    "thresholds of points": ("points", lambda told: (0,), "has 0, rising"),
    "none": ("decision", lambda told: (), "has 1, rising"),
    "far out": ("decision", lambda told: (1 << 40,), "below 1024"),
}


@pytest.mark.parametrize("case", THRESHOLDS)
def test_an_active_that_asks_with_other_thresholds_than_the_file_is_refused(tmp_path, case):
    release, change, words = THRESHOLDS[case]
    settings = of_tables(tmp_path, 1, align=False, predict={"release": release})
    parties = predicting(settings)
    sent = []
    honest = parties["shop0"]

    class Noting:
        def __init__(self, channel):
            self._channel, self.recv, self.close = channel, channel.recv, channel.close

        def send(self, message):
            sent.append(type(message))
            self._channel.send(message)

    parties["shop0"] = lambda channels: honest({other: Noting(channel) for other, channel in channels.items()})
    cheat = lambda message: changed(message, thresholds=change(message.thresholds))  # noqa: E731
    errors = broken(settings, "bank", Sizes, cheat, parties=parties)
    assert isinstance(errors["shop0"], PeerError)
    assert words in f"{errors['shop0']} {errors['notary']}", errors
    assert sent == []


def test_the_dealer_takes_no_room_for_rows_that_only_the_active_claims(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        batches,
        "hold_out",
        lambda rows, *rest, made=batches.hold_out: (asked.append(rows), made(min(rows, 400), *rest))[1],
    )
    settings = of_tables(tmp_path, 1, align=False)
    errors = broken(settings, "bank", Sizes, lambda message: changed(message, rows=(1 << 32) - 1))
    assert isinstance(errors["notary"], PeerError)
    assert max(asked) == 400


@pytest.mark.parametrize(("labels", "outputs"), [("two", 2), ("linear", 3)])
def test_outputs_that_no_label_of_the_model_has_are_refused(tmp_path, labels, outputs):
    settings = of_tables(tmp_path, 1, labels=labels, align=False)
    errors = broken(settings, "bank", Sizes, lambda message: changed(message, outputs=outputs))
    said = [str(errors[name]) for name in ("shop0", "notary") if isinstance(errors[name], PeerError)]
    assert any(f"bank has {outputs} outputs" in each for each in said)


@pytest.mark.parametrize(("rate", "large"), [(0.5, False), (400.0, True)])
def test_a_party_is_told_of_its_part_of_a_score_beyond_the_sigmoid(tmp_path, rate, large):
    settings = of_tables(tmp_path, 1, align=False, train={"learning_rate": rate})
    noted = []

    class Sink(Nowhere):
        def emit(self, event):
            if isinstance(event, Noted):
                noted.append(event.text)

    run_parties({me: party(settings, me, Place(None, Sink())) for me in settings.parties}, patience=HANGS)
    for name in settings.owners:
        assert any(text.startswith(f"{name}: its part of a score reaches") for text in noted) is large
