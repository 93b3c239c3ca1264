"""The port of the board: what it answers, to whom, and how much of it at a time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qs

from tacit.board import pages
from tacit.board.access import draw, has_cookie, hosts, same, set_cookie
from tacit.board.changes import Changes, Runs
from tacit.board.made import NotMade, Reports
from tacit.board.told import events_of
from tacit.net.page_server import PageHandler, PageServer, cut_after
from tacit.report.listing import clean, listed, share_done
from tacit.store.run_summary import Summary
from tacit.store.tail import read_small

_REQUEST_SECONDS = 10.0  # to send a request, and again to take its answer
_REQUESTS = 32  # at a time
_COMPARED = 12  # runs
_LONGEST = 1000  # letters of a sentence
_LARGEST_PAGE = 1 << 26
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NO_REQUEST = "This is not a request that the board answers."
_CLOSED = "This board opens with the address that `tacit board` printed when it was started."


@dataclass(frozen=True, slots=True)
class Address:
    """Where the board is."""

    url: str  # with the token
    once: str  # the same with a token that opens once


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    body: bytes
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    policy: str = pages.POLICY
    headers: tuple[tuple[str, str], ...] = ()


@contextmanager
def open_board(root: Path, port: int = 0) -> Iterator[Address]:
    """Answer on 127.0.0.1 until the end of the block. Port 0: one that is free. Raises ValueError if it is taken."""
    try:
        server = _Server(root, port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"127.0.0.1:{port} cannot be listened on ({reason}): choose another --port") from None
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="board", daemon=True)
    thread.start()
    at = f"http://127.0.0.1:{server.server_address[1]}/?token="
    try:
        yield Address(at + server.secrets.token, at + server.secrets.ticket)
    finally:
        server.shutdown()
        server.server_close()
        server.reports.close()
        thread.join()


class _Server(PageServer):
    def __init__(self, root: Path, port: int) -> None:
        self.secrets = draw()
        self.runs = Runs(root.resolve())
        self.reports = Reports()
        self.used = threading.Lock()  # taken with the ticket, and never given back
        super().__init__(("127.0.0.1", port), _Handler, _REQUESTS)
        self.hosts = hosts(int(self.server_address[1]))


class _Handler(PageHandler):
    longest = 16384
    timeout = _REQUEST_SECONDS
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._limit = cut_after(_REQUEST_SECONDS, self.request)

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            self._limit.cancel()

    def do_GET(self) -> None:
        self._limit.cancel()
        try:
            answer = self._answer()
        except NotMade as error:
            answer = self._sentence(422, "No page", str(error))
        except OSError as error:
            answer = self._sentence(404, "Not there", f"It cannot be read: {error.strerror or error}.")
        except ValueError:
            answer = _plain(400, _NO_REQUEST)
        self._send(answer)

    def _refuse(self) -> None:
        self._send(_plain(405, "The board is only read: GET is all that it answers.", ("Allow", "GET")))

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse

    def _send(self, answer: Answer) -> None:
        self._limit.cancel()
        self._limit = cut_after(_REQUEST_SECONDS, self.request)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Content-Security-Policy", answer.policy)
        for name, value in (*_HEADERS.items(), *answer.headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Of a request that is none: nothing of it is repeated."""
        self._send(_plain(code if 400 <= code < 600 else 400, _NO_REQUEST))

    # --- what is answered

    def _answer(self) -> Answer:
        given = self.headers.get_all("Host") or []
        if len(given) != 1 or given[0] not in self.server.hosts:
            return _plain(403, "The board answers to 127.0.0.1 and localhost only.")
        path, _, query = self.path.partition("?")
        if path == "/":
            return self._exchanged(parse_qs(query, max_num_fields=20).get("token", [""])[0])
        below = path.removeprefix("/").partition("/")
        secrets = self.server.secrets
        if not (same(below[0], secrets.path) & has_cookie(secrets, self.headers.get("Cookie", ""))) or not below[1]:
            return _plain(403, _CLOSED)
        return self._page(below[2], query)

    def _exchanged(self, token: str) -> Answer:
        """The cookie for the token."""
        secrets = self.server.secrets
        once = same(token, secrets.ticket) and self.server.used.acquire(blocking=False)
        if not (same(token, secrets.token) | once):
            return _plain(403, _CLOSED)
        headers = (("Location", f"/{secrets.path}/"), ("Set-Cookie", set_cookie(secrets)))
        return Answer(b"", status=303, headers=headers)

    def _page(self, path: str, query: str) -> Answer:
        runs = self.server.runs
        match path.split("/"):
            case [""]:
                return _html(pages.list_page(clean(runs.root.name or "/"), f"/{self.server.secrets.path}/"))
            case ["board.css"]:
                return Answer(pages.style(), "text/css; charset=utf-8")
            case ["board.js"]:
                return Answer(pages.script(), "text/javascript; charset=utf-8")
            case ["runs.json"]:
                return _json(_changes(runs.changes(_number(query, "after") or 0), time()))
            case ["compare"]:
                found = [self._folder(run) for run in _runs(query)]
                return Answer(self.server.reports.page(found), policy=pages.FOREIGN_POLICY)
            case ["run", run, *rest]:
                return self._of_run(run, self._folder(run), rest, query)
            case _:
                return self._sentence(404, "Not there", "There is no such page on this board.")

    def _folder(self, run: str) -> Path:
        """The folder of a listed run. What is no id of one, such as a path, names none."""
        folder = self.server.runs.folder(run)
        if folder is None:
            raise NotMade("There is no such run in this folder.")
        return folder

    def _of_run(self, run: str, folder: Path, rest: list[str], query: str) -> Answer:
        match rest:
            case []:
                return _html(pages.run_page(run, clean(folder.name), f"/{self.server.secrets.path}/"))
            case ["events.json"]:
                summary = self.server.runs.summary(run) or Summary(folder.name)
                try:
                    told = events_of(folder, _number(query, "from"))
                except OSError:
                    told = {"rows": [], "next": 0, "more": False}
                audit = (folder / "audit.html").is_file() and not (folder / "audit.html").is_symlink()
                return _json({"run": _listed(run, summary, time()), "audit": audit, **told})
            case ["report"]:
                return Answer(self.server.reports.page([folder]), policy=pages.FOREIGN_POLICY)
            case ["audit"]:
                return Answer(read_small(folder / "audit.html", _LARGEST_PAGE), policy=pages.FOREIGN_POLICY)
            case _:
                return self._sentence(404, "Not there", "There is no such page on this board.")

    def _sentence(self, status: int, title: str, words: str) -> Answer:
        page = pages.sentence_page(title, clean(words, _LONGEST), f"/{self.server.secrets.path}/")
        return Answer(page.encode(), status=status)


