from __future__ import annotations

import pytest
import yaml

from tacit.config.source import ConfigError
from tacit.kinds.horizontal.protections.distributed_dp import central
from tacit.kinds.horizontal.settings import Settings
from tacit.runs.load import load

MASKS = {"encrypt_type": "PW_ENCRYPT"}


def settings(**keys):
    return Settings(**({"task": "digits", "rounds": 1, "clients": 100} | keys))


def test_sampling_and_quorum():
    assert settings().sampled == 100
    assert settings(round={"start_fl_job_threshold": 80, "update_model_ratio": 0.8}).needed == 64
    assert settings(round={"start_fl_job_threshold": 10, "update_model_ratio": 0.55}).needed == 6
    assert settings(round={"update_model_ratio": 0.001}).needed == 1


@pytest.mark.parametrize(("clients", "delta"), [(3, 1e-5), (100, 1e-5), (100_000, 1e-5), (10**6, 1e-6)])
def test_delta_is_small_and_at_most_one_over_the_clients_unless_it_is_set(clients, delta):
    assert settings(clients=clients).delta == delta
    assert central(settings(clients=clients))[1] == delta
    assert settings(clients=clients, encrypt={"dp_delta": 1e-3}).delta == 1e-3
    assert central(settings(clients=clients, encrypt={"ddp_delta": 1e-3}))[1] == 1e-3


@pytest.mark.parametrize(
    ("encrypt", "words"),
    [
        ({"encrypt_type": "DP_ENCRYPT", "dp_eps": 5}, "advises more than 50"),
        ({"encrypt_type": "DP_ENCRYPT", "dp_eps": 60}, "weak promise"),
        ({"encrypt_type": "DP_ENCRYPT", "dp_norm_clip": 5}, "advises 0.5 to 2"),
        ({"encrypt_type": "DP_ENCRYPT", "dp_delta": 0.5}, "above 1 / clients = 0.01"),
        ({"encrypt_type": "DP_ENCRYPT", "dp_eps": 2, "dp_delta": 0.01}, "dp_eps 2 at this delta is 3.86 at 1e-05"),
        ({"encrypt_type": "DP_ENCRYPT"}, "MindSpore Federated advises 1 / clients = 0.01"),
        ({"encrypt_type": "NOT_ENCRYPT"}, "in the clear"),
    ],
)
def test_legal_values_worth_a_thought_are_noted(encrypt, words):
    assert any(words in note for note in settings(encrypt=encrypt).notes())


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"round": {"start_fl_job_threshold": 101}}, "but there are 100 clients"),
        ({"clients": 2, "encrypt": {"encrypt_type": "PW_ENCRYPT"}}, "needs 3 clients"),
        ({"budget": {"epsilon": 1.0}}, "has none: leave out budget"),
        ({"encrypt": {"dp_eps": 0}}, "greater than 0"),
        ({"encrypt": {"dp_delta": 1.0}}, "less than 1"),
        ({"encrypt": {"dp_norm_clip": -1}}, "greater than or equal to"),
        ({"encrypt": {"share_secrets_ratio": 1.5}}, "less than or equal to 1"),
        ({"task": ":make"}, "package.module:function"),
        ({"rounds": 0}, "greater than or equal to 1"),
        ({"encrypt": MASKS | {"bits": 3}}, "must be a whole number from 4 to 32, or exact"),
        ({"encrypt": MASKS | {"bits": "few"}}, "must be a whole number from 4 to 32, or exact"),
        ({"encrypt": MASKS | {"bits": 8}}, "bits is 8, and numbers are rounded within a clip: add clip"),
        ({"encrypt": MASKS | {"bits": 8, "clip": 0.1}}, "largest_weight: set it to the most samples that a client has"),
        ({"encrypt": MASKS | {"clip": 0.1}}, "clip is 0.1, and without bits no number is clipped: add bits: 8"),
        ({"encrypt": MASKS | {"clip": 0.1, "bits": "exact"}}, "clip is 0.1, and without bits no number is clipped"),
        ({"encrypt": {"encrypt_type": "DDP_ENCRYPT", "clip": 0.1, "bits": 8}}, "DDP_ENCRYPT clips to ddp_norm_clip"),
        ({"round": {"down": 7}}, "greater than or equal to 8"),
    ],
)
def test_bad_values_are_refused(keys, words):
    with pytest.raises(ValueError, match=words):
        settings(**keys)


def test_files_without_few_bits_keep_their_fingerprint():
    dumped = settings(encrypt=MASKS).model_dump(mode="json")
    assert not {"bits", "clip"} & dumped["encrypt"]["pw_encrypt"].keys()
    assert "down" not in dumped["round"]


@pytest.mark.parametrize("value", [3, 33, 8.5, True, "few", [8]])
def test_a_wrong_number_of_bits_is_said_once(tmp_path, value):
    """One sentence, not one for each type that the key may have."""
    file = tmp_path / "few.yaml"
    masks = {"bits": value, "clip": 0.1, "largest_weight": 20}
    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": masks}
    keys = {"kind": "horizontal", "task": "digits", "rounds": 1, "clients": 10, "encrypt": encrypt}
    file.write_text(yaml.safe_dump(keys))
    with pytest.raises(ConfigError) as caught:
        load(file)
    (sentence,) = str(caught.value).splitlines()
    assert "encrypt.pw_encrypt.bits is " in sentence
    assert sentence.endswith(": it must be a whole number from 4 to 32, or exact")


def test_few_bits_are_stored_and_read_again():
    made = settings(encrypt=MASKS | {"bits": 8, "clip": 0.1, "largest_weight": 20}, down=8)
    again = Settings.model_validate(made.model_dump(mode="json"))
    assert again == made
    assert (again.encrypt.pw_encrypt.bits, again.encrypt.pw_encrypt.clip, again.round.down) == (8, 0.1, 8)


def test_more_bad_clients_than_there_are_clients_is_a_mistake_with_its_remedy():
    with pytest.raises(ValueError, match=r"simulation\.bad names 11 clients, but there are 10 clients: name fewer"):
        Settings(task="digits", rounds=1, clients=10, simulation={"bad": {"nan": 11}})
