"""What holds for every protection, those of an installed package included."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from tacit.audit.attacks.mechanisms import Effort
from tacit.audit.scope import Scope
from tacit.config.load import resolved
from tacit.config.source import ConfigError
from tacit.dp.accounting import Ledger
from tacit.kinds.horizontal import boundary, protections
from tacit.kinds.horizontal.attacks import any_promise, variants
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.encrypt import Encrypt
from tacit.kinds.horizontal.protections.contract import Alone, Attack, Inside, Target
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.runs.load import load
from tests.contract.installing import TOY_NAMES, installed, package
from tests.inside import inside
from tests.kinds.horizontal.federations import Inferring, Numbers, finished, run, settings_for

SRC = Path(__file__).parents[2] / "src" / "tacit"
SIZE = 650  # of the model of digits
BUILT_IN = ("NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT")
UPDATES = (*BUILT_IN, *TOY_NAMES)
VECTORS: dict[str, dict[str, Any]] = {
    "NOT_ENCRYPT": {},
    "LAPLACE": {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": 1.0},
}
WANTED = {"cluster_client_num": 5, "vectors": 4}
KEYS: dict[str, dict[str, Any]] = {"DDP_ENCRYPT": {"ddp_eps": 30.0}, "LAPLACE_UPDATES": {"options": {"epsilon": 2.5}}}


@pytest.fixture(autouse=True, scope="module")
def toys() -> Iterator[None]:
    with installed():
        yield


def settings_of(name: str, **keys: Any) -> Settings:
    return settings_for(encrypt={"encrypt_type": name, **KEYS.get(name, {})}, **keys)


def vectors_of(name: str, updates: str = "NOT_ENCRYPT", **keys: Any) -> Settings:
    encrypt = {"encrypt_type": updates, **KEYS.get(updates, {}), **VECTORS[name]}
    return settings_for(encrypt=encrypt, unsupervised=WANTED, **keys)


def every() -> list[Settings]:
    """Each protection of updates with each of vectors."""
    return [vectors_of(vectors, updates) for updates in UPDATES for vectors in VECTORS]


def test_all_are_found_and_listed():
    assert protections.names() == list(UPDATES)
    assert [protections.find(name).name for name in UPDATES] == list(UPDATES)
    assert [protections.find_vectors(name).name for name in VECTORS] == list(VECTORS)
    chosen = vectors_of("LAPLACE", "DP_ENCRYPT")
    assert protections.protections_of(chosen) == (chosen.updates, chosen.vectors)


@pytest.mark.parametrize("name", UPDATES)
def test_each_describes_itself(name):
    found = protections.find(name)
    assert found.label
    assert found.summary
    assert found.section in {"", *Encrypt.model_fields}
    assert (found.options is not None) == (found.section == "options")
    assert found.protects or not found.promises
    assert {attack for attack, _ in found.inversions} <= set(get_args(Attack))
    assert {target for _, target in found.inversions} <= set(get_args(Target))
    assert found.inversions
    assert isinstance(found.mechanism(settings_of(name), SIZE), Inside if found.masked else Alone)


@pytest.mark.parametrize("name", UPDATES)
def test_a_price_goes_with_a_promise(name):
    settings = settings_of(name)
    found = settings.updates
    price = protections.price_of(found, settings, SIZE)
    assert bool(price) == found.promises
    assert bool(price.central) == (found.promises and found.masked)
    assert {cost.covers for cost in (*price.local, *price.central)} <= {"updates"}
    assert (found.limit(settings) is not None) == found.sized_for_rounds
    claim = found.claim(settings)
    assert (claim is not None) == found.promises
    assert claim is None or claim.relation == ("zero-out" if found.masked else "replace-one")


@pytest.mark.parametrize("updates", UPDATES)
@pytest.mark.parametrize("vectors", VECTORS)
def test_a_run_pays_its_price_in_each_round(updates, vectors):
    """The ledgers of a run against ones that are filled here, from the price alone."""
    settings = vectors_of(vectors, updates, rounds=2)
    engine, kept = run(settings, Inferring())
    prices = [each.price(settings, SIZE) for each in (settings.updates, settings.vectors)]
    local, central = Ledger("client", "replace-one"), Ledger("client", "zero-out")
    for price in prices:
        for cost in price.local:
            local.spend(cost.event, 2 * cost.count)
        for cost in price.central:
            central.spend(cost.event, 2 * cost.count)
    spent = {each.view: each for each in engine.coordinator.spent()}
    assert ("local" in spent, "central" in spent) == (bool(local.lines), bool(central.lines))
    for view, ledger in (("local", local), ("central", central)):
        if view in spent:
            assert spent[view].ledger.lines == ledger.lines
            delta, method = spent[view].delta, "pld" if view == "local" else "rdp"
            expected = ledger.epsilon(delta, method) if delta else ledger.pure_epsilon()
            assert spent[view].epsilon == pytest.approx(expected)
    last = finished(kept)[-1]
    assert (last.epsilon is not None) == settings.updates.promises
    assert (last.evaluation_epsilon is not None) == settings.vectors.promises
    if settings.vectors.promises:
        assert last.evaluation_epsilon == 2 * 4 * 1.0  # rounds, vectors, epsilon of each


@pytest.mark.parametrize("updates", UPDATES)
@pytest.mark.parametrize("vectors", [None, *VECTORS])
def test_what_is_released_is_what_travels(updates, vectors):
    settings = settings_of(updates, rounds=1) if vectors is None else vectors_of(vectors, updates, rounds=1)
    listed = {(release.message, release.field) for release in boundary.releases(settings)}
    seen: set[tuple[str, str]] = set()

    def watch(client: int, message: Any) -> None:
        names = getattr(message, "__dataclass_fields__", None) or message.__struct_fields__
        seen.update((type(message).__name__, name) for name in names if getattr(message, name) is not None)

    run(settings, Inferring(), watch=watch)
    assert seen <= listed
    assert {message for message, _ in listed - seen} <= {"Abort", "Agreed"}  # of rounds that fail, or in active mode
    own = {(release.message, release.field) for release in settings.updates.releases(settings)}
    assert own <= seen
    assert {message for message, _ in own} == {"Masked" if settings.masked else "Update"}


def test_sentences_are_sentences():
    for settings in every():
        for each in (settings.updates, settings.vectors):
            said = [*each.unprotected(settings), *each.noise(settings, SIZE)]
            assert all(text[0].isupper() and text.endswith(".") for text in said)
            assert all(text.strip() for text in each.notes(settings))
        assert settings.vectors.scored(settings).endswith(".")
        assert [*settings.updates.unprotected(settings)] == boundary.unprotected(settings)[
            : len(settings.updates.unprotected(settings))
        ]
        shown = boundary.sentences(settings)
        for release in (*settings.updates.releases(settings), *settings.vectors.releases(settings)):
            assert any(release.what in text and release.protection in text for text in shown)


@pytest.mark.parametrize("name", UPDATES)
def test_noise_is_said_where_there_is_some(name):
    settings = settings_of(name)
    (said,) = settings.updates.noise(settings, SIZE)
    assert ("carry no noise" in said) == (not settings.updates.promises)
    assert (settings.vectors.scale(settings) is None) == (not settings.vectors.promises)


@pytest.mark.parametrize("name", VECTORS)
def test_protected_vectors_are_within_what_is_accepted(name):
    settings = vectors_of(name)
    rows = np.full((4, 10), 0.1)
    made = settings.vectors.protect(settings, rows, None)
    largest = settings.vectors.largest(settings)
    if settings.vectors.promises:
        (cost,) = settings.vectors.price(settings, SIZE).local
        assert made.event == cost.event
        assert np.abs(made.value).max() <= largest
    else:
        assert largest is None
        np.testing.assert_array_equal(made, rows)


@pytest.mark.parametrize("name", UPDATES)
def test_the_noise_of_each_is_audited_and_honest(name):
    settings = settings_of(name)
    tests = settings.updates.tests(settings)
    assert bool(tests) == settings.updates.promises
    assert len({test.name for test in tests}) == len(tests)
    scope, effort = Scope(quick=True), Effort(confidence=1 - 1e-7)
    for test in tests:
        if test.left_out is None:
            found = test.find(scope, effort, Numbers(8, "float32"))
            assert found.audited is not None
            assert found.proved is not None
            assert not found.refuted


def test_the_noise_of_vectors_is_audited_and_honest():
    settings = vectors_of("LAPLACE")
    bounds, rules = settings.vectors.tests(settings)
    assert (bounds.bounds, rules.bounds) == (True, False)
    effort = Effort(confidence=1 - 1e-7)
    assert not bounds.find(Scope(), effort, Inferring()).refuted
    assert not rules.find(Scope(), effort, Inferring()).broken
    assert vectors_of("NOT_ENCRYPT").vectors.tests(settings) == ()


@pytest.mark.parametrize("name", UPDATES)
def test_one_round_of_it_costs_what_a_round_costs(name):
    """The variant of a file that audits attack promises what one of its rounds does."""
    settings = settings_of(name, rounds=5)
    price = protections.price_of(settings.updates, settings, SIZE)
    once = variants.one_round(settings, price, Scope())
    assert once.rounds == 1
    assert once.updates is settings.updates
    whole, alone = (Costs(each, SIZE)._priced(1, 1) for each in (settings, once))  # without regard to the seed
    assert [each.view for each in whole] == [each.view for each in alone]
    for one, other in zip(whole, alone, strict=True):
        assert other.epsilon == pytest.approx(one.epsilon, rel=0.02)
        assert other.delta == one.delta


@pytest.mark.parametrize("name", UPDATES)
def test_a_minimum_is_one_of_survivors(name):
    settings = settings_of(name)
    least = settings.updates.minimum(settings)
    assert least is None or (settings.masked and 2 <= least <= settings.sampled)
    if settings.masked:
        assert settings.secure(1, 64).minimum == least


# --- one file each


def test_no_other_module_knows_a_protection_by_its_name():
    """A branch on a name would be forgotten when a protection is added."""
    named = re.compile(r"""_ENCRYPT["']|["']LAPLACE["']""")
    package = SRC / "kinds" / "horizontal"
    allowed = {*(package / "protections").glob("*.py"), package / "encrypt.py"}  # the section of the settings
    assert [path for path in SRC.rglob("*.py") if path not in allowed and named.search(path.read_text())] == []


def test_protections_are_under_the_contract_that_keeps_them_apart():
    contracts = tomllib.loads((SRC.parents[1] / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["name"] == "protections do not know each other"]
    files = {path.stem for path in (SRC / "kinds" / "horizontal" / "protections").glob("*.py")}
    of = files - {"__init__", "contract"}
    assert sorted(contract["modules"]) == sorted(f"tacit.kinds.horizontal.protections.{name}" for name in of)
    assert of == {each.__class__.__module__.rpartition(".")[2] for each in built_in()}


def built_in() -> list[Any]:
    return [*map(protections.find, BUILT_IN), *map(protections.find_vectors, VECTORS)]


# --- keys


@pytest.mark.parametrize("name", BUILT_IN)
def test_files_of_what_is_built_in_have_no_options(name):
    settings = settings_of(name)
    assert "options" not in settings.model_dump()["encrypt"]
    assert "\n  options:" not in resolved(settings)
    with pytest.raises(ValueError, match=f"options has keys, and {name} takes none: leave it out"):
        settings_for(encrypt={"encrypt_type": name, "options": {"epsilon": 1}})


def test_options_are_stored_with_their_defaults():
    settings = settings_of("LAPLACE_UPDATES")
    assert settings.model_dump()["encrypt"]["options"] == {"epsilon": 2.5, "clip": 1.0}
    assert "\n  options:\n    epsilon: 2.5\n" in resolved(settings)
    assert Settings.model_validate(settings.model_dump()) == settings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": -1}, "encrypt.options.epsilon, of LAPLACE_UPDATES: Input should be greater than 0"),
        ({"eps": 1}, "encrypt.options.eps, of LAPLACE_UPDATES: Extra inputs are not permitted"),
        ({"epsilon": 1e6}, "encrypt.options.epsilon is 1e+06, which hides nothing: take 1000 or less"),
    ],
)
def test_options_are_checked_by_their_protection(options, words):
    with pytest.raises(ConfigError) as refused:
        load(file_of("LAPLACE_UPDATES", options=options))
    assert str(refused.value) == words


# --- refused in one sentence


def file_of(name: str, **keys: Any) -> dict[str, Any]:
    return {
        "kind": "horizontal",
        "task": "digits",
        "rounds": 2,
        "clients": 6,
        "encrypt": {"encrypt_type": name, **keys},
    }


def refusal(name: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load(file_of(name))
    (line,) = str(refused.value).splitlines()
    return line


def test_an_unknown_name_is_refused_with_those_that_exist():
    names = "NOT_ENCRYPT, DP_ENCRYPT, PW_ENCRYPT, DDP_ENCRYPT, COARSE_SUMS or LAPLACE_UPDATES"
    assert refusal("RSA_ENCRYPT") == f"encrypt.encrypt_type is 'RSA_ENCRYPT': give {names}"
    with pytest.raises(ValueError, match="no protection is named 'RSA_ENCRYPT': take one of NOT_ENCRYPT, "):
        protections.find("RSA_ENCRYPT")


PLAIN = """
from tacit.kinds.horizontal.protections.in_the_clear import InTheClear
from tacit.kinds.horizontal.protections.contract import Cost, Price, Protection
from tacit.dp.release import PureEvent

