"""Gradients whose memory is used again: only those that nobody else can see, and to the same sums."""

import copy
import tempfile
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from tacit.training import Engine, layers, references
from tacit.training.recorded import Outer
from tests.training.definition import check

RECORDS, STEPS, WIDTH, CLASSES = 5, 8, 4, 3


@pytest.fixture
def written(monkeypatch) -> list[tuple[int, ...]]:
    """The shapes of all gradients that were written over."""
    shapes: list[tuple[int, ...]] = []
    own = Outer.keep_over

    def keep_over(self, spare):
        shapes.append(tuple(spare.shape))
        return own(self, spare)

    monkeypatch.setattr(Outer, "keep_over", keep_over)
    return shapes


def entropy(outputs: Tensor) -> Tensor:
    labels = torch.arange(outputs[..., 0].numel()) % outputs.shape[-1]
    return F.cross_entropy(outputs.flatten(0, -2), labels)


class Keeping(torch.autograd.Function):
    """A foreign function that keeps its gradient, or hands on a buffer that it keeps."""

    kept: ClassVar[list[Tensor]] = []

    @staticmethod
    def forward(ctx, x, buffer):
        ctx.buffer = buffer
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        Keeping.kept.append(gradient)
        return (gradient if ctx.buffer is None else ctx.buffer), None


def nobody(out: Tensor) -> list[Tensor]:
    entropy(out).backward()
    return []


def nobody_by_a_view(out: Tensor) -> list[Tensor]:
    entropy(out.flatten(0, 1)).backward()
    return []


def a_hook(out: Tensor) -> list[Tensor]:
    kept: list[Tensor] = []
    out.register_hook(kept.append)
    entropy(out).backward()
    return kept


def a_hook_on_a_view(out: Tensor) -> list[Tensor]:
    kept: list[Tensor] = []
    flat = out.flatten(0, 1)
    flat.register_hook(kept.append)
    entropy(flat).backward()
    return kept


def a_hook_that_keeps_a_view(out: Tensor) -> list[Tensor]:
    kept: list[Tensor] = []
    out.register_hook(lambda gradient: kept.append(gradient[1:]))
    entropy(out.exp()).backward()
    return kept


def a_hook_that_keeps_the_memory(out: Tensor) -> list[Tensor]:
    kept: list[np.ndarray] = []
    out.register_hook(lambda gradient: kept.append(gradient.numpy()))
    entropy(out.exp()).backward()
    return [torch.from_numpy(kept[0])]


def a_retained_gradient(out: Tensor) -> list[Tensor]:
    out.retain_grad()
    entropy(out.exp()).backward()
    return [out.grad]


def the_caller(out: Tensor) -> list[Tensor]:
    given = torch.randn_like(out)
    out.backward(given)
    return [given]


def the_caller_by_a_view(out: Tensor) -> list[Tensor]:
    given = torch.randn_like(out)
    out.flatten(0, 1).backward(given.flatten(0, 1))
    return [given]


def an_array(out: Tensor) -> list[Tensor]:
    given = np.random.default_rng(3).normal(size=out.shape).astype(np.float32)
    out.backward(torch.from_numpy(given))
    return [torch.from_numpy(given)]


def a_function(out: Tensor) -> list[Tensor]:
    Keeping.kept = []
    entropy(Keeping.apply(out, None)).backward()
    return Keeping.kept


def a_function_with_a_buffer(out: Tensor) -> list[Tensor]:
    Keeping.kept, buffer = [], torch.randn_like(out)
    entropy(Keeping.apply(out, buffer)).backward()
    return [buffer]


class Making(torch.autograd.Function):
    """Hands on a gradient that a function makes, and keeps nothing."""

    @staticmethod
    def forward(ctx, x, make):
        ctx.make = make
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return ctx.make(), None


class Wrapping(Tensor):
    """Stands for a tensor that other code holds."""

    @staticmethod
    def __new__(cls, inner):
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args, kwargs = tree_map(lambda each: each.inner if isinstance(each, cls) else each, (args, kwargs or {}))
        return function(*args, **kwargs)


def made(out: Tensor, make: Callable[[], Tensor]) -> None:
    Making.apply(out, make).sum().backward()


def values(out: Tensor) -> np.ndarray:
    return np.random.default_rng(3).normal(size=out.shape).astype(np.float32)


def an_array_of_a_function(out: Tensor) -> list[Tensor]:
    array = values(out)
    made(out, lambda: torch.from_numpy(array))
    return [torch.from_numpy(array)]


def memory_of_another_library(out: Tensor) -> list[Tensor]:
    array = values(out)
    made(out, lambda: torch.from_dlpack(array))
    return [torch.from_numpy(array)]


def a_buffer_of_bytes(out: Tensor) -> list[Tensor]:
    buffer = bytearray(values(out).tobytes())
    made(out, lambda: torch.frombuffer(buffer, dtype=torch.float32).view(out.shape))
    return [torch.frombuffer(buffer, dtype=torch.float32)]


def a_file(out: Tensor) -> list[Tensor]:
    with tempfile.NamedTemporaryFile() as file:
        values(out).tofile(file.name)
        made(out, lambda: torch.from_file(file.name, shared=True, size=out.numel()).view(out.shape))
        return [torch.from_numpy(np.fromfile(file.name, dtype=np.float32))]


