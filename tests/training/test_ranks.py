"""One training over two processes on loopback: it is the training of one process, and no rank steps without the others.

What the ranks do is in `rank.py`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.training.plan import Plan
from tacit.training.ranks import part_of
from tests.subprocesses import HANGS, free_port, launch, until
from tests.training.rank import PLANS, SCENARIOS, trained
from tests.training.trainings import plan

LATER = ["killed", "silent"]  # that end a group
FAST = ["poisson", "hardly anyone", "adaptive norm", "secure", "owners"]
SLOW = [name for name in PLANS if name not in FAST]
TOGETHER = [*FAST, *(name for name in SCENARIOS if name not in (*PLANS, *LATER)), "killed"]


def ranks(folder: Path, names: list[str], **environment: str) -> list[dict]:
    """The results of two ranks."""
    command = [sys.executable, "-m", "tests.training.rank", "2", str(free_port()), str(folder), *names]
    process = launch(command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
    _, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> list[dict]:
    """Of one pair of processes for all tests here, though several workers may run them."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return ranks(tmp_path_factory.mktemp("ranks"), TOGETHER)
    folder = tmp_path_factory.getbasetemp().parent / "two-ranks"
    try:
        folder.mkdir()
    except FileExistsError:
        until((folder / "done").exists)
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]
    return ranks(folder, TOGETHER)


def compare(name: str, found: list[dict]) -> None:
    alone = trained(name)
    first, second = (dict(each[name]) for each in found)
    taken = [each.pop("batches") for each in (first, second, alone)]
    assert first == second  # to the last bit
    assert first["weights"] == pytest.approx(alone["weights"], rel=1e-9, abs=1e-12)
    assert first["clip"] == pytest.approx(alone["clip"], rel=1e-9)
    for same in ("unclipped", "epsilon", "steps"):
        assert first[same] == alone[same]
    assert first["epsilon"] == plan(**PLANS[name][0]).epsilon_after(first["steps"])
    if "truncate" not in PLANS[name][0]:
        assert sum(map(sum, taken[:2])) == sum(taken[2])  # each record on one rank


@pytest.mark.parametrize("name", FAST)
def test_two_ranks_train_as_one_process_does_with_the_same_samples_and_noise(name, both):
    compare(name, both)


def test_a_rank_without_records_steps_with_the_others(both):
    first, second = (each["hardly anyone"] for each in both)
    assert min(len(each["batches"]) for each in (first, second)) < first["steps"] == second["steps"] == 40


def test_keys_of_the_system_give_all_ranks_the_same_steps_and_each_training_others(both):
    first, second = (each["from_the_system"] for each in both)
    assert first == second
    assert first[0] != first[1]


def test_noise_is_in_the_sum_once(both):
    """Of 40,000 numbers, in units of the plan's deviation: noise of none, of a half or of both ranks is far outside.

    A mean of 20,000 squares is off by more than 0.06, six deviations, once in 10^8 runs; products by 0.05 likewise.
    """
    first, second = (each["noise"] for each in both)
    assert first == second
    of_first_half, of_second_half, product, mean = first
    assert abs(of_first_half - 1) < 0.06
    assert abs(of_second_half - 1) < 0.06
    assert abs(product) < 0.05  # the ranks' parts are independent
    assert abs(mean) < 0.04


def test_a_record_on_another_rank_moves_the_sum_by_at_most_the_clipping_norm(both):
    for enormous, ordinary in (each["one_record"] for each in both):
        assert 1.99 < enormous <= 2.0
        assert 0 < ordinary <= 2.0


def test_all_ranks_resume_from_what_one_has_stored(both):
    first, second = (each["resumed"] for each in both)
    assert first == second
    steps, epsilon, of_one_training, _ = first
    assert (steps, of_one_training) == (8, True)
    assert epsilon == plan().epsilon_after(8)


