"""The built-in tasks of split learning learn, protected and not, and each party builds its own part only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tacit.channel import run_parties
from tacit.kinds.split.follower import follower
from tacit.kinds.split.leader import leader
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Bottom, Ends, Top, Trunk, modules
from tacit.kinds.split.tasks import text
from tacit.kinds.split.tasks.load import make_part
from tacit.lockstep.context import Context

CANCER = {
    "topology": "V",
    "task": "split_cancer",
    "parties": {"clinic": {"role": "leader"}, "lab": {"role": "follower"}, "scan": {"role": "follower"}},
    "train": {"epochs": 12, "batch": 32, "learning_rate": 0.01},
    "evaluate": 12,
}
DIGITS = {
    "topology": "V",
    "task": "split_digits",
    "task_options": {"channels": 4},
    "parties": {"lead": {"role": "leader"}, "camera": {"role": "follower"}},
    "train": {"epochs": 4, "batch": 64, "learning_rate": 0.01},
    "evaluate": 4,
}
TEXT = {
    "topology": "U",
    "task": "text",
    "task_options": {"layers": 1, "width": 32, "heads": 2, "sequence": 16, "vocabulary": 200, "cut": 48, "test": 0.001},
    "parties": {"office": {"role": "leader"}, "cloud": {"role": "follower"}},
    "train": {"epochs": 1, "batch": 16, "learning_rate": 0.003, "steps": 40},
}


def trained(data, **changes):
    settings = Settings.model_validate({**data, **changes})
    parts = {party: make_part(settings, party) for party in settings.parties}
    functions: dict[str, Any] = {
        party: (lambda channels, party=party: follower(channels, settings, party, parts[party], Context()))
        for party in settings.followers
    }
    functions[settings.leader] = lambda channels: leader(channels, settings, parts[settings.leader], Context())
    return run_parties(functions)[settings.leader].metrics


def test_breast_cancer_between_two_followers():
    metrics = trained(CANCER)
    assert metrics["auc"] > 0.96
    assert metrics["accuracy"] > 0.93
    protected = trained(CANCER, embedding_dp={"eps": 5}, label_dp={"eps": 3}, simulation={"insecure_noise_seed": 1})
    assert protected["auc"] > 0.9


def test_digits_by_a_convolutional_network():
    assert trained(DIGITS)["accuracy"] > 0.9


def test_a_text_by_a_gpt():
    metrics = trained(TEXT, embedding_dp={"eps": 5}, simulation={"insecure_noise_seed": 1})
    assert metrics["loss"] < 0.75 * math.log(200)


def test_each_party_gets_its_own_part():
    settings = Settings.model_validate(CANCER)
    lead, lab, scan = (make_part(settings, party) for party in ("clinic", "lab", "scan"))
    assert isinstance(lead, Top)
    assert lead.train.features is None
    assert isinstance(lab, Bottom)
    assert isinstance(scan, Bottom)
    assert lab.train.labels is scan.train.labels is None
    assert lab.train.features.shape[1] + scan.train.features.shape[1] == 30
    assert len(lead.train) == len(lab.train) == len(scan.train)
    settings = Settings.model_validate(TEXT)
    office, cloud = make_part(settings, "office"), make_part(settings, "cloud")
    assert isinstance(office, Ends)
    assert isinstance(cloud, Trunk)
    assert (office.train.features[:, 1:] == office.train.labels[:, :-1]).all()


@pytest.mark.parametrize("data", [CANCER, DIGITS, TEXT], ids=lambda data: data["task"])
def test_first_weights_are_the_seeds_in_a_simulation_and_nobody_elses_over_a_network(data):
    settings = Settings.model_validate(data)

    def first(secret):
        parts = [make_part(settings, party, secret=secret) for party in settings.parties]
        networks = [network for part in parts for network in modules(part).values()]
        return [
            p.detach().clone() for network in networks for p in network.parameters() if p.numel() > 1 and p.std() > 0
        ]

    before = torch.get_rng_state()
    simulated, again, one, other = first(False), first(False), first(True), first(True)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(simulated, again, strict=True))
    for pair in ((simulated, one), (simulated, other), (one, other)):
        assert not any(torch.equal(a, b) for a, b in zip(*pair, strict=True))
    for a, b in zip(simulated, one, strict=True):
        if a.numel() > 1000:  # drawn as before, only from elsewhere
            assert float(b.mean()) == pytest.approx(float(a.mean()), abs=float(a.std()) * 0.2)
            assert float(b.std()) == pytest.approx(float(a.std()), rel=0.1)


def test_the_first_weights_of_a_task_that_knows_nothing_of_it_are_secret(tmp_path, monkeypatch):
    (tmp_path / "careless.py").write_text(
        "import numpy as np\nfrom torch import nn\nfrom tacit.kinds.split.task import Bottom, Rows\n"
        "def make_parts(seat):\n    return Bottom(nn.Linear(30, 4), (4,), Rows(np.zeros((5, 30), np.float32)))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = Settings.model_validate({**CANCER, "task": "careless:make_parts"})
    found = []
    for _ in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # as older releases of torch begin every process
            found.append(make_part(settings, "lab", secret=True).network.weight.detach())
    assert not torch.equal(*found)


def test_the_digits_of_three_followers_are_whole_together():
    parties = {name: {"role": "follower"} for name in ("a", "b", "c")} | {"lead": {"role": "leader"}}
    settings = Settings.model_validate({**DIGITS, "parties": parties})
    parts = [make_part(settings, name) for name in settings.followers]
    whole = np.concatenate([part.train.features for part in parts], axis=2)
    assert whole.shape[1:] == (1, 8, 8)


def test_a_text_file_as_bytes_and_as_words(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("one two three two one. " * 40, encoding="utf-8")
    ids, size = text.encoded(text.read(str(path)), "words", 4)
    assert size == 4
    assert set(ids.tolist()) == {0, 1, 2, 3}
    raw, size = text.encoded(text.read(str(path)), "bytes", 4)
    assert (size, len(raw)) == (256, path.stat().st_size)
    windows = text.windows(raw, 10)
    assert (windows[:-1, -1] == windows[1:, 0]).all()


@pytest.mark.parametrize(
    ("data", "changes", "words"),
    [
        (CANCER, {"task": "cancer"}, "is not known: take one of split_cancer, split_digits, table, text"),
        (CANCER, {"task": "tacit.nowhere:make_parts"}, "needs the module"),
        (CANCER, {"task": "tacit.kinds.split.tasks.text:make_nothing"}, "has no function make_nothing"),
        (CANCER, {"task_options": {"colour": 1}}, "does not take these task_options"),
        (CANCER, {"task_options": {"width": 0}}, "up to 1024"),
        (CANCER, {"task": "tacit.partition:iid"}, "does not take these task_options"),
        (TEXT, {"task_options": {"path": "/nowhere.txt"}}, "there is no file"),
        (TEXT, {"task_options": {"tokens": "runes"}}, "words or bytes"),
        (TEXT, {"task_options": {"width": 30}}, "multiple of heads"),
        (TEXT, {"task": "split_digits", "task_options": {}}, "trained in topology V"),
    ],
)
def test_what_is_refused(data, changes, words):
    settings = Settings.model_validate({**data, **changes})
    with pytest.raises(ValueError, match=words):
        make_part(settings, settings.leader)
    with pytest.raises(ValueError, match="is not a party of this file"):
        make_part(settings, "nobody")
