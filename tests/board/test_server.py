"""The port of the board against those who should not read it, and against runs that mean harm."""

from __future__ import annotations

import html
import http.client
import json
import re
import socket
import threading
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from tacit.board import server as module
from tacit.board.server import open_board
from tacit.events import Noted, RoundFinished, RunFinished, RunStarted
from tacit.store.directory import RunDirectory
from tests.report.sample_runs import NOW, settings, write
from tests.subprocesses import HANGS, until

STARTED = RunStarted("fleet", "horizontal", 10, 6, "NOT_ENCRYPT", 650)
DONE = RunFinished("done", 6, 60.0)
HTML = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


class Reader:
    """A visitor on this machine, with or without what the board asks for."""

    def __init__(self, url: str) -> None:
        self.port = int(url.split(":")[2].split("/")[0])
        self.token = url.partition("token=")[2]
        status, headers, _ = self.ask(f"/?token={self.token}")
        assert status == 303
        self.base = headers["Location"]
        self.cookie = headers["Set-Cookie"].partition(";")[0]

    def ask(self, path, method="GET", host=None, **headers):
        """The status, the headers and the body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANGS)
        try:
            connection.putrequest(method, path, skip_host=True)
            if host != "":
                connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def get(self, path, **options):
        """With the cookie, below the board's own path."""
        return self.ask(self.base + path, Cookie=self.cookie, **options)

    def json(self, path):
        status, headers, body = self.get(path)
        assert (status, headers["Content-Type"]) == (200, "application/json")
        return json.loads(body)


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def reader(runs):
    with open_board(runs) as address:
        yield Reader(address.url)


def started(runs, *events):
    return write(runs, settings(), [STARTED, *events])


# --- who may read


def test_the_token_opens_the_board_and_stands_in_no_page(runs, reader):
    started(runs, DONE)
    status, headers, body = reader.get("")
    assert status == 200
    assert reader.token not in body + str(headers)
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    cookie = reader.ask(f"/?token={reader.token}")[1]["Set-Cookie"]
    assert reader.token not in cookie
    assert cookie.endswith(f"; Path={reader.base}; HttpOnly; SameSite=Strict")
    assert len(reader.token) >= 43  # 256 bits


PAGES = ("", "runs.json", "board.js", "board.css", "compare?run=a&run=b", "run/x", "run/x/events.json", "run/x/report")


@pytest.mark.parametrize("page", PAGES)
def test_without_the_cookie_or_the_path_nothing_is_told(runs, reader, page):
    started(runs, DONE)
    told = {reader.get(page + "x", host="evil.example")[2]}
    for path, cookie in (
        (reader.base + page, ""),
        (reader.base + page, "tacit-board="),
        (reader.base + page, "tacit-board=" + "A" * 43),
        (reader.base + page, reader.cookie + "A"),
        (reader.base + page, f"other={reader.cookie.partition('=')[2]}"),
        (f"/{page}", reader.cookie),
        (f"/{'A' * 16}/{page}", reader.cookie),
        (f"/{page}?token={reader.token}", ""),
    ):
        status, headers, body = reader.ask(path, Cookie=cookie)
        if path.startswith("/?token="):
            continue
        assert (status, "Set-Cookie" in headers) == (403, False), path
        told.add(body)
    assert all("fleet" not in body and reader.base not in body for body in told)


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "é", "%00", "a&token=b"])
def test_another_token_opens_nothing(reader, token):
    status, headers, _ = reader.ask(f"/?token={quote(token)}")
    assert (status, "Set-Cookie" in headers) == (403, False)


def test_the_address_for_a_browser_opens_once(runs):
    with open_board(runs) as address:
        reader = Reader(address.url)
        once = "/?" + address.once.partition("?")[2]
        assert [reader.ask(once)[0] for _ in range(3)] == [303, 403, 403]
        assert Reader(address.url).get("")[0] == 200


