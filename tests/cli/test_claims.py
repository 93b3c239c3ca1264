"""`tacit audit` of the claims of others: what it prints, how it ends, and the one sentence of each mistake."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.commands import invoke

audit = partial(invoke, "audit")

NOISE = """\
import numpy as np

def laplace():
    return {"release": lambda x: x + np.random.laplace(0, 1.0), "one": 0.0, "other": 1.0,
            "noise": "laplace", "scale": 1.0, "sensitivity": 1.0}

def odd():
    return {"release": lambda x: x}

def text():
    return {"release": lambda x: "one", "one": 0.0, "other": 1.0}

def leaves():
    return {"release": lambda x: exit(0), "one": 0.0, "other": 1.0}

def leaves_at_once():
    raise SystemExit(0)

def failing():
    return {"release": lambda x: 1 / 0, "one": 0.0, "other": 1.0}
"""
CLIENT = """\
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod

app = ClientApp(mods=[LocalDpMod(clipping_norm=1.0, sensitivity=1e-4, epsilon=10.0, delta=1e-5)])
"""
TRAINING = """\
import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

def make(**more):
    data = TensorDataset(torch.randn(400, 8), torch.randint(0, 2, (400,)))
    model = torch.nn.Linear(8, 2)
    engine = PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), noise_multiplier=1.0, max_grad_norm=1.0,
        data_loader=DataLoader(data, batch_size=20, shuffle=True), **more)
    loss = torch.nn.functional.cross_entropy
    return {"model": model, "optimizer": optimizer, "loader": loader, "loss": loss, "engine": engine, "epochs": 2}

def shuffled():
    return make(poisson_sampling=False)
"""


@pytest.fixture
def folder(here):
    Path("claimed_noise.py").write_text(NOISE)
    Path("claimed_client.py").write_text(CLIENT)
    Path("claimed_training.py").write_text(TRAINING)
    return here


def test_claim_that_stands_ends_with_0_and_writes_a_page(folder):
    found = audit("--mechanism", "claimed_noise:laplace", "--epsilon", 1, "--delta", 0)
    assert found.exit_code == 0, found.output
    assert "holds for its parameters" in found.stdout
    assert "Audit: claimed_noise-laplace-audit.html" in found.stdout
    assert "holds for its parameters" in Path("claimed_noise-laplace-audit.html").read_text()


def test_false_claim_ends_with_1_and_is_named_in_the_json(folder):
    found = audit(
        "--mechanism", "claimed_noise:laplace", "--epsilon", 0.5, "--delta", 0, "--json", "--output", "p.html"
    )
    assert found.exit_code == 1
    data = json.loads(found.stdout)
    assert data["verdict"] == "refuted"
    assert data["rows"][0]["recomputed"]["epsilon"] == pytest.approx(1.0)
    assert data["rows"][0]["measured"][0]["epsilon"] > 0.5
    assert "IS FALSE" in found.stderr
    assert Path("p.html").exists()


def test_audit_can_be_repeated(folder):
    call = ("--mechanism", "claimed_noise:laplace", "--epsilon", 1, "--delta", 0, "--json", "--seed", 3)
    assert audit(*call).stdout == audit(*call).stdout
    assert audit(*call).stdout != audit(*call[:-1], 4).stdout


@pytest.mark.filterwarnings("ignore")
def test_flower_app_with_a_sensitivity_below_its_clip_is_refuted(folder):
    pytest.importorskip("flwr", reason="needs the extra flower")
    Path("pyproject.toml").write_text('[tool.flwr.app.components]\nclientapp = "claimed_client:app"\n')
    found = audit("--flower", ".", "--json")
    assert found.exit_code == 1, found.output
    data = json.loads(found.stdout)
    assert data["verdict"] == "refuted"
    assert data["rows"][0]["recomputed"]["epsilon"] == pytest.approx(2.13e8, rel=0.01)
    assert data["rows"][0]["measured"][1]["epsilon"] > 10
    assert Path(f"{folder.name}-audit.html").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("function", "code", "verdict"), [("make", 0, "holds"), ("shuffled", 1, "refuted")])
def test_opacus_training_stands_and_a_shuffled_one_does_not(folder, function, code, verdict):
    pytest.importorskip("opacus", reason="needs the extra claims")
    sure = ("--confidence", 1 - 1e-10)  # how many steps are measured depends on how busy the machine is
    found = audit("--opacus", f"claimed_training:{function}", "--delta", 1e-5, "--json", *sure)
    assert found.exit_code == code, found.output
    data = json.loads(found.stdout)
    assert data["verdict"] == verdict
    assert bool(data["rows"][0]["broken"]) == (function == "shuffled")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "missing argument 'FILE|RUN'"),
        (("--epsilon", 1), "--epsilon needs one of"),
        (("--mechanism", "a:b", "--flower", "a:b"), "give one of them"),
        (("x.yaml", "--mechanism", "a:b"), "without a FILE"),
        (("--mechanism", "a:b", "--set", "a=1"), "without --set"),
        (("--mechanism", "claimed_noise:laplace"), "needs the claim"),
        (("--mechanism", "claimed_noise", "--epsilon", 1, "--delta", 0), "module:function"),
        (("--mechanism", "nowhere:laplace", "--epsilon", 1, "--delta", 0), "'nowhere', which is not installed"),
        (("--mechanism", "claimed_noise:nothing", "--epsilon", 1, "--delta", 0), "no function nothing"),
        (("--mechanism", "claimed_noise:odd", "--epsilon", 1, "--delta", 0), "lacks one, other"),
        (("--mechanism", "claimed_noise:laplace", "--epsilon", -1, "--delta", 0), "epsilon must be"),
        (("--mechanism", "claimed_noise:laplace", "--epsilon", 1, "--delta", 2), "delta must be"),
        (("--mechanism", "a:b", "--confidence", 1), "--confidence must be"),
        (("--mechanism", "a:b", "--relation", "zero-out"), "--relation is for --flower"),
        (("--mechanism", "a:b", "--output", "."), "Is a directory"),
        (("--opacus", "claimed_training:make"), "--opacus needs --delta"),
        (("--flower", "nothing"), "neither a folder"),
    ],
)
def test_a_mistake_is_answered_in_one_sentence(folder, arguments, words):
    found = audit(*arguments)
    assert found.exit_code == 2, found.output
    assert words in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
    assert not list(folder.glob("*.html"))


@pytest.mark.parametrize("name", ["leaves", "leaves_at_once"])
def test_code_that_ends_the_process_does_not_end_as_a_claim_that_holds(folder, name):
    found = audit("--mechanism", f"claimed_noise:{name}", "--epsilon", 1, "--delta", 0)
    assert found.exit_code == 1
    assert "the audited code ended the process with 0, so nothing was audited" in found.stderr
    assert not list(folder.glob("*.html"))


def test_outputs_that_are_no_numbers_are_one_sentence(folder):
    found = audit("--mechanism", "claimed_noise:text", "--epsilon", 1, "--delta", 0)
    assert found.exit_code == 2
    assert found.stderr.strip() == "an output is str and not numbers: release a number or an array of numbers"


def test_code_that_fails_is_shown_with_its_own_frames(folder):
    found = audit("--mechanism", "claimed_noise:failing", "--epsilon", 1, "--delta", 0)
    assert found.exit_code == 1
    assert "ZeroDivisionError" in found.stderr
    assert "could not be carried out" in found.stderr
