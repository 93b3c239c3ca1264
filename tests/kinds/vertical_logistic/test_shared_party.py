"""What a party of a training on shares refuses to believe."""

from __future__ import annotations

import pytest

from tacit.channel import run_parties
from tacit.errors import PeerError
from tacit.events import Nowhere
from tacit.kinds.vertical_logistic.party import party
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
