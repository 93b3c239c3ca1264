"""The models of `private_sgd`, and one training step of each contender on them, always on the same batch."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

from tacit.training import Plan

Step = Callable[[], Any]
SIDES = ("plain", "tacit", "opacus hooks", "opacus ghost")
NOISE_MULTIPLIER, CLIP, RATE = 1.0, 1.0, 0.01


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def strided() -> nn.Module:
    """The convolutional network of Opacus's own MNIST example."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions beside a shortcut, as of He et al. 2016, with groups in place of batches."""

    def __init__(self, channels: int, features: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, features, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(features, features, 3, padding=1, bias=False)
        self.one, self.two = nn.GroupNorm(8, features), nn.GroupNorm(8, features)
        same = stride == 1 and channels == features
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels, features, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        found = self.two(self.second(F.relu(self.one(self.first(x)))))
        return F.relu(found + self.shortcut(x))


def resnet() -> nn.Module:
    """Fourteen layers for small images: three stages of two blocks, of 16, 32 and 64 channels."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(8, 16), nn.ReLU(),
        Residual(16, 16, 1), Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 32, 1), Residual(32, 64, 2),
        Residual(64, 64, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.mixed(self.before(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(nn.Module):  # type: ignore[misc]
    def __init__(self, vocabulary: int = 5000, width: int = 128, length: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1]).expand(ids.shape).contiguous()  # Opacus takes no strided ids
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.places(places))))


class Reader(nn.Module):  # type: ignore[misc]
    """A scan over words, and a class of the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.scan = nn.Embedding(5000, 128), nn.LSTM(128, 128, batch_first=True)
        self.last = nn.Linear(128, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.last(self.scan(self.words(ids))[0][:, -1])


class Logits(nn.Module):  # type: ignore[misc]
    """A model of transformers as a function of ids."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids).logits


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(vocab_size=5000, n_positions=64, n_embd=128, n_layer=2, n_head=2, **none)
    return Logits(GPT2LMHeadModel(config))


def bert() -> nn.Module:
    """Of the sizes of `bert-tiny`."""
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return Logits(BertForSequenceClassification(BertConfig(**sizes, **none)))


def adapted_llama() -> nn.Module:
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 344}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=5000, max_position_embeddings=64, **sizes))
    return Logits(get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")))


OF_LIBRARIES = {"HF GPT-2": gpt2, "HF BERT": bert, "nn.LSTM": Reader, "LoRA of HF Llama": adapted_llama}


def _library_case(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Sentences of 64 words: the next word of each, or a class of each sentence."""
    model, records = OF_LIBRARIES[name](), 32
    ids = torch.randint(0, 5000, (records, 64))
    labels = torch.randint(0, 2, (records,)) if name in ("HF BERT", "nn.LSTM") else torch.randint(0, 5000, ids.shape)
    return model.train(), ids, labels


def case(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """(model, inputs, labels)"""
    torch.manual_seed(0)
    if name in OF_LIBRARIES:
        return _library_case(name)
    if name == "GPT":
        return GPT(), torch.randint(0, 5000, (32, 128)), torch.randint(0, 5000, (32, 128))
    if name == "MLP":
        return mlp(), torch.randn(512, 784), torch.randint(0, 10, (512,))
    if name == "ResNet":
        return resnet(), torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
    return {"CNN": lenet, "strided CNN": strided}[name](), torch.randn(256, 1, 28, 28), torch.randint(0, 10, (256,))


def loss_of(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs.flatten(0, -2), labels.flatten())


def step_of(side: str, name: str) -> Step:
    """One step of a contender: take the batch, forward, backward, clip, noise where it is private, and move."""
    model, x, y = case(name)
    optimizer = optim.SGD([each for each in model.parameters() if each.requires_grad], lr=RATE)
    match side:
        case "plain":
            return _loop(model, optimizer, _shuffled(x, y))
        case "tacit":
            # With as many records as a batch the sample is all of them: every contender sees the same batch.
            plan = Plan(records=len(x), batch=len(x), epochs=10**6, noise_multiplier=NOISE_MULTIPLIER, clip=CLIP)
            return _loop(*plan.attach(model, optimizer, TensorDataset(x, y)))
        case "opacus hooks":
            model, private, _ = _opacus(model, optimizer, x, y, "hooks")
            return _loop(model, private, _shuffled(x, y))
        case "opacus ghost":
            model, private, criterion, _ = _opacus(model, optimizer, x, y, "ghost", criterion=nn.CrossEntropyLoss())

            batches = _shuffled(x, y)

            def step() -> None:
                inputs, labels = next(batches)
                shape = labels.shape if labels.dim() == 2 else None
                private.zero_grad()
                criterion(model(inputs).flatten(0, -2), labels.flatten(), shape=shape).backward()
                private.step()

            return step
    raise ValueError(f"{side} is none of {', '.join(SIDES)}")


def _opacus(model: nn.Module, optimizer: Any, x: Tensor, y: Tensor, mode: str, **options: Any) -> Any:
    from opacus import PrivacyEngine

    warnings.filterwarnings("ignore", module="opacus|torch")
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    return PrivacyEngine().make_private(
        module=model.train(), optimizer=optimizer, data_loader=DataLoader(TensorDataset(x, y), batch_size=len(x)),
        noise_multiplier=NOISE_MULTIPLIER, max_grad_norm=CLIP, poisson_sampling=False, grad_sample_mode=mode, **options,
    )  # fmt: skip


def _loop(model: nn.Module, optimizer: Any, loader: Any) -> Step:
    batches = _forever(loader)

    def step() -> None:
        x, y = next(batches)
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()

    return step


def _shuffled(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """All records, by index in an order of their own: the fastest way to take a shuffled batch of tensors."""
    while True:
        order = torch.randperm(len(x))
        yield x.index_select(0, order), y.index_select(0, order)


def _forever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def peak_bytes(side: str, name: str) -> int:
    """The most memory that six steps hold beyond what there was before them. For a process of its own."""
    torch.set_num_threads(2)
    step = step_of(side, name)
    reset_peak()
    before = memory_of("VmRSS")
    for _ in range(6):
        step()
    return memory_of("VmHWM") - before


def reset_peak() -> None:
    """Have Linux count the peak from here on: imports hold more for a moment than many a step."""
    Path("/proc/self/clear_refs").write_text("5")


def memory_of(field: str) -> int:
    """A field of this process in bytes, as Linux has it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    print(peak_bytes(*sys.argv[1:3]))
