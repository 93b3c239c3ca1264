"""The settings of parties in lock step."""

from __future__ import annotations

import pytest

from tacit.lockstep.parties import Parties
from tacit.sections import Settings
from tests.kinds.split.networks import settings_v
from tests.kinds.vertical_logistic.parties import deal


def test_no_field_is_added_so_that_stored_files_keep_their_order():
    assert list(Parties.model_fields) == list(Settings.model_fields)
    assert list(deal().model_dump())[:2] == list(settings_v().model_dump())[:2] == ["kind", "name"]


@pytest.mark.parametrize(
    ("addresses", "hub"),
    [({}, "lead"), ({"west": "a:1"}, "west"), ({"west": "a:1", "lead": "b:2"}, "lead"), ({"east": "a:1"}, "east")],
)
def test_others_connect_to_the_lead_or_to_the_first_that_has_an_address(addresses, hub):
    roles = {"lead": "leader", "east": "follower", "west": "follower"}
    parties = {name: {"role": role, "address": addresses.get(name)} for name, role in roles.items()}
    settings = settings_v(parties=parties)
    assert (settings.lead, settings.hub) == ("lead", hub)
