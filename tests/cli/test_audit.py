"""`tacit audit` as a user meets it: what it prints, where the page is, how it ends, and that it can be repeated."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.commands import invoke

pytest.importorskip("torch")

FLEET = """\
kind: horizontal
name: small
task: digits_unsupervised
task_options: {hidden: 8}
rounds: 2
clients: 6
train: {epochs: 1, batch: 16, learning_rate: 0.2}
unsupervised: {cluster_client_num: 4, vectors: 4}
encrypt: {privacy_eval_type: LAPLACE, laplace_eval_eps: 1}
"""
MASKED = """\
kind: horizontal
name: masked
task: digits
rounds: 2
clients: 6
encrypt: {encrypt_type: PW_ENCRYPT}
train: {epochs: 1, batch: 1000, learning_rate: 0.5}
"""
PRIVATE = """\
kind: private_training
name: private
task: digits
privacy: {epsilon: 3, delta: 1.0e-5}
train: {epochs: 3, batch: 256, learning_rate: 2.0}
"""
DEAL = """\
kind: vertical_logistic
name: deal
protocol: masked
task: cancer
parties: {hospital: {role: active}, laboratory: {role: passive}}
train: {epochs: 6, batch: 512, learning_rate: 1.0}
paillier: {bits: 512}
"""
SPLIT = """\
kind: split
name: cut
topology: V
task: split_digits
parties: {office: {role: leader}, cloud: {role: follower}}
embedding_dp: {eps: 5}
label_dp: {eps: 2}
train: {epochs: 2, batch: 32, learning_rate: 0.003}
"""
FILES = {"fleet": FLEET, "masked": MASKED, "private": PRIVATE, "deal": DEAL, "cut": SPLIT}


audit = partial(invoke, "audit")


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audits")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, text in FILES.items():
            Path(f"{name}.yaml").write_text(text)
        yield folder


@pytest.fixture(scope="module")
def fleet(files):
    return audit("fleet.yaml"), Path("fleet-audit.html").read_text()


def test_a_federation(fleet):
    done, _ = fleet
    assert done.exit_code == 0, done.output
    assert "Audit: fleet-audit.html" in done.stdout
    for words in (
        "inference vectors: epsilon 8,",  # 4 vectors in 2 rounds
        "of two equally likely inputs an attacker names the right one at most",
        "Laplace noise of inference vectors",
        "Proved and audited",
        "gradient inversion, closed form, from",
        "server, honest but curious",
        "sees the messages of each client",
        "silhouette score after 2 rounds",
        "What was not tested",
    ):
        assert words in re.sub(r"\s+", " ", done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 118
    assert "step 1/7: gradient inversion" in done.stderr


def test_the_page_has_what_is_promised(fleet):
    _, page = fleet
    assert page.startswith("<!doctype html>")
    for words in (
        "What is proved",
        "errors of an attacker",  # the trade-off curve
        "Proved and audited",
        "What attacks recover",
        "no information",
        "16 images: originals",
        "16 images: recovered without the protection",
        "Cost in utility",
        "What was not tested",
        "Who sees what",
        "tacit audit FILE|RUN --quick --seed 0",
    ):
        assert words in page
    assert page.count("data:image/png;base64,") >= 4
    assert "<script" not in page
    assert "promise" not in page.partition("What is proved</h2>")[2].partition("Proved and audited</h2>")[0]
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)


def test_the_json_is_all_that_was_found():
    done = audit("deal.yaml", "--json", "--quiet", "--seed", "3", "--output", "pages/deal.html")
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)
    assert Path("pages/deal.html").exists()
    assert (made["kind"], made["seed"], made["proved"], made["false_claims"]) == ("vertical_logistic", 3, [], [])
    by_name = {finding["attack"]: finding for finding in made["findings"]}
    forged = by_name["residues that single out one row"]
    assert (forged["off"]["value"], forged["on"]["value"]) == (1, 0)
    steered = by_name["answers that steer the passive's weights, so that its scores are its columns"]
    assert steered["off"]["value"] < 1e-3 < 0.1 < steered["on"]["value"]
    assert steered["on"]["value"] == pytest.approx(steered["on"]["baseline"], rel=0.05)
    oracle = by_name["labels, by having residues decrypted in place of a gradient"]
    assert oracle["off"]["value"] > oracle["off"]["baseline"]
    labels = by_name["labels by least squares on a passive's gradients"]
    assert labels["off"]["low"] > labels["on"]["high"]
    assert by_name["rows by linear algebra on the scores w·x of all epochs"]["on"] is None
    assert all(finding["proved"] is None for finding in made["findings"])


def only_noise(patch):
    """Leave out the attacks that are not about noise: they take their time."""
    for name in ("_inversion", "_labels", "_own", "_subtracted", "_utility"):
        patch.setattr(f"tacit.kinds.horizontal.attacks.{name}", lambda *arguments: [])


def test_a_false_claim_ends_in_1_and_is_named(monkeypatch):
    only_noise(monkeypatch)
    honest = audit("fleet.yaml", "--quiet")
    assert honest.exit_code == 0
    monkeypatch.setattr(
        "tacit.kinds.horizontal.protections.vectors_laplace.SENSITIVITY", 1.0
    )  # two points of the simplex are 2 apart
    done = audit("fleet.yaml", "--quiet")
    assert done.exit_code == 1
    assert "FALSE CLAIM: Laplace noise of inference vectors" in done.stderr
    assert "Claimed epsilon 1 for each vector (replace-one); found an attack misses at most" in done.stderr
    assert "epsilon at least 1.9" in done.stderr
    page = Path("fleet-audit.html").read_text()
    assert "A claim is false: Laplace noise of inference vectors" in page


def test_a_run_is_audited_where_it_lies(monkeypatch):
    only_noise(monkeypatch)
    run = invoke("run", "fleet.yaml", "--quiet")
    folder = run.output.removeprefix("Results: ").strip()
    done = audit(folder, "--quiet")
    assert done.exit_code == 0, done.output
    assert f"Audit: {folder}/audit.html" in done.stdout
    assert (Path(folder) / "audit.html").exists()


def test_a_run_is_audited_in_the_folder_of_its_task(monkeypatch, here):
    only_noise(monkeypatch)
    Path("own").mkdir()
    monkeypatch.chdir("own")
    Path("fleet.yaml").write_text(FLEET.replace("digits_unsupervised", "tacit_test_audited:make_task"))
    Path("tacit_test_audited.py").write_text("from tacit.kinds.horizontal.tasks.digits_unsupervised import make_task\n")
    run = invoke("run", "fleet.yaml", "--quiet")
    folder = Path(run.output.removeprefix("Results: ").strip()).resolve()
    assert audit(folder, "--quiet").exit_code == 0
    monkeypatch.chdir(here)
    done = audit(folder, "--quiet")
    assert done.exit_code == 2
    assert "or start in the folder that holds it" in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        (["."], "this is not the folder of a run"),
        (["fleet.yaml", "--set", "clients=none"], "clients"),
        (["fleet.yaml", "--set", "task=unheard"], "unheard"),
        (["fleet.yaml", "--seed", "-1"], "--seed"),
        (["deal.yaml", "--set", "task_options.rows=20"], "rows"),
        (["deal.yaml", "--set", "train.batch=4"], "batch"),
        (["fleet.yaml", "--output", "."], "Is a directory"),
    ],
)
def test_a_mistake_ends_in_2(arguments, words):
    done = audit(*arguments)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output


def test_what_nobody_expected_is_no_false_claim(monkeypatch):
    def broken(*given):
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("tacit.runs.audit.kind_of", broken)
    done = audit("fleet.yaml", "--quiet")
    assert done.exit_code == 1
    assert "a mistake of ours" in done.stderr
    assert "not a false claim" in done.stderr


def test_a_place_that_cannot_be_written(monkeypatch):
    only_noise(monkeypatch)
    Path("taken").write_text("a file")
    done = audit("fleet.yaml", "--quiet", "--output", "taken/page.html")
    assert done.exit_code == 2
    assert "Name a place with --output" in done.output


@pytest.mark.parametrize("name", ["private", "cut"])
def test_without_torch_it_says_what_is_missing(name):
    program = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name, name="torch")

sys.meta_path.insert(0, Absent())
from tacit.cli import main
main(["audit", sys.argv[1], "--quiet"])
"""
    done = subprocess.run([sys.executable, "-c", program, f"{name}.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip() == "this audit needs torch: pip install 'tacit-learning[torch]'"


def test_help_says_how_it_ends():
    output = audit("--help").output
    for words in ("FILE|RUN", "--quick", "--full", "--seed", "--output", "a claim is false"):
        assert words in output


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FILES) - {"private"}))  # its noise is that of the operating system
def test_every_kind_repeats_under_a_seed(name):
    first, page = audit(f"{name}.yaml", "--json", "--quiet", "--seed", "5"), Path(f"{name}-audit.html").read_text()
    assert first.exit_code == 0, first.output
    again = audit(f"{name}.yaml", "--json", "--quiet", "--seed", "5")
    assert again.stdout == first.stdout
    assert Path(f"{name}-audit.html").read_text() == page
    other = audit(f"{name}.yaml", "--json", "--quiet", "--seed", "6")
    assert other.stdout != first.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protection", "claim"),
    [
        ("DP_ENCRYPT, dp_eps: 8, dp_delta: 1.0e-5", "Gaussian noise of an upload"),
        ("DDP_ENCRYPT, ddp_eps: 8", "Skellam noise of an opened sum"),
    ],
)
def test_protections_with_an_epsilon(protection, claim):
    Path("noisy.yaml").write_text(MASKED.replace("PW_ENCRYPT", protection))
    made = json.loads(audit("noisy.yaml", "--json", "--quiet").stdout)
    (found,) = (finding for finding in made["findings"] if finding["attack"].startswith(claim))
    assert made["confidence"] >= 0.99 - 1e-9
    assert not found["curve"]["refuted"]
    rules = [finding for finding in made["findings"] if finding["watched"]]
    assert len(rules) == (3 if "DDP" in protection else 1)  # repeats; masks and sums of too few
    assert not any(finding["broken"] for finding in made["findings"])
    assert 0.3 * found["proved"]["epsilon"] < found["audited"]["epsilon"] < found["proved"]["epsilon"]
    assert {cost["metric"] for cost in made["costs"]} == {"loss after 2 rounds", "accuracy after 2 rounds"}


