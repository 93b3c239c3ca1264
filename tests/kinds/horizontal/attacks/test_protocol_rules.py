"""Rules that clients keep: each one is broken on purpose and seen."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.crypto import agreement, prg, shamir
from tacit.kinds.horizontal import client as horizontal_client
from tacit.kinds.horizontal.attacks.protocol_rules import audit_fewest, audit_inference, audit_masking, audit_repeats
from tacit.kinds.horizontal.protections import vectors_laplace
from tacit.kinds.horizontal.protections.local_dp import LocalDP
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Layout
from tacit.randomness import seeded_rng
from tacit.secagg import client as secure_client
from tacit.secagg.messages import Reveal, pack_ids

MODEL = {"weights": np.zeros((20, 4), dtype=np.float32), "bias": np.zeros(4, dtype=np.float32)}
LAYOUT = Layout.of(MODEL)


def settings(kind):
    encrypt = {"encrypt_type": kind, "dp_encrypt": {"dp_eps": 4.0, "dp_delta": 1e-5}}
    return Settings.model_validate({"task": "digits", "rounds": 2, "clients": 5, "encrypt": encrypt})


@pytest.mark.parametrize("kind", ["DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"])
def test_a_client_that_is_asked_again_keeps_the_rules(kind):
    found = audit_repeats(settings(kind), LAYOUT, protection="p")
    assert (found.broken, found.refuted) == ((), False)
    assert found.watched >= 6


def unchecked(self, work):
    """Any round is answered, also one that was answered before."""


@pytest.mark.parametrize("kind", ["DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"])
def test_fresh_noise_for_the_same_round_is_seen(kind, monkeypatch):
    monkeypatch.setattr(horizontal_client.Client, "_check", unchecked)
    found = audit_repeats(settings(kind), LAYOUT, protection="p")
    assert found.refuted
    assert "a client answers round 0 with other noise or keys when it is asked again" in found.broken


@pytest.mark.parametrize("name", ["attempts", "uploads"])
def test_what_is_forgotten_in_a_restart_is_seen(name, monkeypatch):
    honest = horizontal_client.Client.restore
    monkeypatch.setattr(horizontal_client.Client, "restore", lambda self, state: honest(self, {**state, name: 0}))
    found = audit_repeats(settings("DP_ENCRYPT"), LAYOUT, protection="p")
    assert any("after a restart" in sentence for sentence in found.broken)


def test_uploads_that_are_not_stored_are_seen(monkeypatch):
    honest = horizontal_client.Client.state
    monkeypatch.setattr(horizontal_client.Client, "state", lambda self: honest(self) | {"uploads": 0})
    found = audit_repeats(settings("DP_ENCRYPT"), LAYOUT, protection="p")
    assert "after a restart a client has paid for 0 of 1 releases" in found.broken


def test_the_same_noise_in_two_rounds_is_seen(monkeypatch):
    honest = LocalDP.protect
    monkeypatch.setattr(LocalDP, "protect", lambda self, update, clip, rng: honest(self, update, clip, seeded_rng(1)))
    found = audit_repeats(settings("DP_ENCRYPT"), LAYOUT, protection="p")
    assert found.broken == ("a client draws the same noise in two rounds",)


@pytest.mark.parametrize("kind", ["PW_ENCRYPT", "DDP_ENCRYPT"])
def test_masks_of_honest_clients(kind):
    found = audit_masking(settings(kind), MODEL, protection="p")
    assert (found.broken, found.refuted) == ((), False)
    assert found.watched == 20  # uploads and revelations of five clients in two rounds


def test_masks_of_an_earlier_round_are_seen(monkeypatch):
    """The same keys between two clients in each round, though all that is advertised is new."""
    same = lambda own, identity, peer, session: bytes([min(identity, peer.sender), max(identity, peer.sender)] * 8)  # noqa: E731
    monkeypatch.setattr(secure_client, "mask_key", same)
    found = audit_masking(settings("PW_ENCRYPT"), MODEL, protection="p")
    assert "client 0 uploads under the same masks in two rounds" in found.broken


def test_keys_of_an_earlier_round_are_seen(monkeypatch):
    made = secure_client.Client.__init__

    def start(self, context, identity, *given, **keys):
        made(self, context, identity, *given, **keys)
        self._masking = agreement.KeyPair(bytes([identity + 1] * 32))

    monkeypatch.setattr(secure_client.Client, "__init__", start)
    found = audit_masking(settings("PW_ENCRYPT"), MODEL, protection="p")
    assert "client 0 advertises the same masking key in two rounds" in found.broken


def test_uploads_without_masks_between_clients_are_seen(monkeypatch):
    """Only the mask that each client takes off itself is left."""
    monkeypatch.setattr(secure_client, "sign", lambda own, peer: 0)
    honest = prg.add_masks
    monkeypatch.setattr(
        secure_client,
        "add_masks",
        lambda words, keys, threads: honest(words, [k for k in keys if k[1]], threads=threads),
    )
    found = audit_masking(settings("PW_ENCRYPT"), MODEL, protection="p")
    assert "client 0 uploads numbers without masks" in found.broken


def test_masks_over_a_part_of_the_vector_are_seen(monkeypatch):
    honest = prg.add_masks

    def add_masks(words, keys, threads):
        part = words[: len(words) * 3 // 4].copy()
        honest(part, keys, threads=threads)
        words[: len(part)] = part

    monkeypatch.setattr(secure_client, "add_masks", add_masks)
    found = audit_masking(settings("PW_ENCRYPT"), MODEL, protection="p")
    assert "client 0 uploads numbers without masks" in found.broken


@pytest.mark.parametrize("mode", ["semi_honest", "active"])
@pytest.mark.parametrize("kind", ["PW_ENCRYPT", "DDP_ENCRYPT"])
def test_no_client_helps_to_open_a_sum_of_too_few(kind, mode, monkeypatch):
    data = settings(kind).model_dump()
    data["encrypt"]["pw_encrypt"]["mode"] = mode
    data["encrypt"]["ddp_encrypt"]["n_min"] = 4
    given = Settings.model_validate(data)
    found = audit_fewest(given, LAYOUT, protection="p")
    assert (found.broken, found.watched) == ((), 5)
    honest = secure_client.Client._survive

    def survive(self, survivors, now):
        self._minimum = 2
        monkeypatch.setattr(self, "_check_fresh", lambda alive: None, raising=False)
        return honest(self, survivors, now)

    monkeypatch.setattr(secure_client.Client, "_survive", survive)
    (sentence,) = audit_fewest(given, LAYOUT, protection="p").broken
    assert sentence.startswith("client 0 helps to open a sum of ")


INFERENCE = Settings.model_validate(
    {
        "task": "digits_unsupervised",
        "rounds": 1,
        "clients": 5,
        "encrypt": {"privacy_eval_type": "LAPLACE", "laplace_eval": {"laplace_eval_eps": 1.0}},
        "unsupervised": {"cluster_client_num": 3, "vectors": 2, "eval_type": "SILHOUETTE_SCORE"},
    }
)


def test_inference_vectors_have_noise_of_their_own(monkeypatch):
    found = audit_inference(INFERENCE, LAYOUT, 10, protection="p")
    assert (found.broken, found.watched) == ((), 8)  # two vectors of two clients in two rounds
    honest = vectors_laplace.protect
    monkeypatch.setattr(
        vectors_laplace, "protect", lambda vectors, epsilon, rng: honest(vectors, epsilon, seeded_rng(1))
    )
    assert audit_inference(INFERENCE, LAYOUT, 10, protection="p").refuted


def test_a_survivors_key_share_is_seen(monkeypatch):
    def reveal(self, now):
        ids, half = sorted(self._held), shamir.ROW_BYTES
        shares = b"".join(self._held[i][:half] if i == 1 else self._held[i][half:] for i in ids)
        reply = [Reveal(self._session, self.identity, pack_ids(ids), shares)]
        self._end(secure_client.State.DONE)
        return reply

    monkeypatch.setattr(secure_client.Client, "_reveal", reveal)
    found = audit_masking(settings("PW_ENCRYPT"), MODEL, protection="p")
    assert "client 0 reveals a share of the masking key of client 1, who uploaded" in found.broken
