"""Embeddings by ids of records, by ids that all records share, and bags."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tacit.training import Engine
from tests.training.definition import check
from tests.training.trainings import plan, train

few = settings(max_examples=20)
MEMORY = [1 << 29, 1 << 10]


class Positions(nn.Module):
    """Tokens and what is looked up by `made(ids)`."""

    def __init__(self, made, padding: int | None = None) -> None:
        super().__init__()
        self.made = made
        self.tokens, self.positions = nn.Embedding(7, 4), nn.Embedding(9, 4, padding_idx=padding)
        self.last = nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.last((self.tokens(ids) + self.positions(self.made(ids))).tanh()).mean(1)


SHARED = {
    "a list of positions": lambda ids: torch.arange(ids.shape[1]),
    "one row of positions": lambda ids: torch.arange(ids.shape[1])[None],
    "one row with ids twice": lambda ids: torch.tensor([[0, 3, 3, 1, 0]]),
    "rows that are one row in memory": lambda ids: torch.arange(ids.shape[1]).expand(ids.shape),
}


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("records", [1, 3, 8])
def test_ids_that_records_share_are_clipped_as_by_a_loop_over_records(name, padding, records, memory):
    torch.manual_seed(0)
    check(Positions(SHARED[name], padding), torch.randint(0, 7, (records, 5)), memory=memory, reduction="mean")


def test_a_list_of_positions_that_is_as_long_as_the_batch_by_chance_is_not_taken_for_records():
    model = Positions(SHARED["a list of positions"])
    engine = Engine(model)
    model(torch.zeros(5, 5, dtype=torch.long)).sum().backward()
    assert engine.undecided == "argument 1 of positions"
    engine.discard()
    with pytest.raises(ValueError, match="it cannot be told whether it has a row for each record"):
        model(torch.zeros(4, 5, dtype=torch.long))


def test_a_list_of_positions_is_known_once_a_batch_had_another_length():
    model = Positions(SHARED["a list of positions"])
    engine = Engine(model)
    for records in (4, 5):
        model(torch.zeros(records, 5, dtype=torch.long)).sum().backward()
        assert engine.undecided is None
        assert len(engine.norms()) == records
        engine.discard()


class Users(nn.Module):
    """One id for each record."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.last = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.last(self.users(ids))


@pytest.mark.parametrize("sampling", ["poisson", "shuffled"])
def test_one_id_for_each_record_is_trained_with_all_checks(sampling):
    torch.manual_seed(0)
    data = TensorDataset(torch.randint(0, 9, (40,)), torch.randint(0, 3, (40,)))
    model = Users()
    _, optimizer, loader = plan(sampling=sampling).attach(model, torch.optim.SGD(model.parameters(), 0.1), data)
    train(model, optimizer, loader, 2)
    assert optimizer.steps == 8


@pytest.mark.parametrize("name", SHARED)
def test_shared_positions_are_trained_with_all_checks(name):
    torch.manual_seed(0)
    data = TensorDataset(torch.randint(0, 7, (40, 5)), torch.randint(0, 3, (40,)))
    model = Positions(SHARED[name])
    attached = plan(batch=20).attach(model, torch.optim.SGD(model.parameters(), 0.1), data)
    train(model, attached[1], attached[2], 2)
    assert attached[1].steps == 4


# --- bags


class Bag(nn.Module):
    """Lists of ids with offsets, made of rows so that a loop over records can show one of them."""

    def __init__(self, mode: str, last: bool, padding: int | None, weighted: bool) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(6, 3, mode=mode, include_last_offset=last, padding_idx=padding)
        self.last, self.weighted = last, weighted

    def forward(self, ids: Tensor, weights: Tensor) -> Tensor:
        own = [row[row >= 0] for row in ids]
        offsets = torch.tensor([0, *(len(each) for each in own)]).cumsum(0)
        given = torch.cat([row[mine >= 0] for row, mine in zip(weights, ids, strict=True)]) if self.weighted else None
        return self.bag(torch.cat(own), offsets if self.last else offsets[:-1], given)


@few
@given(st.sampled_from(["sum", "mean", "max"]), st.booleans(), st.sampled_from([None, 2]), st.booleans(),
       st.sampled_from(MEMORY), st.integers(0, 2**16))  # fmt: skip
def test_bags_with_offsets(mode, last, padding, weighted, memory, seed):
    torch.manual_seed(seed)
    ids = torch.randint(-1, 6, (4, 3))  # bags of up to three ids, some empty
    check(Bag(mode, last, padding, weighted and mode == "sum"), ids, torch.randn(4, 3), memory=memory)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_bags_in_rows(mode, padding):
    torch.manual_seed(0)
    check(nn.EmbeddingBag(6, 3, mode=mode, padding_idx=padding), torch.randint(0, 6, (4, 5)))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_what_a_bag_returns_is_what_torch_returns(mode):
    torch.manual_seed(0)
    bag = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=1)
    own = copy.deepcopy(bag)
    Engine(bag)
    ids, offsets = torch.tensor([0, 1, 2, 2, 1, 5]), torch.tensor([0, 3, 3, 4])
    torch.testing.assert_close(bag(ids, offsets), own(ids, offsets))


@pytest.mark.parametrize(
    ("ids", "offsets", "weights", "message"),
    [
        (torch.zeros(4, dtype=torch.long), None, None, "give ids"),
        (torch.zeros(4, dtype=torch.long), torch.tensor([1, 2]), None, "offsets must begin at 0"),
        (torch.zeros(4, dtype=torch.long), torch.tensor([0, 3, 2]), None, "not fall"),
        (torch.zeros(2, 2, dtype=torch.long), None, torch.ones(4), "one for each id"),
    ],
)
def test_bags_that_cannot_be_told_apart_are_refused(ids, offsets, weights, message):
    bag = nn.EmbeddingBag(6, 3, mode="sum")
    Engine(bag)
    with pytest.raises(ValueError, match=message):
        bag(ids, offsets, weights)
