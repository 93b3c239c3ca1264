"""What EmbeddingDP costs a split GPT: its loss after 300 steps on a text, for several eps, against none.

The task `text` in small: Python's help topics as words, 4 layers, embedding and head at the leader, the trunk at the
follower, both in this process over channels in memory. The same seed, so that all see the same batches and begin with
the same weights. Judged is eps 5 against no protection. With `--plots DIR` the curves are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import Options, Row
from tacit.channel import run_parties
from tacit.events import Kept, Stepped
from tacit.kinds.split.follower import follower
from tacit.kinds.split.forecast import Sizes, forecast
from tacit.kinds.split.leader import leader
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.tasks.load import make_part
from tacit.lockstep.context import Context

TASK = {"layers": 4, "width": 128, "cut": 256, "heads": 4, "sequence": 64, "vocabulary": 2000, "test": 0.02}
BATCH, STEPS = 8, 300
AVERAGED = 30  # steps at the end, whose loss is averaged
PROTECTIONS: dict[str, dict[str, Any] | None] = {
    "unprotected": None,
    "1 bit only": {"eps": None},
    "eps 10": {"eps": 10},
    "eps 5": {"eps": 5},
    "eps 1": {"eps": 1},
}


@dataclass(frozen=True, slots=True)
class Measured:
    losses: list[float]  # of each step
    test: float
    bytes_embeddings: int

    @property
    def last(self) -> float:
        return sum(self.losses[-AVERAGED:]) / len(self.losses[-AVERAGED:])


def run(options: Options) -> list[Row]:
    import torch

    torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # two parties take turns
    steps = 20 if options.quick else STEPS
    chosen = ("unprotected", "eps 5") if options.quick else tuple(PROTECTIONS)
    found = {name: _trained(PROTECTIONS[name], steps) for name in chosen}
    plain = found["unprotected"]
    rows = []
    for name, measured in found.items():
        rows.append(
            Row(
                f"{name}: loss, mean of the last {min(AVERAGED, steps)} of {steps} steps",
                measured.last,
                None,
                "",
                "lower",
            )
        )
        rows.append(Row(f"{name}: loss on held-back text", measured.test, None, "", "lower"))
        rows.append(Row(f"{name}: bytes of a step's embeddings", measured.bytes_embeddings, None, "B", "lower"))
    if not options.quick:
        five = found["eps 5"]
        for name, ratio in (("loss", five.last / plain.last), ("loss on held-back text", five.test / plain.test)):
            rows.append(
                Row(f"{name} at eps 5 over that of no protection", ratio, None, "", "lower", 1.05, 1.05, "ours")
            )
    if options.plots is not None:
        _draw(found, options.plots)
    return rows


def _trained(protection: dict[str, Any] | None, steps: int) -> Measured:
    settings = Settings.model_validate(
        {
            "topology": "U",
            "task": "text",
            "task_options": TASK,
            "parties": {"office": {"role": "leader"}, "cloud": {"role": "follower"}},
            "embedding_dp": protection,
            "train": {"epochs": 10, "batch": BATCH, "learning_rate": 0.001, "optimizer": "adamw", "steps": steps},
            "evaluate": 10,
            "lines": 1,
        }
    )
    parts: dict[str, Any] = {party: make_part(settings, party) for party in settings.parties}
    kept = Kept()
    outcomes = run_parties(  # noise from the operating system: the figures differ a little from run to run
        {
            "office": lambda channels: leader(channels, settings, parts["office"], Context(sink=kept)),
            "cloud": lambda channels: follower(channels, settings, "cloud", parts["cloud"], Context()),
        }
    )
    losses = [event.loss for event in kept.events if isinstance(event, Stepped) and event.loss is not None]
    figures = forecast(settings, Sizes.of(settings, parts)).figures
    return Measured(losses, outcomes["office"].metrics["loss"], figures["bytes_activations"])


def _draw(found: dict[str, Measured], folder: Path) -> None:
    from tacit.report.chart import Chart, Panel, Series, standalone

    colours: dict[str, Any] = dict(zip(PROTECTIONS, ("grey", "blue", "teal", "amber", "red"), strict=True))
    series = tuple(Series(name, tuple(_smooth(measured.losses)), colours[name]) for name, measured in found.items())
    chart = Chart(
        "split-text-loss",
        "Loss of a split GPT under EmbeddingDP",
        f"Help topics as words, 4 layers, {TASK['cut']} bits a token, batches of {BATCH} sequences of "
        f"{TASK['sequence']}; mean of 10 steps.",
        "step",
        (Panel("training loss (nats a token)", series),),
        whole_x=True,
    )
    (folder / f"{chart.name}.svg").write_text(standalone(chart), encoding="utf-8")


def _smooth(losses: list[float]) -> list[tuple[float, float]]:
    return [(end, sum(losses[end - 10 : end]) / 10) for end in range(10, len(losses) + 1, 10)]
