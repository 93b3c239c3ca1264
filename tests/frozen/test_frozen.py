"""What users see is what they saw: see the docstring of the package."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.frozen import observed
from tests.frozen.frozen_values import CLOSE, differences, far_apart, read, read_arrays


def of_case(arrays, name):
    return {key.removeprefix(f"{name}:"): array for key, array in arrays.items() if key.startswith(f"{name}:")}


def check_run(outcome, name, values, close=CLOSE):
    """Events, ledger and models of a run are the frozen ones."""
    seen, models = observed.seen_of(outcome)
    frozen = read(values)[name]
    assert observed.shapes(models) == frozen["models"]
    if observed.digest(models) != frozen["sha256"]:  # another processor: its last bits may differ
        stored = of_case(read_arrays(values), name)
        same(far_apart(stored, observed.some(models), close))
    same(differences(frozen["seen"], seen, close))


def same(found):
    """Nothing was found that differs."""
    text = "\n".join(itertools.islice(found, 20))
    assert not text, text


@pytest.mark.parametrize("name", list(observed.RUNS))
def test_examples_come_to_the_same_models(name, tmp_path):
    check_run(observed.run_of(name, tmp_path), name, "runs")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(observed.WHOLE))
def test_whole_examples_come_to_the_same_models(name, tmp_path):
    check_run(observed.run_of(name, tmp_path), name, "whole", close=0.03)


@pytest.mark.parametrize("name", list(observed.TO_BE_STOPPED))
@pytest.mark.slow  # 10 s for all
def test_a_stored_run_is_resumed_to_the_same_model(name, tmp_path):
    check_run(observed.resumed_of(name, tmp_path), name, "resumed")


@pytest.mark.parametrize("name", observed.NEVER_STOPPED)
@pytest.mark.slow  # 5 s for all
def test_a_resumed_run_comes_to_the_model_of_one_that_was_never_stopped(name, tmp_path):
    check_run(observed.run_of(name, tmp_path), f"{name} whole", "resumed")
    assert read("resumed")[name]["sha256"] == read("resumed")[f"{name} whole"]["sha256"]


def test_frames_of_a_round_under_each_protection_have_the_same_bytes():
    same(differences(read("frames"), observed.frames()))


def test_files_agreements_and_fingerprints_are_the_same():
    same(differences(read("agreements"), observed.agreements()))


def test_plans_say_the_same():
    same(differences(read("plans"), observed.plans(), 1e-6))


def test_pages_are_the_same(tmp_path):
    same(differences(read("pages"), observed.pages(tmp_path)))


def test_everything_frozen_is_small():
    folder = Path(__file__).parent
    stored = [file for part in ("values", "stopped") for file in (folder / part).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in stored) < 350_000
