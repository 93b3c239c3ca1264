"""What mkdocs is given for a page."""

from types import SimpleNamespace

from pages.hooks import on_page_markdown
from pages.links import DOCS, ROOT, SOURCE


def page(name):
    return SimpleNamespace(file=SimpleNamespace(abs_src_path=str(DOCS / name)))


def test_a_page_that_stands_for_a_file_has_the_text_of_the_file():
    made = on_page_markdown("<!-- include CHANGELOG.md -->\n", page=page("changelog.md"))
    assert made == (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_another_page_keeps_its_text_but_for_links_out_of_the_site():
    made = on_page_markdown("See [it](../examples/digits.yaml) and [that](api.md).", page=page("network.md"))
    assert made == f"See [it]({SOURCE}examples/digits.yaml) and [that](api.md)."
