"""What is stored with a model and not trained under noise must stay as it was."""

import copy
import threading
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from tacit.training.contents import contents, refuse_changed, refuse_written, versions
from tests.training.trainings import data, model, plan, train


@dataclass(eq=False)
class Table:
    """An object of its own, made anew each time that it is asked for."""

    values: torch.Tensor


class Writing(nn.Module):
    """Keeps something of the records, by a way of its own, from the forward number `after` on."""

    def __init__(self, way, after=0):
        super().__init__()
        self.register_buffer("seen", torch.zeros(5, dtype=torch.float64))
        self.register_buffer("recent", torch.zeros(5, dtype=torch.float64), persistent=False)
        self.book = nn.Parameter(torch.zeros(5, dtype=torch.float64), requires_grad=False)
        self.scale = nn.Linear(5, 5).double()
        self.way, self.left, self.notes = way, after, [0.0]
        self.table = np.zeros(5000)

    def get_extra_state(self):
        return {"notes": list(self.notes), "table": Table(torch.from_numpy(self.table).clone()), "array": self.table}

    def set_extra_state(self, state):
        self.notes = state["notes"]

    def forward(self, x):
        self.left -= 1
        if self.left < 0:
            WAYS[self.way](self, x.mean(0).detach())
        return self.scale(x)


def under_no_grad(name):
    def write(module, values):
        with torch.no_grad():
            getattr(module, name).lerp_(values, 0.1)

    return write


WAYS = {
    "none": lambda module, values: None,
    "data of a buffer": lambda module, values: module.seen.data.add_(values),
    "data of a buffer replaced": lambda module, values: setattr(module.seen, "data", values),
    "data of a frozen parameter": lambda module, values: module.book.data.mul_(0.9).add_(values),
    "a frozen parameter": under_no_grad("book"),
    "a buffer": under_no_grad("seen"),
    "data of a trained parameter": lambda module, values: module.scale.bias.data.add_(1e-9 * values),
    "a trained parameter": lambda module, values: under_no_grad("bias")(module.scale, values),
    "an entry of an extra array": lambda module, values: module.table.__setitem__(2500, float(values[0])),
    "data of a recent buffer": lambda module, values: module.recent.data.add_(values),
    "extra state": lambda module, values: module.notes.append(float(values[0])),
}
NAMES = {
    "recent": r"0\.recent",
    "buffer": r"0\.seen",
    "frozen": r"0\.book",
    "trained": r"0\.scale\.bias",
    "extra": r"0\._extra_state",
}


def writing(way, after=0):
    module = nn.Sequential(Writing(way, after), *model())
    trained = [each for each in module.parameters() if each.requires_grad]
    given = plan(batch=40, epochs=4)
    return module, *given.attach(module, torch.optim.SGD(trained, lr=0.1), data())[1:]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "none"])
def test_a_forward_that_writes_is_refused_before_anything_is_released(way):
    module, optimizer, loader = writing(way)
    name = next(name for kind, name in NAMES.items() if kind in way)
    with pytest.raises(ValueError, match=rf"the .*{name} was written .*AveragedModel"):
        train(module, optimizer, loader, 1)
    assert optimizer.steps == 0


@pytest.mark.parametrize("way", ["data of a buffer", "data of a frozen parameter", "extra state"])
@pytest.mark.parametrize("ask", ["state", "report"])
def test_a_write_that_begins_later_is_found_before_anything_is_stored(way, ask):
    module, optimizer, loader = writing(way, after=10**6)
    train(module, optimizer, loader, 1)
    getattr(optimizer, ask)()
    WAYS[way](module[0], torch.ones(5, dtype=torch.float64))
    with pytest.raises(ValueError, match="no noise covers what it holds"):
        getattr(optimizer, ask)()


def test_what_is_not_written_is_left_alone():
    module, optimizer, loader = writing("none")
    averaged = AveragedModel(module)
    for _ in range(4):
        train(module, optimizer, loader, 1)
        averaged.update_parameters(module)
        module.load_state_dict(copy.deepcopy(module.state_dict()))
        optimizer.state()
    assert optimizer.report()["steps"] == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
@pytest.mark.parametrize("size", [0, 1, 7, 8 * 1021 + 3])
def test_any_change_of_one_number_changes_the_digest(dtype, size):
    module = nn.Module()
    module.register_buffer("whole", torch.zeros(size + 1).to(dtype))
    module.register_buffer("view", module.whole[1:])  # begins anywhere in memory
    before = contents(module)
    refuse_changed(before, contents(module))
    for place in {0, size // 2, size - 1} if size else ():
        module.view[place] = 1
        with pytest.raises(ValueError, match="stored tensor view"):
            refuse_changed(before, contents(module))
        module.view[place] = 0
    refuse_changed(before, contents(module))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_buffers_are_compared(layout):
    module = nn.Linear(2, 2)
    module.register_buffer("graph", torch.eye(3).to_sparse(layout=layout))
    before = contents(module, leave_out=list(module.parameters()))
    refuse_changed(before, contents(module, leave_out=list(module.parameters())))
    module.graph = (2 * torch.eye(3)).to_sparse(layout=layout)
    with pytest.raises(ValueError, match="stored tensor graph"):
        refuse_changed(before, contents(module, leave_out=list(module.parameters())))


def test_a_buffer_that_is_replaced_in_the_same_memory_is_seen():
    module = nn.Module()
    module.register_buffer("seen", torch.zeros(5))
    before = versions(module)
    for _ in range(20):  # an object that is gone may leave its address to the next one
        module.seen = module.seen + 1
        with pytest.raises(ValueError, match="buffer seen was written"):
            refuse_written(module, before)


def test_tied_weights_are_trained():
    module = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5))
    module[1].weight = module[0].weight
    assert set(contents(module, leave_out=list(module.parameters()))) == set()
    module[1].weight.requires_grad_(False)
    assert set(contents(module, leave_out=[module[0].bias, module[1].bias])) == {"0.weight", "1.weight"}


def test_extra_state_that_cannot_be_compared_is_refused():
    class Locked(nn.Linear):
        def get_extra_state(self):
            return {"lock": threading.Lock()}

    with pytest.raises(ValueError, match=r"extra state holds a dict that cannot be compared .*lock.*get_extra_state"):
        contents(Locked(2, 2))
