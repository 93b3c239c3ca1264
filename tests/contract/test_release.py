"""What a release has besides the code: its name, its text on a package index, and the files about the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import tacit

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAME = "tacit-learning"
# On the index the name `tacit` belongs to another project. Written so that this line does not match itself.
OLD = re.compile(
    r"pip install (?:-\S+ (?:\S+ )?)*[\"'`]?" + r"tacit(?!-learning)(?![\w./-])|[\"'`]" + r"tacit\\?\[[a-z]"
)
TEXT = {".py", ".md", ".ipynb", ".yaml", ".yml", ".toml", ".txt", ".cff", ""}
FOLDERS = ("src", "tests", "docs", "examples", "bench", "pages", ".ci", ".github")


def texts():
    """The files of the repository that a person reads, without those of earlier releases and this one."""
    listed = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    for path in [*listed, *ROOT.iterdir()]:
        left_out = {"__pycache__", "stopped", Path(__file__).name} & set(path.parts)
        if path.is_file() and path.suffix in TEXT and not left_out:
            yield path


def test_nothing_says_to_install_the_project_of_that_name_on_the_index():
    for path in texts():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert not OLD.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


@pytest.mark.parametrize("words", ["pip install tacit", "pip install -U 'tacit[torch]'", "`tacit[ray]`"])
def test_the_old_name_is_found(words):
    assert OLD.search(words)


@pytest.mark.parametrize(
    "words", ["pip install tacit-learning", "pip install 'tacit-learning[sql]'", "tacit run a.yaml"]
)
def test_the_new_name_and_the_command_are_not(words):
    assert not OLD.search(words)


def test_the_distribution_has_its_own_name_and_the_command_keeps_ours():
    assert PROJECT["project"]["name"] == NAME
    assert PROJECT["project"]["scripts"] == {"tacit": "tacit.cli:main"}


def test_extras_that_messages_name_exist():
    extras = PROJECT["project"]["optional-dependencies"]
    for path in texts():
        for named in re.findall(rf"{NAME}\\?\[([a-z,]+)\\?\]", path.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= extras.keys(), path


def test_extras_are_ranges_and_the_constraints_are_versions():
    for extra, packages in PROJECT["project"]["optional-dependencies"].items():
        assert not [package for package in packages if "==" in package], extra
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert all("==" in line for line in lines if line and not line.startswith("#"))


def test_on_an_index_every_link_of_the_readme_leads_to_the_repository():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for each in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all(link.startswith(("https://", "#")) for link in links)
    assert "docs/docs" not in text


def test_the_citation_and_the_changelog_are_of_this_version():
    """Between releases the version ends with .dev0, the changelog begins with what is new, and the citation is of the
    last release."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = f"{citation['version']} - {citation['date-released']}"
    if tacit.__version__.endswith(".dev0"):
        assert sections[:2] == ["Unreleased", released]
        assert tacit.__version__ > citation["version"]
    else:
        assert tacit.__version__ == citation["version"]
        assert sections[0] in ("Unreleased", released)
    assert citation["license"] == PROJECT["project"]["license"]


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.stem)
def test_files_of_the_host_are_yaml(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_hosted_workflow_runs_the_script_of_the_repository():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    steps = [step.get("run") for job in jobs.values() for step in job["steps"]]
    assert ".ci/run" in steps


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "adr").glob("0*.md")), ids=lambda page: page.stem)
def test_a_decision_says_what_was_decided_and_what_follows(page):
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# {int(page.stem[:4])}. ")
    assert "**Decision.**" in text
    assert "**Consequences.**" in text
