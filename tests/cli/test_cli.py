"""The command line: what it prints, and how it ends."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import tacit.runs.run
from tacit import events
from tacit.cli import VERBS
from tacit.cli.progress import Bar
from tacit.errors import BudgetError, PeerError
from tacit.runs.load import load
from tacit.store.directory import read_events
from tests.commands import ended, invoke
from tests.inside import inside
from tests.subprocesses import launch

FILE = "kind: horizontal\nname: fleet\ntask: digits\nrounds: 2\nclients: 10\n"
STARTED = events.RunStarted("fleet", "horizontal", 10, 2, "NOT_ENCRYPT", 650)
# The environment of the test run decides neither how a command looks nor, by a path relative to here, what it finds.
CLEAN = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "NO_COLOR", "TERM")}
CLEAN["PYTHONPATH"] = str(Path(tacit.__file__).parents[1])


@pytest.fixture
def fleet(here, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    Path("fleet.yaml").write_text(FILE)
    return here


@pytest.fixture
def executed(monkeypatch):
    """Puts `behave(settings, sink, directory)` in the place of the run; it returns a status and a text."""

    def put(behave):
        def execute(settings, *, sink, directory):
            status, text = behave(settings, sink, directory)
            sink.emit(events.RunFinished(status, 1, 0.5, text))
            return SimpleNamespace(status=status, text=text)

        monkeypatch.setattr(tacit.runs.run, "execute", execute)

    return put


def tacit_run(*arguments):
    return invoke("run", "fleet.yaml", *arguments)


def results() -> Path:
    (path,) = Path("runs").iterdir()
    return path


# --- the group


def test_help_lists_the_verbs_and_loads_nothing_heavy():
    code = "import sys, tacit.cli; tacit.cli.main(['--help'], standalone_mode=False); print(*sorted(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert all(f"  {verb} " in output for verb in VERBS)
    loaded = {name.partition(".")[0] for name in output.splitlines()[-1].split()}
    assert not loaded & {"numpy", "pydantic", "yaml", "rich", "safetensors", "scipy", "torch"}


def test_version_and_unknown_verbs():
    assert invoke("--version").output == f"tacit, version {tacit.__version__}\n"
    assert invoke("rnu").exit_code == 2


# --- init


def test_init_writes_a_file_that_loads(fleet):
    done = invoke("init")
    assert done.exit_code == 0
    assert done.output == "horizontal.yaml is written. Run it with: tacit run horizontal.yaml\n"
    assert load("horizontal.yaml").kind == "horizontal"


def test_init_overwrites_only_when_forced(fleet):
    done = invoke("init", "horizontal", "fleet.yaml")
    assert done.exit_code == 2
    assert done.stderr == "fleet.yaml exists: choose another name, or overwrite it with --force\n"
    assert Path("fleet.yaml").read_text() == FILE
    assert invoke("init", "horizontal", "fleet.yaml", "--force").exit_code == 0
    assert Path("fleet.yaml").read_text() != FILE


def test_init_knows_its_kinds_and_folders(fleet):
    done = invoke("init", "horizonal")
    assert (done.exit_code, done.stderr) == (2, "kind is 'horizonal', which does not exist: did you mean horizontal?\n")
    assert not Path("horizonal.yaml").exists()
    done = invoke("init", "horizontal", "no/such/folder.yaml")
    assert (done.exit_code, done.stderr) == (2, "no/such/folder.yaml cannot be written: No such file or directory\n")


# --- run


def one_round(settings, sink, directory):
    sink.emit(STARTED)
    sink.emit(events.RoundStarted(0, 10))
    sink.emit(events.ClientRefused(0, 3, "too late"))
    sink.emit(events.RoundFinished(0, 9, 1, 0.5, 100, {"accuracy": 0.9}))
    return "done", ""


def test_a_run_prints_lines_and_where_its_results_are(fleet, executed):
    executed(one_round)
    done = tacit_run()
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "fleet: horizontal federation of 10 clients, 2 rounds, NOT_ENCRYPT, 650 parameters",
        "round 1/2 survivors 9 refused 1 accuracy: 0.9 0.5 s",
        "done after 1 rounds in 0.5 s",
        f"Results: {results()}",
    ]
    assert len(list(read_events(results() / "events.jsonl"))) == 5  # the single client too


def test_quiet_says_only_where(fleet, executed):
    executed(one_round)
    assert tacit_run("--quiet").output == f"Results: {results()}\n"


def test_overrides_reach_the_run_and_its_directory(fleet, executed):
    seen = []
    executed(lambda settings, sink, directory: (seen.append((settings, directory)), ("done", ""))[1])
    assert tacit_run("--set", "rounds=7", "--set", "encrypt.dp_eps=8", "--runs", "else/where").exit_code == 0
    ((settings, directory),) = seen
    assert (settings.rounds, settings.encrypt.dp_encrypt.dp_eps) == (7, 8)
    assert directory.path.parent == Path("else/where")
    assert load(directory.path / "config.yaml") == settings


@pytest.mark.parametrize(("status", "code"), [("done", 0), ("failed", 1), ("stopped", 5), ("budget reached", 4)])
@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_the_exit_code_says_how_it_ended(fleet, executed, status, code, quiet):
    executed(lambda settings, sink, directory: (status, "as told"))
    done = tacit_run(*quiet)
    assert done.exit_code == code
    assert f"Results: {results()}\n" in done.stdout
    assert ("tacit run --resume" in done.stdout) == (status == "stopped")
    assert ("as told" in done.stderr) == (bool(quiet) and code != 0)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (PeerError("client 3 sent a wrong signature"), 3, "Another party broke the protocol: client 3 sent a wrong"),
        (BudgetError("epsilon would be 9, above 8"), 4, "epsilon would be 9, above 8. What was finished is in"),
        (KeyboardInterrupt(), 5, "Stopped. What was finished is in"),
    ],
)
def test_what_the_user_can_mend_is_one_sentence(fleet, executed, error, code, words):
    def fail(settings, sink, directory):
        raise error

    executed(fail)
    done = tacit_run()
    assert done.exit_code == code
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1
    status = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
    (last,) = read_events(results() / "events.jsonl")
    assert (last.status, last.text) == (status, str(error) or type(error).__name__)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (MemoryError(), 5, "This machine has too little memory: start again once more is available. What was finished"),
        (OSError(errno.EMFILE, "Too many open files", "a"), 5, "a: Too many open files: start again once that is"),
        (OSError(errno.ENOSPC, "No space left on device", "a"), 5, "a: No space left on device: start again once that"),
        (OSError(errno.EFBIG, "File too large", "a"), 5, "a: File too large: start again once that is fixed. What"),
        (OSError(errno.EACCES, "Permission denied", "a"), 1, "a: Permission denied. What was finished is in"),
    ],
)
def test_a_fault_of_the_machine_that_passes_ends_with_5(fleet, executed, error, code, words):
    def fail(settings, sink, directory):
        sink.emit(events.RoundStarted(0, 10))
        raise error

    executed(fail)
    done = tacit_run()
    assert done.exit_code == code
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1
    *_, last = read_events(results() / "events.jsonl")
    assert last.status == ("stopped" if code == 5 else "failed")


def test_a_mistake_before_the_first_round_is_one_sentence_and_leaves_no_folder(fleet):
    done = tacit_run("--set", "task=x")
    assert done.exit_code == 2
    assert done.stderr.startswith("task 'x' is not known: take one of digits")
    assert done.stderr.count("\n") == 1
    assert not list(Path("runs").iterdir())


def test_an_error_within_a_round_is_not_the_users_input(fleet, executed):
    def fail(settings, sink, directory):
        sink.emit(events.RoundStarted(0, 10))
        raise ValueError("operands could not be broadcast")

    executed(fail)
    done = tacit_run()
    assert done.exit_code == 1
    assert "ValueError: operands could not be broadcast" in done.stderr  # a traceback, for the author of the task


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.yaml"], "none.yaml: there is no such file; `tacit init` writes one to start from\n"),
        (["fleet.yaml", "--set", "rounds=0"], "--set rounds=0: rounds is 0: give a whole number of at least 1\n"),
        (["broken.yaml"], "broken.yaml:4: rouds is not a known key: did you mean rounds?\n"),
        (["fleet.yaml", "--runs", "fleet.yaml"], "fleet.yaml: results cannot be stored there: "),
        ([], "Give the FILE to run, or a run to resume: "),
    ],
)
def test_mistakes_in_the_input_end_with_2_and_leave_nothing(fleet, arguments, words):
    Path("broken.yaml").write_text(FILE.replace("rounds: 2", "rouds: 2\nrounds: 2"))
    done = invoke("run", *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(words)
    assert "Traceback" not in done.output
    assert not Path("runs").exists()


# --- a terminal


def test_the_bar_shows_the_rounds_and_their_numbers():
    screen = io.StringIO()
    with Bar(Console(file=screen, force_terminal=True, width=140, color_system=None)) as bar:
        bar.emit(STARTED)
        bar.emit(events.Noted("[bold]mind[/bold] the gap"))
        bar.emit(events.RoundStarted(0, 10))
        bar.emit(events.RoundFinished(0, 9, 1, 0.5, 100, {"loss": 0.25, "[red]accuracy": 0.9}, epsilon=3.5, delta=0.1))
        bar.emit(events.RoundAborted(1, "too few", 0.1))
        bar.emit(events.RunFinished("done", 2, 1.0))
    shown = screen.getvalue()
    assert "note: [bold]mind[/bold] the gap" in shown
    assert "round 2/2 changed nothing: too few" in shown
    last = shown[shown.rindex("survivors 9") - 60 :]
    assert "2/2" in last
    assert "loss: 0.25  [red]accuracy: 0.9  " in last
    assert "3.5" in last


# --- a process of its own


@pytest.fixture
def process(fleet):
    """Starts `tacit` beside a task that naps in each round."""
    Path("napping.py").write_text(
        "import time\n"
        "import numpy as np\n"
        "from tacit.kinds.horizontal.task import Fitted\n"
        "class Naps:\n"
        "    def model(self):\n"
        "        return {'w': np.zeros(3)}\n"
        "    def fit(self, client, model, work):\n"
        "        time.sleep(self.nap)\n"
        "        return Fitted({'w': model['w'] + 1}, 1)\n"
        "def make_task(clients, seed, nap):\n"
        "    naps = Naps()\n"
        "    naps.nap = nap\n"
        "    return naps\n"
    )

    def start(*arguments):
        # Not by `-m`, which puts this folder on the path by itself.
        code = "import sys; sys.path = [p for p in sys.path if p]; from tacit.cli import main; main(prog_name='tacit')"
        command = [sys.executable, "-c", code, "run", "fleet.yaml", "--set", "task=napping:make_task", *arguments]
        return launch(command, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def test_an_interrupt_before_the_run_begins_ends_with_5_too(fleet, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("tacit.config.load.load", interrupted)
    done = tacit_run()
    assert done.exit_code == 5
    assert done.stderr == "Stopped.\n"


def test_a_task_beside_the_file_is_found_and_run(process):
    output, errors = ended(process("--set", "task_options.nap=0"))
    assert errors == ""
    assert "round 2/2 survivors 10" in output
    assert output.endswith(f"Results: {results()}\n")
    stored = {path.name for path in results().iterdir()}
    assert stored >= {"config.yaml", "environment.json", "events.jsonl", "run.log", "ledger.json", "model.safetensors"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_a_directory_that_is_whole(process, number):
    running = process("--set", "task_options.nap=0.02", "--set", "rounds=100000")
    for text in running.stdout:
        if text.startswith("round 2/"):
            break
    running.send_signal(number)
    output, errors = ended(running, 5)
    assert "Traceback" not in errors
    assert str(results()) in output + errors
    happened = list(read_events(results() / "events.jsonl"))
    assert isinstance(happened[-1], events.RunFinished)
    assert happened[-1].status == "stopped"
    json.loads((results() / "ledger.json").read_text())
    assert inside(load(results() / "config.yaml")).rounds == 100000
