"""A federation over a transport comes to the model that it comes to without one."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.events import Answered, AnswerRefused, ClientRefused, Evaluated, Kept, Noted
from tacit.net.identity import Authority
from tests.kinds.horizontal.federations import Failing, another_model_after, finished, run, settings_for
from tests.net.loopback import Federation, over_each_transport, quickly, whole

CLIENTS = 9
NOISE = {"simulation": {"insecure_noise_seed": 5}}


def federation(encrypt, **keys):
    return settings_for(clients=CLIENTS, rounds=3, encrypt=encrypt, **keys)


def over(transport, settings, authority=None) -> Federation:
    found = Federation(settings, authority=authority, transport=transport())
    partings = quickly(whole(found))
    assert {parting.status for parting in partings.values()} == {"done"}
    assert found.survivors == [CLIENTS] * settings.rounds
    return found


def assert_same_model(found: Federation, settings, tolerance: float) -> Kept:
    engine, kept = run(settings)
    for name, array in engine.coordinator.model.items():
        if tolerance:
            np.testing.assert_allclose(found.coordinator.model[name], array, rtol=0, atol=tolerance)
        else:
            np.testing.assert_array_equal(found.coordinator.model[name], array)
    return kept


@pytest.mark.parametrize(
    ("encrypt", "tolerance"),
    [
        ({"encrypt_type": "PW_ENCRYPT", "mode": "active"}, 0.0),
        ({"encrypt_type": "PW_ENCRYPT", "mode": "semi_honest"}, 0.0),
        ({"encrypt_type": "DDP_ENCRYPT", "mode": "active"}, 0.0),
        ({"encrypt_type": "NOT_ENCRYPT"}, 1e-6),  # sums of floats, in the order of arrival
        ({"encrypt_type": "DP_ENCRYPT"}, 1e-6),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
@over_each_transport
def test_the_model_is_that_of_the_federation_in_memory(transport, encrypt, tolerance):
    settings = federation(encrypt, **NOISE)
    assert_same_model(over(transport, settings), settings, tolerance)


EIGHT_BITS = {"bits": 8, "clip": 0.5, "largest_weight": 200}


@pytest.mark.parametrize(
    ("encrypt_type", "masks"),
    [("PW_ENCRYPT", EIGHT_BITS), ("PW_ENCRYPT", {"bits": "exact"}), ("DDP_ENCRYPT", {"bits": 8})],
    ids=["PW-8", "PW-exact", "DDP-8"],
)
@over_each_transport
def test_few_bits_come_to_the_same_model(transport, encrypt_type, masks):
    encrypt = {"encrypt_type": encrypt_type, "pw_encrypt": {"mode": "active"} | masks}
    settings = federation(encrypt, round={"down": 8}, **NOISE)
    found = over(transport, settings, Authority.create() if masks == EIGHT_BITS else None)
    kept = assert_same_model(found, settings, 0.0)
    here, there = finished(kept)[-1], found.finished()[-1]
    assert (there.bytes_up, there.bytes_down) == pytest.approx((here.bytes_up, here.bytes_down), abs=8)


@over_each_transport
def test_a_client_tells_its_own_site_how_many_numbers_were_clipped(transport):
    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": EIGHT_BITS | {"clip": 1e-3}}
    found = over(transport, federation(encrypt))
    said = [event.text for event in found.told(3) if isinstance(event, Noted) and "clip" in event.text]
    assert len(said) == 3
    assert all(text.startswith("client 3: ") and "of 650 numbers that were learnt are beyond" in text for text in said)
    assert not any("were clipped" in event.text for event in found.kept.events if isinstance(event, Noted))


@over_each_transport
def test_with_certificates_it_is_the_same(transport):
    settings = federation({"encrypt_type": "PW_ENCRYPT", "mode": "active"})
    assert_same_model(over(transport, settings, Authority.create()), settings, 0.0)


@over_each_transport
def test_what_clients_infer_is_scored_as_in_memory(transport):
    settings = federation(
        {"encrypt_type": "PW_ENCRYPT", "mode": "active", "privacy_eval_type": "LAPLACE", "laplace_eval_eps": 1000.0},
        task="digits_unsupervised",
        unsupervised={"cluster_client_num": CLIENTS},
        **NOISE,
    )
    found = over(transport, settings)
    kept = assert_same_model(found, settings, 0.0)
    here, there = ([event for event in each.events if isinstance(event, Evaluated)] for each in (found.kept, kept))
    assert [(event.clients, event.vectors, event.clusters) for event in here] == [
        (event.clients, event.vectors, event.clusters) for event in there
    ]
    for mine, memory in zip(here, there, strict=True):
        assert mine.score == pytest.approx(memory.score, abs=1e-9)


@pytest.mark.parametrize("mode", ["active", "semi_honest"])
@over_each_transport
def test_a_client_that_declines_a_model_says_why_and_answers_the_next(transport, mode):
    """Round 0 aborts with its sum opened, round 1 has the same model, and round 2 another one."""
    masks = {"encrypt_type": "PW_ENCRYPT", "mode": mode, "pw_encrypt": {"bound": 64.0}}
    settings = settings_for(clients=6, rounds=3, encrypt=masks, round={"update_model_ratio": 1.0, "repeats": 0})
    found = Federation(settings, Failing({0}), transport=transport())
    another_model_after(found.coordinator, 2)
    stored: dict[int, list[int]] = {identity: [] for identity in range(6)}
    partings = quickly(_stored_whole(found, stored))
    assert {parting.status for parting in partings.values()} == {"done"}
    assert [event.round for event in found.aborted()] == [0, 1]
    assert found.survivors == [6]
    declined = {
        event.client: event.reason
        for event in found.kept.events
        if isinstance(event, ClientRefused) and event.round == 1
    }
    assert sorted(declined) == [0, 1, 2, 3, 4]  # client 5 has not uploaded yet
    assert all("uploaded for this very model before" in reason for reason in declined.values())
    for identity in found.clients:
        refused = [(event.round, event.reason) for event in found.told(identity) if isinstance(event, AnswerRefused)]
        assert [number for number, reason in refused if reason.startswith("it has uploaded")] == [1] * (identity != 5)
        assert 2 in {event.round for event in found.told(identity) if isinstance(event, Answered)}
        assert stored[identity] == sorted(stored[identity])
        assert stored[identity][-1] == 1 + (identity != 5)


async def _stored_whole(found: Federation, stored: dict[int, list[int]]):
    """All clients take part; how many models each has stored as answered, whenever it stores."""
    async with found.serve():
        for identity in range(found.settings.clients):
            found.join(identity, store=lambda client: stored[client.identity].append(len(client.state()["models"])))
        return await found.done()


@pytest.mark.parametrize("mode", ["active", "semi_honest"])
@over_each_transport
def test_clients_at_the_cap_stay_connected_and_are_not_asked(transport, mode):
    settings = settings_for(
        clients=12,
        rounds=4,
        encrypt={"encrypt_type": "DDP_ENCRYPT", "mode": mode},
        round={"start_fl_job_threshold": 5, "participations": 2},
    )
    found = Federation(settings, transport=transport())
    partings = quickly(whole(found))
    assert {parting.status for parting in partings.values()} == {"done"}
    assert found.survivors == [5, 5, 5, 5]
    assert not found.refused()
    uploads = {
        identity: sum("Masked" in event.sent for event in found.told(identity) if isinstance(event, Answered))
        for identity in found.clients
    }
    assert sum(uploads.values()) == 20
    assert max(uploads.values()) == 2
    assert found.coordinator.left_out == {identity for identity, count in uploads.items() if count == 2}