class Plain(InTheClear):
    name = "PLAIN"

class Empty(Plain):
    promises = protects = True

class Unsaid(Plain):
    def price(self, settings, size):
        return Price(local=(Cost("updates", PureEvent(1.0, "client", "replace-one")),))

class OfSums(Plain):
    promises = True
    def price(self, settings, size):
        return Price(central=(Cost("updates", PureEvent(1.0, "client", "zero-out")),))

class Bare(Protection):
    name = "PLAIN"
    unprotected = price = releases = noise = mechanism = None

plain, empty, unsaid, of_sums, bare, nothing = Plain(), Empty(), Unsaid(), OfSums(), Bare(), 3
"""


@pytest.mark.parametrize(
    ("name", "attribute", "words"),
    [
        ("PLAIN", "nothing", "offered as the protection PLAIN, is none: it must be an object whose class inherits"),
        ("PLAIN", "Plain", "offered as the protection PLAIN, is none"),
        ("PLAIN", "missing", "the protection PLAIN cannot be loaded from offered:missing"),
        ("PLAIN", "bare", "does not say its label, summary, section, protects, promises, masked, weighted"),
        ("OTHER", "plain", "the protection OTHER (offered:plain) calls itself PLAIN: give it one name"),
    ],
)
def test_what_is_no_protection_is_refused(name, attribute, words, tmp_path):
    package(tmp_path, "offered", PLAIN, {name: attribute})
    with installed(tmp_path):
        assert words in refusal(name)
        assert load(file_of("NOT_ENCRYPT"))  # whatever is installed


@pytest.mark.parametrize("taken", BUILT_IN)
def test_a_built_in_name_cannot_be_taken(taken, tmp_path):
    package(tmp_path, "offered", PLAIN, {taken: "plain", "PLAIN": "plain"})
    with installed(tmp_path):
        assert refusal("PLAIN") == (
            f"an installed package offers the protection {taken} (offered:plain), which is built in: uninstall it"
        )
        assert inside(load(file_of(taken))).updates.__class__.__module__.startswith("tacit.")


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("empty", "PLAIN promises an epsilon, and its price is empty: nothing may be released so"),
        ("unsaid", "PLAIN has a price, and says that it promises no epsilon: it must say so"),
        ("of_sums", "PLAIN has a price of sums, and opens none: its price is of what leaves a client"),
    ],
)
def test_a_promise_and_a_price_are_one(attribute, words, tmp_path):
    package(tmp_path, "offered", PLAIN, {"PLAIN": attribute})
    with installed(tmp_path):
        assert refusal("PLAIN") == words
        for _ in range(2):  # the second time as the first
            with pytest.raises(ValueError, match="PLAIN") as refused:
                protections.find("PLAIN")
            assert str(refused.value) == words


def test_a_price_that_comes_to_nothing_for_a_file_is_refused_with_it(tmp_path):
    source = """
