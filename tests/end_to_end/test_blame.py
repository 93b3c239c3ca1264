"""A client that breaks secure aggregation costs one round at most, is named and is not sampled again."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tacit.errors import Unfit
from tacit.events import ClientBlamed, ClientRefused, Kept, RoundAborted, SharesDisputed
from tacit.kinds.horizontal.sampling import sample
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.secagg.messages import Reveal, Shares, unpack_ids
from tests.kinds.horizontal.federations import Numbers, finished, run, settings_for

LIARS = {0, 1}


def masked(**keys):
    pw_encrypt = {"mode": "semi_honest"} | keys.pop("pw_encrypt", {})
    return settings_for(encrypt={"encrypt_type": "PW_ENCRYPT", "pw_encrypt": pw_encrypt}, **keys)


def blamed(kept: Kept) -> list[ClientBlamed]:
    return [event for event in kept.events if isinstance(event, ClientBlamed)]


def aborted(kept: Kept) -> list[int]:
    return [event.round for event in kept.events if isinstance(event, RoundAborted)]


@pytest.mark.parametrize("mode", ["active", "semi_honest"])
def test_revealers_that_lie_cost_no_round_and_are_left_out(mode):
    settings = masked(pw_encrypt={"mode": mode}, clients=12, rounds=3, simulation={"bad": {"share": 2}})
    engine, kept = run(settings, Numbers())
    assert [event.survivors for event in finished(kept)] == [12, 10, 10]
    assert [(event.round, event.client, event.excluded) for event in blamed(kept)] == [(0, 0, True), (0, 1, True)]
    assert "does not match the hash" in blamed(kept)[0].reason
    assert engine.coordinator.excluded == LIARS
    weights = np.arange(3, 13)
    assert np.allclose(  # clients 2 .. 11 add their number, weighted by samples
        engine.coordinator.model["weights"],
        sum(c * (c + 1) for c in range(12)) / sum(range(1, 13)) + 2 * ((weights - 1) * weights).sum() / weights.sum(),
    )


def test_a_false_commitment_ends_one_round_and_no_other():
    settings = masked(clients=12, rounds=3, simulation={"bad": {"commitment": 2}})
    _, kept = run(settings, Numbers())
    assert aborted(kept) == [0]
    assert [event.survivors for event in finished(kept)] == [10, 10]
    assert {event.client for event in blamed(kept)} == LIARS
    assert "do not open what it committed to" in blamed(kept)[0].reason


def test_in_active_mode_a_changed_commitment_has_no_signature():
    settings = masked(pw_encrypt={"mode": "active"}, clients=12, rounds=2, simulation={"bad": {"commitment": 1}})
    _, kept = run(settings, Numbers())
    assert not aborted(kept)
    assert not blamed(kept)
    assert [event.client for event in kept.events if isinstance(event, ClientRefused)] == [0, 0]


def test_on_the_sparse_graph():
    settings = masked(clients=120, rounds=2, simulation={"bad": {"share": 3}}, pw_encrypt={"bound": 256})
    _, kept = run(settings, Numbers())
    assert [event.survivors for event in finished(kept)] == [120, 117]
    assert {event.client for event in blamed(kept)} == {0, 1, 2}


def test_without_exclude_it_is_named_and_stays():
    settings = masked(clients=12, rounds=3, simulation={"bad": {"commitment": 1}}, round={"exclude": False})
    engine, kept = run(settings, Numbers())
    assert aborted(kept) == [0, 1, 2]
    assert [(event.round, event.client, event.excluded) for event in blamed(kept)] == [
        (0, 0, False),
        (1, 0, False),
        (2, 0, False),
    ]
    assert not engine.coordinator.excluded


def test_the_excluded_stay_so_after_a_restart():
    settings = masked(clients=12, rounds=3, simulation={"bad": {"commitment": 1}})
    task = Numbers()
    engine = MemoryEngine(settings, task, Kept())
    stored = []

    def store(coordinator):
        stored.append((coordinator.state(), coordinator.model))
        if coordinator.round == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run(store)
    kept = Kept()
    again = MemoryEngine(settings, task, kept)
    again.restore(*stored[-1])
    assert again.coordinator.excluded == {0}
    again.run()
    assert not blamed(kept)
    assert [event.survivors for event in finished(kept)] == [11, 11]
    earlier = {key: value for key, value in stored[-1][0].items() if key != "excluded"}  # of a run before there was any
    old = MemoryEngine(settings, task, Kept())
    old.restore(earlier, stored[-1][1])
    assert not old.coordinator.excluded
    for wrong in (np.array([12]), np.array([-1]), np.array([0.5]), [0]):
        with pytest.raises(ValueError, match="the stored state cannot be"):
            old.restore(earlier | {"excluded": wrong}, stored[-1][1])


def test_a_run_of_which_too_few_are_left_says_so():
    settings = masked(clients=5, rounds=3, simulation={"bad": {"share": 2}}, pw_encrypt={"share_secrets_ratio": 0.8})
    with pytest.raises(Unfit, match="2 clients broke secure aggregation and are excluded, 3 are left, and a round nee"):
        run(settings, Numbers())


def test_sampling_leaves_out_the_excluded():
    settings = settings_for(clients=20, round={"start_fl_job_threshold": 10})
    for attempt in range(20):
        chosen = sample(settings, attempt, None, {3, 4, 5})
        assert len(chosen) == 10
        assert not {3, 4, 5} & set(chosen)
        assert not {3, 4, 5} & set(sample(settings, attempt, range(6), {3, 4, 5}))
        assert sample(settings, attempt, None, ()) == sample(settings, attempt)
        assert sample(settings, attempt, range(15), ()) == sample(settings, attempt, range(15))
    assert sample(settings, 0, None, set(range(12))) == list(range(12, 20))


class Complaining(MemoryEngine):
    """Client 0 says in every round that its shares of client 5 are invalid."""

    def _answer(self, identity, message, fate):
        return [self._complained(answer) for answer in super()._answer(identity, message, fate)]

    def _complained(self, answer):
        if isinstance(answer, Reveal) and answer.sender == 0:
            place = unpack_ids(answer.ids).index(5)
            return msgspec.structs.replace(
                answer,
                ids=answer.ids[: 4 * place] + answer.ids[4 * place + 4 :],
                shares=answer.shares[: 36 * place] + answer.shares[36 * place + 36 :],
            )
        return answer


def test_complaints_name_both_and_exclude_nobody():
    kept = Kept()
    engine = Complaining(masked(clients=12, rounds=3), Numbers(), kept)
    engine.run()
    disputes = [event for event in kept.events if isinstance(event, SharesDisputed)]
    assert disputes == [SharesDisputed(round, 0, [5], 1) for round in range(3)]
    assert not blamed(kept)
    assert [event.survivors for event in finished(kept)] == [12, 12, 12]


def test_what_a_liar_sends_is_not_more_than_the_boundary_lists():
    seen = []
    settings = masked(clients=12, rounds=1, simulation={"bad": {"share": 1}})
    run(settings, Numbers(), watch=lambda client, message: seen.append(message))
    (shares,) = {len(m.hashes) for m in seen if isinstance(m, Shares)}
    assert shares == 12 * 32
