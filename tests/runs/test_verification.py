"""Checking packs: honest ones hold; changes by others, and figures that a signer made up, are found."""

from __future__ import annotations

import json
import re
import zipfile
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import tacit
from tacit.crypto.signing import SigningKey
from tacit.net.identity import Authority, request
from tacit.runs import verification
from tacit.runs.evidence import make
from tacit.runs.verification import verified
from tacit.store.pack import BadPack
from tacit.store.shown_events import follow_chain
from tests.runs.packs import (
    KEY,
    PRIVATE,
    change_json,
    events_with,
    events_without,
    packed,
    repacked,
    signed_anew,
    stated_anew,
    unpacked,
    wrong,
)

LOCAL = {
    "kind": "horizontal",
    "name": "fleet",
    "task": "digits",
    "rounds": 3,
    "clients": 5,
    "encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_eps": 5.0},
}
BOMB = b"task_options:\n  a0: &a0 [1]\n" + b"".join(
    b"  a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12)
)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    return packed(LOCAL, tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    pytest.importorskip("torch")
    return packed(PRIVATE, tmp_path_factory.mktemp("private"))


def test_an_honest_pack_holds(local, private):
    for pack in (local, private):
        found = verified(pack, public=KEY.public)
        assert found.holds
        assert {each.verdict for each in found.checks} == {"holds"}
    assert "epsilon of each round" in {each.what for each in verified(local, public=KEY.public).checks}
    assert "epsilon of each epoch" in {each.what for each in verified(private, public=KEY.public).checks}


@pytest.mark.parametrize("ends", [KeyboardInterrupt, ZeroDivisionError], ids=["stopped", "failed"])
@pytest.mark.parametrize("last", [0, 1])
def test_a_run_that_did_not_end_well_holds_and_so_does_what_it_is_resumed_to(tmp_path, monkeypatch, ends, last):
    from tacit.kinds.horizontal.tasks.softmax import SoftmaxTask

    evaluate, left = SoftmaxTask.evaluate, [last]

    def interrupted(self, *arguments):
        if not left[0]:
            raise ends
        left[0] -= 1
        return evaluate(self, *arguments)

    monkeypatch.setattr(SoftmaxTask, "evaluate", interrupted)
    with suppress(ends):
        tacit.run(LOCAL, runs=tmp_path)
    (run,) = tmp_path.iterdir()
    assert not left[0]
    make(run, tmp_path / "first.zip", KEY)
    assert verified(tmp_path / "first.zip", public=KEY.public).holds
    monkeypatch.undo()
    tacit.run(resume=run)
    make(run, tmp_path / "second.zip", KEY)
    assert {each.verdict for each in verified(tmp_path / "second.zip", public=KEY.public).checks} == {"holds"}


@pytest.mark.parametrize(
    ("protection", "unchecked"),
    [
        ({"encrypt_type": "NOT_ENCRYPT"}, set()),
        ({"encrypt_type": "PW_ENCRYPT"}, set()),
        ({"encrypt_type": "DDP_ENCRYPT"}, set()),
        (
            {"encrypt_type": "DDP_ENCRYPT", "privacy_eval_type": "LAPLACE", "laplace_eval": {"laplace_eval_eps": 2.0}},
            set(),
        ),
    ],
    ids=["clear", "masked", "distributed", "both"],
)
def test_honest_packs_of_each_protection_hold(tmp_path, protection, unchecked):
    vectors = "privacy_eval_type" in protection
    extra = {"task": "digits_unsupervised", "unsupervised": {"cluster_client_num": 4}} if vectors else {}
    found = verified(packed({**LOCAL, "rounds": 2, "encrypt": protection, **extra}, tmp_path), public=KEY.public)
    assert found.holds, found
    assert {each.what for each in found.checks if each.verdict == "not checked"} == unchecked


FINDING = {
    "attack": "members",
    "adversary": "server",
    "protection": "p",
    "proved": {"epsilon": 0.5, "delta": 1e-5, "unit": "record", "relation": "add-remove"},
    "audited": {"epsilon": 0.1, "delta": 1e-5, "confidence": 0.95, "method": "m", "samples": 100, "assumes": ""},
    "curve": None,
    "watched": 0,
    "broken": [],
    "refuted": False,
}
AUDIT = {
    "quick": True,
    "proved": [],
    "confidence": 0.95,
    "findings": [FINDING],
    "false_claims": [],
    "not_tested": ["the alignment"],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A pack with every file that there is, and the authority of its certificate."""
    run = packed(LOCAL, tmp_path_factory.mktemp("whole")).parent
    authority = Authority.create()
    key, certificate = certificate_of(authority)
    (run / "audit.json").write_text(json.dumps(AUDIT))
    make(run, run / "pack.zip", key, certificate)
    return run / "pack.zip", authority.certificate_pem, key


FILES = [
    *("audit.json", "boundary.json", "certificate.pem", "config.yaml", "environment.json", "events.jsonl"),
    *("ledgers.json", "manifest.json", "manifest.sig", "statement.html"),
]


def test_a_pack_has_no_other_files_than_those_that_are_tampered_with_here(whole):
    pack, authority, _ = whole
    assert sorted(unpacked(pack)) == FILES
    assert verified(pack, authority=authority).holds


@pytest.mark.parametrize("how", ["changed", "removed", "emptied", "of another pack"])
@pytest.mark.parametrize("name", FILES)
def test_every_file_that_somebody_tampers_with_is_found(whole, private, name, how):
    pack, authority, key = whole
    files = unpacked(pack)
    theirs = {"audit.json": b"{}", "certificate.pem": b"", "environment.json": b"{}"}
    other = signed_anew(private, lambda files, about: files.update(theirs), key)
    match how:
        case "changed":
            digit = next(each for each in b"123456789" if each in files[name])
            files[name] = files[name].replace(bytes([digit]), b"0", 1)
        case "removed":
            del files[name]
        case "emptied":
            files[name] = b""
        case _:
            files[name] = unpacked(other)[name]
    for brought in ({"authority": authority}, {"public": key.public}):
        with pytest.raises(BadPack):
            verified(repacked(pack, files), **brought)


def test_a_pack_that_another_signed_instead_is_found(whole):
    """The manifest fits, and so does the signature: to a key that was not brought."""
    pack, authority, key = whole
    forged = signed_anew(pack, lambda files, about: None, KEY)
    for brought in ({"authority": authority}, {"public": key.public}):
        with pytest.raises(BadPack, match="the signature is not of this key"):
            verified(forged, **brought)
    theirs, certificate = certificate_of(Authority.create())
    forged = signed_anew(pack, lambda files, about: files.update({"certificate.pem": certificate}), theirs)
    with pytest.raises(BadPack, match=r"certificate\.pem"):
        verified(forged, authority=authority)


def test_a_manifest_that_fits_the_change_has_no_signature_that_fits(local):
    def change(files, about):
        change_json(files, "ledgers.json", lambda data: data["ledgers"][0].update(epsilon=1.0))

    forged = signed_anew(local, change, SigningKey(bytes(32)))
    with pytest.raises(BadPack, match="the signature is not of this key"):
        verified(forged, public=KEY.public)


# --- a signer who lies: hashes and signature fit


def test_a_ledger_with_a_smaller_epsilon_is_found(local):
    def change(files, about):
        change_json(files, "ledgers.json", lambda data: data["ledgers"][0].update(epsilon=1.0))

    assert wrong(signed_anew(local, change)).keys() == {"epsilon of updates (local)", "statement.html"}


def test_a_ledger_with_fewer_events_and_their_price_is_found(local):
    """Its arithmetic is right, and it is not that of the rounds."""

    def change(files, about):
        from tacit.dp.accounting import Ledger

        def fewer(data):
            own = data["ledgers"][0]
            own["lines"][0]["noise_multiplier"] *= 4
            bare = {key: own[key] for key in ("version", "unit", "relation", "budget", "lines")}
            own["epsilon"] = Ledger.from_json(bare).epsilon(own["delta"])

        change_json(files, "ledgers.json", fewer)

    assert wrong(signed_anew(local, change)).keys() == {"noise of the ledger of updates", "statement.html"}


def test_a_round_with_a_smaller_epsilon_is_found(local):
    def change(files, about):
        def smaller(number, shown):
            if shown.get("event") == "RoundFinished" and shown["round"] == 1:
                shown["epsilon"] *= 0.9

        events_with(files, about, smaller)

    found = wrong(signed_anew(local, change))
    assert found.keys() == {"epsilon of each round"}
    assert "round 2" in found["epsilon of each round"]


def test_an_epoch_with_a_smaller_epsilon_is_found(private):
    def change(files, about):
        def smaller(number, shown):
            if shown.get("event") == "EpochFinished" and shown["epoch"] == 1:
                shown["epsilon"] *= 0.99

        events_with(files, about, smaller)

    assert wrong(signed_anew(private, change)).keys() == {"epsilon of each epoch"}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"dp_eps: 5.0", b"dp_eps: 1.0", {"noise of the ledger of updates", "epsilon of each round"}),
        (b"DP_ENCRYPT", b"NOT_ENCRYPT", {"boundary", "noise of the ledger of updates"}),
        (b"kind: horizontal", b"kind: diagonal", {"config.yaml"}),
        (b"name: fleet", b"name: other", {"manifest", "events"}),
        (b"rounds: 3", b"rounds: 3\nseed: 5", {"config.yaml"}),
    ],
)
def test_a_file_that_does_not_fit_the_run_is_found(local, old, new, found):
    def change(files, about):
        assert old in files["config.yaml"]
        files["config.yaml"] = files["config.yaml"].replace(old, new, 1)

    assert found <= wrong(signed_anew(local, change)).keys()


def test_a_boundary_that_leaves_something_out_is_found(local):
    def change(files, about):
        change_json(files, "boundary.json", lambda data: data["releases"].pop())

    assert wrong(signed_anew(local, change)).keys() == {"boundary"}


def test_a_noise_that_the_file_fixes_costs_everything(local):
    def change(files, about):
        text = files["config.yaml"].replace(b"insecure_noise_seed: null", b"insecure_noise_seed: 3")
        assert text != files["config.yaml"]
        files["config.yaml"] = text

    assert "epsilon of updates (local)" in wrong(signed_anew(local, change))


def of_ledger(**fields):
    return lambda files, about: change_json(files, "ledgers.json", lambda data: data["ledgers"][0].update(fields))


@pytest.mark.parametrize(
    "change",
    [
        of_ledger(lines=[], epsilon=0.1),
        of_ledger(view="other"),
        of_ledger(covers=["everything"]),
        of_ledger(delta=0.5, epsilon=60.0),
        of_ledger(relation="zero-out"),
        of_ledger(epsilon="81.2"),
        of_ledger(epsilon=True),
        of_ledger(epsilon=float("nan")),
        of_ledger(delta=10**400),
        lambda files, about: files.update({"ledgers.json": b'{"ledgers": []}'}),
        lambda files, about: files.update({"config.yaml": b"kind: !!bool other"}),
        lambda files, about: files.update({"config.yaml": b"[" * 200_000}),
        lambda files, about: files.update({"config.yaml": files["config.yaml"] + BOMB}),
    ],
    ids=range(13),
)
def test_what_no_honest_run_states_does_not_hold(local, change):
    assert wrong(signed_anew(local, change))


MADE_UP = {
    "covers": ["scores"],
    "view": "local",
    "epsilon": 0.1,
    "delta": 0.0,
    "against": "",
    "version": 1,
    "unit": "record",
    "relation": "replace-one",
    "budget": None,
    "lines": [{"kind": "pure", "count": 1, "epsilon": 0.1}],
}


@pytest.fixture(scope="module", params=["vertical_logistic", "vertical_trees"])
def of_companies(request, tmp_path_factory):
    roles = {"bank": {"role": "active"}, "shop": {"role": "passive"}}
    length = {"epochs": 1} if request.param == "vertical_logistic" else {"trees": 1, "depth": 2}
    settings = {"kind": request.param, "name": "deal", "task": "cancer", "parties": roles, "train": length}
    return packed(settings, tmp_path_factory.mktemp("companies"))


def test_a_kind_without_an_epsilon_holds_and_one_that_is_made_up_for_it_does_not(of_companies):
    def change(files, about):
        change_json(files, "ledgers.json", lambda data: data["ledgers"].append(MADE_UP))
        stated_anew(files, about)

    assert {each.verdict for each in verified(of_companies, public=KEY.public).checks} == {"holds"}
    assert list(wrong(signed_anew(of_companies, change))) == ["ledgers of the file"]


def test_an_epsilon_of_a_kind_that_says_nothing_of_it_is_not_taken_for_checked(local, monkeypatch):
    kind = replace(tacit.kind.find("horizontal", ""), recompute=None)
    monkeypatch.setattr(verification, "kind_of", lambda settings: kind)
    checks = {each.what: each.verdict for each in verified(local, public=KEY.public).checks}
    assert checks["ledgers of the file"] == "not checked"


def edited(name, **values):
    return lambda files, about: change_json(files, name, lambda data: data.update(values))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda files, about: files.update({"certified.html": b"epsilon 0.1"}), "files"),
        (edited("environment.json", certified=True), "files"),
        (edited("ledgers.json", epsilon=0.1), "files"),
        (lambda files, about: about.update(epsilon=0.1), "files"),
        (
            lambda files, about: files.update({"config.yaml": files["config.yaml"] + b"# epsilon: 0.1\n"}),
            "config.yaml",
        ),
        (lambda files, about: about.update(name="another"), "manifest"),
        (lambda files, about: about.update(tacit="9.9"), "manifest"),
        (of_ledger(budget={"epsilon": 0.5, "delta": 1e-5, "method": "pld"}), "ledgers of the file"),
    ],
    ids=["file", "environment", "ledgers", "manifest", "comment", "name", "release", "budget"],
)
def test_what_tacit_does_not_write_or_the_file_does_not_say_is_not_taken_for_checked(local, change, found):
    def changed(files, about):
        change(files, about)
        stated_anew(files, about)

    assert list(wrong(signed_anew(local, changed))) == [found]


def test_a_key_of_a_ledger_that_only_its_kind_knows_is_not_checked(local):
    checks = verified(signed_anew(local, of_ledger(note="epsilon 0.1")), public=KEY.public).checks
    assert {each.what for each in checks if each.verdict == "not checked"} == {"note of a ledger"}


def test_a_file_of_another_release_is_not_checked(local):
    def change(files, about):
        about["tacit"] = "9.9"
        change_json(files, "environment.json", lambda data: data["installed"].update(tacit="9.9"))
        files["more.json"] = b"{}"

    found = {each.what: each.verdict for each in verified(signed_anew(local, change), public=KEY.public).checks}
    assert found["files"] == "not checked"
    assert "does not hold" not in found.values()


def test_rounds_without_ledgers_and_ledgers_without_rounds_are_told(local):
    def without_ledgers(files, about):
        events_without(files, about, "RoundStarted", "RoundFinished")
        change_json(files, "ledgers.json", lambda data: data.update(ledgers=[]))
        stated_anew(files, about)

    def without_rounds(files, about):
        events_without(files, about, "RoundFinished")

    assert list(wrong(signed_anew(local, without_ledgers))) == ["ledgers of the file"]
    found = {each.what: each.verdict for each in verified(signed_anew(local, without_rounds), public=KEY.public).checks}
    assert found["epsilon of each round"] == "not checked"


def test_a_round_that_costs_what_an_earlier_one_cost_is_found(local):
    told = []

    def falls(number, shown):
        if shown.get("event") == "RoundFinished":
            told.append(shown["epsilon"])
            shown["epsilon"] = told[0] if shown["round"] == 2 else shown["epsilon"]

    found = wrong(signed_anew(local, lambda files, about: events_with(files, about, falls)))
    assert "round 3" in found["epsilon of each round"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Of a run that its budget ended."""
    budget = {"rounds": 6, "budget": {"epsilon": 12.0, "delta": 1e-5}}
    return packed({**LOCAL, **budget}, tmp_path_factory.mktemp("stopped"))


def test_a_run_that_its_budget_ended_holds(stopped):
    found = verified(stopped, public=KEY.public)
    assert {each.verdict for each in found.checks} == {"holds"}
    assert "epsilon beyond the budget" in {each.what for each in found.checks}


@pytest.mark.parametrize(
    "lie", [{"epsilon": 12.5}, {"epsilon": 11.0}, {"budget": 13.0}, {"delta": 1e-6}, {"of": "everything"}]
)
def test_a_budget_that_was_not_the_files_is_found(stopped, lie):
    def other(number, shown):
        if shown.get("event") == "BudgetReached":
            shown.update(lie)

    found = wrong(signed_anew(stopped, lambda files, about: events_with(files, about, other)))
    assert found.keys() == {"epsilon beyond the budget"}


def test_a_delta_that_is_not_the_files_is_found(local):
    def smaller(number, shown):
        if shown.get("event") == "RoundFinished":
            shown["delta"] = 1e-12

    assert (
        "delta"
        in wrong(signed_anew(local, lambda files, about: events_with(files, about, smaller)))["epsilon of each round"]
    )


def test_a_log_that_hides_how_the_run_began_is_found(local):
    def other(number, shown):
        if shown.get("event") == "RunStarted":
            shown["event"] = "RunFinished"

    assert "events" in wrong(signed_anew(local, lambda files, about: events_with(files, about, other)))


@pytest.mark.parametrize("epsilon", [0, 0.0, "0.1", True])
def test_an_epoch_that_costs_too_little_is_found_in_any_notation(private, epsilon):
    def other(number, shown):
        if shown.get("event") == "EpochFinished":
            shown["epsilon"] = epsilon

    assert wrong(signed_anew(private, lambda files, about: events_with(files, about, other)))


def test_an_epoch_that_costs_what_the_one_before_cost_is_found(private):
    told = []

    def other(number, shown):
        if shown.get("event") == "EpochFinished":
            told.append(shown["epsilon"])
            shown["epsilon"] = told[0]

    found = wrong(signed_anew(private, lambda files, about: events_with(files, about, other)))
    assert "epoch 2" in found["epsilon of each epoch"]


@pytest.mark.parametrize(
    "change",
    [
        of_ledger(unit="owner"),
        of_ledger(relation="zero-out"),
        of_ledger(delta=0.1, epsilon=0.1),
        of_ledger(tier="secure"),
    ],
)
def test_a_training_with_another_promise_than_its_file_is_found(private, change):
    assert wrong(signed_anew(private, change))


def test_a_training_without_its_ledger_is_found(private):
    found = wrong(signed_anew(private, lambda files, about: files.update({"ledgers.json": b'{"ledgers": []}'})))
    assert found.keys() == {"ledger of the training", "statement.html"}


def test_a_page_that_says_something_else_than_the_files_is_found(local):
    def change(files, about):
        text = files["statement.html"]
        files["statement.html"] = re.sub(rb"epsilon \d+", b"epsilon 0", text)
        assert files["statement.html"] != text

    assert wrong(signed_anew(local, change)).keys() == {"statement.html"}


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["findings"][0].update(refuted=True),
        lambda data: data["findings"][0]["audited"].update(epsilon=0.6),
        lambda data: data["findings"][0]["audited"].update(epsilon="infinite"),
        lambda data: data["findings"][0].update(broken=1),
        lambda data: data.update(false_claims=1),
        lambda data: data.update(findings=None),
    ],
    ids=range(6),
)
def test_an_audit_whose_verdict_is_not_that_of_its_bounds_is_found(whole, change):
    pack, _, key = whole
    forged = signed_anew(pack, lambda files, about: change_json(files, "audit.json", change), key)
    assert "audit" in wrong(forged, key.public)