@pytest.mark.slow
def test_private_training():
    made = json.loads(audit("private.yaml", "--json", "--quiet").stdout)
    audited = {finding["attack"]: finding for finding in made["findings"] if finding["audited"]}
    assert len(audited) == 7
    assert made["confidence"] >= 0.99 - 1e-9
    assert not made["false_claims"]
    end_to_end = audited["Private SGD, end to end: canaries, every step observed"]
    assert end_to_end["proved"]["epsilon"] == pytest.approx(3, rel=0.05)
    assert end_to_end["audited"]["epsilon"] < 3  # few trainings are observed: it may be 0
    (steps,) = (finding for attack, finding in audited.items() if attack.startswith("Single steps: canaries in each"))
    assert 0.5 * steps["proved"]["epsilon"] < steps["audited"]["epsilon"] < steps["proved"]["epsilon"]


@pytest.mark.slow
def test_noise_that_is_halved_is_found(monkeypatch):
    from tacit.training.noise import Gaussian

    honest = Gaussian.normal
    monkeypatch.setattr(Gaussian, "normal", lambda self, flat, deviation: honest(self, flat, deviation / 4))
    done = audit("private.yaml", "--quiet")
    assert done.exit_code == 1
    assert "FALSE CLAIM: Single steps" in done.stderr


