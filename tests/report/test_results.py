"""Curves, bars, trees and tables of a training on its page."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from tacit import events
from tacit.lockstep.evaluation import evaluated
from tacit.runs.load import load
from tacit.runs.report import write_report
from tests.report.sample_runs import write

VERTICAL = {"kind": "vertical_logistic", "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}}}
SPLIT = {
    "kind": "split",
    "topology": "V",
    "task": "split_cancer",
    "parties": {"clinic": {"role": "leader"}, "laboratory": {"role": "follower"}},
}
PRIVATE = {"kind": "private_training", "task": "digits", "privacy": {"epsilon": 1, "delta": 1e-5}}
SECTION = "On held-out rows"
CURVE = events.Curve(
    "Lift", "share", "lift", [[0.0, 2.0], [1.0, 1.0]], "A caption.", {"chance": [[0, 1], [1, 1]]}, SECTION
)
BARS = events.Bars(
    "Weights of bank", "log odds", "The columns of bank.", {"age": 0.75, "city = Rome": -0.5}, "Coefficients"
)
TABLE = events.Tabled(
    "Thresholds", "Counts.", ["threshold", "rows", "city"], [[0.25, 17.0, "Rome"], ["0.3 (KS)", 5, ""]], SECTION
)
TREE = events.Tree("Tree 1", "A tree.", ["age ≤ 35", "-0.5", "+0.5"], ["bank", "", ""], [[1, 2], [], []], "Trees")


def run(root, *told, base=VERTICAL, parties=2):
    made = load({**base, "name": "deal"})
    started = events.TrainingStarted("deal", made.kind, parties, 1, 10, "some", 1650)
    done = events.EpochFinished(0, 3.5, {}, {"loss": 0.5})
    return write(root, made, [started, done, *told, events.RunFinished("done", 1, 4.0, unit="epochs")])


def page(path, share=False):
    return write_report([path], share=share).read_text()


def titles(text):
    return re.findall(r"<h2[^>]*>(.*?)</h2>", text)


def charts(text):
    return re.findall(r"<figure>.*?<h3>(.*?)</h3>", text, flags=re.DOTALL)


def test_sections_are_those_that_the_events_name_and_say_that_no_epsilon_covers_them(tmp_path):
    path = run(tmp_path, CURVE, TABLE, BARS)
    text = page(path)
    assert titles(text)[:3] == ["Learning", SECTION, "Coefficients"]
    for title in (SECTION, "Coefficients"):
        section = text[text.index(f">{title}</h2>") :]
        assert section.index("not covered by ε") < section.index("</section>")
    assert charts(text)[:3] == ["Loss", "Lift", "Weights of bank"]
    assert "A caption." in text
    assert "<td" in text
    assert "0.3 (KS)" in text
    plots = {each.name for each in (path / "plots").iterdir()}
    assert {"curve-lift.svg", "bars-weights-of-bank.svg"} <= plots


def test_a_tree_is_drawn_with_its_title_and_its_caption(tmp_path):
    path = run(tmp_path, TREE)
    text = page(path)
    assert titles(text)[:2] == ["Learning", "Trees"]
    assert charts(text)[:2] == ["Loss", "Tree 1"]
    assert "age ≤ 35" in text
    assert "A tree." in text
    assert "tree-tree-1.svg" in {each.name for each in (path / "plots").iterdir()}


def test_an_owner_has_the_same_colour_in_all_trees(tmp_path):
    other = replace(TREE, name="Tree 2", owners=["shop", "", ""])
    both = replace(TREE, name="Tree 3", words=["a", "b", "c", "d", "e"], owners=["shop", "bank", "", "", ""])
    both = replace(both, children=[[1, 2], [3, 4], [], [], []])
    path = run(tmp_path, TREE, other, both)
    page(path)
    drawn = [(path / "plots" / f"tree-tree-{number}.svg").read_text() for number in (1, 2, 3)]
    assert [('class="dot blue"' in text, 'class="dot amber"' in text) for text in drawn] == [
        (True, False),
        (False, True),
        (True, True),
    ]


@pytest.mark.parametrize(
    "change", [{"children": [[5, 9], [0, 0], [1]]}, {"owners": ["bank"]}, {"children": [[1, 1], [], []]}]
)
def test_a_tree_of_an_edited_file_is_drawn_as_far_as_it_is_one(tmp_path, change):
    assert "Tree 1" in page(run(tmp_path, replace(TREE, **change)))


def test_a_page_for_sharing_has_none_of_them(tmp_path):
    path = run(tmp_path, CURVE, TABLE, BARS, TREE)
    text = page(path, share=True)
    assert "Lift" not in text
    assert "Weights of bank" not in text
    assert "Rome" not in text
    assert "Thresholds" not in text
    assert "age ≤ 35" not in text
    assert charts(text) == []
    assert "So are tables and coefficients" in text


def test_the_last_of_each_name_counts(tmp_path):
    newer = events.Tabled("Thresholds", "Newer counts.", ["threshold"], [[0.75]], SECTION)
    text = page(run(tmp_path, TABLE, newer))
    assert "Newer counts." in text
    assert "Rome" not in text


def test_lines_to_compare_with_are_dashed_and_others_have_their_colours(tmp_path):
    line = [[0.0, 0.0], [0.5, 0.7], [1.0, 1.0]]
    curve = events.Curve("ROC", "x", "y", [], "", {"chance": line[::2], "class a": line, "class b": line}, SECTION)
    text = page(run(tmp_path, curve))
    assert 'class="line grey dashed"' in text
    assert 'class="line blue"' in text
    assert 'class="line teal"' in text
    assert "y against x, after the last epoch." in text


def test_a_curve_without_a_section_stays_with_what_was_learned(tmp_path):
    text = page(run(tmp_path, events.Curve("ROC", "x", "y", [[0.0, 0.0], [1.0, 1.0]])))
    assert titles(text)[:2] == ["Learning", "Privacy"]
    assert charts(text)[:2] == ["Loss", "ROC"]


def test_a_table_without_a_section_is_shown_too(tmp_path):
    text = page(run(tmp_path, events.Tabled("Odd", "Counts.", ["a"], [["seventeen"]])))
    assert titles(text)[:3] == ["Learning", "Results", "Privacy"]
    assert "seventeen" in text


def test_columns_of_words_stand_left_and_numbers_right(tmp_path):
    text = page(run(tmp_path, TABLE))
    assert [re.search(rf"<th([^>]*)>{name}</th>", text)[1] for name in ("rows", "city")] == [
        ' scope="col"',
        ' scope="col" class="words"',
    ]


def test_names_of_classes_and_columns_are_text_and_nothing_else(tmp_path):
    nasty = "<script>alert(1)</script>"
    labels = np.arange(40) % 2
    told = evaluated(
        np.random.default_rng(1).normal(size=(40, 1)), labels, (nasty, nasty + "2"), held_out=True, linear=False
    )
    bars = events.Bars(nasty, nasty, nasty, {nasty: 1.0}, nasty)
    assert "<script" not in page(run(tmp_path, *told, bars))


def test_a_row_of_an_edited_file_may_be_short_or_long(tmp_path):
    crooked = events.Tabled("Odd", "", ["a", "b"], [[1.0], [1.0, 2.0, 3.0], []], SECTION)
    assert "Odd" in page(run(tmp_path, crooked))


def test_numbers_that_are_none_leave_their_cells_empty(tmp_path):
    path = run(tmp_path, events.Tabled("T", "", ["a", "b"], [["x", float("nan")]], SECTION))
    assert '<td class="brief"></td>' in page(path)


@pytest.mark.parametrize(("field", "value"), [("rows", [[{}]]), ("rows", "x"), ("header", [1]), ("section", 3)])
def test_a_file_with_other_types_is_refused(tmp_path, field, value):
    path = run(tmp_path, TABLE)
    lines = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
    for line in lines:
        if line["event"] == "Tabled":
            line[field] = value
    (path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ValueError, match=f"{field} of Tabled"):
        page(path)


@pytest.mark.parametrize(
    ("base", "parties", "words"),
    [
        (VERTICAL, 2, "1,650 parameters of the whole model"),
        (SPLIT, 2, "1,650 parameters<"),
        (PRIVATE, 1, "1,650 parameters<"),
    ],
)
def test_the_header_says_of_which_part_the_parameters_are(tmp_path, base, parties, words):
    assert words in page(run(tmp_path, base=base, parties=parties))
