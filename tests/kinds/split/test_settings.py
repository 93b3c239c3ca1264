"""The file of a split training: what is refused, in which words; and the schedule that all parties share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tacit.kinds.split.agreement import Schedule, saves
from tacit.kinds.split.settings import Settings
from tests.kinds.split.networks import PARTIES_U, PARTIES_V, settings_u, settings_v


def test_the_file_of_the_design():
    settings = Settings.model_validate(
        {
            "kind": "split",
            "topology": "U",
            "task": "text",
            "parties": {"office": {"role": "leader"}, "cloud": {"role": "follower", "address": "cloud.example:8443"}},
            "embedding_dp": {"eps": 5},
            "train": {"epochs": 1, "batch": 32, "learning_rate": 0.0003},
        }
    )
    assert settings.leader == "office"
    assert settings.followers == ("cloud",)
    assert settings.embedding.eps == 5
    assert settings.label is None


@pytest.mark.parametrize("name", ["split_text", "split_cancer"])
def test_the_examples_are_files_of_this_kind(name):
    text = (Path(__file__).parents[3] / "examples" / f"{name}.yaml").read_text(encoding="utf-8")
    assert Settings.model_validate(yaml.safe_load(text)).embedding.eps == 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parties": {"a": {"role": "follower"}}}, "one leader is needed, got none"),
        ({"parties": {"a": {"role": "leader"}, "b": {"role": "leader"}}}, "one leader is needed, got a, b"),
        ({"parties": {"a": {"role": "leader"}}}, "a is alone"),
        ({"topology": "U"}, "topology U has one follower, got east, west"),
        ({"topology": "U", "parties": PARTIES_U, "align": True}, "nothing to align"),
        ({"gradients": {"protection": "noised"}}, "takes noise_multiplier or epsilon"),
        ({"gradients": {"protection": "noised", "epsilon": 1, "noise_multiplier": 1}}, "one of them only"),
        ({"gradients": {"epsilon": 1}}, "epsilon has no effect with protection: none"),
        ({"gradients": {"bits": 16}}, "Input should be 32 or 8"),
        ({"embedding_dp": {"eps": -1}}, "greater than or equal to 0"),
        ({"embedding_dp": {"eps": float("nan")}}, "finite number"),
        ({"embedding_dp": {"eps": float("inf")}}, "finite number"),
        ({"embedding_dp": {"eps": 1, "domain": "free"}}, "one_hot"),
        ({"budget": {"epsilon": 1}}, "a budget needs a protection of records"),
        ({"budget": {"epsilon": 1}, "embedding_dp": {"eps": None}}, "a budget needs a protection of records"),
        ({"label_dp": {}}, "Field required"),
        ({"train": {"epochs": 0}}, "greater than or equal to 1"),
        ({"privacy": 1}, "Extra inputs"),
    ],
)
def test_what_is_refused(changes, words):
    with pytest.raises(ValidationError, match=words):
        settings_v(**changes)


def test_eps_0_is_legal_and_null_quantizes():
    assert settings_v(embedding_dp={"eps": 0}).embedding.eps == 0
    quantized = settings_v(embedding_dp={"eps": None})
    assert quantized.embedding.eps is None
    assert any("promises nothing" in note for note in quantized.notes())


def test_notes_name_what_is_open():
    assert any("activations cross the cut as they are" in note for note in settings_u().notes())
    assert any("can reveal labels" in note for note in settings_v().notes())
    assert not any("can reveal labels" in note for note in settings_v(label_dp={"eps": 1}).notes())


def test_settings_need_no_torch():
    code = "import sys; sys.modules['torch'] = None; import tacit.kinds.split.settings, tacit.kinds.split.boundary"
    subprocess.run([sys.executable, "-c", code], check=True)


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 4), st.none() | st.integers(1, 30), st.integers(0, 99))
def test_every_epoch_takes_every_record_once_and_a_resumed_one_the_rest(records, batch, epochs, limit, start):
    schedule = Schedule(records, batch, epochs, seed=5, limit=limit)
    taken = list(schedule.from_step(0))
    assert [step for step, _ in taken] == list(range(schedule.total))
    assert all(len(order) == schedule.size(step) for step, order in taken)
    for epoch in range(schedule.total // schedule.steps):
        within = np.concatenate([order for step, order in taken if step // schedule.steps == epoch])
        assert sorted(within.tolist()) == list(range(records))
    visits = np.bincount(np.concatenate([order for _, order in taken]), minlength=records)
    assert visits.max() == schedule.visits
    rest = list(schedule.from_step(start))
    assert [order.tolist() for _, order in rest] == [order.tolist() for _, order in taken[start:]]


def test_evaluations_and_saves():
    schedule = Schedule(70, 8, 5, 0)
    assert [step for step in range(1, 46) if schedule.evaluates(step, 2)] == [18, 36, 45]
    assert schedule.evaluations(2) == 3
    settings = settings_v(train={"epochs": 5, "batch": 8, "save": 10})
    assert [s for s in range(1, 46) if saves(schedule, settings, s)] == [9, 10, 18, 20, 27, 30, 36, 40, 45]
    assert PARTIES_V["lead"]["role"] == "leader"
