"""Where the module of a task is looked for."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from tacit.config.task import look_beside, module_of

NAME = "tacit_test_mine"  # of a module that nobody else has
HELPER = "tacit_test_helper"


@pytest.fixture(autouse=True)
def folders(here):
    for folder in ("one", "two", "current"):
        Path(folder).mkdir()
        Path(folder, f"{NAME}.py").write_text(f"from {HELPER} import WHERE\ndef make(): return WHERE\n")
        Path(folder, f"{HELPER}.py").write_text(f"WHERE = {folder!r}\n")
    yield
    for name in (NAME, HELPER):
        sys.modules.pop(name, None)


def place(folder: str | None) -> str:
    look_beside(None if folder is None else Path(folder, "file.yaml"))
    module, maker = module_of(f"{NAME}:make", {}, "make")
    return getattr(module, maker)()


def test_each_file_has_the_module_beside_it():
    assert [place("one"), place("two"), place("one")] == ["one", "two", "one"]


def test_the_module_stays_the_same_for_another_file_of_its_folder():
    place("one")
    before = sys.modules[NAME]
    place("one")
    assert sys.modules[NAME] is before


def test_the_folder_of_the_file_comes_before_the_current_one():
    os.chdir("current")
    assert place("../one") == "one"
    assert place(None) == "current"


def test_what_an_earlier_file_had_beside_it_is_not_found_for_the_next(here):
    place("one")
    Path("two", f"{NAME}.py").unlink()
    with pytest.raises(ValueError, match=f"needs the module '{NAME}'"):
        place("two")


def test_an_installed_module_comes_first(monkeypatch):
    monkeypatch.syspath_prepend("current")
    assert place("one") == "current"


def test_a_package_is_imported_anew_with_all_that_is_in_it():
    for folder in ("one", "two"):
        Path(folder, f"{NAME}.py").rename(Path(folder, "inner.py"))
        Path(folder, NAME).mkdir()
        Path(folder, NAME, "__init__.py").touch()
        Path(folder, "inner.py").rename(Path(folder, NAME, "inner.py"))
    for folder in ("one", "two"):
        look_beside(Path(folder, "file.yaml"))
        assert module_of(f"{NAME}.inner:make", {}, "make")[0].make() == folder


def test_a_module_that_python_finds_first_in_the_current_folder_is_refused(monkeypatch):
    os.chdir("current")
    monkeypatch.syspath_prepend(str(Path.cwd()))  # as `python -m` does
    with pytest.raises(ValueError, match=rf"one/{NAME}.py, but Python finds .*current/{NAME}.py first: rename"):
        place("../one")


def test_a_module_that_the_script_imported_from_elsewhere_is_refused(monkeypatch):
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(Path("two").resolve()))
        importlib.import_module(NAME)
    with pytest.raises(ValueError, match=rf"one/{NAME}.py, but Python finds .*two/{NAME}.py first: rename"):
        place("one")


def test_a_module_of_ours_that_moved_is_named_with_its_new_door(tmp_path, monkeypatch):
    (tmp_path / "written_before.py").write_text("from tacit.horizontal.task import Fitted\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"needs the module tacit\.horizontal, which does not exist: .* tacit\.tasks"):
        module_of("written_before:make_task", {}, "make_task")
