"""Arguments that have a row for each record, and those that all records share and are as long as a batch by chance."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tacit.randomness import seeded_rng
from tacit.training import Engine
from tacit.training.arguments import with_one_record_less
from tacit.training.attach import attach
from tests.training.definition import linear_loss, record_gradients
from tests.training.supported import Positions
from tests.training.trainings import Silent, flat, plan


class Own(nn.Module):
    """An id of each record, in a list."""

    def __init__(self, dropped: float = 0.2) -> None:
        super().__init__()
        self.dropped = dropped
        self.ids, self.enter, self.last = nn.Embedding(40, 4), nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        return self.last(F.dropout(self.ids(ids) + self.enter(x), self.dropped))


class Masked(nn.Module):
    """A layer without a rule, with a mask of each record."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4))

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return x @ (self.weight + self.weight.T) * mask[:, None]

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.layer = nn.Linear(5, 4), self.Layer()

    def forward(self, x: Tensor, ids: Tensor) -> Tensor:
        return self.layer(self.enter(x), ids / 10)[:, :3]


def records(count: int = 40) -> TensorDataset:
    x = torch.randn(count, 5, generator=torch.Generator().manual_seed(0))
    return TensorDataset(x, torch.arange(count).flip(0), torch.arange(count) % 3)


@pytest.mark.filterwarnings("ignore:.* has no rule of its own")
@pytest.mark.parametrize("kind", [Own, Masked])
@pytest.mark.parametrize("truncate", [None, 34])
def test_rows_of_records_are_told_without_the_check_and_change_nothing(kind, truncate):
    """The model runs once more, which draws nothing that the training would draw."""
    trained = []
    for check in (False, True):
        torch.manual_seed(0)
        model, given = kind(), plan(truncate=truncate, delta=1e-2)
        _, optimizer, loader = attach(
            given, model, torch.optim.SGD(model.parameters(), 0.1), records(), source=Silent(), rng=seeded_rng(1),
            check=check,
        )  # fmt: skip
        torch.manual_seed(1)
        for _ in range(2):
            for x, ids, y in loader:
                F.cross_entropy(model(x, ids), y).backward()
                optimizer.step()
        trained.append(flat(model))
    assert torch.equal(*trained)


@pytest.mark.parametrize("count", [5, 7])
def test_positions_as_long_as_the_first_batch_are_refused_without_the_check(count):
    """With 5 records they would be taken for ids of records, and the gradient of position i for that of record i."""
    torch.manual_seed(0)
    model = Positions(rows=False)
    data = TensorDataset(torch.randint(0, 7, (count, 5)), torch.zeros(count, dtype=torch.int64))
    before = flat(model)
    _, optimizer, loader = attach(
        plan(records=count, batch=count), model, torch.optim.SGD(model.parameters(), 0.1), data, check=False
    )

    def train() -> None:
        for ids, y in loader:
            F.cross_entropy(model(ids).mean(1), y).backward()
            optimizer.step()

    if count == 5:
        with pytest.raises(ValueError, match="argument 1 of positions is as long as the batch of 5, and it cannot be"):
            train()
        assert torch.equal(flat(model), before)
    else:
        train()
        assert optimizer.steps == 1


def test_a_list_of_ids_in_parts_that_are_called_one_by_one_is_refused_without_the_check():
    model = Own()
    _, optimizer, loader = attach(
        plan(), model, torch.optim.SGD(model.parameters(), 0.1), records(), check=False, rng=seeded_rng(1)
    )
    x, ids, y = next(iter(loader))
    F.cross_entropy(model.last(model.ids(ids) + model.enter(x)), y).backward()
    with pytest.raises(ValueError, match=r"ids may have a row for each record or be shared.*call the model as a whole"):
        optimizer.step()


def test_the_same_parts_with_a_second_dimension_are_trained():
    model = Own()
    _, optimizer, loader = attach(
        plan(), model, torch.optim.SGD(model.parameters(), 0.1), records(), check=False, rng=seeded_rng(1)
    )
    for x, ids, y in loader:
        F.cross_entropy(model.last(model.ids(ids[:, None])[:, 0] + model.enter(x)), y).backward()
        optimizer.step()
    assert optimizer.steps == 4


def test_a_model_that_cannot_run_with_a_record_less_is_refused():
    class Fixed(Own):
        def forward(self, x: Tensor, ids: Tensor) -> Tensor:
            return super().forward(x.view(3, 5), ids)

    engine = Engine(model := Fixed(), resize=True)
    with pytest.raises(ValueError, match="argument 1 of ids is as long as the batch of 3"):
        model(torch.randn(3, 5), torch.arange(3))
    assert engine._pass.expected == 3


@pytest.mark.filterwarnings("ignore:.* has no rule of its own")
@pytest.mark.parametrize("make", [lambda: Own(dropped=0.0), Masked])
def test_gradients_are_those_of_a_loop_over_records(make):
    torch.manual_seed(0)
    model = make().double()
    exact = copy.deepcopy(model)
    engine = Engine(model, reduction="sum", resize=True)
    x, ids, aims = torch.randn(4, 5).double(), torch.arange(4), torch.randn(4, 3).double()
    wanted = record_gradients(exact, [x, ids], aims, linear_loss).norm(dim=1)
    linear_loss(model(x, ids), aims).backward()
    torch.testing.assert_close(engine.norms(), wanted, rtol=1e-10, atol=1e-12)


def test_a_record_less_of_whatever_is_as_long_as_the_batch():
    given = ((torch.zeros(3, 2), {"mask": torch.zeros(3), "other": torch.zeros(2, 3)}), {"number": 3})
    found = with_one_record_less(given, 3)
    assert found[0][0].shape == (2, 2)
    assert found[0][1]["mask"].shape == (2,)
    assert found[0][1]["other"].shape == (2, 3)
    assert found[1] == {"number": 3}
