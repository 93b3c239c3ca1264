"""A reader of the site is seen by no other host."""

import pytest

from pages.offline import fetched, fetched_by, main


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ('<script src="https://example.org/a.js"></script>', ".html"),
        ('<script src="//example.org/a.js"></script>', ".html"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', ".html"),
        ('<link rel="preconnect" href="https://example.org">', ".html"),
        ('<img src="http://example.org/a.png">', ".html"),
        ('<img srcset="a.png 1x, https://example.org/a.png 2x">', ".html"),
        ('<iframe src="https://example.org/"></iframe>', ".html"),
        ('<p style="background: url(https://example.org/a.png)">', ".html"),
        ("<style>@import 'https://example.org/a.css';</style>", ".html"),
        ("@font-face { src: url('https://example.org/a.woff2') }", ".css"),
        ('<svg><image href="https://example.org/a.png"/></svg>', ".svg"),
    ],
)
def test_what_a_browser_fetches_from_another_host_is_found(text, suffix):
    (address,) = fetched_by(text, suffix)
    assert address.startswith(("http", "//"))


@pytest.mark.parametrize(
    "text",
    [
        '<a href="https://example.org">elsewhere</a>',
        '<link rel="canonical" href="https://example.org/page">',
        '<link rel="stylesheet" href="assets/site.css"><img src="plots/house.svg">',
        '<svg xmlns="http://www.w3.org/2000/svg"></svg>',
        """<style>a { background: url("data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>") }</style>""",
        '<img src="plots//house.svg">',
    ],
)
def test_what_stays_on_this_host_is_not(text):
    assert fetched_by(text, ".html") == []


def test_the_file_and_the_address_are_named(tmp_path, capsys):
    (tmp_path / "index.html").write_text('<img src="https://example.org/a.png">')
    assert main(tmp_path) == 1
    assert "index.html makes a browser fetch https://example.org/a.png" in capsys.readouterr().err


def test_a_folder_without_a_site_is_refused(tmp_path):
    assert main(tmp_path) == 2
    assert list(fetched(tmp_path)) == []
