"""Packs of private trainings: honest ones hold, and events that the file does not lead to do not."""

from __future__ import annotations

import json

import pytest

from tacit.dp.accounting import Ledger
from tacit.runs.verification import verified
from tests.runs.packs import KEY, PRIVATE, change_json, events_with, packed, signed_anew, stated_anew, wrong

pytest.importorskip("torch")


@pytest.mark.parametrize(
    "settings",
    [
        {"monitor": {"method": "rdp"}},
        {"noise": {"kind": "adaptive", "decay": "Time", "rate": 0.1}},
        {"noise": {"kind": "laplace"}, "privacy": {"noise_multiplier": 30.0}},
        {"privacy": {"epsilon": 3.0, "sampling": "shuffled"}},
        {"train": {"epochs": 2, "batch": 300, "truncate": 500}},
        {"monitor": {"budget": 0.5, "every": 1}},
        {
            "task": "tests.kinds.private_training.owned_digits:make_training",
            "privacy": {"epsilon": 3.0, "unit": "owner", "owner": "writer", "records_per_owner": 4},
            "train": {"epochs": 1, "batch": 64},
        },
    ],
    ids=["rdp", "adaptive", "laplace", "shuffled", "truncated", "stopped", "owners"],
)
def test_honest_trainings_of_each_sort_hold(tmp_path, settings):
    assert not wrong(packed({**PRIVATE, **settings}, tmp_path))


@pytest.fixture(scope="module")
def promised(tmp_path_factory):
    """Of a training whose noise was found for an epsilon."""
    return packed({**PRIVATE, "privacy": {"epsilon": 3.0}}, tmp_path_factory.mktemp("promised"))


def test_a_training_within_its_epsilon_holds(promised):
    assert {each.verdict for each in verified(promised, public=KEY.public).checks} == {"holds"}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"epsilon: 3.0", b"epsilon: 1.0", {"epsilon of the file", "noise of the ledger"}),
        (b"epsilon: 3.0", b"epsilon: 30.0", {"noise of the ledger"}),
        (b"batch: 256", b"batch: 16", {"noise of the ledger"}),
        (b"epochs: 2", b"epochs: 1", {"epochs of the file", "noise of the ledger"}),
        (b"epochs: 2", b"epochs: 9", {"noise of the ledger"}),
        (b"kind: gaussian", b"kind: laplace", {"noise of the ledger"}),
    ],
)
def test_a_file_that_promises_something_else_than_the_training_is_found(promised, old, new, found):
    def change(files, about):
        assert files["config.yaml"].count(old) == 1
        files["config.yaml"] = files["config.yaml"].replace(old, new)
        stated_anew(files, about)

    assert found <= wrong(signed_anew(promised, change)).keys()


def of_lines(**factors):
    """The events of the ledger with other values, and the epsilons of the ledger and of each epoch that they lead to:
    all of it follows from itself."""

    def change(files, about):
        own = json.loads(files["ledgers.json"])["ledgers"][0]
        for name, factor in factors.items():
            own["lines"][0][name] = type(own["lines"][0][name])(own["lines"][0][name] * factor)
        steps = own["lines"][0]["count"]

        def price(count):
            line = {**own["lines"][0], "count": count}
            bare = {**{key: own[key] for key in ("version", "unit", "relation")}, "budget": None, "lines": [line]}
            return Ledger.from_json(bare).epsilon(own["delta"])

        def other(number, shown):
            if shown.get("event") == "EpochFinished":
                shown["epsilon"] = price(steps // 2 * (shown["epoch"] + 1))

        own["epsilon"] = price(steps)
        change_json(files, "ledgers.json", lambda data: data.update(ledgers=[own]))
        events_with(files, about, other)
        stated_anew(files, about)

    return change


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (of_lines(noise_multiplier=4), {"noise of the ledger"}),
        (of_lines(sampling_probability=0.1), {"noise of the ledger"}),
        (of_lines(count=0.5), {"steps of the epochs"}),
    ],
    ids=["noise", "sample", "steps"],
)
def test_a_training_with_other_events_than_its_file_leads_to_is_found(promised, change, found):
    assert found <= wrong(signed_anew(promised, change)).keys()
