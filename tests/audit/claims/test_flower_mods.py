"""Claims of Flower apps: a sensitivity below the clipping norm is refuted, a correct mod is not."""

import math
import sys

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod

from tacit.audit.claims.flower_mods import audit_mods, component, local_noise, mods_of
from tacit.audit.claims.samples import Effort
from tacit.dp.gaussian import gaussian_epsilon

pytestmark = pytest.mark.filterwarnings("ignore")  # of protobuf, while Flower is imported

EFFORT = Effort(learn=200, choose=300, judge=800, most=0, seconds=1e6)


@pytest.fixture(autouse=True)
def _seeded():
    np.random.seed(0)  # noqa: NPY002 -- the generator of LocalDpMod


def audited(*mods, **more):
    return audit_mods(list(mods), subject="app", confidence=0.95, effort=EFFORT, **more)


def test_sensitivity_below_the_clipping_norm_is_refuted_by_its_parameters_and_by_uploads():
    found = audited(LocalDpMod(clipping_norm=1.0, sensitivity=1e-4, epsilon=10.0, delta=1e-5))
    row = found.judged
    assert row.claim.epsilon == 10
    assert row.verdict == "refuted"
    assert row.recomputed.epsilon == pytest.approx(2.13e8, rel=0.01)
    assert max(bound.epsilon for bound in row.measured) > 30
    assert dict(found.facts)["distance of the mean uploads, measured (zero-out)"].startswith(("0.99", "1"))
    assert any("smaller than the clipping norm" in said for said in found.warnings)
    assert found.rows[1].claim.relation == "replace-one"
    assert found.rows[1].recomputed.epsilon == pytest.approx(4 * 2.13e8, rel=0.01)


def test_sensitivity_of_two_clipping_norms_stands_for_any_two_updates():
    mod = LocalDpMod(clipping_norm=1.0, sensitivity=2.0, epsilon=1.0, delta=1e-5)
    found = audited(mod, relation="replace-one")
    assert [row.verdict for row in found.rows] == ["holds", "holds"]
    sigma = local_noise([mod]).sigma
    assert found.judged.recomputed.epsilon == pytest.approx(gaussian_epsilon(sigma, 1e-5, 2.0))


def test_sensitivity_of_one_clipping_norm_stands_only_for_an_update_or_none():
    found = audited(LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=1.0, delta=1e-5))
    assert [(row.claim.relation, row.verdict) for row in found.rows] == [
        ("zero-out", "holds"),
        ("replace-one", "refuted"),
    ]
    assert any("--relation" in said for said in found.warnings)


def test_classical_formula_is_not_enough_for_a_large_epsilon():
    found = audited(LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=10.0, delta=1e-5))
    assert found.judged.verdict == "refuted"
    assert found.judged.recomputed.epsilon == pytest.approx(10.7, abs=0.5)
    assert any("proved for ε up to 1 only" in said for said in found.warnings)


def test_a_sensitivity_of_0_adds_no_noise_and_no_epsilon_holds():
    found = audited(LocalDpMod(clipping_norm=1.0, sensitivity=0.0, epsilon=1.0, delta=1e-5))
    assert found.judged.verdict == "refuted"
    assert math.isinf(found.judged.recomputed.epsilon)
    assert all(bound.epsilon > 1 for bound in found.judged.measured)


def test_noise_that_a_mod_does_not_add_is_found_by_uploads():
    class Quiet(LocalDpMod):
        """States what LocalDpMod states, and adds a tenth of the noise."""

        def __call__(self, msg, ctxt, call_next):
            return LocalDpMod(self.clipping_norm, self.sensitivity / 10, self.epsilon, self.delta)(msg, ctxt, call_next)

    found = audited(Quiet(clipping_norm=1.0, sensitivity=2.0, epsilon=1.0, delta=1e-5))
    assert found.judged.recomputed.epsilon < 1
    assert found.judged.verdict == "refuted"
    assert any("not the 9.69" in said for said in found.warnings)


def test_an_array_without_noise_is_found_by_uploads():
    def leaves_the_bias(msg, ctxt, call_next):
        inner = call_next(msg, ctxt)
        bias = next(iter(inner.content.array_records.values()))["bias"]
        reply = LocalDpMod(1.0, 4.0, 1.0, 1e-5)(msg, ctxt, lambda *_: inner)
        next(iter(reply.content.array_records.values()))["bias"] = bias
        return reply

    found = audited(leaves_the_bias, epsilon=1.0, delta=1e-5)
    assert found.judged.recomputed is None
    assert found.judged.verdict == "refuted"


def test_metrics_that_leave_as_they_are_are_told():
    found = audited(LocalDpMod(1.0, 2.0, 1.0, 1e-5))
    assert any("metrics of the reply" in said for said in found.warnings)


def test_claim_may_be_given_instead_of_the_one_that_the_mod_states():
    found = audited(LocalDpMod(1.0, 2.0, 1.0, 1e-5), epsilon=0.1, delta=1e-5)
    assert found.said_by == "--epsilon, --delta"
    assert found.judged.verdict == "refuted"


def test_mods_of_the_app_and_of_its_training_function_are_read_outermost_first():
    outer, inner = LocalDpMod(1.0, 2.0, 1.0, 1e-5), LocalDpMod(2.0, 2.0, 1.0, 1e-5)
    app = ClientApp(mods=[outer])
    assert mods_of(app) == [outer]

    @app.train(mods=[inner])
    def train(message, context):
        return message

    assert mods_of(app) == [outer, inner]


@pytest.mark.parametrize(
    ("mods", "more", "words"),
    [
        ([], {}, "has no mods"),
        ([lambda msg, ctxt, call_next: call_next(msg, ctxt)], {}, "no mod that states an ε"),
        ([fixedclipping_mod], {"epsilon": 1.0, "delta": 1e-5}, "Found none|answers with an error|config"),
        ([LocalDpMod(1.0, 1.0, 1.0, 0.0)], {}, "delta must be"),
        ([LocalDpMod(1.0, 1.0, 1.0, 1e-5)], {"relation": "add-remove"}, "--relation"),
    ],
)
def test_apps_that_cannot_be_audited_are_refused_in_a_sentence(mods, more, words):
    with pytest.raises(ValueError, match=words):
        audited(*mods, **more)


def test_what_is_no_client_app_is_refused():
    with pytest.raises(ValueError, match="no Flower ClientApp"):
        mods_of(sys)


def test_component_is_read_from_the_folder_of_an_app(tmp_path):
    assert component("package.client:app") == ("package.client:app", None)
    file = tmp_path / "pyproject.toml"
    file.write_text('[tool.flwr.app.components]\nclientapp = "mine.client:app"\n')
    assert component(str(tmp_path)) == ("mine.client:app", tmp_path)
    for text, words in [("[tool.flwr", "pyproject.toml"), ("[tool.x]", "names no clientapp")]:
        file.write_text(text)
        with pytest.raises(ValueError, match=words):
            component(str(tmp_path))
    file.unlink()
    with pytest.raises(ValueError, match="No such file"):
        component(str(tmp_path))
    with pytest.raises(ValueError, match="neither a folder"):
        component("nothing")
