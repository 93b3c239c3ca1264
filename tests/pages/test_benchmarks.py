"""The page of benchmarks says what the stored results say."""

import json

import pytest

from bench.__main__ import benchmark_names
from bench.measure import Result, Row
from bench.stored import store
from pages.benchmarks import RESULTS, page


def test_every_benchmark_has_a_section():
    text = page()
    for name in benchmark_names():
        assert f"## {name.replace('_', ' ').capitalize()}\n" in text


def test_a_stored_result_is_shown_with_its_figures_and_its_command(tmp_path):
    store(Result("noise", (Row("samples", 2e6, 1e3, "samples/s", "higher", floor=10.0),)), tmp_path, load=0.3)
    text = page(tmp_path)
    assert "| samples | 2 M samples/s | 1 k samples/s | 2e+03 × | 10x | - | above floor |" in text
    assert "`python -m bench noise`" in text


def test_a_benchmark_without_a_stored_result_is_named_with_its_command(tmp_path):
    assert page(tmp_path).count("No result is stored") == len(benchmark_names())
    assert "run `python -m bench psi`" in page(tmp_path)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_stored_result_is_of_a_benchmark_that_exists_and_was_not_quick(path):
    result = json.loads(path.read_text(encoding="utf-8"))
    assert result["benchmark"] == path.stem
    assert path.stem in benchmark_names()
    assert result["rows"]
