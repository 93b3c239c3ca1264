"""The public door: what `__all__` says is what docs/api.md says, and every name can be imported."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
PUBLIC = (
    "tacit",
    "tacit.tasks",
    "tacit.training",
    "tacit.dp",
    "tacit.dp.accounting",
    "tacit.dp.calibration",
    "tacit.dp.clipping",
    "tacit.dp.mechanisms",
    "tacit.dp.noise",
    "tacit.dp.release",
    "tacit.dp.schedules",
    "tacit.crypto",
    "tacit.crypto.agreement",
    "tacit.crypto.commitment",
    "tacit.crypto.curve",
    "tacit.crypto.paillier",
    "tacit.crypto.prg",
    "tacit.crypto.sealed",
    "tacit.crypto.shamir",
    "tacit.crypto.signing",
    "tacit.secagg",
    "tacit.secagg.messages",
    "tacit.align",
    "tacit.channel",
    "tacit.events",
    "tacit.audit",
    "tacit.audit.bounds",
    "tacit.audit.tradeoff",
    "tacit.audit.attacks.mechanisms",
    "tacit.audit.attacks.membership",
)
PROVISIONAL = ("tacit.kind", "tacit.lockstep", "tacit.kinds.horizontal.protections")


def documented() -> dict[str, list[tuple[str, str]]]:
    """Of each section of the page, the names and what is said of them."""
    sections = re.split(r"^## `(.+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    entry = re.compile(r"^- `(.+?)`: (.+)$", re.MULTILINE)
    return {module: entry.findall(text) for module, text in zip(sections[::2], sections[1::2], strict=True)}


DOCUMENTED = documented()


def test_the_page_has_every_public_module_once_in_order():
    assert list(DOCUMENTED) == list(PUBLIC)
    assert re.findall(r"^## `(.+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE) == list(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_module_promises_what_the_page_lists(name):
    names = [listed for listed, _ in DOCUMENTED[name]]
    assert len(set(names)) == len(names)
    assert sorted(names) == sorted(importlib.import_module(name).__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_imports_and_is_listed_by_dir(name):
    module = importlib.import_module(name)
    for each in module.__all__:
        assert getattr(module, each) is not None
    assert set(module.__all__) <= set(dir(module))


def test_every_line_is_a_sentence_that_fits_one_line():
    for module, entries in DOCUMENTED.items():
        for name, text in entries:
            assert text.endswith("."), (module, name)
            assert len(text) <= 160, (module, name)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    for name in PUBLIC:
        with pytest.raises(AttributeError, match="has no attribute 'nothing_of_the_kind'"):
            _ = importlib.import_module(name).nothing_of_the_kind


def test_dir_of_the_package_is_what_it_promises():
    import tacit

    assert dir(tacit) == sorted(tacit.__all__)


def test_provisional_modules_are_named_and_not_listed():
    text = PAGE.read_text(encoding="utf-8")
    for name in PROVISIONAL:
        assert f"`{name}`" in text
        assert name not in DOCUMENTED


def test_a_star_import_brings_every_name_of_a_package_that_is_imported_first():
    code = "from tacit.dp import *; from tacit.secagg import *; print(mechanisms.gaussian, Client, messages.Masked)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_names_of_private_training_say_what_is_missing_without_torch(monkeypatch):
    import tacit.training

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"private training needs torch: pip install 'tacit-learning\[torch\]'"):
        _ = tacit.training.Engine
