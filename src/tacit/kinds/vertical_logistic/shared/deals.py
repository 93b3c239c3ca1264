"""The deals of a training: what correlated words a block of rows needs, and how the dealer makes them.

A step takes its rows in blocks of bounded memory, one deal each. Nearly every step has one. With A the masks of all
features (rows x columns), a block's deal holds

    b, A b              weights under b are opened in the first block; A b gives each row's score
    rho, waves          of the logistic function; for a linear one z_mask, z_low, z_top truncate the score
    v, a v              only with class weights: residues under v are opened, a masks the rows' weights
    u, A'u              residues under u are opened; A'u gives the gradient
    mask, low, top      in the last block: the gradient's truncation

and a deal for figures b, A b, rho and waves as above, u and a'u for the loss (here a masks labels), and `word`, `table`
and a truncation (see `histogram`). For a linear regression it holds a truncation of the score, u, and the sum of its
squares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.shared import fourier, histogram, low_bits
from tacit.kinds.vertical_logistic.shared.ring import Words
from tacit.kinds.vertical_logistic.shared.scales import RATE, Scales, StepScale, step_scale
from tacit.kinds.vertical_logistic.shared.streams import Layout, Shape, drawn_values, missing, room
from tacit.kinds.vertical_logistic.shared.terms import Terms

BLOCK_WORDS = 1 << 23  # of a deal, about: 64 MB
WAVE = 24  # fraction bits of waves for figures
RESIDUE = 16  # of residues for figures
RANK = 32 + histogram.UNIT_BITS  # bits that are dropped of a rank: a 32-bit word is the upper half of one of 64 bits


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of a step, or of those held out."""

    rows: Rows
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a training: its number, counted through all epochs, and how it is scaled."""

    number: int
    scale: StepScale
    blocks: tuple[Block, ...]

    @property
    def rows(self) -> int:
        return sum(len(block.rows) for block in self.blocks)


def steps(terms: Terms, scales: Scales, start: int) -> Iterator[Step]:
    """The steps of a training after the first `start`."""
    training, _ = terms.split
    for number, batch in terms.schedule.from_step(start):
        scale = step_scale(terms, scales, terms.rates[number // terms.schedule.steps], len(batch))
        yield Step(number, scale, blocks(training[batch], terms.outputs * (2 * terms.harmonics + 4)))


def blocks(rows: Rows, words: int) -> tuple[Block, ...]:
    """`rows` in blocks whose deals are bounded, with so many words for each row."""
    size = max(1, BLOCK_WORDS // words)
    firsts = range(0, len(rows), size)
    return tuple(Block(rows[i : i + size], i == 0, i == firsts[-1]) for i in firsts)


def held_out(terms: Terms) -> tuple[Block, ...]:
    """The rows that figures are made of."""
    return blocks(terms.split[1], terms.outputs * (2 * terms.harmonics + 4 + terms.buckets))


def step_layout(terms: Terms, columns: int, block: Block) -> Layout:
    """The words of one block of a step."""
    outputs, rows = terms.outputs, len(block.rows)
    by_row, by_column, by_weight = (rows, outputs), (columns, outputs), (columns + 1, outputs)
    drawn: dict[str, Shape] = {"u": by_row}
    made: dict[str, Shape] = {"Ab": by_row, "Au": by_column}
    if block.first:
        drawn["b"] = by_column
    if block.last:
        drawn["mask"] = by_weight
        made |= {"low": by_weight, "top": by_weight}
    if terms.weighted:
        drawn["v"] = made["av"] = by_row
    if terms.model == "linear":
        drawn["z_mask"] = made["z_low"] = made["z_top"] = by_row
    else:
        drawn["rho"] = by_row
        made["waves"] = (terms.harmonics, 2, *by_row)
    return Layout(drawn, made, {})


def figures_layout(terms: Terms, columns: int, block: Block) -> Layout:
    """The words of one block of rows held out."""
    outputs, rows = terms.outputs, len(block.rows)
    by_row, by_column = (rows, outputs), (columns, outputs)
    drawn: dict[str, Shape] = {"b": by_column} if block.first else {}
    made: dict[str, Shape] = {"Ab": by_row}
    if terms.model == "linear":
        drawn |= {"z_mask": by_row, "u": by_row}
        return Layout(drawn, made | {"z_low": by_row, "z_top": by_row, "squares": (outputs,)}, {})
    drawn |= {"rho": by_row, "u": by_row, "word": by_row}
    made |= {"waves": (terms.harmonics, 2, *by_row), "au": (outputs,)}
    if block.last:
        drawn["mask"] = made["low"] = made["top"] = (outputs, terms.buckets)
    return Layout(drawn, made, {"table": (*by_row, 2 * terms.buckets)})


def linear_shift(scales: Scales) -> int:
    """Bits that a linear regression's score, times the rate's factor, has beyond a residue's."""
    return scales.score + RATE - scales.residue


