"""The code of docs/private-training.md runs as it stands there, on small models and data."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import tacit
from tacit.training import rules
from tests.training import huggingface
from tests.training.supported import DOCS

BLOCKS = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def block(words: str) -> str:
    """The one block that has these words."""
    (found,) = [each for each in BLOCKS if words in each]
    return found


def run(code: str, **given: Any) -> dict[str, Any]:
    exec(compile(code, str(DOCS), "exec"), given)  # noqa: S102  # our own page
    return given


def small(records: int = 1024) -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))
    data = TensorDataset(torch.randn(records, 5), torch.randint(0, 3, (records,)))
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), 0.1), "data": data}


def test_every_block_is_run_here():
    tried = (
        "optimizer.zero_grad()",
        "LoraConfig",
        "register_layer",
        "Monitor(",
        "optimizer.restore",
        "weight=weights",
        'unit="owner"',
        "init_process_group",  # by several processes: tests/training/test_ranks.py
    )
    assert sorted(block(words) for words in tried) == sorted(BLOCKS)


def test_the_ordinary_loop_trains_the_whole_plan(capsys):
    found = run(block("optimizer.zero_grad()"), **small())
    assert found["optimizer"].steps == found["plan"].steps == 80
    assert found["optimizer"].report()["epsilon"] <= 3
    assert "'epsilon'" in capsys.readouterr().out


def test_owners_of_records_are_sampled():
    table = [SimpleNamespace(patient=number % 256) for number in range(1024)]
    found = run(block('unit="owner"'), tacit=tacit, table=table, **small())
    assert found["plan"].units == 256
    for records, labels in found["loader"]:
        assert 1 <= len(records) == len(labels)
        nn.functional.cross_entropy(found["model"](records), labels).backward()
        found["optimizer"].step()
        break
    assert found["optimizer"].ledger.unit == "owner"


class Sentences(Dataset):
    """Records as dictionaries, as the library `datasets` has them."""

    def __init__(self) -> None:
        self.ids = torch.randint(1, huggingface.WORDS, (512, 6), generator=torch.Generator().manual_seed(2))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        ids = self.ids[place]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids[0] % 5}


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_the_loop_of_a_model_of_transformers_trains_its_adapter(monkeypatch):
    transformers = pytest.importorskip("transformers", reason="needs the models: pip install 'tacit-learning[hf]'")
    pytest.importorskip("peft", reason="needs the adapters: pip install 'tacit-learning[hf]'")

    def from_pretrained(name: str, num_labels: int) -> nn.Module:
        config = huggingface.bert().config
        config.num_labels = num_labels
        return transformers.BertForSequenceClassification(config)

    monkeypatch.setattr(transformers.AutoModelForSequenceClassification, "from_pretrained", from_pretrained)
    found = run(block("LoraConfig"), dataset=Sentences())
    assert found["optimizer"].steps == found["plan"].steps == 10
    assert found["optimizer"].report()["epsilon"] <= 3


def test_the_rule_of_a_layer_is_taken(monkeypatch):
    monkeypatch.setattr(rules, "_rules", list(rules._rules))
    found = run(block("register_layer"))
    given = small(40)
    model = nn.Sequential(given["model"], found["Scale"](3))
    plan = tacit.Plan(records=40, batch=20, epochs=1, noise_multiplier=1.0)
    model, optimizer, loader = plan.attach(model, torch.optim.SGD(model.parameters(), 0.1), given["data"])
    for x, y in loader:  # a warning of a layer without a rule would be an error
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert optimizer.steps == 2


def test_the_monitor_is_attached():
    plan = tacit.Plan(records=1024, batch=64, epochs=4, noise_multiplier=2.0)
    found = run(block("Monitor("), plan=plan, **small())
    assert found["monitor"].max_epoch_suggest() > 0


def test_a_training_is_resumed_by_the_two_parts():
    first, later = block("optimizer.restore").split("# Later")
    plan = tacit.Plan(records=1024, batch=512, epochs=2, noise_multiplier=2.0)
    given = small()
    model, optimizer, loader = plan.attach(**given)
    for x, y in loader:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    state = run(first, optimizer=optimizer)["state"]
    found = run(f"# Later{later}", state=state, plan=plan, tacit=tacit, **small())
    assert (found["optimizer"].steps, found["epoch"]) == (2, 1)


def test_a_value_for_each_record_is_trained():
    plan = tacit.Plan(records=1024, batch=512, epochs=1, noise_multiplier=2.0)
    model, optimizer, loader = plan.attach(**small())
    weights = torch.tensor([0.1, 1.0, 10.0])
    for x, y in loader:
        run(block("weight=weights"), model=model, x=x, y=y, weights=weights)
        optimizer.step()
    assert optimizer.steps == 2