@pytest.mark.parametrize("value", [[], None, "0.3.0"])
def test_an_environment_that_is_none_is_refused(local, value):
    change = {"environment.json": json.dumps({"installed": value}).encode()}
    with pytest.raises(BadPack, match="which release"):
        verified(signed_anew(local, lambda files, about: files.update(change)), public=KEY.public)


def test_many_files_that_inflate_are_bounded_together(tmp_path):
    pack = tmp_path / "bomb.zip"
    with zipfile.ZipFile(pack, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"a{number}.json", bytes(60 << 20))
    with pytest.raises(BadPack, match="too large"):
        verified(pack, public=KEY.public)


def test_a_way_of_packing_that_asks_for_memory_is_refused(tmp_path):
    pack = tmp_path / "lzma.zip"
    with zipfile.ZipFile(pack, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("manifest.json", "{}")
    with pytest.raises(BadPack, match="packed in a way"):
        verified(pack, public=KEY.public)


# --- the log


@pytest.mark.parametrize("at", [0, 1, 4, -1])
def test_a_line_that_is_taken_out_is_found(local, at):
    def change(files, about):
        lines = files["events.jsonl"].splitlines(keepends=True)
        del lines[at]
        files["events.jsonl"] = b"".join(lines)

    pack = signed_anew(local, change)
    if at == -1:
        assert wrong(pack).keys() == {"chain of events"}
    else:
        with pytest.raises(BadPack, match=r"events\.jsonl:\d+: .*changed, removed, added or moved"):
            verified(pack, public=KEY.public)


def test_lines_that_change_places_are_found(local):
    def change(files, about):
        lines = files["events.jsonl"].splitlines(keepends=True)
        lines[3], lines[4] = lines[4], lines[3]
        files["events.jsonl"] = b"".join(lines)

    with pytest.raises(BadPack, match="changed, removed, added or moved"):
        verified(signed_anew(local, change), public=KEY.public)


def test_a_field_that_is_shown_with_another_value_is_found(local):
    def change(files, about):
        files["events.jsonl"] = files["events.jsonl"].replace(b'"rounds": 3', b'"rounds": 2', 1)

    with pytest.raises(BadPack, match="changed, removed, added or moved"):
        verified(signed_anew(local, change), public=KEY.public)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b'{"chain": 3}',
        b'{"line": "zz", "chain": ""}',
        b'{"line": "00", "chain": "", "shown": {}}',
        b'{"shown": {"a": 1}, "salts": {}, "withheld": {}, "chain": ""}',
        b'{"shown": [], "salts": [], "withheld": [], "chain": ""}',
        b'{"shown": {"event": "RunFinished"}, "salts": {"event": 5}, "withheld": {}, "chain": ""}',
        b"[" * 100_000,
    ],
)
def test_lines_that_are_none_are_refused(line):
    with pytest.raises(BadPack, match=r"events\.jsonl:1: this is no line of a pack"):
        follow_chain(line + b"\n", bytes(32))


