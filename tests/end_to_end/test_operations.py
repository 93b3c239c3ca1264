"""Operators of a real federation: status, pause, unpause and stop by command, pages by HTTP, logs with a level."""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import signal
import socket
import ssl
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tacit.events import Paused, RoundFinished, RoundStarted, RunFinished, Unpaused
from tacit.store.directory import read_events
from tests.commands import certify, ended, invoke, start
from tests.end_to_end import cancer_tables
from tests.operations import promql, promtool
from tests.subprocesses import HANGS, free_port, kill, until

CLIENTS = 3
JOIN = ("join", "fleet.yaml", "--party")


def write_file(rounds=100_000, **keys):
    settings = {
        "kind": "horizontal",
        "name": "fleet",
        "task": "digits",
        "rounds": rounds,
        "clients": CLIENTS,
        "encrypt": {"encrypt_type": "DP_ENCRYPT"},
        "budget": {"epsilon": 1e6},
        "round": {"start_fl_job_threshold": CLIENTS},
        "network": {"coordinator": f"127.0.0.1:{free_port()}", "lost_after": 2, "patience": 3600},
        **keys,
    }
    Path("fleet.yaml").write_text(yaml.safe_dump(settings))


def coordinator(*arguments, security=("--insecure",)):
    return start(*JOIN, "coordinator", "--state", "co", "--quiet", *security, *arguments)


def clients(state="cl", *arguments):
    return start(*JOIN, "client", "--id", f"0-{CLIENTS - 1}", "--state", state, "--quiet", "--insecure", *arguments)


def events(folder, *kinds):
    path = Path(folder, "events.jsonl")
    return [each for each in (read_events(path) if path.exists() else ()) if isinstance(each, kinds)]


def told(folder):
    done = invoke("status", folder, "--json")
    return defaultdict(lambda: None, json.loads(done.stdout) if done.exit_code == 0 else {})


