"""The Chinese README says of speed what the English one says."""

from __future__ import annotations

from bench.measure import Result, Row
from bench.stored import store
from pages import readme, readme_zh


def test_every_row_has_a_chinese_name():
    missing = [shown.what for shown in readme.SHOWN if shown.what not in readme_zh.CHINESE]
    assert not missing, f"give {missing} a Chinese name in pages/readme_zh.py"
    assert set(readme_zh.CHINESE) == {shown.what for shown in readme.SHOWN}


def test_the_table_has_the_same_figures_under_a_chinese_name(tmp_path):
    shown = readme.SHOWN[0]
    store(Result(shown.benchmark, (Row(shown.row, 2e6, 1e3, "samples/s", "higher"),)), tmp_path, load=0.3)
    chinese = tmp_path / "README.zh-CN.md"
    chinese.write_text(f"# A\n{readme.BEGIN}| old |\n{readme.END}rest\n", encoding="utf-8")
    assert readme_zh.page(chinese, tmp_path) == (
        f"# A\n{readme.BEGIN}{readme_zh.HEADING}\n| --- | --- | --- | --- |\n"
        f"| {readme_zh.CHINESE[shown.what]} | 2 M samples/s | {shown.peer} 1 k samples/s | 2,000 × |\n"
        f"{readme.END}rest\n"
    )


def test_a_name_without_a_translation_stays_in_english():
    english = "| What | Tacit | Peer | Ratio |\n| --- | --- | --- | --- |\n| new | 1 s | – | – |\n"
    assert readme_zh.translated(english).splitlines()[2] == "| new | 1 s | – | – |"
