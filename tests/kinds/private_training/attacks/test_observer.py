"""What an observer of a private training sees, and what he finds: nothing in an honest one, each fault in others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.audit.attacks.canaries import NOTHING
from tacit.audit.tradeoff import Curve, gaussian_curve, test_curve
from tacit.dp import mechanisms
from tacit.dp.schedules import ClipAdaptation
from tacit.kinds.private_training.attacks import truncated
from tacit.kinds.private_training.attacks.few_records import guess_with_few
from tacit.kinds.private_training.attacks.likelihood import Likelihood, sampled
from tacit.kinds.private_training.attacks.observer import Cast, Seen, observe
from tacit.kinds.private_training.attacks.single_steps import (
    _with_company,
    guess_steps,
    learn,
    spread,
    step_curve,
    step_plan,
)
from tacit.kinds.private_training.attacks.truncated import filled, truncated_like
from tacit.kinds.private_training.attacks.whole_training import Work, guess_trainings, training_plan
from tacit.training import optimizer, passes, sums, truncation
from tacit.training import plan as planned
from tacit.training.engine import Engine
from tacit.training.noise import Gaussian
from tacit.training.optimizer import PrivateOptimizer
from tacit.training.passes import Pass
from tacit.training.recorded import squared_norms_of
from tacit.training.sampler import Loader, Sampler
from tacit.training.several_optimizers import step_with
from tests.kinds.private_training.attacks.small_trainings import PLAN, training

SURE = 1 - 1e-8  # of honest trainings: a test must not fail by chance
ADAPT = ClipAdaptation("Geometric", 0.5, 0.2)
SILENT = replace(PLAN, noise_multiplier=1e-4)


# --- what is seen


@pytest.mark.parametrize("model", ["words", "reading", "tokens", "volumes"])
def test_the_sum_of_a_step_shows_who_was_there(model):
    rng = np.random.default_rng(0)
    subject = training(model)
    spots, _ = spread(subject.sizes(), 40, rng)
    coins = rng.random((6, 41)) < 0.5
    cast = Cast(np.append(spots, NOTHING), np.full(41, 10.0), coins, spots, fresh=True)
    seen = observe(subject, step_plan(replace(SILENT, clip=0.3), 41, 6), cast)
    assert seen.released == pytest.approx(coins[:, :-1].astype(float), abs=0.01)
    assert seen.drawn.all()
    assert not seen.silent.any()


@pytest.mark.parametrize("physical", [None, 7])
def test_samples_and_clipping_norms_are_seen(physical):
    subject = training()
    spots, _ = spread(subject.sizes(), 50, np.random.default_rng(0))
    present = np.broadcast_to(np.arange(50) % 2 == 0, (20, 50))
    plan = replace(SILENT, records=50, batch=10, epochs=4, adapt=ADAPT, count_noise=1e-3, physical=physical)
    seen = observe(subject, plan, Cast(spots, np.full(50, 10.0), present, spots, fresh=False))
    assert seen.released == pytest.approx((seen.drawn & present).astype(float), abs=0.01)
    assert (seen.clips[1:, 0] == seen.clips[:-1, 1]).all()
    came = (seen.drawn & present).sum(axis=1)  # all above the norm: the centred count is minus half of them
    moved = np.log(seen.clips[:, 1] / seen.clips[:, 0])
    assert moved == pytest.approx(0.2 * came / 2 / 10, abs=0.01)


@pytest.mark.parametrize("physical", [None, 9])
@pytest.mark.parametrize("tier", ["fast", "secure"])
def test_batches_that_are_filled_up_show_who_was_there_and_nothing_else(physical, tier, monkeypatch):
    """The audit plays the truncation that the file names: the records that fill a batch are copies of a canary."""
    sizes = []
    begin = PrivateOptimizer.begin
    monkeypatch.setattr(PrivateOptimizer, "begin", lambda self, piece: [sizes.append(piece), begin(self, piece)])
    rng = np.random.default_rng(0)
    subject = training()
    spots, _ = spread(subject.sizes(), 40, rng)
    coins = rng.random((6, 40)) < 0.5
    plan = step_plan(replace(SILENT, truncate=126, physical=physical, tier=tier), 40, 6)
    assert (plan.truncate, plan.physical) == ((41, None) if physical is None else (45, 9))
    seen = observe(subject, plan, Cast(spots, np.full(40, 10.0), coins, spots, fresh=True))
    assert seen.released == pytest.approx(coins.astype(float), abs=0.01)
    assert {len(piece.indices) for piece in sizes} == {physical or 41}
    assert any(piece.padding for piece in sizes)


def test_an_empty_sample_is_a_step_too():
    cast = Cast(np.array([3]), np.ones(1), np.zeros((4, 1), dtype=np.bool_), np.array([3]), fresh=True)
    assert not observe(training(), step_plan(PLAN, 1, 4), cast).silent.any()


def test_canaries_are_spread_over_all_tensors():
    spots, owners = spread({"a": 1, "b": 100, "c": 3}, 20, np.random.default_rng(0))
    assert np.bincount(owners).tolist() == [1, 16, 3]
    assert len(set(spots.tolist())) == 20
    assert (np.searchsorted([1, 101], spots, side="right") == owners).all()


def test_coordinates_that_may_share_noise_are_watched():
    company = _with_company(np.array([1, 13]), np.array([0, 1]), [10, 6, 4])
    assert company[:2].tolist() == [1, 13]
    assert set(company.tolist()) == {
        1,
        13,
        0,
        2,
        11,
        12,
        14,
        3,
        19,
    }  # 11: the second of the next tensor; 19: its fourth


def test_trainings_meet_the_same_plan():
    plan = replace(PLAN, decay="Exp", rate=0.01, adapt=ADAPT)
    small = training_plan(plan, 200, 50)
    assert (small.probability, small.initial_noise, small.steps) == (plan.probability, plan.initial_noise, 50)
    assert small.count_noise * small.batch == pytest.approx(plan.count_noise * plan.batch)
    last = step_plan(plan, 31, 9)
    assert (last.probability, last.steps) == (1.0, 9)
    assert last.noise_of(0) == pytest.approx(plan.noise_of(plan.steps - 1))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_is_believed_until_it_is_less(kind):
    rng = np.random.default_rng(1)
    noise = 2.0 * (rng.standard_normal((400, 50)) if kind == "gaussian" else rng.laplace(size=(400, 50)))
    noise[:, :10] /= 2
    noise[:, 10] = 0
    shares = Likelihood(kind).share(noise, 2.0, axis=0)
    assert shares[:10] == pytest.approx(0.25, rel=0.5)
    assert shares[10] < 1e-6
    assert (shares[11:] == 1).all()


def test_a_canary_that_is_sampled_at_times_is_less_evidence():
    ratios = np.array([-800.0, 0.0, 3.0, 800.0])
    assert sampled(ratios, 1.0) == pytest.approx(ratios)
    assert sampled(ratios, 0.0) == pytest.approx(0.0)
    assert sampled(ratios, 0.25)[2] == pytest.approx(np.log(0.75 + 0.25 * np.exp(3.0)))


# --- what is found


def refuted_by_steps(plan, subject, confidence=0.999, canaries=83, steps=100):
    """Whether single steps refute the claim, in any tensor or all of them."""
    rng = np.random.default_rng(5)
    guesses, _, small = guess_steps(subject, plan, canaries, steps, rng)
    tensors = [None, *range(len(subject.sizes()))]
    made = [test_curve(*guesses.of(each, rng), step_curve(small), confidence=confidence) for each in tensors]
    return any(test.refuted for test in made)


def refuted_with_few(plan, subject, opposing, confidence=0.999, steps=300):
    scores = guess_with_few(subject, plan, opposing, steps, np.random.default_rng(5))
    event = scores[2].event(0)
    curve = gaussian_curve(event.noise_multiplier) if plan.noise == "gaussian" else step_curve(scores[2])
    return test_curve(*scores[:2], curve, confidence=confidence).refuted


def refuted_by_trainings(plan, subject, confidence=0.999, trainings=12):
    rng = np.random.default_rng(5)
    _, learned, _ = guess_steps(subject, plan, 64, 120, rng)
    pairs, small = guess_trainings(subject, plan, learned, Work(trainings, 1000, 100), rng)
    curve = Curve.of(small.ledger(small.steps), small.method)
    return any(test_curve(*pair, curve, confidence=confidence).refuted for pair in pairs.values())


HONEST = {
    "plain": ("linear", {}),
    "fallback": ("fallback", {}),
    "embedding": ("words", {}),
    "one number": ("number", {}),
    "scan and shared positions": ("reading", {}),
    "scan, secure": ("reading", {"tier": "secure"}),
    "rows and recognised layers": ("tokens", {}),
    "volumes": ("volumes", {}),
    "bfloat16": ("short", {}),
    "automatic": ("linear", {"clipping": "automatic"}),
    "layer by layer": ("reading", {"clipping": "per_layer"}),
    "layer by layer, secure": ("linear", {"clipping": "per_layer", "tier": "secure"}),
    "adaptive": ("linear", {"adapt": ADAPT}),
    "decay": ("linear", {"decay": "Exp", "rate": 0.01}),
    "laplace": ("linear", {"noise": "laplace", "noise_multiplier": 3.0}),
    "secure": ("linear", {"tier": "secure"}),
    "filled up": ("linear", {"truncate": 120}),
    "filled up in pieces, fallback, secure": ("fallback", {"truncate": 126, "physical": 18, "tier": "secure"}),
    "filled up, adaptive": ("reading", {"truncate": 120, "adapt": ADAPT}),
    "shuffled": ("linear", {"sampling": "shuffled", "noise_multiplier": 3.0}),
}
LONG = {"one number", "scan and shared positions", "rows and recognised layers", "bfloat16", "layer by layer, secure"}
LONG |= {"decay", "filled up, adaptive", "filled up in pieces, fallback, secure"}


@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow] * (each in LONG)) for each in HONEST])
def test_an_honest_training_is_consistent(name):
    model, changed = HONEST[name]
    plan, subject = replace(PLAN, **changed), training(model)
    assert not refuted_by_steps(plan, subject, SURE, canaries=24)
    assert not refuted_with_few(plan, subject, 0, SURE, steps=60)
    assert not refuted_with_few(plan, subject, 2, SURE, steps=60)


@pytest.mark.slow  # 100 s on a busy machine: the curve of each plan is priced
@pytest.mark.parametrize("name", HONEST)
def test_honest_trainings_as_a_whole_are_consistent(name):
    model, changed = HONEST[name]
    trainings = 40 if model == "number" else 12  # one score a training, and a test wants 20 of either sort
    assert not refuted_by_trainings(replace(PLAN, **changed), training(model), SURE, trainings)


def drawn(change):
    """A fault of the fast tier's noise: `change(source, noise, deviation)` after it was drawn."""

    def put_in(patch):
        honest = Gaussian.normal

        def normal(self, flat, deviation):
            honest(self, flat, deviation)
            change(self, flat, deviation)

        patch.setattr(Gaussian, "normal", normal)

    return put_in


