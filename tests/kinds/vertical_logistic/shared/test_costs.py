"""Forecast bytes are those that a training sends."""

from __future__ import annotations

import pytest

from tacit.kinds.vertical_logistic.shared import deals
from tacit.kinds.vertical_logistic.shared.costs import costs
from tacit.kinds.vertical_logistic.shared.messages import Deal, Opening
from tests.kinds.vertical_logistic.shared.trainings import people, run, terms_of


@pytest.mark.parametrize(
    "changes", [{}, {"weighted": True}, {"model": "linear", "figures": "end"}, {"figures": "epoch"}, {"blocks": 5000}]
)
def test_a_training_sends_what_was_forecast(monkeypatch, changes):
    if blocks := changes.pop("blocks", None):
        monkeypatch.setattr(deals, "BLOCK_WORDS", blocks)
    x, y = people(300, 7)
    terms, recorders = terms_of(2, 300, **changes), {}
    run(x, y, terms, recorders=recorders, row_weights=abs(y - 0.2) if terms.weighted else None)
    forecast = costs(terms, {"bank": 4, "shop": 3})
    sent = [m for m in recorders["bank"]["shop"].sent if isinstance(m, Opening)]
    assert sum(len(m.words) for m in sent if m.serial == 1) == forecast.table_bytes["bank"]
    assert sum(len(m.words) for m in sent if m.serial > 1) == forecast.opened_bytes
    dealt = [m for m in recorders["shop"]["dealer"].seen if isinstance(m, Deal)]
    assert sum(len(m.words) for m in dealt) == forecast.dealt_bytes
    assert not any(m.words for m in recorders["bank"]["dealer"].seen if isinstance(m, Deal))
    figures = sum(terms.evaluates(step + 1) for step in range(terms.schedule.total))
    beyond = 1 + figures * (2 if terms.model == "linear" else 4)  # declared openings, groups and verdicts
    assert forecast.exchanges == len(sent) + beyond


def test_a_step_has_four_exchanges():
    one, two = (costs(terms_of(2, 64, epochs=epochs, held_out=0.0), {"bank": 1, "shop": 1}) for epochs in (1, 2))
    assert two.exchanges - one.exchanges == 4