@pytest.mark.slow
def test_split_learning():
    made = json.loads(audit("cut.yaml", "--json", "--quiet").stdout)
    audited = [finding["attack"].partition(":")[0] for finding in made["findings"] if finding["audited"]]
    assert {"EmbeddingDP", "LabelDP"} <= set(audited)
    assert made["confidence"] >= 0.99 - 1e-9
    assert not made["false_claims"]
    assert {proved["what"] for proved in made["proved"]} == {"activations of cloud", "labels"}
    assert any(finding["pictures"] for finding in made["findings"])
    page = Path("cut-audit.html").read_text()
    assert "images: recovered with it" in page


@pytest.mark.parametrize("encrypt_type", ["PW_ENCRYPT", "NOT_ENCRYPT"])
def test_clients_that_are_all_refused_end_it_with_the_reason(tmp_path, encrypt_type):
    text = MASKED.replace(
        "{encrypt_type: PW_ENCRYPT}", f"{{encrypt_type: {encrypt_type}, pw_encrypt: {{largest_weight: 100}}}}"
    )
    (tmp_path / "refused.yaml").write_text(text)
    ended = invoke("audit", tmp_path / "refused.yaml", "--quick", "--output", tmp_path / "page.html")
    assert ended.exit_code == 2
    assert "more samples than pw_encrypt.largest_weight = 100, from 239 to 240" in ended.output
    assert "Traceback" not in ended.output
    assert not (tmp_path / "page.html").exists()
