"""Models that cannot be trained privately are refused by the name of the layer, with what to use instead."""

import pytest
import torch
from torch import nn
from torch.ao.quantization import FakeQuantize
from torch.nn.utils import parametrizations, prune

from tacit.training import refuse_unfit
from tacit.training.attach import attach
from tacit.training.checks import refuse_replicas
from tests.training.trainings import data, model, plan, train


class Tracking(nn.Module):
    track_running_stats = True


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.BatchNorm1d(4), r"1 \(BatchNorm1d\).*GroupNorm"),
        (nn.BatchNorm2d(4, affine=False), r"1 \(BatchNorm2d\).*GroupNorm"),
        (nn.SyncBatchNorm(4), r"1 \(SyncBatchNorm\).*GroupNorm"),
        (nn.InstanceNorm1d(4, track_running_stats=True), r"1 \(InstanceNorm1d\).*track_running_stats=False"),
        (FakeQuantize(), r"1 \(FakeQuantize\).*after training"),
        (Tracking(), r"1 \(Tracking\).*running statistics"),
        (nn.LazyLinear(4), r"1 \(LazyLinear\).*not initialised"),
        (nn.Embedding(4, 4, sparse=True), r"1 \(Embedding\).*sparse=False"),
        (nn.Embedding(4, 4, max_norm=1.0), r"1 \(Embedding\).*max_norm=None"),
        (nn.Embedding(4, 4, scale_grad_by_freq=True), r"1 \(Embedding\).*scale_grad_by_freq=False"),
        (type("Bag", (nn.EmbeddingBag,), {"forward": lambda self, x: x})(4, 4), r"1 \(Bag\).*nn\.EmbeddingBag"),
        (parametrizations.weight_norm(nn.LSTM(4, 4), "weight_ih_l0"), r"1 \(ParametrizedLSTM\).*as they are"),
        (nn.MultiheadAttention(4, 2, kdim=3), r"1 \(MultiheadAttention\).*scaled_dot_product_attention"),
        (nn.MultiheadAttention(4, 2, add_bias_kv=True), r"1 \(MultiheadAttention\).*scaled_dot_product_attention"),
        (parametrizations.spectral_norm(nn.Linear(4, 4)), r"\(_SpectralNorm\).*weight_norm"),
        (nn.utils.spectral_norm(nn.Linear(4, 4)), r"1 \(Linear\).*weight_norm"),
        (nn.DataParallel(nn.Linear(4, 4)), r"1 \(DataParallel\).*attach the module inside it"),
        (prune.identity(nn.Linear(4, 4), "weight"), r"1 \(Linear\).*in a hook"),
        (nn.Linear(4, 4).to(torch.float16), r"1\.weight has dtype torch\.float16"),
        (nn.Linear(4, 4).double(), "differ in dtype or device"),
    ],
)
def test_refused_by_name(layer, message):
    with pytest.raises(ValueError, match=message):
        refuse_unfit(nn.Sequential(nn.Linear(4, 4), layer))


def test_all_unfit_layers_are_named_at_once_each_reason_once():
    block = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Embedding(4, 4, sparse=True))
    with pytest.raises(ValueError, match=r"^0 \(BatchNorm1d\), 2 \(BatchNorm1d\): mixes") as raised:
        refuse_unfit(block)
    assert "; 3 (Embedding): sparse gradients" in str(raised.value)
    assert str(raised.value).count("mixes the records") == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("compiler", "message"),
    [
        (torch.compile, r"1 \(OptimizedModule\).*compile what attach returns"),
        (torch.jit.script, r"1 \(RecursiveScriptModule\).*attach the module"),
    ],
)
def test_compiled_modules_are_refused(compiler, message):
    with pytest.raises(ValueError, match=message):
        refuse_unfit(nn.Sequential(nn.Linear(4, 4), compiler(nn.Linear(4, 4))))


def test_nothing_to_train():
    with pytest.raises(ValueError, match="no trainable parameters"):
        refuse_unfit(nn.Linear(2, 2).requires_grad_(False))


def test_what_keeps_records_apart_is_accepted():
    refuse_unfit(
        nn.Sequential(
            nn.Linear(4, 4),
            nn.Dropout(),
            nn.GroupNorm(2, 4),
            nn.InstanceNorm1d(4),
            nn.MultiheadAttention(4, 2),
            parametrizations.weight_norm(nn.Linear(4, 4)),
        )
    )


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_weight_that_a_hook_computes_is_refused():
    with pytest.raises(ValueError, match=r"in a hook: use torch\.nn\.utils\.parametrizations"):
        refuse_unfit(nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 4))))


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_a_hook_of_a_gradient_is_refused_before_and_after_attach(kind):
    """It would never be called: a mask of a gradient, or an optimizer that steps in the backward pass."""
    module = model()
    handle = getattr(module[0].weight, kind)(lambda given: None)
    with pytest.raises(ValueError, match=r"0\.weight has a hook of its gradient .*: remove it, and mask or scale"):
        attach(plan(), module, torch.optim.SGD(module.parameters(), 0.1), data())
    handle.remove()
    _, optimizer, loader = attach(plan(), module, torch.optim.SGD(module.parameters(), 0.1), data())
    train(module, optimizer, loader, 1)
    getattr(module[0].weight, kind)(lambda given: None)
    with pytest.raises(ValueError, match=r"a parameter of shape \(6, 5\) has a hook of its gradient"):
        train(module, optimizer, loader, 1)


@pytest.mark.parametrize("several", [False, True])
def test_what_was_noised_is_masked_in_a_hook_before_the_step(several):
    """As the refusal says."""
    module = model()
    given = [torch.optim.SGD(each.parameters(), 0.1) for each in (module[0], module[2])]
    _, optimizer, loader = attach(
        plan(), module, given if several else torch.optim.SGD(module.parameters(), 0.1), data()
    )

    def mask(inner, args, kwargs):
        module[0].weight.grad[:2] = 0

    optimizer.inner.register_step_pre_hook(mask)
    before = module[0].weight.detach().clone()
    train(module, optimizer, loader, 1)
    assert torch.equal(module[0].weight[:2], before[:2])
    assert not torch.equal(module[0].weight[2:], before[2:])


def test_distributed_replicas_are_refused(monkeypatch):
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        refuse_replicas()  # one process is one training
        with pytest.raises(ValueError, match=r"the model \(DistributedDataParallel\).*attach the module inside it"):
            refuse_unfit(nn.parallel.DistributedDataParallel(nn.Linear(4, 4)))
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
        with pytest.raises(ValueError, match="2 processes train together"):
            refuse_replicas()
    finally:
        torch.distributed.destroy_process_group()
