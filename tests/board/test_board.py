"""The board in a real browser: what people see of runs that are under way, done, failed, and hostile."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

import pytest

from tacit.board.server import open_board
from tacit.events import (
    Answered,
    EpochFinished,
    Noted,
    Paused,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunStarted,
    Stepped,
    TrainingStarted,
    Unpaused,
)
from tacit.store.directory import RunDirectory
from tests.browser import MISSING, Browser
from tests.report.sample_runs import NOW, UPDATES, settings, write

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
STARTED = RunStarted("fleet", "horizontal", 10, 6, "DDP_ENCRYPT", 650)
TRAINING = TrainingStarted("private", "private_training", 1, 4, 10, "gaussian noise of 1.3 times the norm", 650)
DONE = RunFinished("done", 3, 60.0)
WHY = "no round had enough updates: see the aborted rounds for the reason"
HTML = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
SIZES = [
    (1280, False),
    (390, True),
    pytest.param(1280, True, marks=pytest.mark.slow),
    pytest.param(390, False, marks=pytest.mark.slow),
]
BACKGROUND = {False: "rgb(244, 246, 249)", True: "rgb(15, 20, 27)"}
CONTRAST = """
(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (at) => {
    for (; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const at of document.querySelectorAll("main *")) {
    const words = [...at.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
    const style = getComputedStyle(at);
    if (!words || !at.getClientRects().length || at.closest("svg")) continue;
    if (style.backgroundColor.startsWith("color(")) continue;
    const [a, b] = [light(parts(style.color)), light(behind(at))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${at.className} ${at.textContent.slice(0, 30)} ${ratio}`);
  }
  return low;
})()
"""
CUT_OFF = """
[...document.querySelectorAll('table.runs tbody td')]
  .filter((each) => each.getClientRects().length && each.getBoundingClientRect().right > innerWidth)
  .map((each) => each.textContent)
"""
OVERLAPPING = """
[...document.querySelectorAll('table.runs tbody td[data-label]')]
  .filter((each) => [...each.children].some((part) =>
    part.getBoundingClientRect().right > each.getBoundingClientRect().right))
  .map((each) => each.textContent)
"""
COLOURS_OF_NOTES = (
    "new Set([...document.querySelectorAll('.card .note')].map((each) => getComputedStyle(each).color)).size"
)
LISTED = """
[...document.querySelectorAll('table.runs tbody tr')].map((row) =>
  [row.querySelector('a').textContent.slice(16), row.querySelector('.badge').textContent])
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One for all tests here. It is ended with this module, or by the test that is under way when it hangs."""
    from tests import subprocesses

    with Browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        subprocesses._started.remove(found.process)  # it outlives a test
        yield found


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@contextmanager
def shown(browser, runs, **look):
    """A page at the list of the runs; in the end nobody else was asked for anything, and nothing went wrong."""
    with open_board(runs) as address:
        page = browser.page(**look)
        page.go(address.url)
        page.until("document.querySelector('.states button').textContent !== ''")
        yield page
        host = address.url.split("/")[2]
        assert {each.split("/")[2] for each in page.asked if not each.startswith("data:")} == {host}
        assert page.errors == []
        assert "token" not in page.run("location.href + document.referrer")
        page.tell("Page.close")


def opened(page, folder):
    """The page of a run, by its link."""
    page.until(f"[...document.querySelectorAll('td.name a')].some((each) => each.textContent === {folder!r})")
    page.run(f"[...document.querySelectorAll('td.name a')].find((each) => each.textContent === {folder!r}).click()")
    page.until("document.querySelector('#content').dataset.view === 'run'")
    page.until("document.querySelector('.card .value').textContent")


def rounds(count):
    return [each for number in range(count) for each in (RoundStarted(number, 10), round_of(number))]


def round_of(number):
    return RoundFinished(number, 9, 1, 2.0, 100, {"loss": 1 / (number + 1), "accuracy": 0.25 * number}, epsilon=1.0)


def sorts_of_runs(runs):
    """One run of each sort, and who still writes one of them."""
    write(runs, settings(name="done"), [STARTED, *rounds(3), DONE], [UPDATES])
    aborted = RoundAborted(0, "0 clients uploaded, 5 are needed", 1.0)
    write(runs, settings(name="failed"), [STARTED, aborted, RunFinished("failed", 1, 3.0, WHY)])
    write(runs, settings(name="killed"), [TRAINING, Stepped(0, 5, 10, loss=2.0)])
    write(runs, settings(name="reached"), [STARTED, *rounds(1), RunFinished("budget reached", 1, 3.0)])
    write(runs, settings(name="damaged"), [STARTED])
    with next(runs.glob("*-damaged")).joinpath("events.jsonl").open("ab") as file:
        file.write(os.urandom(3000).replace(b"\n", b"") + b"\n")
    live = RunDirectory.create(runs, settings(name="under-way"), NOW, party="coordinator")
    for event in (STARTED, *rounds(2)):
        live.emit(event)
    return live


@pytest.mark.parametrize(("width", "dark"), SIZES)
def test_every_sort_of_run_is_shown_and_fits(browser, runs, tmp_path, width, dark):
    live = sorts_of_runs(runs)
    with shown(browser, runs, width=width, dark=dark) as page:
        page.until("document.querySelectorAll('table.runs tbody tr').length === 6")
        found = dict(page.run(LISTED))
        states = {"under-way": "running", **{state: state for state in ("done", "failed", "killed", "damaged")}}
        assert found == {**states, "reached": "budget reached"}
        text = page.text()
        for words in ("DDP_ENCRYPT", "2.5", "50.0%", "accuracy", "2/6", WHY[:30], "coordinator", "gaussian noise"):
            assert words in text
        assert page.sideways() <= 0
        assert page.run(CUT_OFF) == []
        assert page.run(OVERLAPPING) == []
        assert page.run("getComputedStyle(document.body).backgroundColor") == BACKGROUND[dark]
        assert page.run(CONTRAST) == []
        page.picture(tmp_path / "list.png")
        for name in ("under-way", "done", "failed"):
            folder = next(runs.glob(f"*-{name}")).name
            opened(page, folder)
            assert page.text("h1") == folder
            assert page.text(".card .value") == states[name]
            assert page.sideways() <= 0
            assert page.run(CONTRAST) == []
            if name == "failed":
                assert WHY in page.text(".notice:not([hidden])")
                assert page.run(COLOURS_OF_NOTES) == 1  # the protection of a run that failed is not what is bad
            page.click(".back a")
    live.close()


def test_events_appear_as_they_come(browser, runs):
    live = RunDirectory.create(runs, settings(name="under-way"), NOW)
    live.emit(STARTED)
    with shown(browser, runs) as page:
        opened(page, live.path.name)
        page.run("window.stays = true")  # until the page is loaded again
        assert page.text(".events li") in page.text("ol.events")
        live.emit(RoundStarted(0, 10))
        page.until("document.querySelector('ol.events').innerText.includes('round 1 sampled 10')")
        for event in (round_of(0), round_of(1)):
            live.emit(event)
        page.until("document.querySelectorAll('svg.chart').length === 4")
        page.until("document.querySelector('.card progress').value === 2 / 6")
        assert page.run("document.querySelector('svg.chart').getAttribute('aria-label')") == "loss: 0.5 at 2"
        assert page.text("ol.events li span").startswith("round 2 survivors 9")  # the newest first
        live.emit(RunFinished("budget reached", 2, 1.0, "epsilon 3 is above 2"))
        page.until("document.querySelector('.card .value').textContent === 'budget reached'")
        assert "epsilon 3 is above 2" in page.text(".notice:not([hidden])")
        assert page.run("window.stays")
    live.close()


def test_a_pause_is_shown_until_it_ends(browser, runs):
    live = RunDirectory.create(runs, settings(name="fleet"), NOW, party="coordinator")
    for event in (STARTED, *rounds(2), Paused("the coordinator begins no round until its operator ends the pause")):
        live.emit(event)
    with shown(browser, runs) as page:
        page.until("document.querySelector('.badge')?.textContent === 'paused'")
        assert "paused 1" in page.text(".states")
        opened(page, live.path.name)
        page.until("document.querySelector('.notice:not([hidden])')?.innerText.includes('tacit unpause')")
        assert page.text(".card .value") == "paused"
        live.emit(Unpaused(2.0))
        page.until("document.querySelector('.card .value').textContent === 'running'")
        assert page.run("document.querySelector('.notice:not([hidden])')") is None
    live.close()


def test_a_run_whose_folder_is_deleted_while_it_is_followed(browser, runs):
    live = RunDirectory.create(runs, settings(name="gone"), NOW)
    live.emit(STARTED)
    live.emit(RoundStarted(0, 10))
    with open_board(runs) as address:
        page = browser.page()
        page.go(address.url)
        opened(page, live.path.name)
        page.until("document.querySelectorAll('ol.events li').length === 2")
        live.close()
        shutil.rmtree(live.path)
        page.until("!document.querySelector('.trouble').hidden")
        page.until("document.querySelector('.trouble').innerText.includes('no longer in the folder')")
        assert page.run("document.querySelectorAll('ol.events li').length") == 2
        again = RunDirectory.create(runs, settings(name="gone"), NOW)  # of the same name
        again.emit(TRAINING)
        page.until("document.querySelector('.trouble').hidden")
        page.until("document.querySelector('ol.events').innerText.includes('private_training')")
        assert page.run("document.querySelectorAll('ol.events li').length") == 1
        again.close()
        page.tell("Page.close")


def test_a_clients_own_folder_has_its_privacy_and_is_not_compared(browser, runs):
    other = write(runs, settings(name="other"), [STARTED, *rounds(3), DONE])
    live = RunDirectory.create(runs, settings(name="site"), NOW, party="client-0 to 1")
    live.emit(STARTED)
    for number in range(3):
        for client in range(2):
            live.emit(Answered(client, number, {"Update": 9}, {"updates": 1.5 + number}, {"updates": 1e-5}))
    with shown(browser, runs, width=390) as page:
        page.until("document.querySelectorAll('table.runs tbody tr').length === 2")
        for run in (live.path, other):
            page.click(f"input[aria-label$='{run.name}']")
        assert "A client's folder is not compared" in page.text(".compare")
        assert page.run("document.querySelector('.compare a').hidden")
        assert page.sideways() <= 0
        opened(page, live.path.name)
        page.until("document.querySelectorAll('svg.chart').length === 1")
        assert page.run("document.querySelector('svg.chart').getAttribute('aria-label')") == "ε of updates: 3.5 at 3"
        assert "CLIENT-0 TO 1" in page.text("#kind")
        live.emit(RunFinished("stopped", 3, 1.0, "by hand"))
        page.until("document.querySelector('.notice:not([hidden])')?.innerText.includes('can be resumed')")
        assert page.text(".notice:not([hidden])") == "Stopped: by hand. The run can be resumed."
        page.click(".actions a")
        page.until("document.querySelector('header h1')?.textContent === 'site'")
        assert page.sideways() <= 0
    live.close()


def test_a_list_follows_runs_that_begin_change_and_go(browser, runs):
    with shown(browser, runs) as page:
        page.until("!document.querySelector('.empty').hidden")
        assert "No runs here yet" in page.text(".empty")
        page.run("window.stays = true")
        live = RunDirectory.create(runs, settings(name="new"), NOW)
        live.emit(TRAINING)
        page.until("document.querySelector('.badge')?.textContent === 'running'")
        live.emit(EpochFinished(0, 1.0, {"auc": 0.75}, {}, 1.25, 1e-5))
        page.until("document.querySelector('[data-label=\"ε\"]').textContent === '1.25'")
        live.close()
        page.until("document.querySelector('.badge').textContent === 'killed'")
        live.path.rename(runs.parent / "away")
        page.until("document.querySelectorAll('table.runs tbody tr').length === 0")
        assert page.run("window.stays")


def test_runs_are_compared_and_reported_on(browser, runs):
    paths = [write(runs, settings(name=name), [STARTED, *rounds(3), DONE]) for name in ("one", "two")]
    training = write(runs, settings(name="three"), [TRAINING, RunFinished("done", 3, 1.0, "", "epochs")])
    with shown(browser, runs, width=390) as page:
        page.until("document.querySelectorAll('table.runs tbody tr').length === 3")
        page.click(f"input[aria-label$='{training.name}']")
        page.click(f"input[aria-label$='{paths[0].name}']")
        assert "Rounds and epochs cannot be compared" in page.text(".compare")
        page.click(f"input[aria-label$='{training.name}']")
        page.click(f"input[aria-label$='{paths[1].name}']")
        page.until("!document.querySelector('.compare a').hidden")
        page.click(".compare a")
        page.until("document.title.endsWith('comparison')")
        assert page.sideways() <= 0
        page.run("history.back()")
        page.until("document.querySelectorAll('table.runs tbody tr').length === 3")
        opened(page, paths[0].name)
        assert page.run("[...document.querySelectorAll('.actions a')].map((each) => each.hidden)") == [False, True]
        (paths[0] / "audit.html").write_text("<title>audit</title><h1>An audit</h1>")
        page.until("!document.querySelectorAll('.actions a')[1].hidden")
        page.click(".actions a")
        page.until("document.querySelector('header h1')?.textContent === 'one'")
        page.click("nav a")  # to a section of the page
        assert page.run("location.hash")
        page.run("history.go(-2)")
        page.until("document.querySelector('.actions') && !document.querySelectorAll('.actions a')[1].hidden")
        page.run("document.querySelectorAll('.actions a')[1].click()")
        page.until("document.title === 'audit'")


def test_hostile_words_and_pages_do_nothing(browser, runs):
    name = f"20260101-000000-{HTML.replace('/', '∕')}"
    happened = [
        RunStarted(HTML, HTML, 1, 2, HTML * 20, 1),
        Noted(HTML + "\n" * 50),
        RoundFinished(0, 1, 0, 1.0, 1, {HTML * 9: 0.5, "__proto__": 1.0, "constructor": 1e308}),
        RunFinished("failed", 1, 1.0, HTML * 30, HTML),
    ]
    made = write(runs, settings(), happened)
    made.rename(runs / name)
    (runs / name / "audit.html").write_text(
        f"<body>{HTML}<img src='http://evil.example/x'><form action='http://evil.example/'>"
    )
    with shown(browser, runs, width=390) as page:
        opened(page, name)
        page.until("document.querySelectorAll('ol.events li').length >= 4")
        assert page.run("document.querySelectorAll('main img, main script').length") == 0
        assert page.sideways() <= 0
        assert page.run("document.querySelectorAll('svg.chart').length") == 4
        page.click(".back a")
        page.until("document.querySelectorAll('table.runs tbody tr').length === 1")
        assert page.sideways() <= 0
        assert page.run("document.title") == "runs · Tacit board"


def test_an_audit_from_another_party_runs_no_script_and_asks_for_nothing(browser, runs):
    path = write(runs, settings(), [STARTED, DONE])
    hostile = f"<title>audit</title>{HTML}<img src='http://evil.example/x'><script src='board.js'></script>"
    (path / "audit.html").write_text(f"{hostile}<style>@import 'http://evil.example/y'</style><p id=end>")
    with open_board(runs) as address:
        page = browser.page()
        page.go(address.url)
        base = page.run("location.href")
        page.go(f"{base}run/{path.name}/audit")
        assert page.run("document.title") == "audit"
        assert page.run("document.querySelector('#end') !== null")
        assert page.run("self.origin") == "null"
        refused = [each for each in page.errors if "Content Security Policy" in each or "sandboxed" in each]
        assert refused
        assert page.run("performance.getEntriesByType('resource').filter((each) => each.transferSize).length") == 0
        page.tell("Page.close")


@pytest.mark.slow
def test_a_thousand_runs_are_shown_in_parts_and_searched(browser, runs):
    made = write(runs, settings(name="fleet"), [STARTED, DONE])
    files = {each.name: each.read_bytes() for each in made.iterdir() if each.is_file()}
    for number in range(1000):
        folder = runs / f"20260101-{number:06}-copy"
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
    with shown(browser, runs) as page:
        page.until("document.querySelector('.states button').textContent === 'all 1,001'")
        assert page.run("document.querySelectorAll('table.runs tbody tr').length") == 100
        page.click(".more")
        assert page.run("document.querySelectorAll('table.runs tbody tr').length") == 200
        page.run("document.querySelector('input[type=search]').focus()")
        for letter in "000777":
            page.press(letter, ord(letter), letter)
        page.until("document.querySelectorAll('table.runs tbody tr').length === 1")
        assert "20260101-000777-copy" in page.text("table.runs")


def test_a_board_that_ends_is_said_and_what_was_told_stays(browser, runs):
    write(runs, settings(), [STARTED, DONE])
    with open_board(runs) as address:
        page = browser.page()
        page.go(address.url)
        page.until("document.querySelectorAll('table.runs tbody tr').length === 1")
    page.until("!document.querySelector('.trouble').hidden")
    assert "No answer from tacit board" in page.text(".trouble")
    assert page.run("document.querySelectorAll('table.runs tbody tr').length") == 1
    page.tell("Page.close")
