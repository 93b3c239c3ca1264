"""What a plan says of a cap on participations: what it saves, who reaches it, and whether rounds lack clients."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tacit.kinds.horizontal import party_forecast
from tacit.kinds.horizontal.bounded_participation import Participations, expected_samples
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.forecast import most_uploads, plan
from tacit.kinds.horizontal.participation_forecast import (
    advised_cap,
    chance_beyond_cap,
    lacking_clients,
    never_lacks,
)
from tacit.kinds.horizontal.plan_words import in_words
from tacit.kinds.horizontal.vector import Layout
from tests.kinds.horizontal.federations import Inferring, Numbers, finished, run
from tests.kinds.horizontal.test_bounded_participation import DDP, capped

LAYOUT = Layout.of(Numbers(650).model())


def binomial_tail(above: int, trials: int, part: float) -> float:
    """The chance of more than `above`, by the sum of its terms."""
    return sum(math.comb(trials, k) * part**k * (1 - part) ** (trials - k) for k in range(above + 1, trials + 1))


def fleet(most: int | None = 20):
    return capped(most, rounds=100, clients=1000, sampled=100)


def test_the_plan_states_the_noise_with_the_cap_and_without_it():
    with_cap, without = plan(fleet(), LAYOUT, None), plan(fleet(None), LAYOUT, None)
    assert [price.epsilon_run for price in with_cap.prices] == pytest.approx([4.0], rel=1e-4)
    assert (with_cap.prices[0].times, without.prices[0].times) == (20, 100)
    said = without.noise[0].split("on the mean of 100 one of about ")[1].split()[0]
    assert (
        "sized for the 20 sums that one client may be in (round.participations), not for 100: for 100, that on the "
        f"mean would be about {said}, 2.24 times as much."
    ) in with_cap.noise[1]
    assert not with_cap.warnings
    (row,) = [text for name, text in in_words(with_cap).parts["What it costs in privacy"][0].rows if name == "the run"]
    assert row.endswith("(20 of 100 rounds, as many as a client takes part in)")


def test_the_plan_of_a_file_without_a_cap_says_what_one_would_save():
    assert advised_cap(fleet(None)) == 20
    assert binomial_tail(20, 100, 0.1) < 1 / 1000 < binomial_tail(19, 100, 0.1)
    (said,) = [line for line in plan(fleet(None), LAYOUT, None).noise if "round.participations" in line]
    assert "With round.participations: 20 each client would take part 20 times at most" in said
    assert "about 0.45 times as large" in said
    assert advised_cap(fleet(30)) is None
    assert advised_cap(capped(None, rounds=3)) is None  # it would save nothing
    assert not any("participations" in line for line in plan(capped(None, clients=6), LAYOUT, None).noise)


@pytest.mark.parametrize("most", [12, 15, 20, 22])
def test_the_chance_to_reach_the_cap_is_that_of_uniform_sampling(most):
    exact = binomial_tail(most, 100, 0.1)
    assert chance_beyond_cap(fleet(most)) == pytest.approx(exact, rel=1e-6)
    (said,) = [line for line in plan(fleet(most), LAYOUT, None).noise if line.startswith("Sampled uniformly")]
    assert f"takes part in 10 of 100 rounds on average. The chance that it would be sampled more than {most}" in said
    assert f"is {exact:.2g}, which" in said


@given(st.data())
def test_rounds_that_cannot_lack_clients_do_not_whoever_is_sampled(data):
    """An adversary that samples whom it likes below the cap, in all rounds that may be begun."""
    clients = data.draw(st.integers(7, 20))
    most, rounds = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 8))
    sampled, abandoned = data.draw(st.integers(3, clients - 1)), data.draw(st.integers(0, 3))
    assume(clients * most >= rounds * sampled)
    settings = capped(most, rounds=rounds, clients=clients, sampled=sampled, round={"abandoned_rounds": abandoned})
    counted = Participations(settings)
    lacking = False
    for _ in range(settings.answers):
        below = sorted(set(range(clients)) - counted.at_cap, key=lambda client: -counted[client])
        lacking |= len(below) < sampled
        for client in below[:sampled]:  # those that are nearest to the cap: as many as can be reach it
            counted.uploaded(client)
    if never_lacks(settings):
        assert not lacking


def test_a_cap_that_ends_the_run_is_warned_of_and_does():
    settings = capped(1, rounds=3, clients=10, sampled=6, round={"update_model_ratio": 0.5, "abandoned_rounds": 0})
    (warning,) = lacking_clients(settings)
    assert warning.startswith("round.participations 1: after 1 of 3 rounds fewer than 5 clients are below it")
    assert warning in plan(settings, LAYOUT, None).warnings
    assert len(list(expected_samples(settings))) == 1


def test_smaller_rounds_are_warned_of_and_happen():
    settings = capped(1, rounds=2, clients=11, round={"abandoned_rounds": 0})
    (warning,) = lacking_clients(settings)
    assert "1 of 2 rounds have fewer than 6 clients, and one has 5" in warning
    _, kept = run(settings, Numbers())
    assert [event.survivors for event in finished(kept)] == [6, 5]


def test_a_cap_that_changes_nothing_is_said():
    (warning,) = lacking_clients(capped(6, rounds=6))
    assert "there are 6 rounds, so that it changes nothing" in warning


def test_the_samples_of_a_run_are_those_that_were_expected():
    settings = capped(2, rounds=8, clients=30)
    engine, _ = run(settings, Numbers())
    expected = Counter(client for sampled in expected_samples(settings) for client in sampled)
    counts = engine.coordinator._answers.participations
    assert {client: counts[client] for client in range(30) if counts[client]} == expected
    assert most_uploads(settings) == max(expected.values()) == 2


@pytest.mark.parametrize(("epsilon", "done"), [(0.01, 4), (0.2, 1)])
def test_how_far_a_budget_reaches_with_a_cap(epsilon, done):
    """The composed ledger counts the sums of one client, not all of them."""
    encrypt = DDP | {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": epsilon}
    keys = {"encrypt": encrypt, "unsupervised": {"cluster_client_num": 3}, "budget": {"epsilon": 4.2}}
    settings = capped(2, rounds=4, clients=12, sampled=5, **keys)
    _, kept = run(settings, Inferring())
    assert len(finished(kept)) == done
    said = [line for line in plan(settings, LAYOUT, 10).warnings if "budget" in line]
    assert [f"pays for {done} of 4 rounds" in line for line in said] == [True] * (done < 4)


def test_the_plan_of_a_client_says_how_often_it_may_still_upload():
    settings = capped(3, rounds=9, clients=30)
    costs = Costs(settings, 650)
    some, all_used = ({"attempts": 4, "uploads": 4, "sums": sums} for sums in (1, 3))
    assert "It uploaded 1 of 3 times (round.participations)." in party_forecast._sent(settings, some, 4)
    assert "It uploaded 3 of 3 times (round.participations): it answers no more." in party_forecast._sent(
        settings, all_used, 4
    )
    said = party_forecast._further(settings, costs, some)
    assert [line.split(":")[0] for line in said] == ["One more upload", "All 2 uploads that it may still make"]
    assert "epsilon of updates 4 at" in said[-1]
    assert party_forecast._further(settings, costs, all_used) == []
