"""Layers and models that private training takes as they are: each is compared with a loop over records, and listed.

python -m tests.training.supported          writes the table of docs/private-training.md anew
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from tacit.training import Engine
from tests.training import huggingface

DOCS = Path(__file__).parents[2] / "docs" / "private-training.md"
BEGIN, END = "<!-- made by tests/training/supported.py -->", "<!-- end -->"
BOTH = (torch.float64, torch.float32)


@dataclass(frozen=True)
class Case:
    """A model and its inputs, made when it is tried."""

    group: str
    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    needs: tuple[str, ...] = ()  # packages
    dtypes: tuple[torch.dtype, ...] = BOTH
    note: str = ""

    @property
    def missing(self) -> str | None:
        """A package that it needs and that is not installed."""
        return next((each for each in self.needs if importlib.util.find_spec(each) is None), None)

    def row(self) -> str:
        """Its line of the table, with the way in which it is recorded."""
        slow: list[str] = []
        model, inputs = self.make(), self.inputs()
        engine = Engine(model, announce=slow.append)
        model(*inputs).sum().backward()  # some ways are chosen by the first records
        engine.detach()
        places = sorted({re.sub(r"^.* \((\w+)\) has no rule.*$", r"`\1`", each) for each in slow})
        how = f"record by record: {', '.join(places)}" if slow else "rules"
        return f"| {self.group} | {self.name} | {how}{'; ' + self.note if self.note else ''} |"


class First(nn.Module):
    """The first of what a layer returns."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.layer(*inputs)[0]


class Positions(nn.Module):
    """Positions [T] or [1, T], without a row for each record."""

    def __init__(self, rows: bool) -> None:
        super().__init__()
        self.rows = rows
        self.tokens, self.positions, self.last = nn.Embedding(7, 4), nn.Embedding(6, 4), nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1])
        return self.last((self.tokens(ids) + self.positions(positions[None] if self.rows else positions)).tanh())


class Tokens(nn.Module):
    """A class token and positions as parameters of the model, as of vision transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, 4)), nn.Parameter(torch.randn(1, 6, 4))
        self.enter, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), self.enter(x)], dim=1)
        return self.last((x + self.positions).tanh()).mean(1)


class Scale(nn.Module):
    """Recognised by what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma


class Mixed(nn.Module):
    """Without a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight + self.weight.T)


def numbers(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(shape),)


def ids(*shape: int, of: int = 7) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randint(1, of, shape),)


def _layers() -> list[Case]:
    images, volumes = numbers(3, 4, 5, 6), numbers(3, 4, 3, 4, 3)
    return [
        Case("torch", "`nn.Linear`", lambda: nn.Linear(4, 3), numbers(3, 5, 4)),
        Case("torch", "`nn.Conv1d`", lambda: nn.Conv1d(4, 6, 3, padding=1, groups=2), numbers(3, 4, 7)),
        Case("torch", "`nn.Conv2d`", lambda: nn.Conv2d(4, 6, 3, 2, 1), images),
        Case("torch", "`nn.Conv3d`", lambda: nn.Conv3d(4, 6, (2, 3, 2), (1, 2, 1), 1, groups=2), volumes),
        Case(
            "torch",
            "`nn.ConvTranspose1d`",
            lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, output_padding=1, groups=2),
            numbers(3, 4, 7),
        ),
        Case(
            "torch",
            "`nn.ConvTranspose2d`",
            lambda: nn.ConvTranspose2d(4, 6, 3, 1, 1, dilation=2, output_padding=1),
            images,
        ),
        Case("torch", "`nn.ConvTranspose3d`", lambda: nn.ConvTranspose3d(4, 2, 2, 2), volumes),
        Case("torch", "`nn.Embedding`", lambda: nn.Embedding(7, 4, padding_idx=1), ids(3, 5)),
        Case("torch", "`nn.EmbeddingBag`", lambda: nn.EmbeddingBag(7, 4, mode="mean"), ids(3, 5)),
        Case("torch", "`nn.LayerNorm`", lambda: nn.LayerNorm(4), numbers(3, 5, 4)),
        Case("torch", "`nn.RMSNorm`", lambda: nn.RMSNorm(4), numbers(3, 5, 4)),
        Case("torch", "`nn.GroupNorm`", lambda: nn.GroupNorm(2, 4), images),
        Case("torch", "`nn.InstanceNorm2d`", lambda: nn.InstanceNorm2d(4, affine=True), images),
        Case("torch", "`nn.RNN`", lambda: First(nn.RNN(4, 3, 2, batch_first=True)), numbers(3, 5, 4)),
        Case("torch", "`nn.GRU`", lambda: First(nn.GRU(4, 3, 2, batch_first=True)), numbers(3, 5, 4)),
        Case("torch", "`nn.LSTM`", lambda: First(nn.LSTM(4, 3, 2, batch_first=True, proj_size=2)), numbers(3, 5, 4)),
        Case("torch", "`nn.LSTMCell`, `nn.GRUCell`, `nn.RNNCell`", lambda: nn.GRUCell(4, 3), numbers(3, 4)),
        Case(
            "torch",
            "`nn.MultiheadAttention`",
            lambda: First(nn.MultiheadAttention(4, 2, batch_first=True)),
            lambda: (torch.randn(3, 5, 4),) * 3,
        ),
        Case(
            "torch",
            "`nn.TransformerEncoderLayer`",
            lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True),
            numbers(3, 5, 4),
        ),
        Case("torch", "positions `[1, T]` of `nn.Embedding`", lambda: Positions(True), ids(3, 5)),
        Case("torch", "positions `[T]` of `nn.Embedding`", lambda: Positions(False), ids(3, 5)),
        Case("torch", "`nn.Parameter` `[1, ...]` next to layers", Tokens, numbers(3, 5, 3)),
        Case("torch", "a layer that scales, entry by entry", Scale, numbers(3, 5, 4), note="by what it computes"),
        Case("torch", "any other layer with parameters", Mixed, numbers(3, 5, 4)),
    ]


def cases() -> list[Case]:
    """All of them, in the order of the table."""
    layers = [(each.group, each.name, each.make, each.inputs, each.needs, each.dtypes) for each in huggingface.models()]
    return [*_layers(), *(Case(*each) for each in layers)]


def table() -> str:
    torch.manual_seed(0)
    rows = [each.row() for each in cases()]
    return "\n".join([BEGIN, "| from | layer or model | recorded by |", "| --- | --- | --- |", *rows, END])


if __name__ == "__main__":
    text = DOCS.read_text(encoding="utf-8")
    DOCS.write_text(text[: text.index(BEGIN)] + table() + text[text.index(END) + len(END) :], encoding="utf-8")
