"""What a site's policy counts, whatever ends a process, and whatever is put in its way."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tacit.config.local import load_local
from tacit.config.source import ConfigError
from tacit.errors import BudgetError
from tacit.kind import Seat
from tacit.runs import policy
from tacit.runs.load import load
from tacit.store import files, site_ledger
from tests.subprocesses import HANGS

FLEET = """\
kind: horizontal
name: small
task: digits
rounds: 2
clients: 3
encrypt: {encrypt_type: DP_ENCRYPT, dp_eps: 5}
round: {abandoned_rounds: 0}
network: {coordinator: "127.0.0.1:1"}
"""
DEAL = {
    "kind": "split",
    "name": "small",
    "task": "split_cancer",
    "topology": "V",
    "parties": {"bank": {"role": "leader"}, "shop": {"role": "follower"}},
    "embedding_dp": {"eps": 0.01},
}
SEAT = Seat("client-0", (0,))
SITE = Path("site")


@pytest.fixture(autouse=True)
def site(here):
    write_local()
    site_ledger.begin(SITE)
    Path("run").mkdir()


def write_local(epsilon=12.0, more=""):
    Path("site.yaml").write_text(f"policy: {{folder: site, lifetime: {{epsilon: {epsilon}, delta: 1.0e-5}}{more}}}\n")


def settings(*overrides):
    Path("fleet.yaml").write_text(FLEET)
    return load(Path("fleet.yaml"), overrides)


def ledgers(uploads, found=None):
    """What a client of the file stored after so many uploads."""
    from tacit.kinds.horizontal.costs import Costs

    return [each.to_json() for each in Costs(found or settings(), 650).spent(uploads, uploads)]


def take_part(run, uploads, *, over=True, found=None, sent=lambda upload: None):
    """A client's part: before each answer leaves, its own folder and then its site have it."""
    found = found or settings()
    with policy.charged(found, SEAT, *load_local(Path("site.yaml")), run) as account:
        for upload in uploads:
            paid = ledgers(upload, found)
            files.write_twice(run / "client-0.json", {"state": {}, "ledger": {"version": 1, "ledgers": paid}})
            account.paid(paid)
            sent(upload)
        account.over = over


def entries():
    return list(site_ledger.read(SITE).runs.values())


def counted(entry):
    return sum(line["count"] for each in entry.counted for line in each["lines"])


def test_a_run_reserves_what_it_may_cost_and_keeps_what_it_paid():
    seen = []
    take_part(Path("run"), [1], sent=lambda upload: seen.append(counted(entries()[0])))
    assert seen == [2]  # the whole of it, while it goes on
    (entry,) = entries()
    assert (entry.state, counted(entry)) == ("closed", 1)


def test_a_run_that_was_interrupted_keeps_its_reservation_until_it_is_settled():
    with suppress(KeyboardInterrupt):
        take_part(Path("run"), [1], sent=interrupt)
    (entry,) = entries()
    assert (entry.state, counted(entry)) == ("open", 2)
    policy.settled(SITE, entry.id[:8])
    assert (entries()[0].state, counted(entries()[0])) == ("settled", 1)
    take_part(Path("run"), [2])  # resumed all the same: it asks again, and pays on
    assert (len(entries()), counted(entries()[0])) == (1, 2)


def interrupt(upload):
    raise KeyboardInterrupt


def test_a_run_that_paid_nothing_gives_everything_back():
    with pytest.raises(ValueError, match="no port"):
        fail_before_paying()
    assert counted(entries()[0]) == 0


def fail_before_paying():
    with policy.charged(settings(), SEAT, *load_local(Path("site.yaml")), Path("run")):
        raise ValueError("no port")


def test_the_last_of_a_budget_is_not_spent_twice():
    take_part(Path("run"), [1, 2])
    shutil.rmtree("run")  # deleting the run gives nothing back
    Path("run").mkdir()
    with pytest.raises(ConfigError, match=r"would be 12\.\d+ at delta 1e-05, of which 8\.107 .* limit is 12: nothing"):
        take_part(Path("run"), [1])
    assert [counted(each) for each in entries()] == [2]
    assert not Path("run", "account.json").exists()