from tacit.kinds.horizontal.protections.contract import Price
from toy_protections.laplace_updates import LaplaceUpdates

class Large(LaplaceUpdates):
    name = "LARGE"
    def price(self, settings, size):
        return Price() if size > 100 else super().price(settings, size)

large = Large()
"""
    package(tmp_path, "offered", source, {"LARGE": "large"})
    with installed(tmp_path):
        settings = load(file_of("LARGE"))
        assert Costs(settings, 100).local
        with pytest.raises(ValueError, match="LARGE promises an epsilon, and its price is empty"):
            Costs(settings, SIZE)


CHEATS = """
from dataclasses import replace

import numpy as np

from tacit.dp.claim import Claim
from tacit.dp.release import PureEvent
from tacit.kinds.horizontal.protections.contract import Cost, Price
from toy_protections.coarse_sums import CoarseSums
from toy_protections.laplace_updates import LaplaceMechanism, LaplaceUpdates

class Loud(LaplaceMechanism):
    def upload(self, learned, clip, rng):
        return replace(super().upload(learned, clip, rng), samples=learned.samples, loss=1.0)

class Quiet(LaplaceMechanism):
    def protect(self, update, rng):
        return update + np.random.default_rng().normal(0, 1e-6, update.shape).astype(update.dtype)

