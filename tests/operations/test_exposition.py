"""The text format: as another's parser reads it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.operations.exposition import Family, Histogram, Sample, by_label, text
from tests.operations import promtool

BOUNDS = (0.1, 1.0, 10.0)


@given(st.dictionaries(st.text(max_size=8), st.floats()))
def test_any_label_and_number_is_read_as_it_was_written(values):
    found = promtool.samples(text([Family("tacit_stage", "gauge", "Words.", by_label("stage", values))]))
    assert len(found) == len(values)
    for label, value in values.items():
        read = found["tacit_stage", frozenset({("stage", label)})]
        assert read == value or (math.isnan(read) and math.isnan(value))


@given(st.lists(st.floats(0, 1e6) | st.sampled_from([*BOUNDS, math.inf, math.nan])))
def test_a_histogram_counts_what_is_at_most_each_bound(values):
    seen = Histogram(BOUNDS)
    for value in values:
        seen.observe(value)
    page = text([Family("tacit_round_seconds", "histogram", "Words.", tuple(seen.samples()))])
    numbers = [value for value in values if not math.isnan(value)]
    assert promtool.lint(page) == []
    for bound, le in ((0.1, "0.1"), (1.0, "1.0"), (10.0, "10.0"), (math.inf, "+Inf")):
        assert promtool.value(page, "tacit_round_seconds_bucket", le=le) == sum(value <= bound for value in numbers)
    assert promtool.value(page, "tacit_round_seconds_count") == len(numbers)
    assert promtool.value(page, "tacit_round_seconds_sum") == pytest.approx(sum(numbers), abs=1e-6)


def test_a_family_without_samples_is_left_out():
    assert text([Family("a", "gauge", "Words.", ()), Family("b", "gauge", "Words.", (Sample(1),))]) == (
        "# HELP b Words.\n# TYPE b gauge\nb 1.0\n"
    )


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("# HELP a A.\n# TYPE a counter\na 1\n", "no TYPE of this name"),
        ("# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n", "only counters end in _total"),
        ("# HELP a_ms A.\n# TYPE a_ms gauge\na_ms 1\n", "ms is no base unit"),
        ("# TYPE a gauge\na 1\n", "no HELP"),
        ("# HELP a A.\n# TYPE a gauge\na 1\n# HELP a A.\n", "stands there 2 times"),
        ("# HELP a_count A.\n# TYPE a_count gauge\na_count 1\n", "is a histogram's"),
        (
            '# HELP a A.\n# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n',
            "no .Inf bucket",
        ),
        (
            '# HELP a A.\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
            "not cumulative",
        ),
    ],
)
def test_the_rules_find_what_is_wrong(page, wrong):
    import re

    assert any(re.search(wrong, found) for found in promtool.lint(page)), promtool.lint(page)