def _runs(query: str) -> list[str]:
    """The ids of a comparison, as they stand: what is decoded may be no id."""
    found = [value for name, _, value in (each.partition("=") for each in query.split("&")) if name == "run"]
    if not 1 < len(found) <= _COMPARED:
        raise NotMade(f"From 2 to {_COMPARED} runs are compared, and {len(found)} are named.")
    return found


def _number(query: str, key: str) -> int | None:
    """A number of a query; None if it is none."""
    value = parse_qs(query, max_num_fields=4).get(key, [""])[0]
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 18 else None


def _changes(found: Changes, now: float) -> dict[str, Any]:
    runs = [_listed(run, summary, now) for run, summary in found.runs]
    return {"number": found.number, "runs": runs, "gone": found.gone, "more": found.more, "unread": found.unread}


def _listed(run: str, summary: Summary, now: float) -> dict[str, Any]:
    """A run as the script draws it."""
    return {
        "id": run,
        **asdict(listed(summary, now)),
        "began": summary.began,
        "part": share_done(summary),
    }


def _html(words: str) -> Answer:
    return Answer(words.encode())


def _json(value: Any) -> Answer:
    return Answer(json.dumps(value, allow_nan=False).encode(), "application/json")


def _plain(status: int, words: str, *headers: tuple[str, str]) -> Answer:
    return Answer(f"{words}\n".encode(), "text/plain; charset=utf-8", status, headers=headers)