def off_after_50(self, flat, deviation):
    self.drawn = getattr(self, "drawn", 0) + 1
    if self.drawn > 50:
        flat.zero_()


def the_same_again(self, flat, deviation):
    self.kept = getattr(self, "kept", flat / deviation)
    flat.copy_(self.kept * deviation)


def from_a_pool(self, flat, deviation):
    """The noise of one of the first twenty steps, drawn anew: no lag is the right one."""
    self.pool = getattr(self, "pool", [])
    if len(self.pool) < 20:
        self.pool.append(flat / deviation)
    flat.copy_(self.pool[int(np.random.default_rng().integers(len(self.pool)))] * deviation)


def fixed_key(patch):
    honest = Gaussian._set_key
    patch.setattr(Gaussian, "_set_key", lambda self, key: honest(self, bytes(16)))


def clipped_at(times):
    def put_in(patch):
        honest = Engine.factors
        patch.setattr(Engine, "factors", lambda self, norms, clip, *given: honest(self, norms, times * clip, *given))

    return put_in


def one_left_out_of_the_norm(patch):
    honest = squared_norms_of
    patch.setattr(passes, "squared_norms_of", lambda parts: honest(parts[1:]))


def secure_halved(patch):
    honest = mechanisms.gaussian

    def gaussian(values, *, noise_multiplier, **given):
        return honest(values, noise_multiplier=noise_multiplier / 2, **given)

    patch.setattr(mechanisms, "gaussian", gaussian)


