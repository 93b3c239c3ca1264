"""Pages in a real browser: on a phone nothing of a table of words is cut off."""

from __future__ import annotations

import pytest

from tacit.report.page import page, table
from tests.browser import MISSING, Browser

OFF_AND_ON = ["attack", "adversary", "measured", "off", "on", "no information"]
ROWS = [
    ["membership inference by reference models", "a reader of the model", "AUC", "0.557 (0.52 to 0.598)", "0.584", ""]
]
LEDGER = ["covers", "view", "unit, relation", "event", "times", "parameters"]
LINES = [["updates", "central", "client, zero-out", "skellam", "30", "variance 3.212×10⁶, l2_sensitivity 512.8"]]
CUT_OFF = """[...document.querySelectorAll('td')].filter((each) => each.textContent)
  .filter((each) => each.getBoundingClientRect().right > innerWidth || each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.textContent)"""


FITS = "[...document.querySelectorAll('.scroll')].every((each) => each.scrollWidth <= each.clientWidth)"
NAMED = "[...document.querySelectorAll('td')].map((each) => getComputedStyle(each, '::before').content)"
CELLS = "[...document.querySelectorAll('td')].every((each) => getComputedStyle(each).display === 'table-cell')"


def test_only_tables_of_words_name_their_columns_in_each_row():
    assert table(["a", "b"], [["1", "2"]]).count("data-label") == 0
    assert table(["a", "b", "c"], [["1", "2", "3"]], numbers=True).count("data-label") == 0
    assert table(["a", '"b"', "c"], [["1", "2", "3"]]).count('data-label="&quot;b&quot;"') == 1


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_on_a_phone_attacks_and_ledgers_are_cards_and_elsewhere_tables(tmp_path):
    body = (table(OFF_AND_ON, ROWS), table(LEDGER, LINES), table(OFF_AND_ON, ROWS, numbers=True, stacked=True))
    (tmp_path / "page.html").write_text(page("attacks", *body))
    with Browser(tmp_path / "profile") as browser:
        for width in (390, 320):
            phone = browser.page(width=width)
            phone.go(f"file://{tmp_path}/page.html")
            assert phone.run(CUT_OFF) == []
            assert phone.sideways() <= 0
            assert phone.run(FITS)
            assert {'"off"', '"on"', '"times"'} <= set(phone.run(NAMED))
        wide = browser.page(width=1280)
        wide.go(f"file://{tmp_path}/page.html")
        assert wide.run(CELLS)