def page(port, path, *, token=None, context=None):
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=HANGS, context=context)
    try:
        connection.request("GET", path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def said(verb, folder):
    done = invoke(verb, folder)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_run_is_paused_killed_and_resumed_while_paused(here):
    """The pause outlives the coordinator; the clients, whose patience is two seconds, outlive the pause."""
    write_file()
    patience = here / "site.yaml"
    patience.write_text("network: {patience: 2}\n")
    port = free_port()
    first = coordinator("--metrics", str(port))
    until(lambda: told("co")["needed"] is not None, first)  # it listens: the patience of clients counts from now on
    site = clients("cl", "--local", str(patience))
    until(lambda: len(events("co", RoundFinished)) >= 2, first, site)

    status = told("co")
    assert (status["state"], status["party"], status["kind"]) == ("running", "coordinator", "horizontal")
    assert status["round"] >= 2
    assert status["connected"] == CLIENTS
    assert status["epsilon"]["updates"] + status["left"]["updates"] == pytest.approx(1e6)
    assert page(port, "/healthz") == page(port, "/readyz") == (200, "ok\n")
    assert json.loads(page(port, "/status")[1]).keys() == status.keys()
    code, metrics = page(port, "/metrics")
    assert (code, promtool.lint(metrics)) == (200, [])
    assert promtool.value(metrics, "tacit_state", state="running") == 1
    assert promtool.value(metrics, "tacit_parties_connected") == CLIENTS
    assert promtool.value(metrics, "tacit_received_bytes_total") > 0

    assert "No further round begins" in said("pause", "co")
    until(lambda: told("co")["state"] == "paused", first, site)
    assert "paused already" in said("pause", "co")
    until(lambda: told("cl")["state"] == "paused", first, site)
    begun = len(events("co", RoundStarted))
    assert begun == len(events("co", RoundFinished))
    assert promtool.value(page(port, "/metrics")[1], "tacit_state", state="paused") == 1

    kill(first)
    assert "no process is running there" in invoke("status", "co").output
    assert Path("co/control.sock").is_socket()
    until(lambda: "does not answer" in Path("cl/run.log").read_text(), site)
    with socket.socket() as waits:  # for four seconds: twice the patience of the clients
        waits.bind(("127.0.0.1", 0))
        waits.listen()
        waits.settimeout(4)
        with pytest.raises(TimeoutError):
            waits.accept()
    assert site.poll() is None, site.communicate()

    second = coordinator()
    until(lambda: told("co")["state"] == "paused", second, site)
    until(lambda: told("co")["connected"] == CLIENTS, second, site)
    assert len(events("co", RoundStarted)) == begun
    until(lambda: told("cl")["state"] == "paused", second, site)
    assert "begin again" in said("unpause", "co")
    until(lambda: len(events("co", RoundFinished)) > begun + 1, second, site)
    assert not Path("co/paused").exists()
    assert "was not paused" in said("unpause", "co")
    assert [type(each) for each in events("co", Paused, Unpaused)] == [Paused, Paused, Unpaused]

    assert "as by SIGTERM" in said("stop", "co")
    ended(second, 5)
    assert not Path("co/control.sock").exists()
    assert events("co", RunFinished)[-1].status == "stopped"
    ended(site, 5)  # its patience counts again: the coordinator was not paused when it stopped


def test_a_client_that_comes_during_the_pause_waits_and_takes_part(here):
    write_file(rounds=2)
    Path("co").mkdir()
    first = coordinator()
    until(lambda: told("co")["state"] is not None, first)
    said("pause", "co")  # while it waits for clients
    until(lambda: told("co")["state"] == "paused", first)
    site = clients()
    until(lambda: told("cl")["state"] == "paused", first, site)
    assert not events("co", RoundStarted)
    refused = invoke("pause", "cl")
    assert refused.exit_code == 2
    assert "only the coordinator of a federation over a network can be paused" in refused.output
    said("unpause", "co")
    ended(first)
    ended(site)
    assert len(events("co", RoundFinished)) == 2


@pytest.mark.slow
def test_over_tls_the_pages_are_for_those_who_show_the_token(here):
    """Served at all addresses of this machine, as other machines would read them."""
    write_file(clients=2, round={"start_fl_job_threshold": 2})
    keys = certify(here, "coordinator", "client-0", "client-1")
    token, port = secrets.token_urlsafe(32), free_port()
    Path("token").write_text(token)
    Path("token").chmod(0o600)
    metrics = {"address": f"0.0.0.0:{port}", "token_file": "token"}
    secured = metrics | {"certificate": keys["coordinator"]["certificate"], "private": keys["coordinator"]["private"]}
    Path("coordinator.yaml").write_text(yaml.safe_dump({"keys": keys["coordinator"], "metrics": secured}))
    parties = [coordinator(security=("--local", "coordinator.yaml"))]
    for client in range(2):
        Path(f"client-{client}.yaml").write_text(yaml.safe_dump({"keys": keys[f"client-{client}"]}))
        local = ("--local", f"client-{client}.yaml", "--state", f"site-{client}", "--quiet")
        parties.append(start(*JOIN, "client", "--id", str(client), *local))
    until(lambda: events("co", RoundFinished), *parties)
    context = ssl.create_default_context(cafile=keys["coordinator"]["authority"])
    context.check_hostname = False
    for shown in (None, "", token[:-1], "x" * len(token)):
        for path in ("/metrics", "/status", "/healthz", "/readyz"):
            assert page(port, path, token=shown, context=context)[0] == 401
    code, found = page(port, "/metrics", token=token, context=context)
    assert (code, promtool.lint(found)) == (200, [])
    assert "tacit_blamed_total" not in found
    wrong = [line for line in promql.missing([found]) if "tacit_epoch" not in line and "tacit_blamed" not in line]
    assert wrong == []  # a federation has no epochs, and nobody broke the protocol
    expiries = {
        name: promtool.value(found, "tacit_certificate_expiry_timestamp_seconds", certificate=name)
        for name in ("party", "authority", "metrics")
    }
    for name, file in (("party", "certificate"), ("metrics", "certificate"), ("authority", "authority")):
        decoded = ssl._ssl._test_decode_cert(keys["coordinator"][file])  # type: ignore[attr-defined]  # not ours
        assert expiries[name] == ssl.cert_time_to_seconds(decoded["notAfter"])
    assert page(port, "/readyz", token=token, context=context) == (200, "ok\n")
    said("pause", "co")
    until(lambda: all(told(f"site-{client}")["state"] == "paused" for client in range(2)), *parties)
    said("unpause", "co")
    rounds = len(events("co", RoundFinished))
    until(lambda: len(events("co", RoundFinished)) > rounds, *parties)
    for name in ("co", "site-0", "site-1"):
        for file in ("run.log", "events.jsonl"):
            assert token not in Path(name, file).read_text()
    for party in parties:
        party.send_signal(signal.SIGTERM)
        ended(party, 5)


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"address": "0.0.0.0:9100"}, "which other machines reach: give metrics.token_file"),
        ({"address": "10.1.2.3:9100", "token_file": "token"}, "which other machines reach"),
        ({"address": "127.0.0.1:9100", "token_file": "short"}, "a token needs 128 random bits"),
        ({"address": "127.0.0.1:9100", "token_file": "open"}, "other users can read it: chmod 600"),
        ({"address": "127.0.0.1:9100", "token_file": "none"}, "cannot be read"),
        ({"address": "127.0.0.1:9100", "certificate": "c"}, "belong together"),
        ({"address": "9100"}, "metrics.address is '9100'"),
        ({}, "metrics.address is missing"),
    ],
)
def test_pages_that_would_be_open_to_others_are_refused_in_a_sentence(here, metrics, words):
    write_file()
    for name, text, mode in (("token", secrets.token_hex(32), 0o600), ("short", "abc", 0o600), ("open", "a", 0o644)):
        Path(name).write_text(text)
        Path(name).chmod(mode)
    Path("local.yaml").write_text(yaml.safe_dump({"metrics": metrics}))
    refused = invoke(*JOIN, "coordinator", "--insecure", "--local", "local.yaml", "--state", "co")
    assert refused.exit_code == 2, refused.output
    assert words in refused.output
    assert not Path("co").exists()