@dataclass(frozen=True, slots=True, eq=False)
class Masks:
    """At the dealer: the masks of all features, of the rows' class weights and of the labels (empty if not needed)."""

    features: Words
    row_weights: Words
    labels: Words


class Maker:
    """At the dealer: makes the deals of one meeting, each once. Holds the masks of weights of the step under way."""

    def __init__(self, terms: Terms, scales: Scales, masks: Masks, seeds: tuple[bytes, ...]) -> None:
        self._terms, self._scales, self._masks, self._seeds = terms, scales, masks, seeds
        self._columns = masks.features.shape[1]
        self._b = np.zeros((self._columns, terms.outputs), dtype=np.uint64)

    def step(self, serial: int, step: Step, block: Block) -> Words:
        """What the last party is sent for a block of a step."""
        layout = step_layout(self._terms, self._columns, block)
        drawn = drawn_values(layout, self._seeds, serial)
        buffer, made, _ = room(layout)
        masks = self._scores(drawn, made, block)
        made["Au"][...] = np.einsum("nd,nk->dk", masks, drawn["u"])
        if "v" in drawn:
            made["av"][...] = self._masks.row_weights[block.rows, None] * drawn["v"]
        if "z_mask" in drawn:
            low_bits.write_parts(drawn["z_mask"], linear_shift(self._scales), made["z_low"], made["z_top"])
        else:
            fourier.write_waves(drawn["rho"].astype(np.uint32), self._scales.cosine, made["waves"])
        if block.last:
            low_bits.write_parts(drawn["mask"], step.scale.shift, made["low"], made["top"])
        return missing(buffer, layout, self._seeds[:-1], serial)

    def figures(self, serial: int, block: Block) -> Words:
        """What the last party is sent for a block of rows held out."""
        layout = figures_layout(self._terms, self._columns, block)
        drawn = drawn_values(layout, self._seeds, serial)
        buffer, made, halves = room(layout)
        self._scores(drawn, made, block)
        if self._terms.model == "linear":
            low_bits.write_parts(drawn["z_mask"], self._scales.score - RESIDUE, made["z_low"], made["z_top"])
            made["squares"][...] = (drawn["u"] * drawn["u"]).sum(axis=0)
        else:
            fourier.write_waves(drawn["rho"].astype(np.uint32), WAVE, made["waves"])
            made["au"][...] = (self._masks.labels[block.rows] * drawn["u"]).sum(axis=0)
            histogram.write_table(drawn["word"].astype(np.uint32), halves["table"])
            if block.last:
                low_bits.write_parts(drawn["mask"], RANK, made["low"], made["top"])
        return missing(buffer, layout, self._seeds[:-1], serial)

    def _scores(self, drawn: dict[str, Words], made: dict[str, Words], block: Block) -> Words:
        if block.first:
            self._b = drawn["b"]
        masks = self._masks.features[block.rows]
        made["Ab"][...] = masks @ self._b
        return masks
