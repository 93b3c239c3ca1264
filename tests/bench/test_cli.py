"""`python -m bench` with small benchmarks that the tests write themselves."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bench
from bench import __main__ as cli
from tests.subprocesses import HANGS

HEADER = "from bench.measure import Options, Row, Side, interleave, rate_row, time_row\n"
FAST = HEADER + "def run(options): return [Row('fast', 1.0, 3.0, 's', 'lower', floor=2.0, target=2.5)]\n"
SLOW = HEADER + "def run(options): return [Row('slow', 1.0, 1.5, 's', 'lower', floor=2.0, target=2.5)]\n"

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes benchmark modules. Only those are known during the test."""
    monkeypatch.setattr(bench, "__path__", [str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        # Set first so that monkeypatch forgets the module after the test.
        monkeypatch.setitem(sys.modules, f"bench.{name}", None)
        del sys.modules[f"bench.{name}"]

    return write


def last_line(output: str) -> dict[str, Any]:
    return json.loads(output.splitlines()[-1])


def test_table_shows_ratio_bounds_and_verdict(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("fast", FAST)
    assert cli.main(["fast"]) == 0
    output = capsys.readouterr().out
    for text in ("fast: fast", "1 s", "3 s", "3x", "2x", "2.5x", "on target"):
        assert text in output


def test_below_the_floor_exits_with_1(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("slow", SLOW)
    assert cli.main(["slow"]) == 1
    assert "below floor" in capsys.readouterr().out


def test_json_is_the_last_line_even_when_a_benchmark_prints(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("chatty", FAST.replace("return", "print('hello'); return"))
    assert cli.main(["chatty", "--json"]) == 0
    result = last_line(capsys.readouterr().out)
    assert result["passed"] is True
    assert result["rows"][0]["ratio"] == 3.0


def test_all_runs_each_and_fails_with_any(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("fast", FAST)
    write("slow", SLOW)
    write("tools", "def helper(): pass\n")
    assert cli.main(["all", "--json"]) == 1
    rows = last_line(capsys.readouterr().out)["rows"]
    assert [(row["benchmark"], row["verdict"]) for row in rows] == [("fast", "on target"), ("slow", "below floor")]


def test_a_benchmark_that_fails_ends_no_other(write: Write, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bodies = ["raise RuntimeError('late')", "return []", "import os; os._exit(3)", "import no_such_module_of_ours"]
    for number, body in enumerate(bodies):
        write(f"late{number}", f"def run(options):\n    {body}\n")
    write("fast", FAST)
    write("rest", FAST)
    folder = tmp_path / "kept"
    folder.mkdir()
    assert cli.main(["all", "--store", str(folder), "--json"]) == 1
    output, errors = capfd.readouterr()
    assert {
        "Benchmark late0 failed: RuntimeError: late",
        "Benchmark late1 measured nothing.",
        "Benchmark late2 has no result: its process ended.",
        "Benchmark late3 failed: No module named 'no_such_module_of_ours'.",
        "No result of late0, late1, late2, late3: see the reasons above.",
    } <= set(errors.splitlines())
    found = last_line(output)
    assert (found["passed"], found["failed"]) == (False, ["late0", "late1", "late2", "late3"])
    assert [row["benchmark"] for row in found["rows"]] == ["fast", "rest"]
    assert sorted(path.name for path in folder.iterdir()) == ["fast.json", "rest.json"]


@pytest.mark.slow
def test_a_benchmark_that_hangs_ends_no_other(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "ONE_LIMIT", 30.0)
    write("hangs", "import time\ndef run(options): time.sleep(3600)\n")
    write("rest", FAST)
    assert cli.main(["all", "--json"]) == 1
    output, errors = capsys.readouterr()
    assert "Benchmark hangs has no result: it was not done after 30 s." in errors.splitlines()
    assert [row["benchmark"] for row in last_line(output)["rows"]] == ["rest"]


def test_a_benchmark_leaves_no_process_behind(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("fast", FAST)
    started = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])"
    )
    write("wild", HEADER + f"def run(options):\n    {started}\n    return [Row('pid', child.pid, None, '', 'lower')]\n")
    assert cli.main(["all", "--json"]) == 0
    pid = next(row["ours"] for row in last_line(capsys.readouterr().out)["rows"] if row["name"] == "pid")
    deadline = time.monotonic() + HANGS
    while _lives(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_benchmarks_end_with_the_run_that_is_killed(tmp_path: Path) -> None:
    """The benchmark writes who it is, and then takes for ever."""
    (tmp_path / "endless.py").write_text(
        f"import os, pathlib, time\ndef run(options):\n"
        f"    pathlib.Path({str(tmp_path / 'new')!r}).write_text(str(os.getpid()))\n"
        f"    os.rename({str(tmp_path / 'new')!r}, {str(tmp_path / 'pid')!r})\n    time.sleep(3600)\n"
    )
    (tmp_path / "other.py").write_text(FAST)
    code = (
        "import sys, bench; from bench import __main__ as cli\n"
        f"bench.__path__ = [{str(tmp_path)!r}]\n"
        "if __name__ == '__main__': sys.exit(cli.main(['all']))"
    )
    root = Path(bench.__file__).parents[1]
    with subprocess.Popen([sys.executable, "-c", code], cwd=root, stderr=subprocess.DEVNULL) as run:
        deadline = time.monotonic() + HANGS
        while not (tmp_path / "pid").exists():
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        run.kill()
    pid = int((tmp_path / "pid").read_text())
    while _lives(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_interrupted_run_keeps_what_it_measured_and_ends_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text(FAST)
    (tmp_path / "endless.py").write_text(
        f"import pathlib, time\ndef run(options):\n"
        f"    pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n    time.sleep(3600)\n"
    )
    (tmp_path / "kept").mkdir()
    code = (
        "import sys, bench; from bench import __main__ as cli\n"
        f"bench.__path__ = [{str(tmp_path)!r}]\n"
        f"if __name__ == '__main__': sys.exit(cli.main(['all', '--store', {str(tmp_path / 'kept')!r}]))"
    )
    root = Path(bench.__file__).parents[1]
    with subprocess.Popen([sys.executable, "-c", code], cwd=root, stderr=subprocess.PIPE, text=True) as run:
        deadline = time.monotonic() + HANGS
        while not (tmp_path / "begun").exists():
            assert run.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=HANGS)
    assert run.returncode == 130
    assert errors.splitlines()[-1] == "The run was interrupted, with what was measured until then stored."
    assert "Traceback" not in errors
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["early.json"]


def test_all_benchmarks_share_the_time_of_one_run(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    planned = HEADER + "def run(options): return [Row('planned', options.budget.seconds, None, 's', 'lower')]\n"
    for number in range(10):
        write(f"planned{number}", planned)
    assert cli.main(["planned0", "--json"]) == 0
    (alone,) = last_line(capsys.readouterr().out)["rows"]
    assert cli.main(["all", "--json"]) == 0
    together = last_line(capsys.readouterr().out)["rows"]
    assert 0.9 * cli.FULL_BUDGET < alone["ours"] <= cli.FULL_BUDGET
    assert together[0]["ours"] <= cli.ALL_BUDGET / 10


def test_unknown_name_gets_one_sentence(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("fast", FAST)
    write("tools", "def helper(): pass\n")
    assert cli.main(["nois"]) == 2
    assert capsys.readouterr().err == "There is no benchmark 'nois': choose one of all, fast.\n"


@pytest.mark.parametrize("where", ["", "def run(options):\n    "])
def test_missing_peer_names_the_extra(
    where: str, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.EXTRAS, "absent_peer", "bench")
    write("lonely", f"{where}import absent_peer.part\n" + ("" if where else "def run(options): return []\n"))
    assert cli.main(["lonely"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "absent_peer" in error
    assert "'.[bench]'" in error


def test_all_runs_the_others_when_a_peer_is_missing(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.EXTRAS, "absent_peer", "bench")
    write("absent", "import absent_peer\ndef run(options): return []\n")
    write("fast", FAST)
    assert cli.main(["all", "--json"]) == 2
    result = last_line(capsys.readouterr().out)
    assert (result["missing"], result["passed"], len(result["rows"])) == (["absent"], False, 1)


def test_a_mistake_in_a_benchmark_is_not_called_a_missing_peer(write: Write) -> None:
    write("wrong", "import no_such_module_of_ours\ndef run(options): return []\n")
    with pytest.raises(ModuleNotFoundError):
        cli.main(["wrong"])


def test_measuring_nothing_does_not_pass(write: Write) -> None:
    write("empty", "def run(options): return []\n")
    with pytest.raises(RuntimeError, match="measured nothing"):
        cli.main(["empty"])


def test_options_reach_the_benchmark(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "echo",
        HEADER + "def run(options):\n"
        "    print(options.quick, options.data)\n"
        "    return [Row('left', options.budget.remaining(), None, 's', 'higher')]\n",
    )
    assert cli.main(["echo", "--quick", "--json", "--data", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert output.splitlines()[0] == f"True {tmp_path}"
    assert 0 < last_line(output)["rows"][0]["ours"] <= cli.QUICK_BUDGET


def test_data_folder_must_exist(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("fast", FAST)
    assert cli.main(["fast", "--data", str(tmp_path / "absent")]) == 2
    assert capsys.readouterr().err.endswith("does not exist.\n")


def test_quick_shares_one_budget_among_all(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "QUICK_BUDGET", 30.0)
    source = HEADER + "def run(options): return [Row('left', options.budget.remaining(), None, 's', 'higher')]\n"
    for name in ("first", "second", "third"):
        write(name, source)
    assert cli.main(["all", "--quick", "--json"]) == 0
    first, second, third = (row["ours"] for row in json.loads(capsys.readouterr().out.splitlines()[-1])["rows"])
    assert first <= 10
    assert second <= 15
    assert third <= 30


def test_quick_stops_a_benchmark_that_does_not_return(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("import time\ndef run(options): time.sleep(3600)\n")
    code = (
        "import sys, bench; from bench import __main__ as cli\n"
        f"bench.__path__ = [{str(tmp_path)!r}]; cli.QUICK_LIMIT = 2.0\n"
        "sys.exit(cli.main(['endless', '--quick']))"
    )
    root = Path(bench.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 1
    assert done.stderr == "The quick run did not finish in 2 s and was stopped.\n"


def test_the_real_command_knows_its_own_benchmarks_only() -> None:
    root = Path(bench.__file__).parents[1]
    done = subprocess.run([sys.executable, "-m", "bench", "measure"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("There is no benchmark 'measure': choose one of all")