def test_metrics_are_asked_for_in_one_place(here):
    write_file()
    Path("local.yaml").write_text("metrics: {address: '127.0.0.1:9100'}")
    refused = invoke(*JOIN, "coordinator", "--insecure", "--local", "local.yaml", "--metrics", "9101", "--state", "co")
    assert refused.exit_code == 2
    assert "both say where the pages are" in refused.output


@pytest.mark.parametrize("verb", ["status", "pause", "unpause", "stop"])
def test_commands_to_what_does_not_run_end_in_a_sentence(here, verb):
    for folder, words in (("nothing", "not the folder of a run"), (".", "not the folder of a run")):
        refused = invoke(verb, folder)
        assert (refused.exit_code, words in refused.output) == (2, True), refused.output
    Path("co").mkdir()
    Path("co/config.yaml").touch()
    refused = invoke(verb, "co")
    assert refused.exit_code == 2
    advice = "tacit runs shows how it ended, tacit join or run starts it"
    assert refused.output == f"co: no process is running there: {advice}\n"


LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (INFO|WARNING|ERROR) \S.*")


def test_logs_with_time_and_level(here):
    write_file(rounds=2, budget={"epsilon": 1e6})
    done = invoke("run", "fleet.yaml", "--state", "text", "--log-format", "text")
    assert done.exit_code == 0, done.output
    for lines in (done.stdout.splitlines(), Path("text/run.log").read_text().splitlines()):
        assert lines
        assert all(LINE.fullmatch(line) for line in lines), lines
    assert re.search(r"INFO round 2/2 survivors 3 ", done.stdout)
    assert "INFO Results: text" in done.stdout

    done = invoke("run", "fleet.yaml", "--state", "json", "--log-format", "json")
    for lines in (done.stdout.splitlines(), Path("json/run.log").read_text().splitlines()):
        found = [json.loads(line) for line in lines]
        assert all(each.keys() == {"time", "level", "event", "message", "fields"} for each in found)
        assert "RoundFinished" in [each["event"] for each in found]
    assert found[-1]["event"] == "RunFinished"

    plain = invoke("run", "fleet.yaml", "--state", "plain")
    assert not LINE.search(plain.stdout)
    assert re.search(r"^round 2/2 survivors 3 ", plain.stdout, re.MULTILINE)  # as ever

    refused = invoke("run", "nothing.yaml", "--log-format", "json")
    assert refused.exit_code == 2
    assert json.loads(refused.stderr)["level"] == "ERROR"


