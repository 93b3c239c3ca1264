"""Packs of split trainings: honest ones hold, and figures that a signer made up do not."""

from __future__ import annotations

import json

import pytest

from tacit.runs.verification import verified
from tests.runs.packs import KEY, change_json, events_with, packed, signed_anew, unpacked, wrong

pytest.importorskip("torch")

DEAL = {
    "kind": "split",
    "name": "deal",
    "topology": "V",
    "task": "split_cancer",
    "parties": {"bank": {"role": "leader"}, "shop": {"role": "follower"}, "clinic": {"role": "follower"}},
    "train": {"epochs": 2, "batch": 128},
}
TEXT = {
    **DEAL,
    "topology": "U",
    "task": "text",
    "parties": {"office": {"role": "leader"}, "cloud": {"role": "follower"}},
    "train": {"epochs": 1, "batch": 32, "steps": 3},
}
EMBEDDED = {"embedding_dp": {"eps": 5}, "label_dp": {"eps": 3}}
NOISED = {"gradients": {"protection": "noised", "epsilon": 5.0}, "label_dp": {"eps": 3}}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    return packed({**DEAL, **EMBEDDED}, tmp_path_factory.mktemp("embedded"))


@pytest.fixture(scope="module")
def noised(tmp_path_factory):
    return packed({**DEAL, **NOISED}, tmp_path_factory.mktemp("noised"))


@pytest.mark.parametrize(
    "settings",
    [
        DEAL,
        {**DEAL, "embedding_dp": {"eps": None}},
        {**DEAL, **EMBEDDED, "gradients": {"protection": "noised", "noise_multiplier": 2.0, "delta": 1e-6}},
        {**DEAL, **NOISED, "train": {"epochs": 3, "batch": 128, "steps": 5}},
        {**TEXT, "embedding_dp": {"eps": 5}, "gradients": {"protection": "noised", "epsilon": 5.0}},
    ],
    ids=["clear", "bits", "both", "steps", "U"],
)
def test_honest_packs_hold_and_nothing_is_left_unchecked(tmp_path, settings):
    assert {each.verdict for each in verified(packed(settings, tmp_path), public=KEY.public).checks} == {"holds"}


def test_every_epsilon_of_an_honest_pack_is_computed_again(embedded, noised):
    for pack in (embedded, noised):
        checks = verified(pack, public=KEY.public).checks
        assert {each.verdict for each in checks} == {"holds"}
        assert "epsilon of each epoch" in {each.what for each in checks}


@pytest.mark.parametrize(("factor", "bits"), [(1, 16), (0.5, 8)])
def test_the_number_of_bits_that_nothing_else_tells_is_said(embedded, factor, bits):
    """The epsilon of a visit is that of so many bits: halved, it is that of half as many."""
    data = json.loads(unpacked(embedded)["ledgers.json"])
    (line,) = next(each for each in data["ledgers"] if each["covers"] == ["records of follower-1"])["lines"]
    said = signed_anew(embedded, ledger_of("records of follower-1", epsilon=line["epsilon"] * factor))
    texts = {each.what: each.text for each in verified(said, public=KEY.public).checks}
    noise = texts["noise of the ledger of records of follower-1"]
    assert noise == f"it is that of the file, if a record has {bits} bits at the cut"
    assert texts["noise of the ledger of labels of leader"] == "it is that of the file"


def ledger_of(what, **changes):
    """The ledger that covers this, with other lines and the epsilon that they cost: its arithmetic is right."""
    from tacit.dp.accounting import Ledger

    def change(data):
        own = next(each for each in data["ledgers"] if each["covers"] == [what])
        own["lines"][0].update(changes)
        if "sampling_probability" in changes:
            own.update(relation="add-remove")
        ledger = Ledger.from_json({key: own[key] for key in ("version", "unit", "relation", "budget", "lines")})
        own["epsilon"] = ledger.epsilon(own["delta"]) if own["delta"] else ledger.pure_epsilon()

    return lambda files, about: change_json(files, "ledgers.json", change)


def edited(what, change):
    def edit(data):
        change(next(each for each in data["ledgers"] if each["covers"] == [what]), data["ledgers"])

    return lambda files, about: change_json(files, "ledgers.json", edit)


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        (ledger_of("records of follower-1", epsilon=0.1), "noise of the ledger of records of follower-1"),
        (ledger_of("records of follower-1", epsilon=1e-9), "noise of the ledger of records of follower-1"),
        (ledger_of("labels of leader", epsilon=1.0), "noise of the ledger of labels of leader"),
        (edited("labels of leader", lambda own, all: all.remove(own)), "ledgers of the file"),
        (edited("records of follower-2", lambda own, all: all.remove(own)), "ledgers of the file"),
        (edited("labels of leader", lambda own, all: own.update(unit="record")), "ledgers of the file"),
        (edited("labels of leader", lambda own, all: own.update(relation="zero-out")), "ledgers of the file"),
        (edited("labels of leader", lambda own, all: own.update(delta=0.5)), "ledgers of the file"),
        (edited("labels of leader", lambda own, all: own.update(covers=["everything"])), "ledgers of the file"),
        (edited("labels of leader", lambda own, all: all.append(own)), "ledgers of the file"),
    ],
    ids=range(10),
)
def test_a_ledger_that_is_not_that_of_the_file_is_found(embedded, lie, found):
    assert found in wrong(signed_anew(embedded, lie))


@pytest.mark.parametrize(
    "lie",
    [
        ledger_of("records of leader", noise_multiplier=1000.0),
        ledger_of("records of leader", log2_slack=-4000.0),
        ledger_of("records of leader", sampling_probability=0.01),
        edited("records of leader", lambda own, all: own["lines"].append({"kind": "pure", "count": 1, "epsilon": 0.1})),
        edited("records of leader", lambda own, all: all.remove(own)),
    ],
    ids=range(5),
)
def test_noise_of_gradients_that_is_not_that_of_the_file_is_found(noised, lie):
    assert wrong(signed_anew(noised, lie)).keys() - {"statement.html"}


@pytest.mark.parametrize("field", ["epsilon", "delta"])
def test_an_epoch_with_another_figure_is_found(noised, field):
    def smaller(number, shown):
        if shown.get("event") == "EpochFinished" and shown["epoch"] == 1:
            shown[field] *= 0.9

    found = wrong(signed_anew(noised, lambda files, about: events_with(files, about, smaller)))
    assert found.keys() == {"epsilon of each epoch"}
    assert "epoch 2" in found["epsilon of each epoch"]


def test_an_epoch_that_costs_what_the_one_before_cost_is_found(noised):
    told = []

    def same(number, shown):
        if shown.get("event") == "EpochFinished":
            told.append(shown["epsilon"])
            shown["epsilon"] = told[0]

    assert wrong(signed_anew(noised, lambda files, about: events_with(files, about, same)))


def test_epochs_without_a_ledger_are_found(noised):
    pack = signed_anew(
        noised, lambda files, about: files.update({"ledgers.json": json.dumps({"ledgers": []}).encode()})
    )
    assert "epsilon of each epoch" in wrong(pack)