class Incomplete:
    clip = None
    def event(self):
        return PureEvent(4.0, "client", "replace-one")

class Untested(LaplaceUpdates):
    name = "CHEAT"
    def tests(self, settings):
        return ()

class Unclaimed(LaplaceUpdates):
    name = "CHEAT"
    def claim(self, settings):
        return None

class Unlisted(LaplaceUpdates):
    name = "CHEAT"
    def releases(self, settings):
        return ()

class Beside(LaplaceUpdates):
    name = "CHEAT"
    def mechanism(self, settings, size):
        made = super().mechanism(settings, size)
        return Loud(size, made.epsilon, made.largest_sum)

class Silent(LaplaceUpdates):
    name = "CHEAT"
    def mechanism(self, settings, size):
        made = super().mechanism(settings, size)
        return Quiet(size, made.epsilon, made.largest_sum)

class Lacking(LaplaceUpdates):
    name = "CHEAT"
    def mechanism(self, settings, size):
        return Incomplete()

class Contradicting(LaplaceUpdates):
    name = "CHEAT"
    def claim(self, settings):
        return Claim(0.001, 0.0, "client", "replace-one")

class OfNobody(CoarseSums):
    name = "CHEAT"
    promises = True
    def price(self, settings, size):
        return Price(central=(Cost("updates", PureEvent(0.1, "client", "zero-out")),))
    def tests(self, settings):
        return (object(),)
    def claim(self, settings):
        return Claim(0.1, 0.0, "client", "zero-out")

