"""The commands of docs/tutorial-tables.md, in their order, on smaller tables and with a short key."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest

from examples import raw_tables
from tacit.config.local import load_local
from tacit.tables.settings import Data
from tests.commands import invoke

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial-tables.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
FILES = {
    text.splitlines()[0].removeprefix("# "): text.split("\n", 1)[1] for language, text in BLOCKS if language == "yaml"
}
COMMANDS = [text.splitlines() for language, text in BLOCKS if not language and text.startswith("$ ")]


def shorter(text):
    """A file of the page, with values by which a test ends soon."""
    for long, short in ((r"epochs: \d+", "epochs: 3"), ("bits: 2048", "bits: 512")):
        text, changes = re.subn(long, short, text)
        assert changes == 1, long
    return text


def carried_out(command, here):
    """What a command of the page says."""
    words = shlex.split(command)
    if words == ["python", "examples/raw_tables.py"]:
        return "\n".join(path.name for path in raw_tables.write(here, rows=1000))
    if words[0] == "cat":
        return Path(words[1]).read_text()
    assert words[0] == "tacit"
    done = invoke(*words[1:])
    assert done.exit_code == 0, done.output
    return done.output


def test_there_are_at_most_ten_commands_each_with_its_output():
    assert 1 <= len(COMMANDS) <= 10
    assert all(len(lines) > 1 for lines in COMMANDS)
    assert [line for lines in COMMANDS for line in lines if line.startswith("$ ")] == [lines[0] for lines in COMMANDS]


def test_the_commands_of_the_page_run_in_their_order_and_say_what_it_shows(here):
    Path("deal.yaml").write_text(shorter(FILES["deal.yaml"]))
    for first, *shown in COMMANDS:
        said = carried_out(first.removeprefix("$ "), here)
        for line in shown:
            if words := stable(line):
                assert words in " ".join(said.split()), (first, line)
    scores, deciles = read("scores.csv"), read("deciles.csv")
    assert [line["id"] for line in scores] == [line["id"] for line in deciles]
    assert len(scores) == 200
    assert {line["score"] for line in deciles} <= {str(tenth) for tenth in range(1, 11)}
    cards = {line["part"] for name in ("bank", "shop") for line in read(f"credit/{name}/scorecard.csv")}
    assert {"Milano", "clerk"} <= cards
    assert Path("credit/report.html").exists()
    assert Path("deal-audit.html").exists()
    again = invoke(*shlex.split(COMMANDS[8][0].removeprefix("$ tacit ")))
    assert again.exit_code == 4
    assert "500 rows with one model: 400 are answered, and 200 more were asked for" in again.output
    assert "so no score was sent" in again.output


def stable(line):
    """The beginning of a line of the page that holds no number of this run; "" if there is none."""
    found = re.split(r"\d", " ".join(line.split()), maxsplit=1)[0].strip(" (-")
    return "" if line.strip() in ("", "…") or line.startswith(("warning", "column ")) else found


def read(path):
    with Path(path).open() as file:
        return list(csv.DictReader(file))


def test_the_file_of_one_company_is_a_local_file(here):
    Path("shop.yaml").write_text(FILES["shop.yaml"])
    local, _ = load_local(Path("shop.yaml"))
    assert local.keys is not None
    assert local.predict.budget == 500
    assert Data.model_validate(local.data).weighs_evidence


@pytest.mark.parametrize("key", ["bits: 2048", "label_counts: true", "woe", "budget: 500"])
def test_the_page_shows_what_it_is_about(key):
    assert key in FILES["deal.yaml"]
