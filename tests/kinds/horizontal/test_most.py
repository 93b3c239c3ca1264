"""What a site must assume of a client: its ledgers at the end, and what it sends that none of them covers."""

from __future__ import annotations

import pytest

from tacit.config.local import Local
from tacit.kind import Seat
from tacit.kinds.horizontal.most import most
from tacit.kinds.horizontal.settings import Settings

LAPLACE = {"privacy_eval_type": "LAPLACE", "laplace_eval": {"laplace_eval_eps": 0.01}}


def settings(encrypt, *, vectors=False, **more):
    data = {"rounds": 2, "clients": 6, "encrypt": encrypt}
    inferring = {"task": "digits_unsupervised", "unsupervised": {"cluster_client_num": 2}} if vectors else {}
    return Settings.model_validate({"task": "digits", **data, **inferring, **more})


@pytest.mark.parametrize(
    ("encrypt", "vectors", "uncovered"),
    [
        ({"encrypt_type": "DP_ENCRYPT"}, False, ()),
        ({"encrypt_type": "DDP_ENCRYPT"}, False, ()),
        ({"encrypt_type": "DP_ENCRYPT", **LAPLACE}, True, ()),
        ({"encrypt_type": "NOT_ENCRYPT"}, False, ("updates",)),
        ({"encrypt_type": "NOT_ENCRYPT", **LAPLACE}, True, ("updates",)),
        ({"encrypt_type": "PW_ENCRYPT", **LAPLACE}, True, ("updates",)),
        ({"encrypt_type": "DDP_ENCRYPT"}, True, ("inference vectors",)),
    ],
)
def test_what_a_client_sends_under_no_epsilon_is_named(encrypt, vectors, uncovered):
    found = most(settings(encrypt, vectors=vectors), Seat("client-0", (0,)), Local())
    assert found.uncovered == uncovered
    assert bool(found.ledgers) == (
        encrypt["encrypt_type"] in ("DP_ENCRYPT", "DDP_ENCRYPT") or "laplace_eval" in encrypt
    )


def test_private_training_covers_updates_in_the_clear():
    train = {"privacy": {"epsilon": 3.0, "delta": 1e-5}}
    found = most(settings({"encrypt_type": "NOT_ENCRYPT"}, train=train), Seat("client-0", (0,)), Local())
    assert found.uncovered == ()
    assert [each["epsilon"] for each in found.ledgers] == [3.0]


def test_a_coordinator_holds_no_private_data():
    assert most(settings({"encrypt_type": "NOT_ENCRYPT"}), Seat("coordinator", coordinates=True), Local()) is None
