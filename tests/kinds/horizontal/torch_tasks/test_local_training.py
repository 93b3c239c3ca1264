from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tacit.kinds.horizontal.torch_tasks.local_training import batches, enough_threads, mean_loss, seeded
from tests.kinds.horizontal.torch_tasks.nets import cross_entropy, plain_net, records, same, task_of, work


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [(5, 2, [(0, 2), (2, 5)]), (4, 2, [(0, 2), (2, 4)]), (1, 2, [(0, 1)]), (3, 1, [(0, 1), (1, 2), (2, 3)])],
)
def test_a_single_record_at_the_end_joins_the_batch_before(count, size, expected):
    assert batches(count, size) == expected


def test_a_loss_for_each_record_and_their_mean_train_the_same():
    def each(module, batch):
        return nn.functional.cross_entropy(module(batch[0]), batch[1], reduction="none")

    one, other = (task_of(model=plain_net, loss=loss) for loss in (cross_entropy, each))
    fitted = [task.fit(0, task.model(), work()) for task in (one, other)]
    for name, array in fitted[0].model.items():
        np.testing.assert_allclose(array, fitted[1].model[name], rtol=1e-5, atol=1e-7)
    assert fitted[0].loss == pytest.approx(fitted[1].loss, rel=1e-5)


def test_a_loss_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3, 2\) for 3 records"):
        mean_loss(torch.zeros(3, 2, requires_grad=True), 3)
    with pytest.raises(ValueError, match="must return a tensor, got float"):
        mean_loss(0.5, 3)
    with pytest.raises(ValueError, match="depends on no trained parameter"):
        mean_loss(torch.zeros(3), 3)


def test_the_generator_of_torch_is_as_it_was_and_its_state_has_no_influence():
    task = task_of(model=lambda: nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.Linear(32, 4)))
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        found.append(task.fit(0, task.model(), work()).model)
        assert torch.equal(torch.get_rng_state(), before)
    assert same(found[0], found[1])
    assert not same(found[0], task.fit(0, task.model(), work(seed=1)).model)


def test_the_seed_is_the_whole_tuple():
    drawn = []
    for seed in ((1, 2), (2, 1), (1, 3)):
        with seeded(seed, torch.device("cpu")):
            drawn.append(torch.rand(1).item())
    assert len(set(drawn)) == 3


def test_a_training_leaves_nothing_with_devices_that_are_not_in_use():
    """torch.manual_seed would: a text of the whole stack for each kind of device, in each training."""
    task = task_of(model=plain_net)
    task.fit(0, task.model(), work())
    before = len(torch.cuda._queued_calls)
    for _ in range(3):
        task.fit(0, task.model(), work())
    assert len(torch.cuda._queued_calls) == before
    state = np.random.SeedSequence([4, 5]).generate_state(1, np.uint64)[0]
    with seeded((4, 5), torch.device("cpu")):
        drawn = torch.rand(4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(state >> np.uint64(1)))  # what earlier releases drew from
        assert torch.equal(drawn, torch.rand(4))


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_fedprox_is_the_gradient_of_the_squared_distance(optimizer):
    """Against a loop that adds the distance to the loss and lets torch differentiate it."""
    mu, x, y = 0.7, *records(0)
    task = task_of(model=plain_net, optimizer=optimizer)
    start = task.model()
    fitted = task.fit(0, start, work(proximal_mu=mu, batch=100, epochs=4))

    module = plain_net()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.from_numpy(start[name]))
    origin = [parameter.detach().clone() for parameter in module.parameters()]
    made = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    if optimizer == "adam":
        made = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(4):
        made.zero_grad()
        distance = sum(((p - o) ** 2).sum() for p, o in zip(module.parameters(), origin, strict=True))
        (nn.functional.cross_entropy(module(x), y) + mu / 2 * distance).backward()
        made.step()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(fitted.model[name], parameter.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_scheduler_steps_with_every_batch():
    rates = []

    def scheduler(optimizer, steps):
        assert steps == 2 * 3

        def rate(step):
            rates.append(step)
            return 1 - step / steps

        return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)

    task_of(scheduler=scheduler).fit(0, task_of().model(), work())
    assert rates == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("width", "threads"), [(10, 1), (1100, 2)])
def test_a_small_model_trains_on_one_thread_and_leaves_their_number_as_it_was(width, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with enough_threads(nn.Linear(width, width)):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
