"""Prediction: the scores of the network in one piece, for records that nobody trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tacit.channel import run_parties
from tacit.errors import PeerError
from tacit.kinds.split import follower, leader
from tacit.kinds.split.task import Rows
from tests.kinds.split.networks import parts_u, parts_v, settings_u, settings_v


def test_v_predicts_what_the_network_in_one_piece_does():
    settings, parts = settings_v(), parts_v()
    lead, east, west = parts["lead"], parts["east"], parts["west"]
    found = run_parties(
        {
            "lead": lambda channels: leader.predict(channels, settings, lead, lead.test),
            "east": lambda channels: follower.predict(channels, settings, "east", east, east.test),
            "west": lambda channels: follower.predict(channels, settings, "west", west, west.test),
        }
    )["lead"]
    with torch.no_grad():
        cuts = [part.network(torch.from_numpy(part.test.features)) for part in (east, west)]
        expected = lead.network(*cuts, lead.bottom(torch.from_numpy(lead.test.features)))
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)


def test_u_predicts_what_the_network_in_one_piece_does():
    settings, parts = settings_u(), parts_u()
    office, cloud = parts["office"], parts["cloud"]
    found = run_parties(
        {
            "office": lambda channels: leader.predict(channels, settings, office, office.test),
            "cloud": lambda channels: follower.predict(channels, settings, "cloud", cloud),
        }
    )["office"]
    with torch.no_grad():
        expected = office.head(cloud.network(office.embedding(torch.from_numpy(office.test.features))))
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)


def test_different_numbers_of_records_are_named():
    settings, parts = settings_v(), parts_v()
    lead, east, west = parts["lead"], parts["east"], parts["west"]
    with pytest.raises(PeerError, match="numbers of records disagree"):
        run_parties(
            {
                "lead": lambda channels: leader.predict(channels, settings, lead, lead.test),
                "east": lambda channels: follower.predict(channels, settings, "east", east, east.test),
                "west": lambda channels: follower.predict(
                    channels, settings, "west", west, Rows(west.test.features[:3])
                ),
            }
        )
