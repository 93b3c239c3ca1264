"""A small GPT on a text, cut in three: embedding and head at the leader, the trunk at the follower (topology U).

Options: `path` (a text file; by default Python's own help topics, `pydoc_data.topics`), `tokens` (words or bytes),
`vocabulary` (most tokens), `layers`, `width`, `cut` (numbers or bits of a token that cross to the trunk; by default the
width), `heads`, `sequence`, `test` (the part of the text that is held back).

Only the leader reads the text. What crosses to the trunk says which token it is; its place is added behind the cut, as
it is no secret and would take up bits. Before the first block the trunk has a linear layer and a normalisation, which
take -1 and 1 as well as floats: without them bits enter the residual stream at a scale that the blocks do not expect.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.split.initial_weights import first_weights
from tacit.kinds.split.task import Ends, Part, Rows, Seat, Trunk

try:
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    raise ValueError("a split network needs torch: pip install 'tacit-learning[torch]'") from error

LARGEST = 1 << 27  # bytes of a text
LARGEST_VOCABULARY = 1 << 16
TOKENS: Literal["words", "bytes"] = "words"
VOCABULARY = 2000
_UNKNOWN = 0
_WORDS = re.compile(r"\w+|[^\w\s]|\s+")
Tokens = NDArray[np.int64]


def make_parts(
    seat: Seat,
    path: str | None = None,
    tokens: Literal["words", "bytes"] = TOKENS,
    vocabulary: int = VOCABULARY,
    layers: int = 4,
    width: int = 128,
    cut: int | None = None,
    heads: int = 4,
    sequence: int = 64,
    test: float = 0.05,
) -> Part:
    if seat.topology != "U":
        raise ValueError("a text is trained in topology U: embedding and head at the leader, the trunk at the follower")
    if not 1 <= layers <= 48 or not 1 <= heads <= width <= 4096 or width % heads or not 2 <= sequence <= 4096:
        raise ValueError(
            f"layers {layers}, width {width}, heads {heads}, sequence {sequence}: layers are 1 to 48, the width is a "
            "multiple of heads up to 4096, a sequence has 2 to 4096 tokens"
        )
    cut = width if cut is None else cut
    if not 1 <= cut <= 1 << 16:
        raise ValueError(f"cut must be from 1 to 65536 numbers of a token, got {cut}")
    with first_weights(seat, seat.seed * 2 + (seat.role == "follower")):
        if seat.role == "follower":
            return Trunk(Middle(layers, cut, width, heads, sequence), (sequence, cut), (sequence, width))
        if not 0 <= test <= 0.5:
            raise ValueError(f"test is the part of the text that is held back, 0 to 0.5, got {test}")
        ids, size = encoded(read(path), tokens, vocabulary)
        rows = windows(ids, sequence)
        held_back = int(test * len(rows))
        train, test_rows = rows[: len(rows) - held_back], rows[len(rows) - held_back :]
        return Ends(
            nn.Embedding(size, cut),
            Head(size, width),
            (sequence, cut),
            (sequence, width),
            Rows(train[:, :-1], train[:, 1:]),
            token_loss,
            Rows(test_rows[:, :-1], test_rows[:, 1:]),
            classes=size,
            unit="tokens",
            units=sequence,
        )


def read(path: str | None) -> str:
    """The text of a file, or Python's help topics."""
    if path is None:
        from pydoc_data.topics import topics

        return "\n".join(topics[name] for name in sorted(topics))
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"path: there is no file {path}")
    if file.stat().st_size > LARGEST:
        raise ValueError(f"path: {path} has {file.stat().st_size} bytes, at most {LARGEST} are read")
    return file.read_text(encoding="utf-8", errors="replace")


def read_rows(seat: Seat, source: Path, sequence: int = 64, **options: Any) -> Rows:
    """A new text in stretches, for the leader, in the words of the one that was trained on."""
    if seat.role != "leader":
        return Rows()
    tokens, vocabulary = options.get("tokens", TOKENS), options.get("vocabulary", VOCABULARY)
    ids, _ = encoded(read(options.get("path")), tokens, vocabulary, of=read(str(source)))
    stretches = windows(ids, sequence)
    return Rows(stretches[:, :-1], stretches[:, 1:])


def encoded(text: str, tokens: str, vocabulary: int, of: str | None = None) -> tuple[Tokens, int]:
    """The text, or `of`, as numbers below the second one. Words beyond the text's vocabulary are all the same one."""
    told = text if of is None else of
    if tokens == "bytes":
        return np.frombuffer(told.encode(), np.uint8).astype(np.int64), 256
    if tokens != "words":
        raise ValueError(f"tokens must be words or bytes, got {tokens!r}")
    if not 2 <= vocabulary <= LARGEST_VOCABULARY:
        raise ValueError(f"vocabulary must be from 2 to {LARGEST_VOCABULARY}, got {vocabulary}")
    words = _WORDS.findall(text)
    common = [word for word, _ in Counter(words).most_common(vocabulary - 1)]
    index = {word: number for number, word in enumerate(common, start=_UNKNOWN + 1)}
    wanted = words if of is None else _WORDS.findall(of)
    return np.array([index.get(word, _UNKNOWN) for word in wanted], dtype=np.int64), len(common) + 1


def windows(ids: Tokens, sequence: int) -> Tokens:
    """The text in stretches of sequence + 1 tokens, of which the last is the next one's first."""
    count = (len(ids) - 1) // sequence
    if count < 2:
        raise ValueError(f"a text of {len(ids)} tokens is too short for two sequences of {sequence}")
    found: Tokens = ids[np.arange(count)[:, None] * sequence + np.arange(sequence + 1)]
    return found


def token_loss(scores: Tensor, wanted: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())


class Middle(nn.Module):  # type: ignore[misc]  # torch may be missing
    def __init__(self, layers: int, cut: int, width: int, heads: int, sequence: int) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(cut, width), nn.LayerNorm(width))
        self.place = nn.Embedding(sequence, width)
        nn.init.normal_(self.place.weight, std=0.1)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))

    def forward(self, activations: Tensor) -> Tensor:
        hidden: Tensor = self.enter(activations) + self.place.weight[: activations.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        return hidden


class Block(nn.Module):  # type: ignore[misc]
    """Causal attention and a feed-forward layer, each after a normalisation and with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: Tensor) -> Tensor:
        records, length, width = hidden.shape
        split = self.attention(self.before_attention(hidden)).view(records, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed: Any = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(records, length, width))
        found: Tensor = hidden + self.feed(self.before_feed(hidden))
        return found


class Head(nn.Module):  # type: ignore[misc]
    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary))

    def forward(self, hidden: Tensor) -> Tensor:
        found: Tensor = self.layers(hidden)
        return found
