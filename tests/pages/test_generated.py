"""The generated pages are what the code says now."""

import re
import sys

import pytest

from pages.__main__ import DOCS, PAGES, main


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="Python versions print some signatures differently")
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name):
    """If it differs, run python -m pages."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name]()


def test_no_generated_page_is_left_over():
    found = {path.relative_to(DOCS).as_posix() for path in (DOCS / "reference").iterdir()}
    assert found - {"reference/index.md"} == {name for name in PAGES if name.startswith("reference/")}


def test_an_unknown_argument_is_refused(capsys):
    assert main(["--nothing"]) == 2
    assert "is no generated page" in capsys.readouterr().err


def test_make_bench_writes_every_page_that_shows_stored_results():
    makefile = (DOCS.parent / "Makefile").read_text(encoding="utf-8")
    written = re.search(r"-m bench all .*-m pages (.*?) &&", makefile)
    assert written is not None
    shows = {name for name, made in PAGES.items() if hasattr(sys.modules[made.__module__], "RESULTS")}
    assert set(written[1].split()) == shows
    assert {"benchmarks.md", "../README.md"} < shows
