"""A pytest plugin: writes how each named test ended, as JSON, to the file that TACIT_SABOTAGE_OUTCOMES names.

A test has noticed a fault if one of its cases failed by an assertion; then its further cases are skipped.
TACIT_SABOTAGE_PACKAGE is the folder that `tacit` must come from.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

OUTCOMES = "TACIT_SABOTAGE_OUTCOMES"
PACKAGE = "TACIT_SABOTAGE_PACKAGE"

_ended: dict[str, dict[str, Any]] = {}


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _asserted(error: BaseException) -> bool:
    """Whether an assertion failed: also of `pytest.raises`, and among those that hypothesis found together."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_asserted, error.exceptions))
    return isinstance(error, AssertionError | pytest.fail.Exception)


def pytest_sessionstart() -> None:
    import tacit

    found, wanted = Path(tacit.__file__).resolve(), Path(os.environ[PACKAGE]).resolve()
    if not found.is_relative_to(wanted):
        raise pytest.UsageError(f"tacit is {found}, and the copy under test lies in {wanted}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _ended.get(_test(item), {}).get("outcome") == "asserted":
        pytest.skip("another case of this test has noticed it")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    name = _test(item)
    if call.excinfo is not None and not report.skipped:
        asserted = call.when == "call" and _asserted(call.excinfo.value)
        _ended[name] = {"outcome": "asserted" if asserted else "error", "error": repr(call.excinfo.value)[:300]}
    elif call.when == "call" and report.passed:
        _ended.setdefault(name, {"outcome": "passed", "error": ""})
    return report


def pytest_sessionfinish() -> None:
    Path(os.environ[OUTCOMES]).write_text(json.dumps(_ended))
