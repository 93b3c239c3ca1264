"""How much a training sends, and how often parties wait for each other, before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit.kinds.vertical_logistic.shared import deals
from tacit.kinds.vertical_logistic.shared.meeting import MOST_WORDS
from tacit.kinds.vertical_logistic.shared.scales import scales
from tacit.kinds.vertical_logistic.shared.terms import Terms


@dataclass(frozen=True, slots=True)
class Costs:
    """Of a training without interruptions. Bytes are those of bulk data; a message has about 20 more.

    Args:
        exchanges: how often all parties wait for a message of all others, or of the active.
        table_bytes: the tables under masks, by sender; once, to each other party.
        opened_bytes: what each data party sends to each other in all openings of steps and figures.
        dealt_bytes: what the dealer sends to the last party.
    """

    exchanges: int
    table_bytes: dict[str, int]
    opened_bytes: int
    dealt_bytes: int


def costs(terms: Terms, columns: Mapping[str, int]) -> Costs:
    """What a training of these parties' columns sends."""
    width = sum(columns.values())
    tables = {
        name: 8 * (terms.rows * columns[name] + (terms.own_words if name == terms.active else 0))
        for name in terms.parties
    }
    rows_at_once = max(1, MOST_WORDS // max(columns.values()))
    exchanges = -(-terms.rows // rows_at_once) + (terms.own_words > 0) + 1  # and the final opening
    opened = dealt = 0
    for step in deals.steps(terms, scales(terms), 0):
        for block in step.blocks:
            words = len(block.rows) * terms.outputs
            exchanges += 2 + terms.weighted + block.first + block.last
            opened += words * (8 * (1 + terms.weighted) + (8 if terms.model == "linear" else 4))
            opened += 8 * terms.outputs * (width * block.first + (width + 1) * block.last)
            dealt += 8 * deals.step_layout(terms, width, block).made_words
        if terms.evaluates(step.number + 1):
            exchanges += 2 if terms.model == "linear" else 5  # reveal and judge; open and reveal ranks, groups, counts
            for block in deals.held_out(terms):
                words = len(block.rows) * terms.outputs
                exchanges += 2 + block.first + (terms.model == "logistic")
                opened += words * 16 + 8 * terms.outputs * width * block.first
                opened += 8 * terms.outputs * terms.buckets * (block.last and terms.model == "logistic")
                dealt += 8 * deals.figures_layout(terms, width, block).made_words
    return Costs(exchanges, tables, opened, dealt)