def test_a_file_with_the_same_name_or_another_counts_alike():
    take_part(Path("run"), [1, 2])
    Path("second").mkdir()
    for name in ("small", "other"):
        with pytest.raises(ConfigError, match=r"policy\.lifetime"):
            take_part(Path("second"), [1], found=settings(f"name={name}"))


def test_more_rounds_by_a_resume_are_reserved_anew_and_count_once():
    write_local(9.0)
    take_part(Path("run"), [1], over=False)
    with pytest.raises(ConfigError, match=r"policy\.lifetime"):
        take_part(Path("run"), [2, 3], found=settings("rounds=3"))
    write_local(11.0)
    take_part(Path("run"), [2, 3], found=settings("rounds=3"))
    assert [counted(each) for each in entries()] == [3]


def test_a_payment_beyond_the_reservation_is_refused_before_anything_is_sent():
    write_local(9.0)
    sent = []
    with pytest.raises(BudgetError, match=r"policy\.lifetime.*nothing is sent"):
        take_part(Path("run"), [1, 2, 3], sent=sent.append)
    assert sent == [1, 2]
    assert [counted(each) for each in entries()] == [2]


def test_a_payment_beyond_the_reservation_is_reserved_where_the_site_affords_it():
    take_part(Path("run"), [1, 2, 3])
    assert [counted(each) for each in entries()] == [3]


def test_a_run_folder_that_was_put_back_is_refused():
    take_part(Path("run"), [1], over=False)
    shutil.copytree("run", "copy")
    take_part(Path("run"), [2], over=False)
    with pytest.raises(ConfigError, match="older than the site's ledger"):
        take_part(Path("copy"), [2])
    for name in ("client-0.json", "client-0.copy.json"):
        Path("run", name).unlink()
    with pytest.raises(ConfigError, match="older than the site's ledger"):
        take_part(Path("run"), [1])


def test_a_copy_of_a_run_folder_does_not_take_part_beside_it():
    take_part(Path("run"), [1], over=False)
    shutil.copytree("run", "copy")

    def beside(upload):
        with pytest.raises(ConfigError, match="another process takes part in this run"):
            take_part(Path("copy"), [2])
        with pytest.raises(ConfigError, match="another process takes part in this run"):
            policy.settled(SITE, entries()[0].id)

    take_part(Path("run"), [2], sent=beside)


def test_a_ledger_that_does_not_know_the_run_is_not_the_one_that_counted_it():
    early = shutil.copytree("site", "early")
    take_part(Path("run"), [1], over=False)
    shutil.rmtree("site")
    shutil.copytree(early, "site")
    with pytest.raises(ConfigError, match="put back to an earlier time"):
        take_part(Path("run"), [2])
    shutil.rmtree("site")
    site_ledger.begin(SITE)
    with pytest.raises(ConfigError, match="a ledger that is not the one in"):
        take_part(Path("run"), [2])


def test_a_run_from_before_the_policy_counts_with_all_that_it_paid():
    paid = ledgers(1)
    files.write_twice(Path("run/client-0.json"), {"state": {}, "ledger": {"version": 1, "ledgers": paid}})
    take_part(Path("run"), [])
    assert [counted(each) for each in entries()] == [1]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes().replace(b'"writes": 0', b'"writes": 1')), "cp site/ledger"),
        (lambda path: path.write_text("{}"), "its copy is intact"),
        (lambda path: path.write_text("nonsense"), "its copy is intact"),
        (lambda path: (path.unlink(), files.copy_of(path).unlink()), "there is no ledger"),
        (lambda path: (path.write_text("?"), files.copy_of(path).write_text("?")), "its copy is damaged too"),
        (lambda path: path.parent.chmod(0o777), "chmod 700 site"),
        (lambda path: (path.rename("l"), path.symlink_to(Path("l").resolve())), "must not be a link"),
        (lambda path: (path.parent.rename("s"), Path("site").symlink_to("s")), "policy.folder must not be a link"),
        (lambda path: shutil.rmtree(path.parent), "there is no such folder"),
    ],
)
def test_without_its_ledger_a_site_takes_part_in_nothing(spoil, words):
    spoil(SITE / "ledger.json")
    with pytest.raises(ConfigError, match=words):
        take_part(Path("run"), [1])
    assert not Path("run", "client-0.json").exists()


