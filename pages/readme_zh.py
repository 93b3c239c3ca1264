"""The table of speed in the Chinese README: the rows of the English one, with their names in Chinese."""

from __future__ import annotations

from pathlib import Path

from pages.benchmarks import RESULTS, ROOT
from pages.readme import BEGIN, END, table

README = ROOT / "README.zh-CN.md"
HEADING = "| 测试项 | Tacit | 同类项目 | 倍数 |"
CHINESE = {"discrete Gaussian noise, σ = 100": "离散高斯噪声，σ = 100"}  # of each `what` in pages/readme.py


def page(readme: Path = README, results: Path = RESULTS) -> str:
    """The Chinese README with a new table of speed."""
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + translated(table(results)) + END + after


def translated(english: str) -> str:
    """A table of speed in Chinese. A name that has no translation stays in English."""
    _, line, *rows = english.splitlines()
    named = [row.split(" | ", 1) for row in rows]
    chinese = [f"| {CHINESE.get(name.removeprefix('| '), name.removeprefix('| '))} | {rest}" for name, rest in named]
    return "\n".join([HEADING, line, *chinese]) + "\n"
