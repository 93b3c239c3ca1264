"""The site is built without a warning, in both languages, and asks no other host for anything."""

import json
import subprocess
import sys

import pytest

from pages.links import ROOT
from pages.offline import fetched

pytest.importorskip("mkdocs", reason="mkdocs is needed: make docs installs it")
pytest.importorskip("jieba", reason="jieba is needed: make docs installs it")
pytest.importorskip("mkdocs_static_i18n", reason="mkdocs-static-i18n is needed: make docs installs it")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_no_page_fetches_anything_from_another_host(site):
    assert list(fetched(site)) == []


def test_every_page_tells_the_browser_to_ask_no_other_host(site):
    for page in site.rglob("*.html"):
        assert "Content-Security-Policy" in page.read_text(encoding="utf-8"), page


def test_each_page_is_there_in_both_languages(site):
    english = {path.relative_to(site) for path in site.rglob("index.html") if "zh" not in path.relative_to(site).parts}
    chinese = {path.relative_to(site / "zh") for path in (site / "zh").rglob("index.html")}
    assert english == chinese
    assert '<html lang="zh"' in (site / "zh" / "index.html").read_text(encoding="utf-8")


def test_the_search_index_has_the_text_of_the_pages(site):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = [each["title"] for each in index["docs"]]
    assert "Secure aggregation" in titles
    assert any(title.startswith("横向\u200b联邦") for title in titles)  # Chinese is parted into words


def test_the_page_for_missing_addresses_is_in_both_languages_and_leads_home(site):
    text = (site / "404.html").read_text(encoding="utf-8")
    assert '<a href="/index.html">Home</a>' in text
    assert '<a href="/zh/index.html">返回首页</a>' in text
    assert (site / "zh" / "index.html").exists()
    assert '<html lang="en"' in text  # its menu: the first language is not replaced by the last
