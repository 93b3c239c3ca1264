"""Tests lie where what they test lies: tests/a/test_b.py tests src/tacit/a/b.py."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS, PACKAGE = ROOT / "tests", ROOT / "src" / "tacit"
APART = {
    "contract": "what holds for all kinds, protections, modules",
    "end_to_end": "several parts together, as users meet them",
    "frozen": "what must not change from one release to the next",
    "bench": "the benchmarks, which are no part of the package",
    "pages": "what makes the pages of the site, which is no part of the package",
    "deploy": "files for operators, which are no part of the package",
    "docs": "the scripts of the documentation, which are no part of the package",
}
TOGETHER = "client and server of an aggregation together, against one adversary"
EXCEPTIONS = {
    "secagg/test_attacks.py": TOGETHER,
    "secagg/test_blame.py": TOGETHER,
    "secagg/test_colluders.py": TOGETHER,
    "secagg/test_protected.py": TOGETHER,
    "secagg/test_protocol.py": TOGETHER,
    "secagg/test_replayed.py": TOGETHER,
    "kinds/vertical_trees/protocol/test_chosen_words.py": "what an active learns that deviates: both parties together",
    "test_subprocesses.py": "the processes that tests start: a part of the tests",
}


def mirrored(test: Path) -> bool:
    """Whether a module, a package, or the package of a folder (tests/a/test_a.py) has the name of the test."""
    folder, name = PACKAGE / test.parent, test.stem.removeprefix("test_")
    package = folder if name == folder.name else folder / name
    return (folder / f"{name}.py").exists() or (package / "__init__.py").exists()


FOUND = [path.relative_to(TESTS) for path in sorted(TESTS.rglob("test_*.py"))]


@pytest.mark.parametrize("test", [path for path in FOUND if path.parts[0] not in APART], ids=str)
def test_a_test_lies_where_its_module_does(test):
    assert mirrored(test) != (test.as_posix() in EXCEPTIONS)


def test_every_exception_and_every_folder_apart_exists():
    assert EXCEPTIONS.keys() <= {path.as_posix() for path in FOUND}
    assert APART.keys() <= {path.parts[0] for path in FOUND}
