"""The planted faults: each has its place and its tests, so that a later change cannot lose one silently."""

import shutil
from pathlib import Path

import pytest

from bench import __main__ as cli
from bench.sabotage import command, noticed
from bench.sabotage.faults import FAULTS, FILES, Fault
from bench.sabotage.patches import Patch, PlaceLost, apply, place

SOURCE = '''"""Doubles. x * 2 in words."""

class Scale:
    def up(self, x):
        """Give x * 2."""
        return (x *
            2)

    def down(self, x):
        if x * 2:
            return x / 2
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "scale.py").write_text(SOURCE)
    return folder


def test_every_fault_has_its_place_its_tests_and_its_file():
    command.check(FAULTS)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_every_file_is_read_by_a_fault_and_valid():
    from tacit.runs.load import load

    files = {path.name for path in FILES.glob("*.yaml")}
    assert files == {fault.file for fault in FAULTS} - {None}
    for name in sorted(files):
        load(FILES / name, ())


def test_a_patch_finds_its_function_wherever_it_lies(package: Path):
    patch = Patch("Scale.up", "x * 2", "x * 3")
    assert place(patch, package).path.name == "scale.py"
    (package / "inner").mkdir()
    shutil.move(package / "scale.py", package / "inner" / "moved.py")
    apply([patch], package)
    changed = (package / "inner" / "moved.py").read_text()
    assert "return (x * 3)" in changed
    assert '"""Give x * 2."""' in changed
    assert "if x * 2:" in changed


def test_further_lines_are_indented_like_the_first(package: Path):
    apply([Patch("Scale.down", "return x / 2", "x = 1\nreturn x")], package)
    assert "            x = 1\n            return x\n" in (package / "scale.py").read_text()


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        (Patch("Scale.up", "x * 4", ""), "Scale.up lost its place, there is 0 times 'x [*] 4' in it"),
        (Patch("Scale.sideways", "x", ""), "there is no function Scale.sideways"),
        (Patch("Scale.down", "x", "y"), "[2-9] times 'x' in it"),
    ],
)
def test_a_patch_that_lost_its_place_is_told(package: Path, patch: Patch, words: str):
    with pytest.raises(PlaceLost, match=words):
        apply([patch], package)
    assert (package / "scale.py").read_text() == SOURCE


def test_unknown_faults_and_lost_places_end_with_2(monkeypatch, capsys):
    assert cli.main(["sabotage", "--only", "noise tripled"]) == 2
    assert capsys.readouterr().err.startswith("There is no fault 'noise tripled': choose one of noise halved, ")
    lost = Fault("lost", (Patch("Fast.begin", "no such text", ""),), ("test_a",), None)
    monkeypatch.setattr(command, "FAULTS", (lost,))
    assert cli.main(["sabotage"]) == 2
    assert capsys.readouterr().err.startswith("lost: the patch of Fast.begin lost its place")


def test_a_test_that_is_gone_or_there_twice_is_told(tmp_path: Path):
    for folder in ("a", "b"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / "test_it.py").write_text("def test_twice(): pass\n")
    with pytest.raises(noticed.Broken, match="there are 0 tests test_gone"):
        noticed.tests_of(["test_gone"], tmp_path)
    with pytest.raises(noticed.Broken, match="there are 2 tests test_twice"):
        noticed.tests_of(["test_twice"], tmp_path)


TESTS = """import pytest
import tacit

@pytest.mark.parametrize("x", [0, 3, 5])
def test_it_notices(x):
    assert tacit.double(x) == 2 * x

def test_it_is_blind():
    assert tacit.double(0) == 0

def test_it_stumbles():
    {4: "fine"}[tacit.double(2)]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one function with its tests, in the place of ours."""
    (tmp_path / "src" / "tacit").mkdir(parents=True)
    (tmp_path / "src" / "tacit" / "__init__.py").write_text("def double(x):\n    return x * 2\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_double.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "SOURCE", tmp_path / "src" / "tacit")
    return tmp_path


def test_only_a_failed_assertion_of_every_named_test_counts(project: Path, monkeypatch, capsys):
    def fault(name, *tests):
        return Fault(name, (Patch("double", "x * 2", "x * 3"),), tests, None)

    every = fault("unnoticed", "test_it_notices", "test_it_is_blind", "test_it_stumbles")
    monkeypatch.setattr(command, "FAULTS", (fault("tripled", "test_it_notices"), every))
    assert cli.main(["sabotage"]) == 1
    shown = capsys.readouterr()
    assert "noticed by 1 of 1" in shown.out
    assert "noticed by 1 of 3" in shown.out
    assert "tripled: noticed" in shown.err
    assert "test_it_is_blind passes" in shown.err
    assert "test_it_stumbles fails otherwise than by an assertion: KeyError(6)" in shown.err
    assert "x * 2" in (project / "src" / "tacit" / "__init__.py").read_text()


def test_a_control_that_fails_is_told(project: Path, monkeypatch, capsys):
    (project / "src" / "tacit" / "__init__.py").write_text("def double(x):\n    return x * 2 + 1\n")
    doubled = Fault("doubled", (Patch("double", "x * 2", "x * 3"),), ("test_it_notices",), None)
    monkeypatch.setattr(command, "FAULTS", (doubled,))
    assert cli.main(["sabotage"]) == 1
    assert "without a fault tests/test_double.py::test_it_notices ends with asserted" in capsys.readouterr().err
