"""What the boundary lists is what runs send; the plan counts it."""

from __future__ import annotations

import pytest

from tacit.align.intersection import align
from tacit.channel import Recorder, run_parties
from tacit.events import EpochFinished, Kept
from tacit.kinds.vertical_logistic import boundary, forecast
from tacit.kinds.vertical_logistic.protocol import logistic_masked, predict
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.lockstep.resumption import Held, agreed_session
from tacit.wire import encode
from tests.kinds.vertical_logistic.parties import deal, functions, key, labelled, recorded, shared_out
from tests.subprocesses import HANGS


@pytest.mark.parametrize("passives", [1, 2, 3])
@pytest.mark.parametrize("model", ["two", "three", "linear"])
def test_messages_of_a_run_are_those_of_the_boundary(model, passives):
    x, y = labelled(100, 12, model)
    kind = "linear" if model == "linear" else "logistic"
    settings = deal(passives, model=kind, train={"test": 0.2, "patience": 1})
    parts, logs = shared_out(x, settings), {}
    ids = [f"person {number}" for number in range(100)]

    def party(me):
        def live(channels):
            own = {other: Recorder(channel) for other, channel in channels.items()}
            logs.update({(me, other): recorder for other, recorder in own.items()})
            agreed_session(own, me, "bank", Held())
            rows = align(own, me, "bank", ids).rows
            if me == "bank":
                model = logistic_masked.active(own, parts[me][rows], y[rows], settings, PaillierContext(key=key()))
                return predict.active(own, parts[me][:10], model, settings)
            model = logistic_masked.passive(own, parts[me][rows], settings, me)
            return predict.passive(own, parts[me][:10], model, settings, me)

        return live

    run_parties({me: party(me) for me in settings.parties}, patience=HANGS)
    sent = set()
    for (me, other), recorder in logs.items():
        roles = settings.parties[me].role, settings.parties[other].role
        sent |= {(type(m).__name__, name, *roles) for m in recorder.sent for name in m.__struct_fields__}
    listed = {(r.message, r.field, r.sender, r.receiver) for r in boundary.releases(settings)}
    assert sent == listed


def test_scores_are_said_to_be_in_the_clear_only_where_they_are():
    (one,) = (r for r in boundary.releases(deal(1)) if r.message == "Scores")
    (two,) = (r for r in boundary.releases(deal(2)) if r.message == "Scores")
    assert "in the clear" in one.protection
    assert "the sum over the 2 passives only" in two.protection
    assert any("in the clear" in text for text in boundary.sentences(deal(1)))
    assert not any("in the clear" in text for text in boundary.sentences(deal(2)))
    assert any("checks that are off" in text for text in boundary.unprotected(deal(1, checks={"few_rows": False})))


@pytest.mark.parametrize(("model", "outputs"), [("two", 1), ("three", 3)])
def test_the_plan_counts_the_bytes_of_an_epoch(model, outputs):
    x, y = labelled(150, 12, model)
    settings = deal(2, train={"test": 0.2, "epochs": 1, "batch": 40})
    events = Kept()
    run_parties(
        functions(shared_out(x, settings), y, settings, {"bank": PaillierContext(sink=events, key=key())}),
        patience=HANGS,
    )
    (finished,) = (event for event in events.events if isinstance(event, EpochFinished))
    told = forecast.forecast(settings, 150, {"bank": 4, "shop0": 4, "shop1": 4}, outputs).figures["bytes of an epoch"]
    measured = finished.bytes_sent + finished.bytes_received
    assert told <= measured <= told * 1.02 + 400


def test_the_plan_warns():
    small = forecast.forecast(deal(1, train={"batch": 20}), 200, {"bank": 3, "shop0": 20})
    assert any("could compute the labels" in str(text) for text in small.parts["Warnings"])
    long = forecast.forecast(
        deal(1, train={"batch": 50, "epochs": 10}, checks={"row_uses": None}), 200, {"bank": 3, "shop0": 9}
    )
    assert any("bank will refuse to begin" in str(text) for text in long.parts["Warnings"])
    few = forecast.forecast(deal(1), 200, {"bank": 3, "shop0": 3})
    assert any("below 8" in str(text) for text in few.parts["Warnings"])
    unknown = forecast.forecast(deal(1))
    assert unknown.parts["Who sees what"]
    assert "rows" not in unknown.figures


def test_a_step_of_512_rows_and_30_features_sends_one_packed_gradient():
    settings = deal(1, bits=2048)
    sizes = forecast.step_bytes(settings, 512, 30)
    assert sizes["MaskedGradient"] == 512
    assert sizes["Residues"] == 512 * 512


@pytest.mark.parametrize(("model", "outputs"), [("two", 1), ("three", 3)])
def test_sizes_of_messages_stay_within_their_limits(model, outputs):
    x, y = labelled(100, 12, model)
    settings = deal(2)
    logs = {}
    run_parties(functions(shared_out(x, settings), y, settings, wrap=recorded(logs)), patience=HANGS)
    largest = max(len(encode(m)) for recorder in logs.values() for m in recorder.sent)
    assert largest < 64 * 128 * outputs + 256


def test_passives_are_told_how_many_classes_there_are():
    assert any("how many classes bank has" in text for text in boundary.sentences(deal(1)))
    assert not any("how many classes" in text for text in boundary.sentences(deal(1, model="linear")))
