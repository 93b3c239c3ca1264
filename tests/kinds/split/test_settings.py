"""The file of a split training: what is refused, in which words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from tacit.kinds.split.settings import Settings
from tests.kinds.split.networks import PARTIES_U, settings_u, settings_v


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
