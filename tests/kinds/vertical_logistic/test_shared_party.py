"""What a party of a training on shares refuses to believe."""

from __future__ import annotations

import pytest

from tacit.channel import run_parties
from tacit.errors import PeerError
from tacit.events import Noted, Nowhere
from tacit.kinds.vertical_logistic.party import party
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared.messages import Sizes
from tacit.lockstep.resumption import Held, agreed_session
from tacit.lockstep.run import Place
from tests.kinds.vertical_logistic.shared_tables import of_tables
from tests.subprocesses import HANGS


@pytest.mark.parametrize("rows", [0, 1, 1 << 33])
def test_the_dealer_blames_the_active_for_a_number_of_rows_that_cannot_be(tmp_path, rows):
    settings = of_tables(tmp_path, 1)
    found = []

    def active(channels):
        agreed_session(channels, settings.active, settings.active, Held(b"", False))
        channels[settings.dealer].send(Sizes(rows, 1))
        with pytest.raises(PeerError):
            channels[settings.dealer].recv(Sizes, 100)

    def dealer(channels):
        with pytest.raises(PeerError) as error:
            party(settings, settings.dealer, Place(None, Nowhere()))(channels)
        found.append(str(error.value))
        channels[settings.active].close()

    def passive(channels):
        agreed_session(channels, "shop0", settings.active, Held(b"", False))

    run_parties({settings.active: active, settings.dealer: dealer, "shop0": passive}, patience=HANGS)
    assert f"bank tells of {rows} rows" in found[0]


@pytest.mark.parametrize(("rate", "told"), [(3000.0, True), (1000.0, False)])
def test_two_parties_are_told_of_parts_that_only_together_are_beyond_the_lookup(tmp_path, rate, told):
    """Each column is the label as -1 or 1: one step makes each part rate / 2, and a score the rate; 2032 wraps."""
    for name in ("bank", "shop"):
        lines = [f"p{row},{f'{row % 2},' * (name == 'bank')}{2 * (row % 2) - 1}" for row in range(100)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"id,{'y,' * (name == 'bank')}x", *lines]))
    settings = Settings.model_validate(
        {
            "helper": "none",
            "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}},
            "data": {name: {"path": str(tmp_path / f"{name}.csv")} for name in ("bank", "shop")},
            "train": {"epochs": 1, "batch": 100, "learning_rate": rate, "test": 0},
            "align": False,
        }
    )
    noted = []

    class Sink(Nowhere):
        def emit(self, event):
            if isinstance(event, Noted):
                noted.append(event.text)

    run_parties({me: party(settings, me, Place(None, Sink())) for me in settings.parties}, patience=HANGS)
    said = [text for text in noted if "its part of a score reaches" in text]
    assert len(said) == 2 * told
    assert all("up to 1016 of each party" in text for text in said)
