"""Digests of the code that a file names: found as an import would find it, and nothing of it is run."""

from __future__ import annotations

import hashlib
import importlib
import os
import py_compile
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from tacit.config.source import ConfigError
from tacit.config.task import look_beside
from tacit.config.task_source import sources
from tacit.store.environment import package_digest

RUNS = "raise SystemExit('this code was run')\n"


@pytest.fixture(autouse=True)
def _beside(here):
    look_beside(here / "fleet.yaml")


def digest(path):
    return f"sha256:{hashlib.sha256(Path(path).read_bytes()).hexdigest()}"


def test_a_task_that_comes_with_tacit_is_its_package():
    (found,) = sources("digits", {})
    assert (found.what, found.digest) == ("package tacit", f"sha256:{package_digest()}")


def test_a_module_is_its_file_and_is_not_run():
    Path("lonely_task.py").write_text(RUNS)
    (found,) = sources("lonely_task:make_task", {})
    assert found.digest == digest("lonely_task.py")
    assert "lonely_task" not in sys.modules


def test_in_a_package_all_of_it_counts_and_nothing_is_run():
    folder = Path("bank_tasks/deep")
    folder.mkdir(parents=True)
    for path in ("bank_tasks/__init__.py", "bank_tasks/deep/__init__.py", "bank_tasks/deep/task.py", "bank_tasks/a.py"):
        Path(path).write_text(RUNS)
    before = sources("bank_tasks.deep.task:make", {})
    assert [each.what for each in before] == ["source file of bank_tasks.deep.task", "package bank_tasks"]
    assert before[0].digest == digest("bank_tasks/deep/task.py")
    Path("bank_tasks/a.py").write_text("x = 1\n")  # another module of the package
    after = sources("bank_tasks.deep.task:make", {})
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert "bank_tasks" not in sys.modules


def test_a_linked_folder_of_a_package_counts():
    for path in ("bank_tasks/__init__.py", "elsewhere/__init__.py", "elsewhere/task.py"):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(RUNS)
    Path("bank_tasks/linked").symlink_to(Path("elsewhere").resolve())
    Path("elsewhere/round").symlink_to(Path("bank_tasks").resolve())
    before = sources("bank_tasks.linked.task:make", {})
    Path("elsewhere/a.py").write_text("x = 1\n")
    after = sources("bank_tasks.linked.task:make", {})
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_it_is_the_file_that_an_import_takes():
    Path("json").mkdir()
    Path("json/__init__.py").write_text(RUNS)  # an installed module comes first
    found = sources("json.decoder:JSONDecoder", {})
    assert found[0].digest == digest(importlib.import_module("json.decoder").__file__)


def test_other_values_that_name_a_function_count_too():
    Path("own_task.py").write_text(RUNS)
    Path("owners.py").write_text(RUNS)
    settings = {"task": "own_task:make", "train": {"privacy": {"owner": "owners:of"}}, "at": ["a:b", "127.0.0.1:80"]}
    assert [each.digest for each in sources("own_task:make", settings)] == [digest("own_task.py"), digest("owners.py")]


def test_a_task_that_is_not_found_is_said():
    with pytest.raises(ConfigError, match=r"the source of 'nowhere_at_all:make' was not found"):
        sources("nowhere_at_all:make", {})
    with pytest.raises(ConfigError, match="was not found"):
        sources("sys:exit", {})  # of no file


@pytest.mark.parametrize("owner", ["sys:exit", "__main__:run", "hidden.missing:of", "nowhere_at_all:of"])
def test_an_owner_of_no_file_is_refused_as_importing_it_may_run_code(owner):
    Path("hidden").mkdir()
    Path("hidden/__init__.py").write_text(RUNS)  # an import of hidden.missing runs it before it fails
    with pytest.raises(ConfigError, match=f"the source of '{owner}' was not found"):
        sources("digits", {"train": {"privacy": {"owner": owner}}})


def test_an_owner_counts_however_its_module_is_written():
    for name in ("with-hyphen", "é", "own"):
        Path(f"{name}.py").write_text(f"{RUNS}# {name}")
        for owner in (f"{name}:of", f"{name}:of:more", f"{name}:"):
            (_, found) = sources("digits", {"train": {"privacy": {"owner": owner}}})
            assert found.digest == digest(f"{name}.py")
    assert len(sources("digits", {"train": {"privacy": {"owner": "a column"}}})) == 1


def test_modules_beside_the_file_that_a_task_imports_count_and_what_those_import():
    Path("lonely_task.py").write_text(f"import json, first_helper\n{RUNS}")
    Path("first_helper.py").write_text("def late():\n    from second_helper.deep import it\n")
    Path("second_helper").mkdir()
    Path("second_helper/__init__.py").write_text("")
    Path("second_helper/deep.py").write_text("import importlib\nit = importlib.import_module('third_helper')\n")
    Path("third_helper.py").write_text("import lonely_task\n")
    Path("stranger.py").write_text("")
    before = sources("lonely_task:make_task", {})
    named = ["lonely_task", "first_helper", "second_helper", "third_helper"]
    assert [each.what.split()[-1] for each in before] == [
        "lonely_task",
        "first_helper",
        *["second_helper"] * 2,
        named[3],
    ]
    for path in ("first_helper.py", "second_helper/deep.py", "third_helper.py"):
        Path(path).write_text(Path(path).read_text() + "# changed\n")
        after = sources("lonely_task:make_task", {})
        assert after != before
        before = after
    assert not {*named} & sys.modules.keys()


@pytest.mark.parametrize("name", ["bank_tasks/task.so", "bank_tasks/deep.pyc", "bank_tasks/deep/task.py"])
def test_whatever_of_a_package_can_be_imported_counts(name):
    for path in ("bank_tasks/__init__.py", name):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text("one")
    before = sources("bank_tasks:make", {})
    Path(name).write_text("two")
    assert sources("bank_tasks:make", {}) != before


@pytest.mark.parametrize("mode", list(py_compile.PycInvalidationMode))
def test_a_compiled_file_that_is_run_in_the_place_of_the_source_is_of_that_source(mode):
    """What Python itself then runs is the oracle: a compiled file that fits the source by its time, or by its hash."""
    source, other = Path("lonely_task.py"), Path("other.py")
    source.write_text("said = 'source'\n")
    other.write_text("said = 'hidden'\n")  # as long as the source
    for path in (other, source):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        compiled = py_compile.compile(str(path), invalidation_mode=mode, doraise=True)
    assert sources("lonely_task:make_task", {})
    hidden = bytearray(Path(cache_from_source(other)).read_bytes())
    hidden[:16] = Path(compiled).read_bytes()[:16]
    Path(compiled).write_bytes(hidden)
    with pytest.raises(ConfigError, match=r"is not that of .*, and Python would run it: remove it"):
        sources("lonely_task:make_task", {})
    assert importlib.import_module("lonely_task").said == "hidden"
    del sys.modules["lonely_task"]
    source.write_text("said = 'source of another length'\n")  # Python does not run it now, unless it asks nobody
    importlib.invalidate_caches()
    if mode != py_compile.PycInvalidationMode.UNCHECKED_HASH:
        assert importlib.import_module("lonely_task").said == "source of another length"
        assert sources("lonely_task:make_task", {})
    sys.modules.pop("lonely_task", None)