HOSTS = ("", "evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "[::1]:PORT", "127.0.0.1.:PORT", "0.0.0.0:PORT")


@pytest.mark.parametrize("host", [*HOSTS, "127.0.0.1:PORT.evil.example"])
def test_a_name_that_was_made_to_point_here_is_refused(reader, host):
    host = host.replace("PORT", str(reader.port))
    for path in (reader.base, f"/?token={reader.token}", reader.base + "runs.json"):
        status, headers, body = reader.ask(path, host=host, Cookie=reader.cookie)
        assert (status, "Set-Cookie" in headers) == (403, False)
        assert reader.base not in body
    assert reader.get("", host=f"localhost:{reader.port}")[0] == 200


def test_two_names_at_once_are_refused(reader):
    with socket.create_connection(("127.0.0.1", reader.port), HANGS) as connection:
        names = f"Host: 127.0.0.1:{reader.port}\r\nHost: evil.example\r\n"
        connection.sendall(f"GET {reader.base} HTTP/1.1\r\n{names}Cookie: {reader.cookie}\r\n\r\n".encode())
        assert b" 403 " in connection.recv(100)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "CONNECT", "LIST"])
def test_nothing_but_get_is_answered(runs, reader, method):
    path = started(runs, DONE)
    before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    status, _, body = reader.get("run/x", method=method)
    assert status == (501 if method == "LIST" else 405)
    assert "fleet" not in body
    assert before == {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}


# --- where it leads


def test_paths_lead_to_listed_runs_only(runs, reader):
    path = started(runs, DONE)
    (path / "audit.html").write_text("an audit")
    secret = write(runs.parent / "elsewhere", settings(), [STARTED, DONE])
    (secret / "audit.html").write_text("secret")
    (runs / "linked").symlink_to(secret)
    inner = write(path / "inner", settings(), [STARTED, DONE])
    (inner / "audit.html").write_text("secret")
    assert [each["folder"] for each in reader.json("runs.json")["runs"]] == [path.name]
    assert reader.get(f"run/{path.name}/audit")[2] == "an audit"
    name = secret.name
    for run in (
        "linked",
        "..",
        ".",
        "",
        "%2e%2e",
        "%2e%2e%2felsewhere%2f" + name,
        f"../elsewhere/{name}",
        f"..%2felsewhere%2f{name}",
        f"..%5celsewhere%5c{name}",
        f"{path.name}%2finner%2f{inner.name}",
        f"{path.name}/inner/{inner.name}",
        f"{path.name}%00",
        f"{path.name}/../{path.name}",
        str(secret),
        quote(str(secret), safe=""),
        "%252e%252e",
    ):
        for rest in ("", "/audit", "/events.json", "/report"):
            status, _, body = reader.get(f"run/{run}{rest}")
            assert status in (404, 422), (run, rest, status)
            assert "secret" not in body
        assert reader.get(f"compare?run={run}&run={path.name}")[0] == 422


def test_files_of_a_run_that_are_links_are_not_followed(runs, reader):
    secret = runs.parent / "secret"
    secret.write_text("secret")
    path = started(runs, DONE)
    for name in ("audit.html", "party", "ledger.json"):
        (path / name).unlink(missing_ok=True)
        (path / name).symlink_to(secret)
    for page in ("audit", "report", "events.json", ""):
        assert "secret" not in reader.get(f"run/{path.name}/{page}".rstrip("/"))[2]
    assert reader.get(f"run/{path.name}/audit")[0] == 404
    (path / "events.jsonl").unlink()
    (path / "events.jsonl").symlink_to(secret)
    assert "secret" not in reader.get(f"run/{path.name}/events.json")[2]


# --- what a run's folder may hold


