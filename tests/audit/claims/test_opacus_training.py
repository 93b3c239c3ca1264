"""Claims of Opacus trainings: a correct one stands, shuffled batches, small noise and clipping that fails do not."""

import copy
import warnings

import pytest

pytest.importorskip("opacus", reason="needs the extra claims")
pytest.importorskip("torch")

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tacit.audit.claims.opacus_training import Training, audit_training
from tacit.audit.claims.samples import Effort

pytestmark = pytest.mark.filterwarnings("ignore")  # of Opacus, in every step

EFFORT = Effort(learn=100, choose=500, judge=1500, seconds=1e6)
DELTA = 1e-5


def made(*, sigma=1.0, batch=20, shuffle=True, mode="hooks", epochs=2, scale=1.0, **more):
    torch.manual_seed(1)
    inputs, targets = scale * torch.randn(400, 8), torch.randint(0, 2, (400,))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    engine = PrivacyEngine()
    parts = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        data_loader=DataLoader(TensorDataset(inputs, targets), batch_size=batch, shuffle=shuffle),
        noise_multiplier=sigma,
        max_grad_norm=1.0,
        grad_sample_mode=mode,
        **more,
    )
    loss = parts[2] if mode == "ghost" else nn.functional.cross_entropy
    return {"model": parts[0], "optimizer": parts[1], "loader": parts[-1]} | {
        "loss": loss,
        "engine": engine,
        "epochs": epochs,
    }


def audited(given, epsilon=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return audit_training(
            Training.of(given), subject="it", epsilon=epsilon, delta=DELTA, confidence=0.95, effort=EFFORT
        )


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_correct_training_stands(mode):
    found = audited(made(mode=mode))
    row = found.judged
    assert row.verdict == "holds"
    assert row.recomputed.epsilon == pytest.approx(row.claim.epsilon, rel=0.01)
    assert 0.4 * row.claim.epsilon < row.measured[0].epsilon < row.claim.epsilon
    assert not found.warnings
    assert dict(found.facts)["batches of the loader"].startswith("poisson")


def test_shuffled_batches_are_told_apart_and_their_claim_is_refuted():
    found = audited(made(poisson_sampling=False))
    row = found.judged
    assert row.verdict == "refuted"
    assert row.recomputed.at_least > 1.5 * row.claim.epsilon
    assert "Poisson" in row.broken[0]
    assert dict(found.facts)["batches of the loader"].startswith("shuffled")


def test_batches_that_stay_the_same_are_told_apart():
    found = audited(made(poisson_sampling=False, shuffle=False))
    assert found.judged.verdict == "refuted"
    assert dict(found.facts)["batches of the loader"].startswith("fixed")
    assert found.judged.recomputed.at_least == found.judged.recomputed.epsilon


def test_shuffled_batches_with_much_noise_are_told_apart_too():
    found = audited(made(poisson_sampling=False, sigma=3.0, epochs=1))
    assert found.judged.verdict in ("refuted", "not proved")
    assert found.judged.broken


def test_noise_that_is_smaller_than_stated_is_found_by_its_gradients():
    given = made()
    add_noise = given["optimizer"].add_noise

    def quiet():
        optimizer = given["optimizer"]
        optimizer.max_grad_norm /= 4
        add_noise()
        optimizer.max_grad_norm *= 4

    given["optimizer"].add_noise = quiet
    found = audited(given)
    assert found.judged.recomputed.epsilon == pytest.approx(found.judged.claim.epsilon, rel=0.01)
    assert found.judged.verdict == "refuted"
    assert any("not the stated 1" in said for said in found.warnings)


def test_clipping_that_fails_is_found_by_its_gradients():
    given = made()
    clip = given["optimizer"].clip_and_accumulate

    def loose():
        optimizer = given["optimizer"]
        optimizer.max_grad_norm *= 5
        clip()
        optimizer.max_grad_norm /= 5

    given["optimizer"].clip_and_accumulate = loose
    found = audited(given)
    assert found.judged.verdict == "refuted"
    assert any("not clipped alone" in said for said in found.warnings)


def test_a_claim_that_is_given_is_judged_instead_of_the_engine_s():
    given = made()
    del given["engine"]
    assert audited(given, epsilon=1.0).judged.verdict == "refuted"
    assert audited(given, epsilon=3.0).judged.verdict == "holds"
    with pytest.raises(ValueError, match="claim is not known"):
        audited(given)


def test_training_is_afterwards_what_it_was():
    given = made()
    weights = [each.detach().clone() for each in given["model"].parameters()]
    history, threads = copy.deepcopy(given["engine"].accountant.history), torch.get_num_threads()
    hook = given["optimizer"].step_hook
    audited(given)
    assert all(torch.equal(one, other) for one, other in zip(weights, given["model"].parameters(), strict=True))
    assert given["engine"].accountant.history == history
    assert given["optimizer"].param_groups[0]["lr"] == 0.1
    assert given["optimizer"].noise_multiplier == 1.0
    assert given["optimizer"].step_hook is hook
    assert torch.get_num_threads() == threads


def test_records_of_small_gradients_are_scaled_until_they_are_clipped():
    found = audited(made(scale=1e-2))
    assert dict(found.facts)["influence of the canary, in clipping norms"].startswith(("0.99", "1 ", "1.0"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"optimizer": None}, "without noise_multiplier"),
        ({"loader": []}, "batches cannot be observed"),
        ({"loss": 1}, "loss a function"),
        ({"epochs": 0}, "epochs must be"),
        ({"engine": object()}, "without an accountant"),
        ({"data": 1}, "unknown keys data"),
    ],
)
def test_parts_that_do_not_fit_are_refused_in_a_sentence(change, words):
    with pytest.raises(ValueError, match=words):
        Training.of(made() | change)


def test_missing_parts_are_named():
    with pytest.raises(ValueError, match="lacks loader, loss"):
        Training.of({"model": 1, "optimizer": 2})
    with pytest.raises(ValueError, match="dictionary"):
        Training.of(None)