@pytest.mark.parametrize("name", ["ledger.json", "ledger.copy.json"])
def test_a_ledger_that_is_put_back_without_its_copy_counts_as_before(name):
    early = (SITE / name).read_bytes()
    take_part(Path("run"), [1, 2])
    (SITE / name).write_bytes(early)
    assert [counted(each) for each in entries()] == [2]
    Path("second").mkdir()
    with pytest.raises(ConfigError, match=r"of which 8\.107 is spent"):
        take_part(Path("second"), [1])


def test_what_one_kind_spent_is_not_there_for_another():
    pytest.importorskip("torch")
    deal = load(DEAL)
    take_part(Path("run"), [1, 2])
    for limit, refused in ((8.15, True), (12.0, False)):
        write_local(limit)
        second = Path(f"{limit}")
        second.mkdir()
        expected = pytest.raises(ConfigError, match=r"of which 8\.107 is spent") if refused else nullcontext()
        with expected, policy.charged(deal, Seat("shop", ()), *load_local(Path("site.yaml")), second):
            pass
    assert [each.kind for each in entries()] == ["horizontal", "split"]


def test_a_ledger_is_never_begun_anew():
    take_part(Path("run"), [1])
    with pytest.raises(ConfigError, match="was begun already"):
        site_ledger.begin(SITE)
    assert len(entries()) == 1


def test_a_clock_that_is_set_back_gives_nothing_back(monkeypatch):
    take_part(Path("run"), [1, 2])
    monkeypatch.setattr("time.time", lambda: 0.0)
    Path("second").mkdir()
    with pytest.raises(ConfigError, match=r"policy\.lifetime"):
        take_part(Path("second"), [1])


def test_the_limit_of_a_run_holds_at_the_delta_of_the_policy_whatever_the_file_says():
    write_local(100.0, ", epsilon: 7")
    with pytest.raises(
        ConfigError, match=r"policy\.epsilon: the local epsilon of updates .* 7\.537 at delta 1e-05.* 7:"
    ):
        take_part(Path("run"), [1])
    assert entries() == []
    careless = settings("budget.epsilon=7", "budget.delta=0.2")
    with pytest.raises(ConfigError, match=r"policy\.epsilon: .* at delta 1e-05"):
        take_part(Path("run"), [1], found=careless)


def test_what_promises_no_epsilon_needs_to_be_named():
    clear = settings("encrypt.encrypt_type=PW_ENCRYPT")
    with pytest.raises(ConfigError, match="add PW_ENCRYPT to policy"):
        take_part(Path("run"), [], found=clear)
    write_local(12.0, ", without_epsilon: [PW_ENCRYPT]")
    take_part(Path("run"), [], found=clear)


def test_a_small_epsilon_for_something_else_does_not_let_updates_leave_under_none():
    noised = ("encrypt.privacy_eval_type=LAPLACE", "encrypt.laplace_eval.laplace_eval_eps=0.01")
    vectors = ("task=digits_unsupervised", "unsupervised.cluster_client_num=2")
    lured = settings("encrypt.encrypt_type=NOT_ENCRYPT", *noised, *vectors)
    with pytest.raises(ConfigError, match=r"sends updates under no epsilon.*: add NOT_ENCRYPT to policy"):
        take_part(Path("run"), [], found=lured)
    with pytest.raises(ConfigError, match="sends inference vectors under no epsilon"):
        take_part(Path("run"), [], found=settings(*vectors))
    assert entries() == []
    write_local(12.0, ", without_epsilon: [NOT_ENCRYPT]")
    take_part(Path("run"), [1], found=lured)
    assert counted(entries()[0])  # what has an epsilon is counted all the same


