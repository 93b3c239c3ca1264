"""The plan of a training on shares counts what a run sends, and warns."""

from __future__ import annotations

import pytest

from tacit.channel import Recorder, run_parties
from tacit.events import Nowhere
from tacit.kinds.vertical_logistic.party import forecast, party
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared.costs import costs
from tacit.kinds.vertical_logistic.shared_forecast import ROUND_TRIP, shared_forecast, whole_costs
from tacit.kinds.vertical_logistic.shared_party import terms_of
from tacit.kinds.vertical_logistic.two_party import costs as two_party
from tacit.lockstep.run import Place
from tests.kinds.vertical_logistic.shared_tables import of_tables
from tests.subprocesses import HANGS


def warnings(settings):
    return " ".join(map(str, forecast(settings).parts["Warnings"]))


@pytest.mark.parametrize("passives", [1, 2])
@pytest.mark.parametrize("changes", [{}, {"labels": "three", "train": {"epochs": 2, "patience": 2}}])
def test_the_plan_counts_the_bytes_of_a_run(tmp_path, passives, changes):
    settings = of_tables(tmp_path, passives, align=False, **changes)
    logs = []

    def recording(name):
        work = party(settings, name, Place(None, Nowhere()))

        def live(channels):
            own = {other: Recorder(channel) for other, channel in channels.items()}
            logs.extend(own.values())
            return work(own)

        return live

    run_parties({name: recording(name) for name in settings.parties}, patience=HANGS)
    bulk = [m for log in logs for m in log.sent if type(m).__name__ in ("Opening", "Deal")]
    told = forecast(settings).figures
    assert told["bytes of the run"] == sum(len(message.words) for message in bulk)
    assert told["seconds at a round trip of 20 ms"] > told["exchanges"] * ROUND_TRIP
    assert 0 < told["statistical distance from uniform"] < 2.0**-40


def test_the_plan_of_two_parties_without_a_dealer(tmp_path):
    settings = of_tables(tmp_path, 1, align=False, dealer=False)
    terms = terms_of(settings, 400, 1)
    told, spent = forecast(settings).figures, two_party.costs(terms, {"bank": 6, "shop0": 6})
    assert told["bytes of the run"] == spent.total.bytes
    assert told["bytes of a step"] == spent.step.bytes
    assert told["transfers of a step"] == spent.step.transfers > 160 * 16
    assert told["seconds at a round trip of 20 ms"] > told["exchanges"] * ROUND_TRIP
    assert 0 < told["statistical distance from uniform"] < 2.0**-40
    said = " ".join(map(str, forecast(settings).parts["What it costs"]))
    assert "A step has 3 exchanges" in said
    assert "oblivious transfers" in said
    assert told["bytes of memory of a party"] == 400 * 6 * (360 + 160 + 2 * 5 * 256)  # small tables keep leaves
    assert "Each party holds up to 7.4 MB" in said
    linear = of_tables(tmp_path, 1, align=False, dealer=False, labels="linear")
    assert "A step has 2 exchanges" in str(forecast(linear).parts["What it costs"])
    coarse = of_tables(tmp_path, 1, dealer=False, shares={"harmonics": 30})
    assert "harmonics" not in warnings(coarse)  # which only the protocol with a dealer has


@pytest.mark.parametrize("figures", ["epoch", "end", "never"])
def test_epochs_are_counted_without_going_through_them(tmp_path, figures):
    settings = of_tables(tmp_path, 1, rows=333, train={"epochs": 5, "batch": 50}, shares={"figures": figures})
    terms, columns = terms_of(settings, 333, 1), {"bank": 6, "shop0": 6}
    assert whole_costs(terms, columns) == costs(terms, columns)


def test_the_plan_prints_exchanges_time_and_the_sum_of_distances(tmp_path):
    said = " ".join(map(str, forecast(of_tables(tmp_path, 1)).parts["What it costs"]))
    assert "A step has 4 exchanges" in said
    assert "round trip of 20 ms" in said
    assert "sum of the statistical distances" in said
    weighted = of_tables(tmp_path, 1, train={"class_weight": "balanced"})
    assert "A step has 5 exchanges" in str(forecast(weighted).parts["What it costs"])


def test_the_plan_warns_of_what_the_file_lets_out(tmp_path):
    usual = warnings(of_tables(tmp_path, 1))
    assert "predict.budget is not set" in usual
    assert "80 rows are held out" in usual
    assert "exact" not in usual
    assert "predict.budget" not in warnings(of_tables(tmp_path, 1, predict={"budget": 100}))
    assert "what the training hid" in warnings(of_tables(tmp_path, 1, predict={"release": "exact"}))
    assert "will refuse to begin" in warnings(of_tables(tmp_path, 1, rows=60))
    assert "opened to bank 3 times" in warnings(of_tables(tmp_path, 1, train={"patience": 1, "epochs": 3}))
    assert "off by up to 0.006" in warnings(of_tables(tmp_path, 1, shares={"harmonics": 30}))
    assert "held out" not in warnings(of_tables(tmp_path, 1, shares={"figures": "never"}))


def test_a_file_without_tables_still_says_who_sees_what(tmp_path):
    settings = of_tables(tmp_path, 1)
    made = forecast(settings.model_copy(update={"data": {}}))
    assert made.parts["Who sees what"]
    assert "rows" not in made.figures


@pytest.mark.parametrize(("epochs", "warned"), [(100, False), (100_000, True)])
def test_distances_above_2_to_the_minus_40_are_warned_of(epochs, warned):
    parties = {"bank": {"role": "active"}, "shop": {"role": "passive"}}
    settings = Settings.model_validate({"helper": "none", "parties": parties, "train": {"epochs": epochs}})
    made = shared_forecast(settings, 1_000_000, {"bank": 100, "shop": 100}, 1, {})
    assert (made.figures["statistical distance from uniform"] > 2.0**-40) == warned
    assert ("above 2^-40: take fewer epochs" in str(made.parts["Warnings"])) == warned
