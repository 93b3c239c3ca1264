"""The plan of trees: bytes against those of a run, equations, and warnings."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tacit.channel import Recorder, run_parties
from tacit.config.source import ConfigError
from tacit.events import Nowhere
from tacit.kinds.vertical_trees.forecast import forecast, planned
from tacit.kinds.vertical_trees.party import party
from tacit.kinds.vertical_trees.settings import Settings
from tacit.lockstep.held_out import hold_out
from tacit.lockstep.run import Place
from tacit.report.forecast import plain, words
from tacit.wire import encode
from tests.kinds.vertical_trees.trees_tables import of_tables
from tests.subprocesses import HANGS


def bytes_sent(settings):
    """All messages of a training, as bytes."""
    recorders = []

    def live(me, channels):
        own = {other: Recorder(channel) for other, channel in channels.items()}
        recorders.extend(own.values())
        return party(settings, me, Place(None, Nowhere()))(own)

    run_parties({me: partial(live, me) for me in settings.parties}, patience=HANGS)
    sizes = [len(encode(message)) for recorder in recorders for message in recorder.sent]
    return sum(sizes)


@pytest.mark.parametrize("partition", ["shown", "hidden"])
@pytest.mark.parametrize(("passives", "objective"), [(1, "binary"), (2, "softmax")])
def test_a_run_takes_no_more_bytes_than_planned_and_not_much_less(tmp_path, passives, objective, partition):
    changes = {"privacy": {"partition": partition, "least": 10}, "train": {"trees": 2, "depth": 2}}
    settings = of_tables(tmp_path, passives, objective=objective, rows=400, **changes)
    made = forecast(settings)
    told, sent = made.figures["bytes of the run"], bytes_sent(settings)
    frames = 12_000 * passives  # base transfers and the frames of small messages
    assert sent <= told + frames
    assert sent >= 0.7 * told
    assert f"{told:,} bytes" in words(made)


@pytest.mark.parametrize(("partition", "of_a_tree"), [("shown", 2 * 3), ("hidden", 4 + 3)])
def test_time_is_that_of_exchanges_and_of_words(partition, of_a_tree):
    """By hand: sums of a level at once, or of each of 4 hidden nodes, and the sides of 3 levels; one a round beside."""
    bins = {"shop": np.full(5, 9)}
    made = planned(cancer(train={"trees": 10, "depth": 3}, privacy={"partition": partition}), 10_000, bins)
    longer = planned(cancer(train={"trees": 20, "depth": 3}, privacy={"partition": partition}), 10_000, bins)
    assert made.figures["exchanges"] == 10 * (of_a_tree + 1)
    waits = 0.02 * made.figures["exchanges"]
    computed = made.figures["seconds of processor time"]
    assert made.figures["seconds at a round trip of 20 ms"] == pytest.approx(waits + computed)
    set_up = 2 * computed - longer.figures["seconds of processor time"]
    assert set_up == pytest.approx(2e-6 * 10_000 * 5, abs=0.003)
    assert f"at most {waits:,.0f} s of waiting" in words(made)


def test_equations_stand_beside_the_rows():
    """By hand: 2 sums a node, 2^(depth - 1) nodes of a tree or rows / least of them."""
    made = planned(cancer(train={"trees": 10, "depth": 4, "test": 0.2}), 5000)
    assert made.figures["training rows"] == 4000
    assert made.figures["equations of a bin"] == 2 * 10 * 8
    assert made.figures["equations a row"] == pytest.approx(0.04)
    few = planned(cancer(train={"trees": 10, "depth": 4, "test": 0.2}, privacy={"least": 1000}), 5000)
    assert few.figures["equations of a bin"] == 2 * 10 * 4
    first = made.parts["What is not protected"][0]
    assert first.startswith("Of each passive's columns the active opens up to 160 sums of each bin over 4,000 rows")
    several = planned(cancer(train={"trees": 10, "depth": 4, "test": 0.2, "objective": "softmax"}), 5000, classes=4)
    assert several.figures["equations of a bin"] == 4 * 160
    assert "4 trees, one for each class" in words(several)


def cancer(**changes):
    parties = {"bank": {"role": "active"}, "shop": {"role": "passive"}}
    return Settings.model_validate({"parties": parties, "task": "cancer", **changes})


def warnings(*args, **changes):
    return [str(each) for each in planned(cancer(**changes), *args).parts["Warnings"]]


def test_the_plan_warns():
    assert any("grown from 40 rows" in text and "refuse to begin" in text for text in warnings(50))
    assert any("grown from 60 rows" in text for text in warnings(150, train={"rows": 0.5}))
    assert not any("refuse to begin" in text for text in warnings(80))
    assert any("a bin has about 2.1" in text for text in warnings(1000, train={"bins": 32}))
    assert any("predict.budget is not set" in text for text in warnings(1000))
    assert not any("predict.budget" in text for text in warnings(1000, predict={"budget": 5}))


def test_hidden_nodes_are_said_to_cost_more():
    bins = {"bank": np.array([8] * 4), "shop": np.array([32] * 50)}
    shown, hidden = (planned(cancer(privacy={"partition": each}), 10_000, bins) for each in ("shown", "hidden"))
    assert hidden.figures["bytes of a tree with shop"] > 10 * shown.figures["bytes of a tree with shop"]
    assert "times what partition: shown takes" in words(hidden)
    assert "times what partition: shown takes" not in words(shown)
    assert hidden.figures["bytes of the set-up with shop"] == shown.figures["bytes of the set-up with shop"]


def test_a_plan_without_any_table_says_who_sees_what(tmp_path):
    settings = of_tables(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    made = forecast(settings)
    assert made.parts["Who sees what"]
    assert "rows" not in made.figures
    assert made.figures["equations of a bin"] == 2 * 3 * 4
    assert made.parts["What is not protected"][0].startswith(
        "Of each passive's columns the active opens up to 24 sums of each bin: 0.1 or more a row are enough to solve"
    )
    assert plain(made)["title"].startswith(
        "trees: bank with labels and shop0, 3 rounds of trees of depth 3 in up to 8 bins"
    )


def test_a_plan_of_some_tables_counts_what_it_knows(tmp_path):
    settings = of_tables(tmp_path, 2)
    (tmp_path / "shop1.csv").unlink()
    made = forecast(settings)
    assert "bytes of a tree with shop0" in made.figures
    assert "bytes of the run" not in made.figures
    fewer = "A table is elsewhere: fewer rows may be in common, with more opened sums for each."
    assert fewer in made.parts["Warnings"]
    assert fewer not in forecast(of_tables(tmp_path, 2)).parts["Warnings"]


def test_the_smallest_group_of_a_passives_columns_is_named(tmp_path):
    """A value that one row has is a bin of its own: the active then knows which row that is."""
    settings = of_tables(tmp_path)
    assert forecast(settings).figures["rows of the smallest group of shop0"] > 10
    path = tmp_path / "shop0.csv"
    lines = path.read_text().splitlines()
    (row, *_), _ = hold_out(150, settings.train.test, settings.seed)
    rare = [f"{line},{int(place == row)}" for place, line in enumerate(lines[1:])]
    path.write_text("\n".join([f"{lines[0]},rare", *rare]))
    made = forecast(settings)
    assert made.figures["rows of the smallest group of shop0"] == 1
    assert "The smallest group in a column of shop0 has 1 row, which the active can tell from all others." in words(
        made
    )
    assert not any("group of bank" in name for name in made.figures)


def test_tables_without_common_ids_are_refused(tmp_path):
    settings = of_tables(tmp_path, align=True)
    path = tmp_path / "shop0.csv"
    path.write_text(path.read_text().replace("\np", "\nq"))
    with pytest.raises(ConfigError, match="no ids in common"):
        forecast(settings)
