"""The README says of speed what the stored results say, and stays short."""

from __future__ import annotations

from bench.measure import Result, Row
from bench.stored import load, store
from pages.benchmarks import RESULTS
from pages.readme import BEGIN, END, README, SHOWN, is_row, page, table


def test_the_readme_has_at_most_200_lines():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


def test_a_row_of_the_readme_is_one_of_a_stored_result():
    for shown in SHOWN:
        path = RESULTS / f"{shown.benchmark}.json"
        if path.exists():
            assert len([row for row in load(path)["rows"] if is_row(row["name"], shown)]) == 1, shown.row


def test_only_the_table_changes(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"# A\n{BEGIN}| old |\n{END}rest\n", encoding="utf-8")
    shown = SHOWN[0]
    store(Result(shown.benchmark, (Row(shown.row, 2e6, 1e3, "samples/s", "higher"),)), tmp_path, load=0.3)
    assert page(readme, tmp_path) == f"# A\n{BEGIN}{table(tmp_path)}{END}rest\n"
    assert f"| {shown.what} | 2 M samples/s | {shown.peer} 1 k samples/s | 2,000 × |" in table(tmp_path)