def test_what_is_not_counted_is_refused_where_an_epsilon_is_limited():
    local, _ = load_local(Path("site.yaml"))
    with pytest.raises(ConfigError, match=r"counts what tacit join pays, and not a prediction"):
        policy.check_uncounted(local.policy, settings(), "a prediction")
    write_local(12.0, ", without_epsilon: [horizontal]")
    local, _ = load_local(Path("site.yaml"))
    policy.check_uncounted(local.policy, settings(), "a prediction")


def test_a_payment_that_the_disk_refuses_is_not_sent(monkeypatch):
    def full(path, *data):
        if path.parent == SITE and Path("run/client-0.json").exists():
            raise OSError(28, "No space left on device")
        write(path, *data)

    write, sent = files.replace_file, []
    monkeypatch.setattr(files, "replace_file", full)
    with pytest.raises(OSError, match="No space"):
        take_part(Path("run"), [1], sent=sent.append)
    assert sent == []
    assert [counted(each) for each in entries()] == [2]  # still reserved


# --- killed between any two writes


def part_that_is_killed(run, uploads, before, sent):
    """SIGKILL before the write with this number, in a process of its own; whether it ended by itself."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            count, write = 0, files.replace_file

            def counting(*arguments):
                nonlocal count
                if count == before:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1
                write(*arguments)

            files.replace_file = counting
            signal.alarm(int(HANGS))
            take_part(run, uploads, sent=lambda upload: os.write(sent, b"."))
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1]


@pytest.mark.slow
def test_whatever_left_is_counted_wherever_a_process_is_killed():
    moment, ended = 0, False
    while not ended:
        for folder in ("run", "site"):
            shutil.rmtree(folder)
        Path("run").mkdir()
        site_ledger.begin(SITE)
        hears, sent = os.pipe()
        status = part_that_is_killed(Path("run"), [1, 2], moment, sent)
        ended = os.WIFEXITED(status)
        assert not ended or os.WEXITSTATUS(status) == 0
        os.close(sent)
        left = len(os.read(hears, 100))
        os.close(hears)
        known = entries()
        assert sum(counted(each) for each in known) >= left
        assert sum(line["count"] for each in known for ledger in each.paid for line in ledger["lines"]) >= left
        # It is closed once all was sent, and no earlier.
        assert all(each.state == "open" or left == counted(each) == 2 for each in known)
        # Resumed, it goes on; what it paid counts once, and an orphaned reservation only until it is settled.
        own = Path("run/client-0.json") if Path("run/client-0.json").exists() else Path("run/client-0.copy.json")
        paid = 0
        if own.exists():
            paid = sum(
                line["count"] for each in json.loads(own.read_text())["ledger"]["ledgers"] for line in each["lines"]
            )
        write_local(30.0)
        take_part(Path("run"), range(paid + 1, 3))
        for each in entries():
            if each.state == "open":
                assert not each.paid
                policy.settled(SITE, each.id)
        assert sum(counted(each) for each in entries()) == 2
        write_local()
        moment += 1
    assert moment > 10  # writes: two of the ledger and two of the folder for each step


def test_above_the_limit_nothing_with_a_price_is_joined_and_the_rest_is():
    take_part(Path("run"), [1, 2])
    Path("second").mkdir()
    write_local(1.0, ", without_epsilon: [PW_ENCRYPT]")
    with pytest.raises(ConfigError, match=r"policy\.lifetime"):
        take_part(Path("second"), [1])
    take_part(Path("second"), [], found=settings("encrypt.encrypt_type=PW_ENCRYPT"))


def test_a_limit_that_is_passed_already_is_no_way_around_it():
    with site_ledger.changed(SITE) as ledger:
        known = policy._entry(settings(), SEAT, "0" * 32, ())
        paid = ({**ledgers(1)[0], "epsilon": "infinite"},)
        ledger.runs[known.id] = replace(known, paid=paid, state="closed")
    with pytest.raises(ConfigError, match=r"would be infinite .* of which infinite is spent"):
        take_part(Path("run"), [1])