def test_html_in_a_run_stays_text(runs, reader):
    (runs / f"a{HTML.replace('/', '∕')}\n\u202e").mkdir()
    (folder,) = runs.iterdir()
    happened = [
        RunStarted(HTML, "horizontal", 1, 2, HTML, 1),
        Noted(HTML),
        RoundFinished(0, 1, 0, 1.0, 1, {HTML: 0.5}),
        RunFinished("failed", 1, 1.0, HTML),
    ]
    made = write(runs.parent / "elsewhere", settings(), happened)
    for file in ("config.yaml", "events.jsonl", "environment.json"):
        (made / file).rename(folder / file)
    (listed,) = reader.json("runs.json")["runs"]
    assert listed["name"] == HTML  # as a text of JSON, which the script takes for text
    for page in ("", "/report"):
        status, headers, body = reader.get(f"run/{listed['id']}{page}")
        assert status == 200
        assert "<img" not in body
        assert "<script>" not in body
        assert "\u202e" not in body
        assert "'unsafe-inline'" not in headers["Content-Security-Policy"].partition("style-src")[0]


def test_pages_allow_scripts_of_the_board_alone(runs, reader):
    path = started(runs, DONE)
    (path / "audit.html").write_text(HTML)
    for page in ("", f"run/{path.name}"):
        policy = reader.get(page)[1]["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert re.findall(r"script-src ([^;]*)", policy) == ["'self'"]
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
    assert_no_scripts(reader.get(f"run/{path.name}/audit"))


def assert_no_scripts(answer):
    status, headers, _ = answer
    policy = headers["Content-Security-Policy"]
    assert status == 200
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script-src" not in policy
    assert "allow" not in policy


def test_a_report_is_made_of_a_run_and_of_several(runs, reader):
    first, second = started(runs, DONE), started(runs, DONE)
    answer = reader.get(f"run/{first.name}/report")
    assert_no_scripts(answer)
    assert "<h1>fleet</h1>" in answer[2]
    assert not (first / "report.html").exists()
    answer = reader.get(f"compare?run={first.name}&run={second.name}")
    assert_no_scripts(answer)
    assert "comparison" in answer[2]


def test_what_cannot_be_reported_on_is_said_in_a_sentence(runs, reader):
    path = started(runs, DONE)
    with (path / "events.jsonl").open("ab") as file:
        file.write(b"\xff<b>\n")
    status, _, body = reader.get(f"run/{path.name}/report")
    assert status == 422
    assert "this line is not an event" in html.unescape(body)
    assert "Traceback" not in body
    assert reader.get(f"compare?run={path.name}")[0] == 422
    assert reader.get("compare?" + "&".join([f"run={path.name}"] * 13))[0] == 422
    (path / "ledger.json").mkdir()
    assert "no plain file" in reader.get(f"run/{path.name}/report")[2]


def test_garbage_and_growth_do_not_keep_the_board_from_answering(runs, reader):
    path = started(runs)
    with (path / "events.jsonl").open("ab") as file:
        file.write(bytes(range(256)) * 40_000)  # 10 MB in few lines
    assert reader.json("runs.json")["runs"][0]["state"] == "damaged"
    offset, pieces = None, 0
    while True:
        found = reader.json(f"run/{path.name}/events.json" + ("" if offset is None else f"?from={offset}"))
        offset, pieces = found["next"], pieces + 1
        if not found["more"]:
            break
    assert offset == (path / "events.jsonl").stat().st_size - 245  # the last line has no end yet
    assert pieces < 50


# --- the port


def closed(connection):
    """Whether the server ends the connection, before the limit for what hangs."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        return True
    return True


def test_a_request_is_bounded_in_size_and_in_time(reader, monkeypatch):
    with socket.create_connection(("127.0.0.1", reader.port), HANGS) as long:
        long.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000)
        assert closed(long)
    over = threading.Event()
    with monkeypatch.context() as hurried:
        hurried.setattr(module, "_REQUEST_SECONDS", 0.3)
        with socket.create_connection(("127.0.0.1", reader.port), HANGS) as slow:

            def trickle():
                try:
                    while not over.wait(0.05):
                        slow.sendall(b"x")
                except OSError:
                    pass

            thread = threading.Thread(target=trickle, daemon=True)
            thread.start()
            assert closed(slow)
            over.set()
            thread.join(HANGS)
    assert reader.get("")[0] == 200


def test_a_reader_that_takes_nothing_is_cut(runs, reader, monkeypatch):
    path, size = started(runs, DONE), 1 << 25  # more than the buffers of a connection hold
    (path / "audit.html").write_bytes(b"x" * size)
    reader.get("")  # the runs are read
    request = f"GET {reader.base}run/{path.name}/audit HTTP/1.1\r\nHost: 127.0.0.1:{reader.port}\r\n"
    with socket.create_connection(("127.0.0.1", reader.port), HANGS) as slow:
        slow.sendall(f"{request}Cookie: {reader.cookie}\r\n".encode())
        with monkeypatch.context() as hurried:
            hurried.setattr(module, "_REQUEST_SECONDS", 0.3)
            slow.sendall(b"\r\n")
            assert slow.recv(1)
            until(lambda: not any("process_request_thread" in each.name for each in threading.enumerate()))
        taken = 1
        try:
            while part := slow.recv(1 << 20):
                taken += len(part)
        except ConnectionResetError:
            pass
        assert taken < size
    assert reader.get("")[0] == 200


def test_two_hundred_connections_do_not_exhaust_it_and_it_ends_under_them(runs):
    with ExitStack() as stack:
        board = ExitStack()
        reader = Reader(board.enter_context(open_board(runs)).url)
        before = threading.active_count()
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", reader.port), HANGS))
        assert threading.active_count() <= before + 2 * module._REQUESTS + 1  # a thread and a timer for each
        board.close()


def test_a_page_is_shown_while_others_hold_all_connections(runs, reader):
    """Each request closes the oldest connection on which nothing was asked."""
    with ExitStack() as stack:
        for count in range(100):
            held = stack.enter_context(socket.create_connection(("127.0.0.1", reader.port), HANGS))
            held.sendall(b"GET / HTTP/1.1\r\nX: ")
            if count >= module._REQUESTS:
                assert reader.get("runs.json")[0] == 200


def test_after_too_many_connections_it_answers_again(reader):
    held = [socket.create_connection(("127.0.0.1", reader.port), HANGS) for _ in range(100)]
    for connection in held:
        connection.close()

    def answers():
        try:
            return reader.get("")[0] == 200
        except OSError:
            return False

    until(answers)


def test_a_port_in_use_is_one_sentence(runs):
    with open_board(runs) as address:
        port = Reader(address.url).port
        taken = pytest.raises(ValueError, match=rf"127.0.0.1:{port} cannot be listened on .*: choose another")
        with taken, open_board(runs, port):
            pass


def test_it_listens_on_loopback_only(runs):
    with open_board(runs) as address:
        port = Reader(address.url).port
        with socket.socket() as other:
            other.bind(("127.0.0.2", port))  # free: the board has not taken all addresses


def test_a_run_that_begins_and_one_that_goes_are_told(runs, reader, monkeypatch):
    first = reader.json("runs.json")
    assert (first["runs"], first["number"]) == ([], 0)
    run = RunDirectory.create(runs, settings(), NOW)

    def after(number):
        return reader.json(f"runs.json?after={number}")

    until(lambda: after(0)["runs"])
    number = after(0)["number"]
    assert after(number)["runs"] == []
    run.emit(STARTED)
    until(lambda: after(number)["runs"])
    (told,) = after(number)["runs"]
    assert (told["state"], told["progress"]) == ("running", "0/6")
    run.close()
    for each in sorted(run.path.rglob("*"), reverse=True):
        each.unlink()
    run.path.rmdir()
    until(lambda: after(number)["gone"] == [told["id"]])
    assert after(0)["runs"] == []
