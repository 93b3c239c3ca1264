"""A real browser for tests: Chromium without a window, told what to do over a pipe (the DevTools protocol).

    with Browser(folder) as browser:
        page = browser.page(width=390, dark=True)
        page.go(url)
        page.until("document.title === 'x'")

Each page is a context of its own, with no cookies of another. It keeps what the page said on its console and which
addresses it asked for. `MISSING` is why there is no browser, if there is none.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.subprocesses import HANGS, kill, launch

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "" if CHROMIUM else "Chromium is not installed: apt-get install chromium"
_FLAGS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "about:blank",
)
# Chromium reads commands from descriptor 3 and writes answers to 4.
_START = "import os, sys; os.dup2({}, 3); os.dup2({}, 4); os.execv(sys.argv[1], sys.argv[1:])"
_ABOVE = 20  # descriptors that are in nobody's way


class Browser:
    """One process of Chromium, with a profile in `folder`."""

    def __init__(self, folder: Path) -> None:
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        high = [fcntl.fcntl(each, fcntl.F_DUPFD, _ABOVE) for each in (their_in, their_out)]
        start = [sys.executable, "-c", _START.format(*high), CHROMIUM, f"--user-data-dir={folder}", *_FLAGS]
        with (folder.parent / "chromium.log").open("wb") as log:
            self.process = launch(start, pass_fds=high, stdout=log, stderr=log)
        for each in (their_in, their_out, *high):
            os.close(each)
        os.set_blocking(self._in, False)
        self._buffer = b""
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self.pages: dict[str, Page] = {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._write({"id": 0, "method": "Browser.close"})
        kill(self.process)
        os.close(self._in)
        os.close(self._out)

    def page(self, width: int = 1280, height: int = 900, *, dark: bool = False) -> Page:
        """A new page, which is a phone's if it is narrow."""
        context = self.tell("Target.createBrowserContext")["browserContextId"]
        target = self.tell("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, width)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.tell(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        page.tell("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.tell("Emulation.setEmulatedMedia", features=[scheme])
        return page

    def tell(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """A command, and what came of it."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        self._write(message | ({"sessionId": session} if session else {}))
        deadline = time.monotonic() + HANGS
        while number not in self._answers:
            assert time.monotonic() < deadline, f"{method} was not answered in {HANGS:.0f} s"
            assert self.process.poll() is None, "the browser ended"
            self.listen()
        answer = self._answers.pop(number)
        if "context" in answer.get("error", {}).get("message", ""):  # of a page that was just left
            return {"result": {}}
        assert "error" not in answer, (method, answer["error"])
        return dict(answer["result"])

    def listen(self) -> None:
        """Take what the browser said since."""
        for message in self._messages():
            if "id" in message:
                self._answers[message["id"]] = message
            elif (page := self.pages.get(message.get("sessionId", ""))) is not None:
                page.hear(message["method"], message["params"])

    def _write(self, message: dict[str, Any]) -> None:
        os.write(self._out, json.dumps(message).encode() + b"\0")

    def _messages(self) -> Iterator[dict[str, Any]]:
        try:
            self._buffer += os.read(self._in, 1 << 20)
        except BlockingIOError:
            time.sleep(0.005)
        *whole, self._buffer = self._buffer.split(b"\0")
        yield from map(json.loads, whole)


class Page:
    """One page of the browser."""

    def __init__(self, browser: Browser, session: str, width: int) -> None:
        self._browser = browser
        self._width = width
        self._session = session
        self._loads = 0
        self.errors: list[str] = []  # of its console
        self.asked: list[str] = []  # addresses

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.tell(method, self._session, **parameters)

    def hear(self, method: str, about: dict[str, Any]) -> None:
        match method:
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "warning", "assert"):
                self.errors.append(str([each.get("value", each.get("description")) for each in about["args"]]))
            case "Runtime.exceptionThrown":
                self.errors.append(str(about["exceptionDetails"]))
            case "Log.entryAdded" if about["entry"]["level"] in ("error", "warning"):
                self.errors.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
            case "Network.requestWillBeSent":
                self.asked.append(about["request"]["url"])
            case "Page.loadEventFired":
                self._loads += 1

    def go(self, url: str) -> None:
        """Load an address, to its end."""
        before = self._loads
        failed = self.tell("Page.navigate", url=url).get("errorText")
        assert not failed, (url, failed)
        self._wait(lambda: self._loads > before, f"{url} was not loaded")

    def run(self, script: str) -> Any:
        """What a script says."""
        answer = self.tell("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (script, answer)
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until a script says something true. While a page is being loaded, what it asks for may not be there."""
        self._wait(lambda: self.run(f"(() => {{ try {{ return {script}; }} catch {{ return false; }} }})()"), script)

    def text(self, selector: str = "body") -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key: str, code: int, text: str = "") -> None:
        """A key, as from a keyboard."""
        about = {"key": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self.tell("Input.dispatchKeyEvent", type="keyDown", **about)
        self.tell("Input.dispatchKeyEvent", type="keyUp", **about)

    def sideways(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.run("document.scrollingElement.scrollWidth")) - self._width

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A screenshot as PNG."""
        taken = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _wait(self, holds: Any, what: str) -> None:
        deadline = time.monotonic() + HANGS
        while not holds():
            assert time.monotonic() < deadline, f"{what}: it did not happen in {HANGS:.0f} s; {self.errors}"
            self._browser.listen()
            time.sleep(0.02)