class Alone(CoarseSums):
    name = "CHEAT"
    promises = True
    def price(self, settings, size):
        return Price(local=(Cost("updates", PureEvent(0.1, "client", "replace-one")),))

untested, unclaimed, unlisted, beside = Untested(), Unclaimed(), Unlisted(), Beside()
silent, lacking, contradicting, of_nobody, alone = Silent(), Lacking(), Contradicting(), OfNobody(), Alone()
"""


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("untested", "CHEAT promises an epsilon, and offers no test of its noise: nothing could refute the promise"),
        ("unclaimed", "CHEAT promises an epsilon, and states no claim: say what is proved of a round"),
        ("unlisted", "CHEAT does not list Update.vector among its releases: it must say what leaves"),
        (
            "of_nobody",
            "CHEAT promises an epsilon of sums, and has no minimum: say for how many survivors its noise is sized",
        ),
        ("alone", "CHEAT has a price of what leaves a client by itself, and its updates are masked"),
    ],
)
def test_a_promise_that_nothing_could_refute_is_refused(attribute, words, tmp_path):
    package(tmp_path, "cheats", CHEATS, {"CHEAT": attribute})
    with installed(tmp_path):
        assert refusal("CHEAT") == words


def test_what_is_not_listed_does_not_leave_a_client(tmp_path):
    package(tmp_path, "cheats", CHEATS, {"CHEAT": "beside"})
    with installed(tmp_path), pytest.raises(ValueError, match="would send samples and loss, and does not list it"):
        run(inside(load(file_of("CHEAT"))))


def test_a_mechanism_that_lacks_a_method_is_refused_by_its_name(tmp_path):
    package(tmp_path, "cheats", CHEATS, {"CHEAT": "lacking"})
    with installed(tmp_path), pytest.raises(ValueError, match=r"has no add, largest_norm, next_clip, seen, upload"):
        run(inside(load(file_of("CHEAT"))))


def test_noise_that_is_far_too_small_is_refuted_whatever_its_own_tests_say(tmp_path):
    package(tmp_path, "cheats", CHEATS, {"CHEAT": "silent"})
    with installed(tmp_path):
        settings = inside(load(file_of("CHEAT", options={"epsilon": 1.0})))
        task = tasks.make(settings.task, settings.clients, settings.seed, {})
        price = protections.price_of(settings.updates, settings, SIZE)
        found = any_promise.test_of_any(settings, price).find(Scope(), Effort(), task)
        assert found.refuted
    with installed():
        honest = inside(load(file_of("LAPLACE_UPDATES", options={"epsilon": 1.0})))
        price = protections.price_of(honest.updates, honest, SIZE)
        assert not any_promise.test_of_any(honest, price).find(Scope(), Effort(), task).refuted


def test_a_claim_below_its_price_is_refused_by_the_audit(tmp_path):
    package(tmp_path, "cheats", CHEATS, {"CHEAT": "contradicting"})
    with installed(tmp_path):
        settings = inside(load(file_of("CHEAT")))
        with pytest.raises(ValueError, match=r"claims an epsilon of 0\.001 for a round, and its price says"):
            any_promise.test_of_any(settings, protections.price_of(settings.updates, settings, SIZE))


QUIET_SUMS = """
from dataclasses import replace

