"""Owners: who is sampled, what each adds, what it costs, and what is refused."""

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tacit.dp.schedules import ClipAdaptation
from tacit.randomness import seeded_rng
from tacit.training.attach import attach
from tacit.training.ownership import ids_of, of_ids, ownership
from tacit.training.sampler import Sampler
from tests.training.trainings import Silent, data, flat, model, plan, train

IDS = [f"patient {i % 12}" if i % 3 else "patient 0" for i in range(40)]  # of nine patients one has 14 records
OWNERS = len(set(IDS))


def owner_plan(**changed):
    given = {"owners": OWNERS, "unit": "owner", "records_per_owner": 3, "batch": 3, **changed}
    return plan(**given)


def clipped_owners(module, x, y, groups, clip, order=2):
    """By plain autograd, one owner at a time: the mean gradient of its records, clipped."""
    parameters = list(module.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for records in groups:
        gradients = torch.autograd.grad(F.cross_entropy(module(x[records]), y[records]), parameters)
        norm = torch.cat([g.flatten() for g in gradients]).norm(order)
        for add, gradient in zip(total, gradients, strict=True):
            add += gradient * min(1.0, clip / float(norm))
    return total


def in_groups(indices):
    """Records of one owner after the other."""
    found = {}
    for index in indices:
        found.setdefault(IDS[index], []).append(int(index))
    return list(found.values())


@pytest.mark.parametrize("physical", [None, 4])
@pytest.mark.parametrize("check", [False, True])
def test_steps_are_those_of_a_loop_over_owners(physical, check):
    given = owner_plan(physical=physical, clip=0.1)
    trained, by_hand = model(), model()
    inner = torch.optim.SGD(trained.parameters(), lr=0.1)
    _, optimizer, loader = attach(
        given, trained, inner, data(), owners=IDS, source=Silent(), rng=seeded_rng(7), check=check
    )
    train(trained, optimizer, loader, given.epochs)
    sampler = Sampler(given, seeded_rng(7), of_ids(IDS))
    moved = torch.optim.SGD(by_hand.parameters(), lr=0.1)
    x, y = data().tensors
    several = 0
    for step in range(given.steps):
        groups = in_groups(sampler.sample(step))
        several += sum(len(each) > 1 for each in groups)
        assert all(len(each) <= 3 for each in groups)
        for parameter, total in zip(
            by_hand.parameters(), clipped_owners(by_hand, x, y, groups, given.clip), strict=True
        ):
            parameter.grad = total / given.batch
        moved.step()
    assert several > 4
    assert optimizer.steps == given.steps == 2 * round(OWNERS / 3)
    assert float((flat(trained) - flat(by_hand)).abs().max()) < 1e-9


@pytest.mark.parametrize(("changed", "order"), [({"tier": "secure"}, 2), ({"noise": "laplace"}, 1)])
def test_an_exact_step_is_that_of_a_loop_over_owners(changed, order):
    """All owners with all records are in the sample, so that no draw is left but the noise, which is tiny."""
    given = owner_plan(batch=OWNERS, records_per_owner=20, epochs=1, noise_multiplier=1e-4, clip=0.1, **changed)
    trained, by_hand = model(), model()
    inner = torch.optim.SGD(trained.parameters(), lr=1.0)
    _, optimizer, loader = attach(given, trained, inner, data(), owners=IDS, check=False)
    train(trained, optimizer, loader, 1)
    x, y = data().tensors
    wanted = clipped_owners(by_hand, x, y, in_groups(range(40)), 0.1, order)
    moved = torch.cat([each.flatten() for each in wanted]) / OWNERS
    assert float((flat(by_hand) - moved - flat(trained)).abs().max()) < 1e-4 * 0.1 * 12 / OWNERS


@pytest.mark.parametrize(
    "changed", [{}, {"clipping": "automatic"}, {"clipping": "per_layer"}, {"sampling": "shuffled"}]
)
def test_owners_of_one_record_are_records(changed):
    """Bit by bit, and at the same price."""
    records, owners = plan(**changed), owner_plan(owners=40, records_per_owner=1, batch=10, **changed)
    states = []
    for given, ids in ((records, None), (owners, list(range(40)))):
        trained = model(torch.float32)
        inner = torch.optim.SGD(trained.parameters(), lr=0.1)
        _, optimizer, loader = attach(
            given, trained, inner, data(dtype=torch.float32), owners=ids, source=Silent(), rng=seeded_rng(3)
        )
        train(trained, optimizer, loader, given.epochs)
        states.append((flat(trained), optimizer.epsilon()))
    assert torch.equal(states[0][0], states[1][0])
    assert states[0][1] == states[1][1]


def test_an_owner_adds_at_most_the_clipping_norm_whatever_it_has():
    """The same owner with one record or with fourteen, all of them far above the clipping norm."""
    for most in (1, 3, 14):
        given = owner_plan(records_per_owner=most, batch=OWNERS, epochs=1, clip=0.01)
        sums = []
        for without in (False, True):
            trained = model()
            inner = torch.optim.SGD(trained.parameters(), lr=1.0)
            x, y = data().tensors
            kept = [i for i in range(40) if not (without and IDS[i] == "patient 0")]
            ids = [IDS[i] for i in kept]
            own = dataclasses.replace(given, records=len(kept), owners=len(set(ids)), batch=len(set(ids)))
            subset = TensorDataset(x[kept] * 100, y[kept])
            _, optimizer, loader = attach(own, trained, inner, subset, owners=ids, source=Silent(), check=False)
            before = flat(trained)
            train(trained, optimizer, loader, 1)
            sums.append((before - flat(trained)) * own.batch)
        if most == 14:  # nothing is drawn: the sums differ by what one owner adds
            assert 0.0099 < float((sums[0] - sums[1]).norm()) <= 0.01 * (1 + 1e-9)
        assert float(sums[0].norm()) <= 0.01 * OWNERS * (1 + 1e-9)


def test_each_owner_is_sampled_by_itself_and_its_records_at_random():
    samples, found = 3000, of_ids(IDS)
    given = owner_plan(batch=4)
    sampler = Sampler(given, seeded_rng(2), found)
    owners, records = np.zeros(OWNERS), np.zeros(40)
    for step in range(samples):
        drawn = sampler.sample(step)
        owners[np.unique(found.of[drawn])] += 1
        records[drawn] += 1
        assert len(set(drawn)) == len(drawn)
    q = given.probability
    assert stats.chi2.sf(((owners - samples * q) ** 2 / (samples * q * (1 - q))).sum(), OWNERS) > 1e-3
    of_first = records[found.records[0]]
    expected = samples * q * 3 / len(of_first)
    assert stats.chi2.sf(((of_first - expected) ** 2 / expected).sum(), len(of_first) - 1) > 1e-3


def test_pieces_hold_whole_owners():
    given, found = owner_plan(batch=8, physical=5), of_ids(IDS)
    sampler = Sampler(given, seeded_rng(5), found)
    for step in range(30):
        pieces = list(sampler.pieces(step))
        seen = [set(found.of[piece.indices]) for piece in pieces]
        assert sum(map(len, seen)) == len(set().union(*seen))
        for piece in pieces:
            assert len(piece.indices) <= 5
            assert piece.starts[0] == 0
            assert piece.starts[-1] == len(piece.indices)
            assert len(piece.starts) - 1 == len(set(found.of[piece.indices]))
        assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_an_empty_sample_of_owners_is_a_step_of_noise():
    given = owner_plan(batch=1, epochs=5)
    trained = model()
    _, optimizer, loader = attach(
        given, trained, torch.optim.SGD(trained.parameters(), lr=0.1), data(), owners=IDS, check=False
    )
    train(trained, optimizer, loader, 5)
    assert optimizer.steps == given.steps == 5 * OWNERS


def test_the_price_is_that_of_owners():
    """Of as many records as there are owners: what an owner holds does not matter."""
    by_owner, same = owner_plan(epochs=7), plan(records=OWNERS, batch=3, epochs=7)
    assert by_owner.steps == same.steps
    assert by_owner.epsilon_after(by_owner.steps) == same.epsilon_after(same.steps)
    assert owner_plan(records_per_owner=9).event(0) == by_owner.event(0)
    assert by_owner.event(0).unit == by_owner.ledger(3).unit == by_owner.summary()["unit"] == "owner"
    assert plan().event(0).unit == plan().summary()["unit"] == "record"


def test_the_clipping_norm_follows_owners():
    """Eleven owners of one small record each, and one with many large ones: the share below the norm is 11 of 12."""
    x = torch.cat([torch.zeros(11, 5), 1000 * torch.ones(29, 5)]).double()
    records = TensorDataset(x, torch.zeros(40, dtype=torch.int64))
    ids = [*range(11), *[11] * 29]
    adapt = ClipAdaptation("Linear", 0.5, 0.2)
    given = owner_plan(owners=12, batch=12, epochs=1, clip=50.0, adapt=adapt, noise_multiplier=1e-3)
    trained = nn.Linear(5, 3).double()
    _, optimizer, loader = attach(
        given, trained, torch.optim.SGD(trained.parameters(), lr=1e-9), records, owners=ids, check=False
    )
    train(trained, optimizer, loader, 1)
    assert optimizer.unclipped == pytest.approx(11 / 12)


def test_ids_of_every_form_number_the_same_owners():
    wanted = of_ids([3, 1, 3, 2])
    assert wanted.of.tolist() == [0, 1, 0, 2]
    assert [each.tolist() for each in wanted.records] == [[0, 2], [1], [3]]
    records = [{"who": "c"}, {"who": "a"}, {"who": "c"}, {"who": "b"}]
    forms = [np.array([3, 1, 3, 2]), torch.tensor([3, 1, 3, 2]), ["c", "a", "c", "b"], np.array(["c", "a", "c", "b"])]
    for given in [*forms, lambda record: record["who"]]:
        assert of_ids(ids_of(records, given)).of.tolist() == [0, 1, 0, 2]
    loader = DataLoader(records, batch_size=2)
    assert of_ids(ids_of(loader, lambda record: record["who"])).of.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"owners": None}, "give owners too"),
        ({"records_per_owner": None}, "give records_per_owner too"),
        ({"records_per_owner": 0}, "records_per_owner"),
        ({"owners": 41}, "only 40 records"),
        ({"batch": 13}, f"only {OWNERS} owners"),
        ({"truncate": 10}, "truncate is for samples of records"),
        ({"physical": 2}, "raise physical, or lower records_per_owner"),
        ({"unit": "record"}, "take unit='owner'"),
        ({"unit": "person"}, "unit"),
    ],
)
def test_a_plan_of_owners_that_does_not_fit_is_refused(changed, said):
    with pytest.raises(ValueError, match=said):
        owner_plan(**changed)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (None, "give attach"),
        (IDS[:-1], "has 39 ids"),
        (["a"] * 40, "have 1 owners, the plan is for 9: make it with owners=1"),
        ([None, *IDS[1:]], "record 0 has no owner"),
        ([*IDS[:-1], math.nan], "record 39 has no owner"),
        ([[1], *IDS[1:]], "owner of record 0 is a list"),
        (7, "owners is a int"),
    ],
)
def test_owners_that_do_not_fit_are_refused(ids, said):
    with pytest.raises(ValueError, match=said):
        ownership(owner_plan(), data(), ids)


def test_owners_for_a_plan_of_records_are_refused():
    with pytest.raises(ValueError, match="the plan protects records"):
        ownership(plan(), data(), IDS)


def test_a_training_of_owners_resumes_and_refuses_another_unit():
    given = owner_plan(sampling="shuffled")
    trained = model()
    _, optimizer, loader = attach(
        given, trained, torch.optim.SGD(trained.parameters(), lr=0.1), data(), owners=IDS, check=False
    )
    train(trained, optimizer, loader, 1)
    state = optimizer.state()
    assert len(state["order"]) == OWNERS

    def fresh(again, ids):
        module = model()
        return attach(again, module, torch.optim.SGD(module.parameters(), lr=0.1), data(), owners=ids)[1]

    resumed = fresh(given, IDS)
    resumed.restore(state)
    assert resumed.ledger.to_json() == optimizer.ledger.to_json()
    with pytest.raises(ValueError, match="records_per_owner"):
        fresh(owner_plan(sampling="shuffled", records_per_owner=4), IDS).restore(state)
    with pytest.raises(ValueError, match="unit"):
        fresh(plan(sampling="shuffled"), None).restore(state)