def memory_of_another_process(out: Tensor) -> list[Tensor]:
    """Mapped twice, as two processes do; torch knows of one of them in each."""
    shared = [torch.from_numpy(values(out)).share_memory_()]
    handle = shared[0].untyped_storage()._share_filename_cpu_()
    other = torch.empty(0).set_(torch.UntypedStorage._new_shared_filename_cpu(*handle), 0, out.shape)
    made(out, shared.pop)
    return [other]


def a_subclass(out: Tensor) -> list[Tensor]:
    inner = torch.from_numpy(values(out)).clone()
    made(out, lambda: Wrapping(inner))
    return [inner]


def a_question(out: Tensor) -> list[Tensor]:
    return [torch.autograd.grad(entropy(out), [out, *inputs_of(out)])[0]]


def inputs_of(out: Tensor) -> list[Tensor]:
    return [out.first]


OTHERS = [
    a_hook, a_hook_on_a_view, a_hook_that_keeps_a_view, a_hook_that_keeps_the_memory, a_retained_gradient, the_caller,
    the_caller_by_a_view, an_array, a_function, a_function_with_a_buffer, a_question, an_array_of_a_function,
    memory_of_another_library, a_buffer_of_bytes, a_file, memory_of_another_process, a_subclass,
]  # fmt: skip


def layer() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(WIDTH, CLASSES)), torch.randn(RECORDS, STEPS, WIDTH, requires_grad=True)


@pytest.mark.parametrize("owner", [nobody, nobody_by_a_view])
def test_a_gradient_that_nobody_else_has_is_written_over(owner, written):
    model, x = layer()
    Engine(model)
    owner(model(x))
    assert written == [(RECORDS, STEPS, CLASSES)]


@pytest.mark.parametrize("owner", OTHERS)
def test_a_gradient_that_someone_keeps_stays_as_it_was(owner, monkeypatch):
    """What is kept, and the sum of clipped gradients, are those of a run that writes over nothing."""
    found = []
    for allowed in (True, False):
        if not allowed:
            monkeypatch.setattr(layers, "alone", lambda gradient: False)
        model, x = layer()
        engine = Engine(model)
        torch.manual_seed(5)
        out = model(x)
        out.first = x
        kept = owner(out)
        assert len(kept) == 1
        norms = engine.norms()
        engine.add_clipped(engine.factors(norms, float(norms.median())))
        found.append((kept[0].clone(), norms, engine.sum.clone()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-6, atol=1e-9)


def test_two_layers_with_one_gradient_do_not_write_over_what_the_other_needs():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.frozen = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.frozen((self.one(x) + self.two(x) + self.one(2 * x)).tanh())

    check(Two(), torch.randn(4, 9, 4))
    check(Two(), torch.randn(4, 9, 4), memory=0)


def test_a_graph_of_the_gradient_keeps_it(written):
    model, x = layer()
    Engine(model)
    with pytest.raises(ValueError, match="create_graph=True"):  # not supported anyway
        torch.autograd.grad(entropy(model(x)), [x], create_graph=True)
    assert written == []


def test_a_torch_without_counts_writes_over_nothing(monkeypatch, written):
    model, x = layer()
    Engine(model)
    monkeypatch.delattr(torch._C, "_storage_Use_Count")
    nobody(model(x))
    assert written == []


def test_counts_are_learned_for_both_kinds_of_gradient():
    assert None not in references._expected()


@pytest.mark.parametrize("memory", [0, 1 << 29])
@pytest.mark.parametrize(("records", "steps"), [(1, 30), (7, 12), (3, 200)])
def test_what_is_written_over_gives_the_same_sums(records, steps, memory, monkeypatch, written):
    """Against the definition, some records at a time, with gradients shorter than what they are written over."""
    monkeypatch.setattr("tacit.training.recorded._CACHE", 40)
    torch.manual_seed(6)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 4, bias=False))
    check(model, torch.randn(records, steps, 5), memory=memory)
    assert len(written) >= 4


class Tied(nn.Module):
    """A weight that is looked up twice and multiplied with, as of language models."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.mix, self.head = nn.Linear(4, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.mix(self.words(ids) + self.words(ids.flip(1)))))


@pytest.mark.parametrize("steps", [2, 16])  # the product's gradients have memory of their own, or that of the outputs'
def test_rows_are_added_to_the_gradients_of_a_tied_product(steps, written):
    torch.manual_seed(7)
    ids = torch.randint(0, 9, (6, steps))
    check(Tied(), ids)
    assert bool(written) == (steps == 16)
    check(Tied(), ids, memory=0)
    check(Tied(), ids, reduction="mean")


def test_a_tied_pass_is_measured_again_after_a_record_is_left_out():
    model = Tied()
    ids = torch.randint(0, 9, (6, 16))
    exact = copy.deepcopy(model)
    engine = Engine(model, leave_out=True)
    scale = torch.ones(6, 1, 1)
    scale[2] = torch.inf
    (model(ids) * scale).mean().backward()
    norms = engine.norms()
    assert norms[2] < 1e-12
    engine.add_clipped(torch.ones(6))
    kept = [0, 1, 3, 4, 5]
    (exact(ids[kept]).mean() * 5).backward()
    wanted = torch.cat([p.grad.flatten() for p in exact.parameters()])
    torch.testing.assert_close(engine.sum, wanted, rtol=1e-4, atol=1e-6)
