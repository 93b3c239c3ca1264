"""A client's private training beside a hand computation, its events, and models that are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from tacit.kinds.horizontal.record_plan import round_plan
from tacit.kinds.horizontal.settings import Training
from tacit.kinds.horizontal.task import FitsPrivately, FitWork
from tacit.kinds.horizontal.tasks.load import check_private_fit
from tests.kinds.horizontal.federations import Numbers, settings_for
from tests.kinds.horizontal.torch_tasks.nets import plain_net, records, same, task_of
from tests.kinds.horizontal.torch_tasks.private_nets import loss_of_owned, many, owned

PRIVACY = {"epsilon": 4.0, "clip": 0.3}


def work(answers=5, kept=None, privacy=PRIVACY, **train):
    given = {"batch": 16, "epochs": 2, "learning_rate": 0.5, "privacy": privacy} | train
    return FitWork(0, Training(**given), (0, 3), kept, answers)


def no_noise(task):
    """Let a task train on all records of a client in each step, without noise."""

    def silence(optimizer, loader):
        optimizer._sum._source.normal = lambda flat, deviation: flat.zero_()

    task.attached = silence
    return task


def by_hand(x, y, groups, steps, rate, clip):
    """Plain autograd: the mean gradient of each group of records, clipped; their mean over all groups."""
    module = plain_net()
    task = task_of(model=plain_net)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in task.model().items()})
    for _ in range(steps):
        total = [torch.zeros_like(each) for each in module.parameters()]
        for group in groups:
            found = torch.autograd.grad(F.cross_entropy(module(x[group]), y[group]), list(module.parameters()))
            norm = float(torch.sqrt(sum(each.square().sum() for each in found)))
            for add, each in zip(total, found, strict=True):
                add += each * min(1.0, clip / norm)
        with torch.no_grad():
            for parameter, each in zip(module.parameters(), total, strict=True):
                parameter -= rate * each / len(groups)
    return {name: tensor.detach().numpy() for name, tensor in module.named_parameters()}


def close(one, other):
    return one.keys() == other.keys() and all(np.allclose(one[name], other[name], atol=1e-5) for name in one)


def test_whole_batches_without_noise_are_clipped_gradient_descent():
    x, y = records(0, 40)
    fitted = no_noise(task_of(model=plain_net, data=lambda client: (x, y))).fit(
        0, task_of(model=plain_net).model(), work(batch=40, epochs=3)
    )
    assert close(fitted.model, by_hand(x, y, [[i] for i in range(40)], 3, 0.5, 0.3))


def test_owners_are_clipped_together():
    data = {name: column[:40] for name, column in owned(0).items()}
    privacy = PRIVACY | {"unit": "owner", "owner": "person", "records_per_owner": 4}
    task = no_noise(task_of(model=plain_net, data=lambda client: data, loss=loss_of_owned))
    fitted = task.fit(0, task.model(), work(batch=1000, epochs=3, privacy=privacy))
    persons = data["person"].tolist()
    groups = [[i for i in range(40) if persons[i] == person] for person in dict.fromkeys(persons)]
    assert len(groups) < 40
    assert close(fitted.model, by_hand(data["x"], data["y"], groups, 3, 0.5, 0.3))
    ((event, count),) = fitted.events
    assert (event.unit, event.sampling_probability, count) == ("owner", 1.0, 3)


@pytest.mark.parametrize(
    ("owner", "data"),
    [
        (2, lambda client: (*many(client), owned(client)["person"])),
        (2, lambda client: TensorDataset(*many(client), owned(client)["person"])),
        ("person", owned),
        (f"{__name__}:whose", lambda client: (*many(client), owned(client)["person"])),
    ],
)
def test_owners_are_read_from_data_of_every_form(owner, data):
    def loss(module, batch):
        x, y = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch[:2]
        return F.cross_entropy(module(x), y)

    privacy = PRIVACY | {"unit": "owner", "owner": owner, "records_per_owner": 2}
    task = task_of(model=plain_net, data=data, loss=loss)
    ((event, count),) = task.fit(3, task.model(), work(privacy=privacy)).events
    persons = int(owned(3)["person"].max()) + 1
    assert event.sampling_probability == pytest.approx(16 / persons)
    assert count == 2 * round(persons / 16)


def whose(record):
    return record[2]


def test_the_events_are_those_of_the_plan_and_all_answers_cost_epsilon():
    task = task_of(model=plain_net, data=many)
    fitted = task.fit(2, task.model(), work(answers=7))
    assert fitted.loss is None
    plan = round_plan(work().train, 7, 202)
    ((event, count),) = fitted.events
    assert (event, count) == (plan.event(0), plan.steps)
    assert (event.unit, event.relation, event.sampling_probability) == ("record", "add-remove", plan.probability)
    ledger = plan.ledger()
    ledger.spend(event, 7 * count)
    assert 3.99 < ledger.epsilon(1e-5) <= 4.0 * (1 + 1e-9)


def test_a_loss_for_each_record_and_its_mean_train_alike():
    def each(module, batch):
        return F.cross_entropy(module(batch[0]), batch[1], reduction="none")

    x, y = records(0, 40)
    results = []
    for loss in (None, each):
        task = task_of(model=plain_net, data=lambda client: (x, y), **({} if loss is None else {"loss": loss}))
        results.append(no_noise(task).fit(0, task.model(), work(batch=40)).model)
    assert close(*results)


def test_trainings_differ_by_their_noise_and_the_module_is_whole_again():
    task = task_of(model=plain_net, data=many)
    start = task.model()
    one, other = task.fit(0, start, work()), task.fit(0, start, work())
    assert not same(one.model, other.model)
    plain = task.fit(0, start, FitWork(0, Training(batch=16), (0, 3)))
    assert plain.loss is not None
    assert plain.events == ()


def test_schedulers_optimizers_local_parts_and_fedprox_go_along():
    rates = []

    def halving(optimizer, steps):
        made = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (steps + 1))
        optimizer.register_step_pre_hook(lambda *given: rates.append(optimizer.param_groups[0]["lr"]))
        return made

    def net():
        return nn.ModuleDict({"body": nn.Linear(6, 8), "head": nn.Linear(8, 4)})

    def loss(module, batch):
        return F.cross_entropy(module["head"](torch.tanh(module["body"](batch[0]))), batch[1])

    task = task_of(model=net, loss=loss, data=many, evaluate=None, local=["head"], scheduler=halving, optimizer="adam")
    fitted = task.fit(0, task.model(), work(epochs=1))
    steps = fitted.events[0][1]
    assert len(rates) == steps == round(200 / 16)
    assert rates == sorted(rates, reverse=True)
    assert set(fitted.model) == {"body.weight", "body.bias"}
    assert set(fitted.kept) == {"head.weight", "head.bias"}
    x, y = records(0, 40)
    pulled = no_noise(task_of(model=plain_net, data=lambda client: (x, y)))
    far = pulled.fit(0, pulled.model(), work(batch=40, epochs=20))
    near = pulled.fit(0, pulled.model(), work(batch=40, epochs=20, proximal_mu=1.0))

    def distance(model):
        return sum(float(np.square(model[name] - start).sum()) for name, start in pulled.model().items())

    assert distance(near.model) < 0.5 * distance(far.model)


def test_models_that_mix_records_are_refused_before_anything_is_trained():
    private = settings_for(train={"privacy": PRIVACY})
    assert isinstance(task_of(), FitsPrivately)
    with pytest.raises(ValueError, match=r"train.privacy: .*bn1 \(BatchNorm1d\)"):
        check_private_fit(task_of(), private)
    check_private_fit(task_of(), settings_for())
    check_private_fit(task_of(model=plain_net), private)
    with pytest.raises(ValueError, match=r"task digits does not train privately: take a tacit.TorchTask"):
        check_private_fit(Numbers(), private)


def test_a_client_without_records_has_nothing_to_send():
    task = task_of(model=plain_net, data=lambda client: records(client, 0))
    assert task.fit(0, task.model(), work()).samples == 0