def test_what_lies_in_the_folder_under_the_name_of_the_socket_stays(here):
    """The run does without commands, and says so."""
    write_file(rounds=1)
    assert invoke("run", "fleet.yaml", "--state", "st").exit_code == 0
    Path("st/control.sock").write_text("precious")
    done = invoke("run", "--resume", "st", "--set", "rounds=3")
    assert done.exit_code == 0, done.output
    assert "no socket for tacit status" in Path("st/run.log").read_text()
    assert Path("st/control.sock").read_text() == "precious"
    assert os.path.exists("st/report.html")


def test_private_training_on_one_machine_shows_its_privacy(here):
    port = free_port()
    settings = {"kind": "private_training", "task": "digits", "privacy": {"epsilon": 3}, "train": {"epochs": 200}}
    Path("private.yaml").write_text(yaml.safe_dump(settings))
    run = start("run", "private.yaml", "--state", "st", "--metrics", str(port), "--quiet")
    until(lambda: told("st")["epoch"] is not None and told("st")["epsilon"], run)
    status, found = told("st"), page(port, "/metrics")[1]
    assert promtool.lint(found) == []
    assert (status["state"], status["party"], status["epochs"], status["budget"]) == ("running", None, 200, 3.0)
    assert 0 < status["epsilon"]["training"] < 3
    assert promtool.value(found, "tacit_epsilon_budget") == 3.0
    assert 0 < promtool.value(found, "tacit_epsilon_left", of="training") < 3
    assert promtool.value(found, "tacit_epochs") == 200
    assert page(port, "/readyz") == (200, "ok\n")
    assert "loss" not in found
    assert "can be stopped (tacit stop) and resumed" in invoke("pause", "st").output
    said("stop", "st")
    ended(run, 5)
    assert told("st")["state"] is None


@pytest.mark.slow
def test_parties_in_lock_step_show_where_they_are_and_can_be_stopped(here):
    """Two companies; the hub alone is not ready, and says for how many it waits."""
    port = free_port()
    cancer_tables.write_deal(epochs=100_000)
    Path("bank.local").write_text(
        f"data: {{path: bank.csv, id: id, label: y}}\nmetrics: {{address: '127.0.0.1:{port}'}}\n"
    )
    Path("shop.local").write_text("data: {path: shop.csv, id: id}\n")

    def party(name):
        return start(
            "join", "deal.yaml", "--party", name, "--local", f"{name}.local", "--state", name, "--insecure", "--quiet"
        )

    bank = party("bank")
    until(lambda: told("bank")["needed"] is not None, bank)
    assert page(port, "/readyz") == (503, "the state is: starting\n")
    shop = party("shop")
    until(lambda: told("bank")["last_success"] and told("shop")["last_success"], bank, shop)
    status, found = told("bank"), page(port, "/metrics")[1]
    assert (status["state"], status["connected"], status["needed"]) == ("running", 1, 1)
    assert status["epoch"] >= 1
    assert (told("shop")["connected"], told("shop")["needed"]) == (1, 1)
    assert promtool.lint(found) == []
    assert promtool.value(found, "tacit_sent_bytes_total") > 10_000
    assert "loss" not in found
    assert invoke("pause", "bank").exit_code == invoke("unpause", "shop").exit_code == 2
    said("stop", "shop")
    ended(shop, 5)
    until(lambda: told("bank")["connected"] == 0, bank)
    until(lambda: page(port, "/readyz")[0] == 503, bank)
    said("stop", "bank")
    ended(bank, 5)
