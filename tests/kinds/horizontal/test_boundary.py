"""The sentences about who sees what, where a run can refute them; what leaves a client is in `test_federation`."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.events import Kept
from tacit.kinds.horizontal.boundary import sentences, unprotected
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Fitted
from tests.kinds.horizontal.federations import Numbers, run, settings_for

TYPES = ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"]
MODEL = {"round", "model", "clip", "coded"}  # the last is the model again, as it travels: see `test_download`
MASKS = {
    "Roster": {"digest", "total", "ids", "sealing_keys", "masking_keys", "signatures"},
    "Inbox": {"session", "total", "senders", "hashes", "sealed"},
    "Survivors": {"session", "total", "alive", "dropped"},
    "Agreements": {"session", "ids", "signatures"},
    "Abort": {"reason"},
}


@pytest.mark.parametrize("encrypt_type", TYPES)
@pytest.mark.parametrize("mode", ["active", "semi_honest"])
def test_what_reaches_a_client_is_what_the_sentence_says(encrypt_type, mode):
    """The model; under masks also keys, signatures, sealed shares, hashes, numbers, and who stayed. No update."""
    settings = settings_for(
        rounds=2, encrypt={"encrypt_type": encrypt_type, "pw_encrypt": {"mode": mode}}, simulation={"dropout": 0.1}
    )
    engine = MemoryEngine(settings, Numbers(), Kept())
    answer, told = engine._answer, {}

    def told_first(identity, message, fate):
        names = getattr(message, "__dataclass_fields__", None) or message.__struct_fields__
        told.setdefault(type(message).__name__, set()).update(names)
        return answer(identity, message, fate)

    engine._answer = told_first
    engine.run()
    assert told.pop("Work") == MODEL
    if settings.masked:
        assert told.keys() - {"Abort", "Agreements"} == {"Roster", "Inbox", "Survivors"}
        assert all(fields <= MASKS[kind] for kind, fields in told.items())
        assert ("Agreements" in told) == (mode == "active")
        assert "nothing of its update" in sentences(settings)[-1]
    else:
        assert told == {}
        assert sentences(settings)[-1] == "Other clients see nothing of a client's messages."


class Lying(Numbers):
    """One client says that it learnt a large number, from as many samples as the file lets it claim."""

    def fit(self, client, model, work):
        if client == 3:
            return Fitted({"weights": model["weights"] + 7.0}, 1000, 0.1)
        return Fitted({"weights": model["weights"] + 0.01}, 10, 0.1)


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "PW_ENCRYPT"])
def test_a_client_that_lies_about_its_update_spoils_the_model(encrypt_type):
    """Said to be open. The honest mean is 0.01."""
    settings = settings_for(rounds=1, encrypt={"encrypt_type": encrypt_type})
    engine, _ = run(settings, Lying())
    assert np.min(engine.coordinator.model["weights"]) > 5
    assert "A client that lies about its update can spoil the model: none of this stops it." in unprotected(settings)


@pytest.mark.parametrize("encrypt_type", ["PW_ENCRYPT", "DDP_ENCRYPT"])
def test_the_coordinator_is_trusted_only_where_the_file_says_so(encrypt_type):
    """Over a network masks are in active mode unless the file says `semi_honest`, and the plan of each says which."""
    said = "The coordinator is trusted to follow the protocol (mode: semi_honest)."
    for mode, networked in ((None, "active"), ("active", "active"), ("semi_honest", "semi_honest")):
        settings = settings_for(encrypt={"encrypt_type": encrypt_type, "pw_encrypt": {"mode": mode}}).networked()
        assert settings.mode == networked
        assert any(each.startswith(said) for each in unprotected(settings)) == (networked == "semi_honest")
