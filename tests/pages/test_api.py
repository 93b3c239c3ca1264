"""The pages of the packages have every promised name."""

import importlib
import inspect

import pytest

from pages.api import groups, modules, page


@pytest.mark.parametrize("group", groups())
def test_every_promised_name_has_its_signature(group):
    text = page(group)
    for module, names in modules().items():
        if ".".join(module.split(".")[:2]) == group:
            for name in importlib.import_module(module).__all__:
                assert f"### `{module}.{name}`" in text
                assert name in names
                value = getattr(importlib.import_module(module), name)
                if inspect.isfunction(value):
                    for argument in inspect.signature(value).parameters:
                        assert argument in text


def test_no_page_holds_an_address_in_memory():
    assert not [group for group in groups() if " at 0x" in page(group)]
