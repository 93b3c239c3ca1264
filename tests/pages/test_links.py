"""Links of the pages, as they stand in the repository and as the site has them."""

import re

import pytest

from pages.links import DOCS, ROOT, SOURCE, included, pages_of_files, rewritten

PAGES = sorted(DOCS.rglob("*.md"))


def test_a_file_outside_docs_is_a_page_of_the_site():
    assert pages_of_files()[ROOT / "README.md"] == DOCS / "index.md"
    assert included("<!-- include README.md -->\n") == ROOT / "README.md"
    assert included("# A page\n") is None


def test_links_of_the_readme_become_links_of_the_site():
    text = "[a](docs/api.md#names) [b](LICENSE) [c](CHANGELOG.md) [d](https://example.org) [f](docs/adr/)"
    assert rewritten(text, ROOT / "README.md", DOCS / "index.md") == (
        f"[a](api.md#names) [b]({SOURCE}LICENSE) [c](changelog.md) [d](https://example.org) [f](adr/index.md)"
    )


def test_links_of_a_page_in_a_folder_stay_relative():
    page = DOCS / "guides" / "page.md"
    assert rewritten("[a](../api.md) [b](../../README.md#speed)", page, page) == "[a](../api.md) [b](../index.md#speed)"


def test_code_is_left_alone():
    text = "```\n[a](docs/api.md)\n```\n"
    assert rewritten(text, ROOT / "README.md", DOCS / "index.md") == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_link_of_a_page_leads_to_a_file(page):
    """Of the repository: on the site, mkdocs looks at them too."""
    source = included(page.read_text(encoding="utf-8")) or page
    for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", source.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (source.parent / link).exists(), link