# --- who signed


def certificate_of(key_holder: Authority, days=100, now=None):
    private, asked = request("bank")
    from tacit.net.identity import read_private

    return read_private(private).signing, key_holder.sign(asked, days, now)


def with_certificate(pack, key, certificate, **about_keys):
    def change(files, about):
        files["certificate.pem"] = certificate
        about.update(about_keys)

    return signed_anew(pack, change, key)


def test_the_authority_comes_from_outside(local):
    ours, theirs = Authority.create(), Authority.create()
    key, certificate = certificate_of(ours)
    pack = with_certificate(local, key, certificate)
    assert verified(pack, authority=ours.certificate_pem).signer.startswith("bank")
    with pytest.raises(BadPack, match=r"certificate\.pem"):
        verified(pack, authority=theirs.certificate_pem)


def test_a_certificate_of_other_keys_does_not_help(local):
    ours = Authority.create()
    _, certificate = certificate_of(ours)
    with pytest.raises(BadPack, match="the signature is not of this key"):
        verified(with_certificate(local, KEY, certificate), authority=ours.certificate_pem)


def test_a_certificate_that_was_over_when_the_pack_was_made_is_refused(local):
    past = datetime.now(UTC) - timedelta(days=400)
    ours = Authority.create(now=past)
    key, certificate = certificate_of(ours, days=30, now=past)
    with pytest.raises(BadPack, match="expired"):
        verified(with_certificate(local, key, certificate), authority=ours.certificate_pem)


def test_a_pack_without_a_certificate_needs_the_key(local):
    with pytest.raises(BadPack, match="--public-key"):
        verified(local, authority=Authority.create().certificate_pem)


def test_a_pack_of_another_format_is_refused(local):
    with pytest.raises(BadPack, match="missing"):
        verified(signed_anew(local, lambda files, about: files.pop("boundary.json")), public=KEY.public)