OF_STEPS = {
    "noise halved": drawn(lambda self, flat, deviation: flat.div_(2)),
    "clip at 2C": clipped_at(2),
    "no clipping": clipped_at(1e6),
    "half of the coordinates bare": drawn(lambda self, flat, deviation: flat[: len(flat) // 2].zero_()),
    "last layer bare": drawn(lambda self, flat, deviation: flat[-27:].zero_()),
    "last coordinate bare": drawn(lambda self, flat, deviation: flat[-1:].zero_()),
    "noise off after step 50": drawn(off_after_50),
    "same noise every step": drawn(the_same_again),
    "noise of an earlier step": drawn(from_a_pool),
    "fixed key": fixed_key,
    "neighbours equal": drawn(lambda self, flat, deviation: flat[1::2].copy_(flat[: len(flat) // 2 * 2 : 2])),
    "halves equal": drawn(lambda self, flat, deviation: flat[42:].copy_(flat[:41])),
    "one parameter left out of the norm": one_left_out_of_the_norm,
    "secure tier halved": secure_halved,
}


@pytest.mark.parametrize("fault", OF_STEPS)
def test_a_fault_shows_in_single_steps(fault, monkeypatch):
    OF_STEPS[fault](monkeypatch)
    plan = replace(PLAN, tier="secure" if fault.startswith("secure") else "fast")
    steps = 400 if fault == "last coordinate bare" else 100  # guesses are in one coordinate of 83
    assert refuted_by_steps(plan, training(), steps=steps)


def shared(rng, noise):
    """A third of the variance is common to all numbers of a step, with one sign or the other."""
    common = rng.choice([-1.0, 1.0], noise.shape[1]) * rng.standard_normal((len(noise), 1))
    return np.sqrt(2 / 3) * noise + np.sqrt(1 / 3) * common


def repeated(rng, noise):
    """Each step has the noise of one of 200."""
    return noise[rng.integers(0, 200, len(noise))]


def guesses_of(rng, steps, canaries, fault):
    """Of steps whose noise is `fault` of what it should be."""

    def seen(values):
        nothing = np.zeros((len(values), 2))
        return Seen(values, nothing, nothing > 0, np.ones(len(values), dtype=np.int64), len(values))

    coins = rng.random((steps, canaries)) < 0.5
    values = fault(rng, rng.standard_normal((steps, canaries))) + coins
    again = seen(rng.standard_normal((64, canaries)))
    owners = np.arange(canaries) % 4
    return learn(seen(values), again, coins, owners, Likelihood("gaussian"), 1.0)[0]


@pytest.mark.parametrize("canaries", [1, 2, 5])
def test_an_observer_of_few_numbers_does_not_learn_the_coin_that_he_guesses(canaries):
    guesses = guesses_of(np.random.default_rng(7), 1000, canaries, lambda rng, noise: noise)
    assert (guesses.shares == 1).all()
    assert np.corrcoef(guesses.scores.ravel(), guesses.coins.ravel())[0, 1] < 0.6  # a shift of one deviation: 0.45


@pytest.mark.parametrize("fault", [None, shared, repeated])
def test_noise_that_other_numbers_or_steps_tell_is_predicted(fault):
    rng = np.random.default_rng(6)
    guesses = guesses_of(rng, 1500, 83, fault or (lambda rng, noise: noise))
    assert (guesses.shares < 1).any() == (fault is not None)
    one, other = guesses.of(None, rng)
    made = test_curve(one, other, gaussian_curve(1.0), confidence=0.999 if fault else SURE)
    assert made.refuted == (fault is not None)


def divided_by_the_sample(patch):
    def add(self, norms, clip):
        factors = self._engine.factors(norms, clip, len(norms))
        self._draw()
        self._engine.add_clipped(factors)

    patch.setattr(sums.Fast, "add", add)


def empty_samples_skipped(patch):
    honest = Loader._hand_out

    def hand_out(self, piece):
        if len(piece.indices):
            yield from honest(self, piece)

    patch.setattr(Loader, "_hand_out", hand_out)


def empty_samples_without_noise(patch):
    def finish(self, clip, multiplier):
        if self._deviation is not None:
            self._engine.sum.zero_()

    patch.setattr(sums.Fast, "finish", finish)


def count_without_noise(patch):
    class Bare:
        def __init__(self, value):
            self.value = value

    patch.setattr(mechanisms, "gaussian", lambda values, **given: Bare(values))


def longest(of_each):
    """Gradients are clipped by the largest of several norms, not by that of all together."""

    def total(self, order):
        return torch.stack([of_each(part) for part in self.join() if part is not None]).amax(0)

    return lambda patch: patch.setattr(Pass, "total", total)


def rows_of(part):
    return part.instantiate(0, part.records, torch.float64)


@pytest.mark.parametrize(
    ("fault", "opposing", "changed"),
    [
        (longest(lambda part: rows_of(part).norm(dim=1)), 0, {"noise_multiplier": 0.5}),  # of each tensor
        (longest(lambda part: rows_of(part).abs().amax(1)), 0, {"noise_multiplier": 0.5}),  # of each number
        (divided_by_the_sample, 3, {"noise_multiplier": 0.5}),
        (empty_samples_skipped, 0, {}),
        (empty_samples_without_noise, 0, {}),
        (count_without_noise, 0, {"adapt": ADAPT}),
    ],
)
def test_a_fault_shows_with_few_records(fault, opposing, changed, monkeypatch):
    fault(monkeypatch)
    few = fault in (empty_samples_skipped, empty_samples_without_noise, count_without_noise)
    assert refuted_with_few(
        replace(PLAN, **changed), training(), opposing, steps=800 if opposing else 300 if few else 2000
    )


def filling_counts(patch):
    honest = PrivateOptimizer._take
    patch.setattr(PrivateOptimizer, "_take", lambda self, piece: honest(self, replace(piece, padding=0)))


def test_records_that_fill_a_batch_and_count_show(monkeypatch):
    filling_counts(monkeypatch)
    assert not refuted_with_few(PLAN, training(), 0, steps=100)
    filled = replace(PLAN, truncate=120)
    assert refuted_with_few(filled, training(), 0, steps=300)


def cutting_is_free(patch):
    for module in (truncation, planned, truncated):
        patch.setattr(module, "log2_exceeding", lambda trials, probability, most: -300.0)


@pytest.mark.parametrize("physical", [None, pytest.param(6, marks=pytest.mark.slow)])
def test_samples_that_are_cut_without_the_price_show(monkeypatch, physical):
    """The canary takes the place of a record that opposes it: the sum moves by twice the clipping norm."""
    plan = replace(PLAN, truncate=120, physical=physical)
    assert not refuted_with_few(plan, training(), filled(plan), SURE, steps=300)
    cutting_is_free(monkeypatch)
    cut = replace(PLAN, truncate=60, physical=physical)  # half of the samples are larger
    assert step_plan(cut, 1 + filled(cut), 300).truncate == filled(cut)
    assert refuted_with_few(cut, training(), filled(cut), steps=3000)


def test_a_record_that_is_not_in_the_data_takes_no_place_in_a_batch(monkeypatch):
    """All five are drawn, and two of them are in the data: a batch of two holds both."""
    cutting_is_free(monkeypatch)
    subject = training()
    spots, _ = spread(subject.sizes(), 5, np.random.default_rng(0))
    present = np.tile([True, False, True, False, False], (30, 1))
    plan = replace(step_plan(SILENT, 5, 30), truncate=2)
    seen = observe(subject, plan, Cast(spots, np.full(5, 10.0), present, spots, fresh=True))
    assert seen.released == pytest.approx(present.astype(float), abs=0.01)


def test_a_smaller_plan_cuts_samples_at_most_as_often():
    plan = replace(PLAN, noise_multiplier=None, epsilon=1.0, truncate=105)  # 105 is too small without an epsilon
    small = training_plan(plan, 80, 60)
    assert small.truncate is not None
    assert small.event(0).log2_slack <= plan.event(0).log2_slack
    smaller = replace(small, truncate=None)
    assert small.epsilon_after(5) == pytest.approx(smaller.epsilon_after(5), rel=1e-3)
    with pytest.raises(ValueError, match="too often"):
        replace(small, truncate=small.truncate - 1)
    assert truncated_like(PLAN, small).truncate is None


def sampled_more_often(patch):
    def sample(self, step):
        return np.flatnonzero(self._rng.random(self._plan.records) < 1.5 * self._plan.probability)

    patch.setattr(Sampler, "sample", sample)


def fixed_batches(patch):
    def sample(self, step):
        if len(self._order) == 0:
            self._order = self._rng.permutation(self._plan.records)
        return np.array_split(self._order, self._plan.steps_an_epoch)[step % self._plan.steps_an_epoch]

    patch.setattr(Sampler, "sample", sample)


def new_permutations(patch):
    def sample(self, step):
        if step % self._plan.steps_an_epoch == 0:
            self._order = self._rng.permutation(self._plan.records)
        return np.array_split(self._order, self._plan.steps_an_epoch)[step % self._plan.steps_an_epoch]

    patch.setattr(Sampler, "sample", sample)


def first_records_sampled_more_often(patch):
    def sample(self, step):
        rates = 2 * self._plan.probability * (np.arange(self._plan.records) < self._plan.records / 2)
        return np.flatnonzero(self._rng.random(self._plan.records) < rates)

    patch.setattr(Sampler, "sample", sample)


WHOLE = [
    sampled_more_often,
    first_records_sampled_more_often,
    fixed_batches,
    new_permutations,
    OF_STEPS["noise halved"],
]


@pytest.mark.slow  # 7 s
def test_records_that_are_drawn_too_often_are_judged_by_themselves(monkeypatch):
    plan, subject, rng = replace(PLAN, epochs=4), training(), np.random.default_rng(5)
    _, learned, _ = guess_steps(subject, plan, 24, 60, rng)
    work = Work(12, 80, 20)
    assert list(guess_trainings(subject, plan, learned, work, rng)[0]) == ["all records"]
    first_records_sampled_more_often(monkeypatch)
    pairs, _ = guess_trainings(subject, plan, learned, work, rng)
    assert sum(map(len, pairs["all records"])) == 12 * 80
    assert 0.1 < sum(map(len, pairs["records drawn often"])) / (12 * 80) < 0.6


def test_a_second_gradient_for_a_sample_is_seen(monkeypatch):
    honest = step_with
    rng = np.random.default_rng(5)
    assert guess_steps(training(), PLAN, 8, 20, rng)[0].moves == 1
    monkeypatch.setattr(optimizer, "step_with", lambda *given: [honest(*given), honest(*given)])
    assert guess_steps(training(), PLAN, 8, 20, rng)[0].moves == 2


@pytest.mark.slow  # 4 minutes on a busy machine
@pytest.mark.parametrize("fault", WHOLE)
def test_a_fault_shows_in_whole_trainings(fault, monkeypatch):
    fault(monkeypatch)
    assert refuted_by_trainings(PLAN, training(), trainings=100)


@pytest.mark.slow  # half a minute
def test_a_tail_that_is_cut_shows_in_many_steps(monkeypatch):
    drawn(lambda self, flat, deviation: flat.clamp_(-3 * deviation, 3 * deviation))(monkeypatch)
    assert refuted_by_steps(PLAN, training(), steps=5000)


def test_the_noise_is_that_of_the_operating_system(monkeypatch):
    """No seed reaches the training: two observers of the same steps see different noise."""
    cast = Cast(np.array([NOTHING]), np.ones(1), np.ones((3, 1), dtype=np.bool_), np.arange(83), fresh=True)
    first, second = (observe(training(), step_plan(PLAN, 1, 3), cast).released for _ in range(2))
    assert (first != second).all()
    assert len(np.unique(first)) == first.size


def test_torch_draws_nothing_for_an_observer():
    before = torch.get_rng_state()
    cast = Cast(np.array([NOTHING]), np.ones(1), np.ones((1, 1), dtype=np.bool_), np.arange(3), fresh=True)
    observe(training(), step_plan(PLAN, 1, 1), cast)
    assert torch.equal(before, torch.get_rng_state())


def test_a_model_that_leaves_the_floats_begins_anew(monkeypatch):
    honest = PrivateOptimizer._finish

    def finish(self):
        honest(self)
        with torch.no_grad():
            self.engine.parameters[0].fill_(float("inf"))

    monkeypatch.setattr(PrivateOptimizer, "_finish", finish)
    cast = Cast(np.array([3, 3]), np.ones(2), np.ones((4, 2), dtype=np.bool_), np.array([3]), fresh=False)
    assert np.isfinite(observe(training(), replace(PLAN, records=2, batch=2, epochs=4), cast).released).all()