from tacit.kinds.horizontal.protections.distributed_dp import DistributedDifferentialPrivacy, NoisySum

class QuietSum(NoisySum):
    def encode(self, update, samples, rotation, rng):
        quiet = replace(self.encoding, noise_multiplier=self.encoding.noise_multiplier / 20)
        return quiet.encode(update, rotation, rng)

class Honest(DistributedDifferentialPrivacy):
    name = "SUMS"
    def tests(self, settings):
        return (object(),)  # of its own, which find nothing

class Quiet(Honest):
    def mechanism(self, settings, size):
        return QuietSum(super().mechanism(settings, size).encoding)

honest, quiet = Honest(), Quiet()
"""


@pytest.mark.parametrize(("attribute", "refuted"), [("honest", False), ("quiet", True)])
def test_noise_of_sums_that_is_far_too_small_is_refuted_whatever_its_own_tests_say(attribute, refuted, tmp_path):
    package(tmp_path, "sums", QUIET_SUMS, {"SUMS": attribute})
    with installed(tmp_path):
        settings = inside(load(file_of("SUMS", ddp_eps=8.0)))
        task = tasks.make(settings.task, settings.clients, settings.seed, {})
        price = protections.price_of(settings.updates, settings, SIZE)
        assert any_promise.test_of_any(settings, price).find(Scope(), Effort(), task).refuted == refuted
