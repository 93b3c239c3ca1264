"""The Dockerfile, which no engine runs here: what can be checked of it without one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = re.sub(r"\\\n", " ", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")).splitlines()
STEPS = [line.split(None, 1) for line in LINES if line.strip() and not line.startswith("#")]


def of(kind: str) -> list[str]:
    return [words for step, words in STEPS if step == kind]


def test_the_base_is_a_slim_image_of_one_version():
    assert re.fullmatch(r"PYTHON=3\.11\.\d+-slim-[a-z]+", of("ARG")[0])
    assert [words.split()[0] for words in of("FROM")] == ["python:${PYTHON}"] * 2


def test_it_runs_as_an_ordinary_user():
    *_, last = [number for number, (step, _) in enumerate(STEPS) if step == "FROM"]
    after = [step for step, _ in STEPS[last:]]
    assert of("USER") == ["10001:10001"]
    assert "RUN" not in after[after.index("USER") :]
    assert of("ENTRYPOINT") == ['["tacit"]']
    assert of("STOPSIGNAL") == ["SIGTERM"]


def test_packages_are_those_that_were_tested():
    """Also those that pip builds with, for which it does not look at its option -c."""
    assert of("WORKDIR")[0] == "/source"
    assert of("ENV")[0] == "PIP_CONSTRAINT=/source/constraints.txt"
    steps = [step for step, _ in STEPS]
    assert steps.index("ENV") < steps.index("RUN")
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    names = [re.match(r"[\w.-]+", each)[0] for each in build]
    assert all(re.search(rf"^{re.escape(name)}==", constraints, re.MULTILINE) for name in names)


def copied() -> list[str]:
    return [source for words in of("COPY") if "--from" not in words for source in words.split()[:-1]]


def test_what_it_copies_is_there_and_is_sent_to_the_engine():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    sent = {line[1:] for line in ignored if line.startswith("!")}
    assert set(copied()) == sent
    assert all((ROOT / source).exists() for source in copied())


@pytest.mark.slow
def test_what_it_copies_is_enough_to_build_the_package(tmp_path):
    for source in copied():
        place = tmp_path / source
        shutil.copytree(ROOT / source, place) if (ROOT / source).is_dir() else shutil.copy(ROOT / source, place)
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "-c", "constraints.txt", "-w", "made", "."]
    subprocess.run([sys.executable, *words], cwd=tmp_path, check=True)
    assert len(list((tmp_path / "made").glob("tacit_learning-*.whl"))) == 1
