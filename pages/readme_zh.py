"""The table of speed in the Chinese README: the rows of the English one, with their names in Chinese."""

from __future__ import annotations

from pathlib import Path

from pages.benchmarks import RESULTS, ROOT
from pages.readme import BEGIN, END, table

README = ROOT / "README.zh-CN.md"
HEADING = "| 测试项 | Tacit | 同类项目 | 倍数 |"
CHINESE = {  # of each `what` in pages/readme.py
    "discrete Gaussian noise, σ = 100": "离散高斯噪声，σ = 100",
    "secure aggregation, a round of 50 clients, 30% dropped": "安全聚合，50 个客户端的一轮，30% 掉线",
    "a simulated round of 100 clients, 1,000,000 floats": "模拟 100 个客户端的一轮，1,000,000 个浮点数",
    "private SGD, MLP, a step": "差分隐私 SGD，MLP，一步",
    "private SGD, GPT, a step": "差分隐私 SGD，GPT，一步",
    "alignment of 100,000 ids a side, CPU": "每方 100,000 个 ID 的对齐，CPU",
    "regression under Paillier, 3072 bits, a step of 512 × 30, CPU": "Paillier 下的回归，3072 位，512 × 30 的一步，CPU",
    "regression on shares, a step of 512 × 30, CPU": "秘密分享上的回归，512 × 30 的一步，CPU",
    "regression between two parties without a dealer, a step of 512 × 30, CPU": (
        "两方之间无需可信第三方的回归，512 × 30 的一步，CPU"
    ),
}


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
