"""Gradient inversion through the messages of real federations."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from tacit.audit.attacks.inversion import Search
from tacit.kinds.horizontal.attacks.gradients import (
    Scene,
    audit_clipping_alone,
    audit_gradients,
    audit_label_inference,
    invert,
)
from tacit.kinds.horizontal.attacks.view import record
from tests.kinds.horizontal.federations import Numbers, settings_for

SMALL = Scene(clients=10, federations=1, hidden=256)


def test_the_view_is_what_the_messages_say():
    clear = record(settings_for(rounds=1, clients=4), Numbers())
    assert {client: update.tolist() for client, update in clear.uploads().items()} == {c: [c] * 5 for c in range(4)}
    assert clear.mean_update == pytest.approx(np.full(5, 2.0))
    masked = record(settings_for(rounds=1, clients=4, encrypt={"encrypt_type": "PW_ENCRYPT"}), Numbers())
    assert masked.mean_update == pytest.approx(np.full(5, 2.0), abs=1e-5)
    assert all(np.abs(upload - client).min() > 1 for client, upload in masked.uploads().items())
    assert {type(message).__name__ for _, message in masked.messages} >= {"Advertise", "Shares", "Masked", "Reveal"}
    with pytest.raises(ValueError, match="one round"):
        record(settings_for(rounds=2), Numbers())


def test_a_plain_upload_is_inverted():
    found = invert({"encrypt_type": "NOT_ENCRYPT"}, SMALL, "closed form", "upload")
    assert found.recovery().value == 1.0
    assert found.recovery().baseline < 0.2
    assert found.likeness().value > 0.99 > found.likeness().baseline
    assert found.error().informative


def test_masks_hide_uploads_and_not_a_small_sum():
    findings = audit_gradients({"encrypt_type": "PW_ENCRYPT"}, SMALL)
    by_name = {finding.attack: finding for finding in findings}
    each = by_name["gradient inversion, closed form, from each upload"]
    total = by_name["gradient inversion, closed form, from the sum"]
    assert each.on.value == 0
    assert not each.on.informative
    assert total.on.value >= 0.8
    assert total.on.informative
    assert total.proved is None
    assert findings[0].on.value == max(finding.on.value for finding in findings)
    assert total.pictures.originals.shape == total.pictures.on.shape == (10, 8, 8)


def test_noise_in_the_sum_hides():
    encrypt = {"encrypt_type": "DDP_ENCRYPT", "ddp_eps": 8.0, "ddp_norm_clip": 0.1}
    for finding in audit_gradients(encrypt, SMALL):
        assert finding.off.value == 1
        assert not finding.on.informative
        assert (finding.proved.epsilon, finding.proved.relation) == (8.0, "zero-out")


def test_local_noise_hides():
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 8.0, "dp_norm_clip": 0.1, "dp_delta": 1e-5}
    (finding,) = audit_gradients(encrypt, SMALL, [("closed form", "upload")])
    assert finding.on.value == 0
    assert finding.proved.epsilon == 8.0


def test_noise_that_is_too_small_does_not_hide():
    """Sabotage: an epsilon that promises nothing."""
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1e6, "dp_norm_clip": 0.1, "dp_delta": 1e-5}
    (finding,) = audit_gradients(encrypt, SMALL, [("closed form", "upload")])
    assert finding.on.value > 0.8


@pytest.mark.slow  # 4 s
def test_clipping_alone_hides_nothing_and_plain_dlg_does_not_notice():
    scene = Scene(clients=3, hidden=32, federations=1, search=Search(100, 1))
    found = {finding.attack.split(", ")[1]: finding.on for finding in audit_clipping_alone(scene)}
    assert found["closed form"].value == 1
    assert found["cosine DLG"].value == 1
    assert found["DLG"].value == 0


@pytest.mark.parametrize("encrypt", [{"encrypt_type": "DP_ENCRYPT", "dp_eps": 1e4}, {"encrypt_type": "PW_ENCRYPT"}])
def test_an_audit_repeats_under_its_seed(encrypt):
    scene = Scene(clients=4, hidden=16, federations=1)
    one, other = (invert(encrypt, scene, "closed form", "upload").recovered for _ in range(2))
    assert (one == other).all()
    assert (one != invert(encrypt, Scene(4, 1, 16, 1, seed=1), "closed form", "upload").recovered).any()


def test_labels_leak_long_before_images():
    scene = Scene(clients=40, federations=1, hidden=64)
    common = {"encrypt_type": "DP_ENCRYPT", "dp_norm_clip": 0.3, "dp_delta": 1e-5}
    weak = audit_label_inference({**common, "dp_eps": 200.0}, scene)
    assert weak.off.value == 1
    assert weak.on.informative
    strong = audit_label_inference({**common, "dp_eps": 1.0}, scene)
    assert not strong.on.informative
    masked = audit_label_inference({"encrypt_type": "PW_ENCRYPT"}, scene)
    assert not masked.on.informative


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="encrypt_type"):
        audit_gradients({"encrypt_type": "NOT_ENCRYPT"}, SMALL)
    with pytest.raises(ValueError, match="digits"):
        invert({"encrypt_type": "NOT_ENCRYPT"}, Scene(clients=1000, batch=8), "closed form", "sum")
    with pytest.raises(ValueError, match="one record"):
        audit_label_inference({"encrypt_type": "PW_ENCRYPT"}, Scene(batch=2))
