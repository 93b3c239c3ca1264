from __future__ import annotations

import numpy as np
import pytest

from tacit.secagg.settings import Settings


def test_the_threshold_is_the_least_that_is_safe():
    assert Settings(10, 1).topology(10).threshold == 6
    assert Settings(10, 1, collusion=True, share_secrets_ratio=0.9).topology(10).threshold == 7
    assert Settings(9, 1, collusion=True, share_secrets_ratio=0.9).topology(9).threshold == 7


@pytest.mark.parametrize(("threshold", "collusion"), [(50, False), (1, False), (66, True), (60, True)])
def test_a_threshold_that_half_or_two_thirds_reach_is_refused(threshold, collusion):
    with pytest.raises(ValueError, match=f"is {threshold}, 100 clients need more than"):
        Settings(100, 1, reconstruct_secrets_threshold=threshold, collusion=collusion)


def test_thresholds_just_above_are_taken():
    assert Settings(100, 1, reconstruct_secrets_threshold=51).topology(100).threshold == 51
    assert Settings(100, 1, reconstruct_secrets_threshold=67, collusion=True).topology(100).threshold == 67


def test_unreachable_combinations_are_refused_with_the_numbers():
    with pytest.raises(ValueError, match=r"need 51 shares to open .*colluders: 1.* proceeds with 50 of 100 clients"):
        Settings(100, 1, share_secrets_ratio=0.5)
    with pytest.raises(
        ValueError, match=r"need 90 shares to open .* proceeds with 90 of 100.*or lower reconstruct_secr"
    ):
        Settings(100, 1, share_secrets_ratio=0.9, reconstruct_secrets_threshold=90)
    with pytest.raises(ValueError, match="minimum is 95, but a round proceeds with 80 of 100"):
        Settings(100, 1, minimum=95)


def test_sparse_graphs_derive_their_threshold():
    sparse = Settings(1000, 1, mode="semi_honest", corrupt=0.1, drop=0.3)
    topology = sparse.topology(1000)
    assert (topology.neighbours, topology.threshold, topology.minimum) == (88, 36, 700)
    with pytest.raises(ValueError, match="derived on a sparse graph, not set: leave out 600"):
        Settings(1000, 1, mode="semi_honest", graph="sparse", reconstruct_secrets_threshold=600)
    with pytest.raises(ValueError, match="active mode needs the complete graph"):
        Settings(1000, 1, graph="sparse")
    with pytest.raises(ValueError, match="too few for a sparse graph"):
        Settings(5, 1, mode="semi_honest", graph="sparse", corrupt=0.4, drop=0.4)


def test_auto_takes_the_complete_graph_for_small_cohorts_active_mode_and_set_thresholds():
    assert Settings(99, 1, mode="semi_honest").topology(99).complete
    assert not Settings(100, 1, mode="semi_honest").topology(100).complete
    assert Settings(100, 1).topology(100).complete
    assert Settings(100, 1, mode="semi_honest", reconstruct_secrets_threshold=60).topology(100).complete


def test_aliases():
    assert Settings.of(clients=10, columns=1, share_client_ratio=0.9).share_secrets_ratio == 0.9
    with pytest.raises(ValueError, match="given twice"):
        Settings.of(clients=10, columns=1, share_client_ratio=0.9, share_secrets_ratio=0.9)
    with pytest.raises(ValueError, match="'share_ratio' is not a setting"):
        Settings.of(clients=10, columns=1, share_ratio=0.9)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"clients": 2}, "clients must be at least 3"),
        ({"columns": 0}, "columns must be at least 1, got 0"),
        ({"modulus_bits": 7}, "modulus_bits must be 8 to 64, got 7"),
        ({"modulus_bits": 65}, "modulus_bits must be 8 to 64, got 65"),
        ({"mode": "honest"}, "mode must be active or semi_honest, got 'honest'"),
        ({"graph": "ring"}, "graph must be"),
        ({"share_secrets_ratio": 0.0}, r"share_secrets_ratio must be in \(0, 1\], got 0.0"),
        ({"share_secrets_ratio": 1.1}, r"share_secrets_ratio must be in \(0, 1\], got 1.1"),
        ({"cipher_time_window": 0}, "cipher_time_window must be above 0 milliseconds, got 0"),
        ({"corrupt": 1.0}, r"corrupt must be in \[0, 1\)"),
        ({"drop": -0.1}, r"drop must be in \[0, 1\)"),
        ({"reconstruct_secrets_threshold": 0}, "at least 1, got 0"),
        ({"minimum": 1}, "minimum must be at least 2, got 1"),
        ({"colluders": -1}, "colluders must be at least 0, got -1"),
    ],
)
def test_bad_settings_are_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        Settings(**({"clients": 10, "columns": 5} | keys))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"clients": "10"}, "clients must be a whole number, got '10'"),
        ({"columns": None}, "columns must be a whole number, got None"),
        ({"columns": True}, "columns must be a whole number, got True"),
        ({"modulus_bits": 32.0}, "modulus_bits must be a whole number, got 32.0"),
        ({"minimum": 2.5}, "minimum must be a whole number, got 2.5"),
        ({"share_secrets_ratio": "0.8"}, "share_secrets_ratio must be a number, got '0.8'"),
        ({"collusion": "false"}, "collusion must be true or false, got 'false'"),
        ({"clients": 3, "collusion": True, "share_secrets_ratio": 1.0}, "3 clients are too few for 2 colluders"),
        ({"colluders": 1.5}, "colluders must be a whole number, got 1.5"),
        ({"clients": 5001}, "5001 others, and 5000 are the most"),
    ],
)
def test_wrong_types_and_impossible_sizes_are_refused_by_name(keys, message):
    with pytest.raises(ValueError, match=message):
        Settings(**({"clients": 10, "columns": 5} | keys))


def test_the_corrupt_may_all_be_among_those_who_came():
    sparse = Settings(1000, 1, mode="semi_honest", share_secrets_ratio=0.5)
    assert sparse.topology(500).threshold > Settings(500, 1, mode="semi_honest").topology(500).threshold


def test_equal_settings_have_equal_digests():
    assert (
        Settings(5, 2, share_secrets_ratio=1).digest_input() == Settings(5, 2, share_secrets_ratio=1.0).digest_input()
    )
    assert Settings(np.int64(5), 2).digest_input() == Settings(5, 2).digest_input()


def test_parties_with_different_settings_have_different_digests():
    one = Settings(10, 5)
    assert one.digest_input() == Settings(10, 5).digest_input()
    assert one.digest_input() != Settings(10, 5, collusion=True, share_secrets_ratio=0.8).digest_input()
    assert one.digest_input() != Settings(10, 6).digest_input()
