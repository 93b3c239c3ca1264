"""What the boundary lists is what runs send; the plan counts it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tacit.channel import Recorder, run_parties
from tacit.events import EpochFinished, Kept, Nowhere
from tacit.kinds.vertical_logistic import boundary, forecast
from tacit.kinds.vertical_logistic.party import forecast as plan_of
from tacit.kinds.vertical_logistic.party import party, predictor
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.run import Place
from tacit.wire import encode
from tests.kinds.vertical_logistic.parties import deal, functions, key, labelled, recorded, shared_out
from tests.subprocesses import HANGS


def of_tables(tmp_path, passives, model, woe):
    """The settings of a run of tables on disk, with weight of evidence at the first passive or without."""
    x, y = labelled(400, 12, model)
    kind = "linear" if model == "linear" else "logistic"
    settings = deal(passives, model=kind, train={"test": 0.2, "patience": 1, "batch": 400}, checks={"row_uses": 100})
    data = {}
    for name, part in shared_out(x, settings).items():
        names = [f"x{column}" for column in range(part.shape[1])]
        lines = [",".join(["id", *(["y"] if name == "bank" else []), *names])]
        for row, values in enumerate(part.tolist()):
            lines.append(",".join(map(str, [f"p{row}", *([y[row]] if name == "bank" else []), *values])))
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
        data[name] = {"path": str(tmp_path / f"{name}.csv")}
    if woe:
        data["bank"]["label_counts"] = True
        data["shop0"]["columns"] = {"x0": {"use": "woe", "bins": 4}, "x1": "woe"}
    return Settings.model_validate(settings.model_dump() | {"data": data})


@pytest.mark.parametrize("passives", [1, 2, 3])
@pytest.mark.parametrize("model", ["two", "three", "linear", "two with woe"])
def test_messages_of_a_run_are_those_of_the_boundary(model, passives, tmp_path):
    settings = of_tables(tmp_path, passives, model.split()[0], model.endswith("woe"))
    logs = {}

    def live(me, work, channels):
        own = {other: Recorder(channel) for other, channel in channels.items()}
        logs.update({(me, other, len(logs)): recorder for other, recorder in own.items()})
        return work(own)

    parties = {me: partial(live, me, party(settings, me, Place(None, Nowhere()))) for me in settings.parties}
    parts = run_parties(parties, patience=HANGS)
    using = {}
    for me in settings.parties:
        source = Path(settings.data[me].path)
        using[me] = partial(live, me, predictor(settings, me, parts[me].model, source, Place(None, Nowhere())))
    run_parties(using, patience=HANGS)
    sent = set()
    for (me, other, _), recorder in logs.items():
        roles = settings.parties[me].role, settings.parties[other].role
        sent |= {(type(m).__name__, name, *roles) for m in recorder.sent for name in m.__struct_fields__}
    listed = {(r.message, r.field, r.sender, r.receiver) for r in boundary.releases(settings)}
    assert sent == listed
    assert ("EncryptedLabels" in {message for message, *_ in sent}) == model.endswith("woe")


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


@pytest.mark.parametrize(
    ("changes", "words", "counted"),
    [
        ({"train": {"secret_spread": 1.0}}, "a secret number of spread 1 to the score of each training row", "a few"),
        ({}, "Nothing hides them (train.secret_spread: 0)", "exactly"),
        ({"model": "linear"}, "If labels take few different values", "exactly"),
    ],
)
def test_what_gradients_tell_of_labels_is_said_as_the_attacks_find_it(changes, words, counted):
    """`end_to_end/test_vertical_gradients.py` and `attacks/test_readable.py` play each of these sentences."""
    labels, categories = (
        next(text for text in boundary.unprotected(deal(1, **changes)) if start in text)
        for start in ("gradients tell about the labels", "columns of categories")
    )
    assert words in labels
    assert counted in categories
    assert not any("cannot compute" in text for text in boundary.unprotected(deal(1, **changes)))


def test_the_plan_warns_of_categories_at_passives_only():
    settings = deal(1, train={"secret_spread": 1.0})
    told = forecast.forecast(settings, 200, {"bank": 9, "shop0": 9}, categories={"bank": 5, "shop0": 7})
    (warning,) = (str(text) for text in told.parts["Warnings"] if "categories" in str(text))
    assert warning.startswith("shop0 has 7 columns of categories or bins")
    assert "to within a few" in warning
    none = forecast.forecast(settings, 200, {"bank": 9, "shop0": 9}, categories={"bank": 5, "shop0": 0})
    assert not any("categories" in str(text) for text in none.parts["Warnings"])


def test_the_plan_of_a_file_counts_the_columns_that_categories_become(tmp_path):
    settings = of_tables(tmp_path, 1, "two", woe=False)
    path = Path(settings.data["shop0"].path)
    lines = path.read_text().splitlines()
    texts = ["city", *(["rome", "oslo", "lima"][row % 3] for row in range(len(lines) - 1))]
    path.write_text("\n".join(f"{line},{text}" for line, text in zip(lines, texts, strict=True)))
    told = plan_of(settings)
    assert any("shop0 has 3 columns of categories or bins" in str(text) for text in told.parts["Warnings"])
