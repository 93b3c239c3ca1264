"""A plan says beforehand what the run then costs, sends and shows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.config.load import write_starter
from tacit.kind import find
from tacit.kinds.horizontal import boundary
from tacit.kinds.horizontal.forecast import largest_part, most_uploads, plan
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.runs.load import load
from tacit.runs.plan import planned
from tests.kinds.horizontal.federations import Inferring, finished, run, settings_for

DIGITS = Layout.of(tasks.make("digits", 12, 0, {}).model())
EVALUATED = {"unsupervised": {"cluster_client_num": 5}}


@pytest.mark.parametrize("mode", ["active", "semi_honest"])
@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"])
@pytest.mark.parametrize("evaluated", [False, True])
def test_it_foresees_what_the_run_costs_and_sends(encrypt_type, mode, evaluated):
    encrypt = {"encrypt_type": encrypt_type, "pw_encrypt": {"mode": mode}}
    keys = EVALUATED if evaluated else {}
    if evaluated:
        encrypt |= {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": 0.5}
    settings = settings_for(encrypt=encrypt, **keys)
    made = plan(settings, DIGITS, 10 if evaluated else None)
    engine, kept = run(settings, Inferring())
    spent = engine.coordinator.spent()
    assert [(price.view, price.covers, price.epsilon_run) for price in made.prices] == [
        (each.view, each.covers, each.epsilon) for each in spent
    ]
    last = finished(kept)[-1]
    assert sum(made.traffic.up.values()) == pytest.approx(last.bytes_up, abs=8)
    assert sum(made.traffic.down.values()) == pytest.approx(last.bytes_down, abs=8)
    exchanges = {"NOT_ENCRYPT": 1, "DP_ENCRYPT": 1}.get(encrypt_type, 5 if mode == "active" else 4)
    assert made.traffic.exchanges == exchanges


@pytest.mark.parametrize("encrypt_type", ["PW_ENCRYPT", "DDP_ENCRYPT"])
@pytest.mark.parametrize("bits", ["exact", 10])
def test_bytes_at_few_bits(encrypt_type, bits):
    masks = {"bits": bits, "mode": "semi_honest"}
    if encrypt_type == "PW_ENCRYPT" and bits != "exact":
        masks |= {"clip": 1.0, "largest_weight": 200}
    encrypt = {"encrypt_type": encrypt_type, "pw_encrypt": masks}
    settings = settings_for(rounds=1, encrypt=encrypt, round={"down": 8})
    made = plan(settings, DIGITS, None)
    _, kept = run(settings)
    (event,) = finished(kept)
    assert sum(made.traffic.up.values()) == pytest.approx(event.bytes_up, abs=8)
    assert sum(made.traffic.down.values()) == pytest.approx(event.bytes_down, abs=8)
    usual = plan(settings_for(rounds=1, encrypt={"encrypt_type": encrypt_type, "mode": "semi_honest"}), DIGITS, None)
    assert made.traffic.up["Masked"] < usual.traffic.up["Masked"]
    assert made.traffic.down["Work"] == pytest.approx(DIGITS.size + 2 * 8 + 32, abs=2)


def test_a_hundred_clients_send_two_bytes_a_parameter():
    layout = Layout(("w",), ((100_000,),), "float32")
    masks = {"bits": 8, "clip": 0.1, "largest_weight": 600}
    settings = settings_for(clients=100, encrypt={"encrypt_type": "PW_ENCRYPT", "pw_encrypt": masks})
    assert plan(settings, layout, None).traffic.up["Masked"] / layout.size < 2.1


def test_a_plan_says_what_few_bits_do():
    masks = {"bits": 8, "clip": 0.127, "largest_weight": 200}
    settings = settings_for(encrypt={"encrypt_type": "PW_ENCRYPT", "pw_encrypt": masks}, round={"down": 8})
    made = plan(settings, DIGITS, None)
    assert "clipped to 0.127 and rounded at random, up or down by less than 0.001 and right on" in made.noise[0]
    assert "That holds for clients of largest_weight 200 samples" in made.noise[1]
    assert any("each number clipped to 0.127 and rounded to 8 bits" in sentence for sentence in made.sees)
    assert any("the model of each round, rounded to 8 bits a number" in sentence for sentence in made.sees)
    noisy = settings_for(encrypt={"encrypt_type": "DDP_ENCRYPT", "pw_encrypt": {"bits": 8}})
    assert any("With 8 bits a number of typical size has" in each for each in plan(noisy, DIGITS, None).noise)


@pytest.mark.parametrize(("most", "warned"), [(20, False), (1000, True)])
def test_a_plan_warns_of_few_levels(most, warned):
    masks = {"bits": 8, "clip": 0.1, "largest_weight": most}
    settings = settings_for(encrypt={"encrypt_type": "PW_ENCRYPT", "pw_encrypt": masks})
    warnings = plan(settings, DIGITS, None, samples=[10, 14, 20] * 4).warnings
    found = [each for each in warnings if each.startswith("bits 8 with largest_weight 1000: a client of 14 samples")]
    assert bool(found) == warned
    assert not warned or "rounds to 1.8 levels up to the clip: lower largest_weight, to 20 here" in found[0]


def test_bytes_on_a_sparse_graph():
    settings = settings_for(clients=120, rounds=1, encrypt={"encrypt_type": "PW_ENCRYPT"})
    _, kept = run(settings)
    made = plan(settings, DIGITS, None)
    assert sum(made.traffic.up.values()) == pytest.approx(finished(kept)[0].bytes_up, abs=16)
    assert sum(made.traffic.down.values()) == pytest.approx(finished(kept)[0].bytes_down, abs=16)


def test_a_sampled_client_pays_for_the_rounds_in_which_it_is_asked():
    settings = settings_for(
        clients=30, rounds=8, round={"start_fl_job_threshold": 5}, encrypt={"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0}
    )
    engine, _ = run(settings)
    assert most_uploads(settings) == max(engine.coordinator.uploads.values()) < 8
    (price,) = plan(settings, DIGITS, None).prices
    assert price.times == most_uploads(settings)
    assert price.epsilon_run == engine.coordinator.spent()[0].epsilon


def test_the_reading_is_that_of_the_gaussian_trade_off():
    settings = settings_for(encrypt={"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}, rounds=1)
    (price,) = plan(settings, DIGITS, None).prices
    from tacit.dp.gaussian import gaussian_sigma

    mu = 1 / gaussian_sigma(1.0, 1e-3)
    assert price.reading.accuracy == pytest.approx(stats.norm.cdf(mu / 2), abs=1e-3)
    assert price.reading.true_positives_at_1_percent == pytest.approx(
        stats.norm.cdf(stats.norm.ppf(0.01) + mu), abs=1e-3
    )


@pytest.mark.parametrize(
    ("epsilon", "below", "words"),
    [
        (230260, "68% of it is below 1e-5", "the score follows the one without protection"),
        (30.0, "0% of it is below 1e-5, 78% below 0.1", "pulled towards that of noise"),
        (1.0, "0% of it is below 1e-5, 5% below 0.1", "one of noise"),
    ],
)
def test_laplace_noise_against_probabilities(epsilon, below, words):
    encrypt = {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": epsilon}
    made = plan(settings_for(encrypt=encrypt, **EVALUATED), DIGITS, 10)
    text = " ".join(made.noise)
    assert below in text
    assert words in text
    assert made.laplace_scale == 2 / epsilon
    (price,) = made.prices
    assert price.epsilon_run == pytest.approx(8 * 3 * epsilon)
    assert any("hides nothing" in warning for warning in made.warnings)  # 24 vectors, even at epsilon 1 each
    assert any("for each vector hides nothing" in warning for warning in made.warnings) == (epsilon > 10)


def test_noise_on_the_mean_is_what_the_run_has():
    for encrypt in (
        {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3},
        {"encrypt_type": "DDP_ENCRYPT", "ddp_eps": 1.0},
    ):
        settings = settings_for(clients=40, rounds=1, encrypt=encrypt, train={"learning_rate": 1e-9})
        engine, _ = run(settings)
        (sentence,) = plan(settings, DIGITS, None).noise
        norm = math.sqrt(sum(float(np.sum(array**2)) for array in engine.coordinator.model.values()))
        stated = float(sentence.split("on the mean of 40 one of about ")[1].split()[0])
        assert norm == pytest.approx(stated, rel=0.15)


@pytest.mark.parametrize("epsilon", [0.01, 3.0, 1e6])
def test_how_far_a_budget_reaches(epsilon):
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}
    settings = settings_for(rounds=20, encrypt=encrypt, budget={"epsilon": epsilon, "delta": 1e-3})
    _, kept = run(settings)
    done = len(finished(kept))
    text = " ".join(plan(settings, DIGITS, None).warnings)
    expected = {0: "does not pay for a single round", 20: ""}.get(done, f"pays for {done} of 20 rounds")
    assert expected in text
    assert ("pay" in text) == (done < 20)


def test_insecure_noise_is_no_promise():
    settings = settings_for(encrypt={"encrypt_type": "DP_ENCRYPT"}, simulation={"insecure_noise_seed": 1})
    made = plan(settings, DIGITS, None)
    assert made.prices[0].epsilon_run == math.inf
    assert made.prices[0].reading.accuracy == 1
    assert any("promises nothing" in warning for warning in made.warnings)


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"])
def test_what_is_covered_is_never_more_than_has_an_epsilon(encrypt_type):
    covered = boundary.covered(settings_for(encrypt={"encrypt_type": encrypt_type}))
    assert ("metrics" in covered) == (encrypt_type in ("DP_ENCRYPT", "DDP_ENCRYPT"))
    assert "training_loss" not in covered
    insecure = settings_for(encrypt={"encrypt_type": encrypt_type}, simulation={"insecure_noise_seed": 1})
    assert boundary.covered(insecure) == frozenset()


def test_it_states_what_one_client_can_claim_of_the_mean():
    hundred = settings_for(clients=100, encrypt={"encrypt_type": "PW_ENCRYPT"})
    made = plan(hundred, DIGITS, None, [14] * 100)
    assert made.unprotected[-1] == (
        "A client weighs as much as the samples that it says it has, up to largest_weight 100000: among 99 others of "
        "14 samples it can claim 98.6% of the mean."
    )
    assert (
        "largest_weight 100000: one client can claim 98.6% of the mean: lower it to the most samples that a client may "
        "have, 14 here." in made.warnings
    )
    unknown = plan(hundred, DIGITS, None)
    assert "100000 / (100000 + 99 s) of the mean, 91.0% if s is 100." in unknown.unprotected[-1]
    assert any("more than 10% of the mean unless the others have 9091 samples each" in w for w in unknown.warnings)
    assert largest_part(hundred, 9091) <= 0.1 < largest_part(hundred, 9090)


def test_a_fair_largest_weight_is_stated_and_not_warned_of():
    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"largest_weight": 100}}
    made = plan(settings_for(clients=100, encrypt=encrypt), DIGITS, None, [14] * 100)
    assert "it can claim 6.7% of the mean." in made.unprotected[-1]
    assert not any("largest_weight" in str(warning) for warning in made.warnings)


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "PW_ENCRYPT"])
def test_a_largest_weight_that_clients_exceed_is_noted(encrypt_type):
    encrypt = {"encrypt_type": encrypt_type, "pw_encrypt": {"largest_weight": 100}}
    made = plan(settings_for(clients=10, encrypt=encrypt), DIGITS, None, [100] * 4 + [101] * 5 + [144])
    assert (
        "largest_weight 100: 6 of 10 clients have more samples, up to 144, and are refused in every round: raise it to "
        "that." in made.warnings
    )


@pytest.mark.parametrize(("least", "noted"), [(32, False), (33, True)])
def test_a_least_difference_that_samples_hardly_reach_is_noted(least, noted):
    settings = settings_for(
        clients=100,
        round={"start_fl_job_threshold": 80, "least_difference": least},
        encrypt={"encrypt_type": "PW_ENCRYPT", "graph": "complete"},
    )
    said = f"round.least_difference {least}: two samples of 80 among 100 clients usually differ by 32, so that most "
    assert any(warning.startswith(said) for warning in plan(settings, DIGITS, None).warnings) == noted


@pytest.mark.parametrize("encrypt_type", ["DP_ENCRYPT", "DDP_ENCRYPT"])
def test_where_all_weigh_the_same_no_weight_is_stated(encrypt_type):
    made = plan(settings_for(encrypt={"encrypt_type": encrypt_type}), DIGITS, None, [14] * 12)
    assert not any("weigh" in text for text in (*made.unprotected, *made.warnings))


def test_the_plan_of_the_starter_counts_the_samples_of_its_task(tmp_path):
    write_starter(find("horizontal").starter(), tmp_path / "start.yaml")
    made = planned(load(tmp_path / "start.yaml"))
    (weight,) = [text for text in map(str, made.parts["What is not protected"]) if "largest_weight" in text]
    assert "up to largest_weight 100: among 79 others of 14 samples it can claim 8.3% of the mean." in weight
    assert not any("largest_weight" in str(warning) for warning in made.parts["Warnings"])
