"""What a pack holds of a run, and what it must not hold."""

from __future__ import annotations

import json

import pytest

import tacit
from tacit.runs.evidence import make
from tacit.runs.report import write_report
from tacit.store import chain
from tests.runs.packs import KEY, unpacked

FLEET = {
    "kind": "horizontal",
    "name": "fleet",
    "task": "digits",
    "rounds": 2,
    "clients": 5,
    "seed": 987654321,
    "encrypt": {"encrypt_type": "PW_ENCRYPT"},
}
DEAL = {
    "kind": "vertical_logistic",
    "name": "deal",
    "task": "cancer",
    "protocol": "masked",
    "align": False,
    "seed": 987654321,
    "parties": {"firstbank": {"role": "active"}, "cornershop": {"role": "passive"}},
    "paillier": {"bits": 2048},
    "train": {"epochs": 1, "batch": 128},
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "secret-place"
    return tacit.run(FLEET, runs=folder).directory


def contents(run, name="pack.zip"):
    pack = run / name
    make(run, pack, KEY)
    return pack, unpacked(pack)


def test_no_place_no_seed_no_time_and_no_figure_without_an_epsilon_is_in_it(fleet):
    """Everything that the log says of single clients, times, traffic and scores is looked for in all bytes."""
    _, files = contents(fleet)
    whole = b"\n".join(data for name, data in files.items() if name != "manifest.json")
    log = [json.loads(line) for line in (fleet / "events.jsonl").read_text().splitlines()]
    rounds = [event for event in log if event["event"] == "RoundFinished"]
    told = [rounds[0]["metrics"]["accuracy"], rounds[0]["seconds"], log[-1]["seconds"], rounds[1]["update_norm"]]
    for secret in ["secret-place", "987654321", *(event["time"] for event in log), *(repr(each) for each in told)]:
        assert secret.encode() not in whole, secret
    for name in (b"bytes_up", b"survivors", b"stages"):
        values = [event for event in files["events.jsonl"].splitlines() if b'"shown"' in event and name in event]
        assert all(name.decode() in json.loads(event)["withheld"] for event in values)


def test_no_host_where_it_computes_is_in_it(tmp_path):
    run = tacit.run({**FLEET, "rounds": 1, "engine": {"address": "ray.secret-host:6379"}}, runs=tmp_path).directory
    _, files = contents(run)
    assert b"secret-host" not in b"".join(files.values())
    assert "secret-host" not in write_report([run], tmp_path / "page.html", share=True).read_text(encoding="utf-8")


def test_no_salt_of_a_line_is_in_it(fleet):
    """With it, a withheld field could be guessed from its digest."""
    _, files = contents(fleet)
    for line in (fleet / "events.jsonl").read_text().splitlines():
        told = json.loads(line)
        assert told["salt"].encode() not in files["events.jsonl"]
        for name, value in chain.fields_of(told).items():
            salt = chain.field_salt(bytes.fromhex(told["salt"]), name)
            own = [json.loads(each) for each in files["events.jsonl"].splitlines()]
            shown = [each for each in own if each.get("salts", {}).get(name) == salt.hex()]
            assert all(each["shown"][name] == value for each in shown)


def test_names_of_parties_are_their_roles(tmp_path):
    run = tacit.run(DEAL, runs=tmp_path).directory
    against = "for each record of cornershop, against the party that its activations go to"
    promise = {"what": "activations of cornershop", "epsilon": 80.0, "delta": 0.0, "against": against}
    finding = {
        "attack": "two gradients; closest in what cornershop receives",
        "adversary": "active, honest but curious",
        "protection": "p",
        "proved": None,
        "audited": None,
        "curve": None,
        "watched": 2,
        "broken": ["the words that cornershop receives are not uniform"],
        "refuted": True,
    }
    audit = {
        "quick": True,
        "proved": [promise],
        "confidence": 0.95,
        "findings": [finding],
        "false_claims": ["cornershop"],
        "not_tested": ["equal people of cornershop: no two are alike"],
    }
    (run / "audit.json").write_text(json.dumps(audit))
    _, files = contents(run)
    told = json.loads(files["audit.json"])
    assert told["proved"][0]["what"] == "activations of passive"
    assert told["proved"][0]["against"] == against.replace("cornershop", "passive")
    assert told["findings"][0]["adversary"] == "active, honest but curious"
    whole = b"\n".join(files.values())
    assert b"firstbank" not in whole
    assert b"cornershop" not in whole
    assert b"active:" in files["config.yaml"]


def test_what_an_epsilon_covers_is_shown(tmp_path):
    private = {**FLEET, "encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 5.0}}
    run = tacit.run(private, runs=tmp_path).directory
    _, files = contents(run)
    log = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    accuracy = [event["metrics"]["accuracy"] for event in log if event["event"] == "RoundFinished"]
    shown = [json.loads(line).get("shown", {}) for line in files["events.jsonl"].splitlines()]
    assert [each["metrics"]["accuracy"] for each in shown if each.get("event") == "RoundFinished"] == accuracy


def test_findings_of_an_audit_are_bounds_and_no_scores(fleet):
    finding = {
        "attack": "members",
        "adversary": "server",
        "protection": "p",
        "sees": "client 3's record 17",
        "proved": None,
        "audited": {
            "epsilon": 0.1,
            "delta": 0.0,
            "confidence": 0.95,
            "method": "one run, 361 of 3805179 guesses right",
            "samples": 3805179,
            "assumes": "",
        },
        "curve": None,
        "watched": 0,
        "broken": [],
        "refuted": False,
        "off": {"value": 0.98123, "metric": "AUC"},
        "on": {"value": 0.51717, "metric": "AUC"},
    }
    counted = "4 steps on half of 1,370 records of the task, noise of 1.76"
    rule = {**finding, "audited": None, "attack": "shares", "watched": 9, "broken": ["client 37 reveals a share"]}
    rule["protection"] = counted
    scored = {**finding, "audited": None, "attack": "records recovered"}
    audit = {
        "quick": True,
        "proved": [],
        "confidence": 0.95,
        "findings": [finding, rule, scored],
        "false_claims": ["client 37 reveals a share"],
        "not_tested": [
            "the alignment of ids",
            "epsilons above 4: 3805179 records cannot show more",
            "rows: no two are alike",
        ],
    }
    (fleet / "audit.json").write_text(json.dumps(audit))
    try:
        _, files = contents(fleet)
    finally:
        (fleet / "audit.json").unlink()
    told = json.loads(files["audit.json"])
    assert [(each["attack"], each["broken"]) for each in told["findings"]] == [("members", 0), ("shares", 1)]
    assert told["findings"][1]["protection"] == "4 steps on half of some records of the task, noise of 1.76"
    assert (told["false_claims"], told["not_tested"]) == (1, ["rows", "the alignment of ids"])
    for secret in (b"0.98123", b"0.51717", b"record 17", b"records recovered", b"3805179", b"client 37", b"alike"):
        assert secret not in files["audit.json"]
        assert secret not in files["statement.html"]


def test_the_page_says_what_is_not_proved_and_leaves_room(fleet):
    _, files = contents(fleet)
    page = files["statement.html"].decode()
    assert "Not proved" in page
    assert "honest execution" in page
    assert "completeness" in page
    assert page.count('class="blank"') >= 12
    assert "<script" not in page
    for question in ("NIST SP 800-226", "Article 35(7)", "Annex IV", "Neighbouring relation", "Place and date"):
        assert question in page


def test_a_damaged_audit_is_a_sentence(fleet):
    (fleet / "audit.json").write_text("{")
    with pytest.raises(ValueError, match="run tacit audit again"):
        contents(fleet)
    (fleet / "audit.json").unlink()


def test_a_line_that_is_not_chained_is_a_sentence(fleet):
    log = fleet / "events.jsonl"
    before = log.read_bytes()
    line = json.loads(before.splitlines()[-1])
    log.write_bytes(before + json.dumps({k: v for k, v in line.items() if k not in ("salt", "chain")}).encode() + b"\n")
    try:
        with pytest.raises(ValueError, match="not chained"):
            contents(fleet)
    finally:
        log.write_bytes(before)