def test_a_scheduler_that_counts_steps_is_the_same_on_all_ranks(both):
    first, second = (each["scheduled_by_step"] for each in both)
    assert first == second
    assert first[1] == pytest.approx(0.1 * 0.9**40)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("another plan", "the 2 ranks differ in the plan: make the same plan on all"),
        ("more records", "the 2 ranks differ in the plan: make the same plan on all; `records` counts the whole"),
        ("another order", "the 2 ranks differ in the records: give the same dataset in the same order on all: sort"),
        ("another model", "the 2 ranks differ in the model: make the same model"),
        ("other weights", "the 2 ranks differ in the weights of the model: call torch.manual_seed"),
        ("another rate", "the 2 ranks differ in the settings of the optimizer: make the same optimizer"),
        ("a budget", "the 2 ranks differ in the settings of attach: give the same reduction"),
        ("other owners", "the 2 ranks differ in the owners of records: give the same dataset"),
        ("not_all_resumed", "the 2 ranks differ in the steps that were taken: restore the same state"),
        ("scheduled_by_batch", "the 2 ranks differ in the settings of the optimizer"),
        ("moved_by_hand", "the 2 ranks differ in the weights of the model after an epoch"),
        ("not_together", "the ranks are not at the same place (rank 0 is at a step, rank 1 is at attach)"),
        ("without_the_word", "2 processes train together, and each would draw samples and noise of its own"),
        ("wrapped", "(DistributedDataParallel): replicas would draw samples and noise of their own"),
    ],
)
def test_ranks_that_differ_are_refused_on_all_of_them(name, sentence, both):
    for each in both:
        assert each[name]["error"] == "ValueError"
        assert sentence in each[name]["message"]


def test_records_that_change_at_random_are_the_same_on_all_ranks(both):
    assert [each["changing"] for each in both] == [[True, True]] * 2


def test_an_error_of_one_rank_is_told_to_the_others(both):
    first, second = (each["fewer data"] for each in both)
    assert first["error"] == "PeerError"
    assert first["message"].startswith("rank 1 raised an error, which its own output shows")
    assert "the data has 39 records, the plan is for 40" in second["message"]


def test_no_rank_steps_if_the_gradients_of_one_are_not_finite(both):
    (kind, told, *first), (own, message, *second) = (each["not_finite"] for each in both)
    assert (kind, own) == ("PeerError", "ValueError")
    assert told.startswith("rank 1 raised an error")
    assert "not finite" in message
    assert first == second == [True, 0, [[0, 1]]]  # the same weights, no step, and a sample that is paid for


def test_a_rank_that_is_killed_ends_the_others_with_a_sentence_and_without_a_step(both):
    kind, message, same_weights, steps = both[0]["killed"]
    assert kind == "PeerAway"
    assert message.startswith("another of the 2 ranks ended or did not answer in time")
    assert same_weights
    assert steps == 2
    assert "killed" not in both[1]


@pytest.mark.slow
def test_each_other_plan_is_trained_by_two_ranks_as_by_one_process(tmp_path):
    found = ranks(tmp_path, SLOW)
    for name in SLOW:
        compare(name, found)


@pytest.mark.slow
def test_a_rank_that_does_not_answer_ends_the_others(tmp_path):
    command = [sys.executable, "-m", "tests.training.rank", "2", str(free_port()), str(tmp_path), "silent"]
    process = launch(command, env={**os.environ, "RANK_TIMEOUT": "20"})
    until((tmp_path / "done").exists, process)
    kind, message, steps = json.loads((tmp_path / "0.json").read_text())["silent"]
    assert (kind, steps) == ("PeerAway", 0)
    assert "did not answer in time" in message


@given(size=st.integers(1, 10_000), world=st.integers(1, 20))
def test_each_number_gets_noise_from_one_rank(size, world):
    class Of:
        def __init__(self, rank: int) -> None:
            self.rank, self.world = rank, world

    parts = [part_of(Of(rank), size) for rank in range(world)]
    assert [number for part in parts for number in range(size)[part]] == list(range(size))


def test_distributed_without_a_group_is_refused():
    with pytest.raises(ValueError, match=r"init_process_group\('gloo'\) before attach, and start them with torchrun"):
        plan().attach(None, None, None, distributed=True)


def test_a_group_of_another_backend_is_refused(monkeypatch):
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        monkeypatch.setattr(torch.distributed, "get_backend", lambda: "nccl")
        with pytest.raises(
            ValueError, match=r"the process group is of nccl, and ranks train on CPUs: call init_process"
        ):
            plan().attach(None, None, None, distributed=True)
    finally:
        torch.distributed.destroy_process_group()


def test_a_group_of_one_is_one_process():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        alone, group = trained("poisson"), trained("poisson", rank=0)
    finally:
        torch.distributed.destroy_process_group()
    assert alone == group


def test_the_public_plan_takes_the_word():
    assert "distributed" in Plan.attach.__kwdefaults__
