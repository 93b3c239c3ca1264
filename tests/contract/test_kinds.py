"""What holds for every kind, built in or from outside: one object, found by its name, that every verb can use."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from tacit import kind as kinds
from tacit.config.load import flat
from tacit.config.source import ConfigError
from tacit.events import EpochFinished, TrainingResumed
from tacit.kind import find, kind_of, names
from tacit.runs.load import load
from tacit.store.directory import read_events
from tests.commands import invoke

TOYS = Path(__file__).with_name("toys")
BUILT_IN = ["horizontal", "private_training", "vertical_logistic", "vertical_trees", "split"]


@pytest.fixture
def toys(monkeypatch):
    """The packages with toys, as if they were installed."""
    monkeypatch.syspath_prepend(str(TOYS))
    kinds._outside.cache_clear()
    yield
    kinds._outside.cache_clear()


def tacit(*arguments, code=0):
    done = invoke(*arguments)
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_kind_has_every_verb(name):
    kind = find(name)
    assert kind.name == name
    settings = load(yaml.safe_load(kind.starter()))
    assert kind_of(settings) is kind
    boundary = kind.boundary(settings)
    assert boundary.releases
    assert boundary.sees
    assert boundary.unprotected
    assert kind.resume.length in dict(flat(settings))
    assert kind.resume.free(settings) <= {key for key, _ in flat(settings)} | {"train.physical"}
    assert (kind.join is None) == (name == "private_training")
    assert (kind.predict is None) == (name in ("horizontal", "private_training"))


def test_a_kind_from_outside_goes_through_every_verb(toys, here, monkeypatch):
    assert "count.yaml is written" in tacit("init", "counting", "count.yaml")
    settings = load("count.yaml")
    assert settings.kind == "counting"
    assert "What it costs" in tacit("plan", "count.yaml")
    assert json.loads(tacit("plan", "count.yaml", "--json"))["epochs"] == 4
    monkeypatch.setenv("TOY_STOPS_AFTER", "2")
    assert "To resume" in tacit("run", "count.yaml", code=5)
    monkeypatch.delenv("TOY_STOPS_AFTER")
    (run,) = (here / "runs").iterdir()
    tacit("run", "--resume", run)
    events = list(read_events(run / "events.jsonl"))
    assert [event.epoch for event in events if isinstance(event, EpochFinished)] == [0, 1, 2, 3]
    assert TrainingResumed(2, 0) in events
    assert "all 4 epochs are counted" in tacit("run", "--resume", run)
    assert "Count" in (run / "report.html").read_text()
    tacit("run", "--resume", run, "--set", "train.epochs=5")
    assert "leave it as it was" in tacit("run", "--resume", run, "--set", "name=other", code=2)
    tacit("run", "count.yaml", "--set", "name=other")
    (other,) = (here / "runs").glob("*-other")
    tacit("report", run, other)
    assert (here / "comparison.html").exists()
    assert "read the count" in tacit("audit", "count.yaml")
    assert "has one party" in tacit("join", "count.yaml", "--party", "me", code=2)
    assert "has no predict" in tacit("predict", "count.yaml", "--run", run, "--output", "scores.csv", code=2)


def test_a_kind_from_outside_is_found_by_its_entry_point_alone(here):
    """In a process that knows no more of it than the path on which it is installed."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import tacit; print(tacit.run({'kind': 'counting'}).status)"
    done = subprocess.run([sys.executable, "-c", program, str(TOYS)], capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"


def test_a_name_that_no_kind_has(toys):
    with pytest.raises(ConfigError, match=r"kind is 'countin', which does not exist: did you mean counting\?"):
        load({"kind": "countin"})
    with pytest.raises(
        ConfigError,
        match="give horizontal or private_training or vertical_logistic or vertical_trees or split or counting",
    ):
        load({})
    assert names() == [*BUILT_IN, "counting"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("horizontal", "tacit_toy_kind:KIND", "offers the kind horizontal, which is built in"),
        ("other", "tacit_toy_kind:KIND", "is offered as the kind other, and is not one"),
        ("other", "tacit_toy_kind:LEDGER", "is offered as the kind other, and is not one"),
    ],
)
def test_what_is_no_kind_is_refused(toys, monkeypatch, name, value, words):
    offered = metadata.EntryPoints([metadata.EntryPoint(name, value, "tacit.kinds")])
    monkeypatch.setattr(kinds, "entry_points", lambda group: offered)
    kinds._outside.cache_clear()
    with pytest.raises(ConfigError, match=words):
        find("other")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "ModuleNotFoundError: No module named 'tacit_test_offered'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def", "SyntaxError: "),
    ],
)
def test_a_kind_that_cannot_be_imported_is_told_in_a_sentence(here, monkeypatch, source, reason):
    (here / "packages").mkdir()
    monkeypatch.syspath_prepend(str(here / "packages"))
    if source is not None:
        (here / "packages" / "tacit_test_offered.py").write_text(source)
    offered = metadata.EntryPoints([metadata.EntryPoint("other", "tacit_test_offered:KIND", "tacit.kinds")])
    monkeypatch.setattr(kinds, "entry_points", lambda group: offered)
    kinds._outside.cache_clear()
    told = tacit("init", "other", "x.yaml", code=2)
    kinds._outside.cache_clear()
    assert (
        f"the kind other cannot be loaded from tacit_test_offered:KIND, which an installed package offers ({reason}"
        in told
    )
    assert told.count("\n") == 1


def test_a_built_in_name_is_never_taken_from_outside(toys, here, monkeypatch):
    offered = metadata.EntryPoints([metadata.EntryPoint("split", "tacit_toy_kind:KIND", "tacit.kinds")])
    monkeypatch.setattr(kinds, "entry_points", lambda group: offered)
    kinds._outside.cache_clear()
    assert find("split").settings.__module__.startswith("tacit.kinds.split")
    assert "offers the kind split, which is built in" in tacit("init", "other", code=2)


def test_help_says_that_kinds_may_come_from_packages():
    assert "a kind that an installed package offers" in " ".join(tacit("init", "--help").split())


def test_built_in_kinds_need_no_entry_points(monkeypatch):
    """They are read only for names that are not built in: looking through all installed packages takes its time."""
    monkeypatch.setattr(kinds, "_outside", lambda: pytest.fail("entry points were read"))
    for name in BUILT_IN:
        assert load(yaml.safe_load(find(name).starter())).kind == name


def test_a_kind_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        find("split").name = "other"  # type: ignore[misc]
