"""Several trainings in epochs on one page."""

from __future__ import annotations

import json
import re

import pytest

from tacit import events
from tacit.runs.load import load
from tacit.runs.report import write_report
from tests.report.sample_runs import UPDATES, settings, whole, write

PRIVATE = {
    "kind": "private_training",
    "task": "digits",
    "privacy": {"noise_multiplier": 2.0},
    "train": {"epochs": 2, "batch": 250},
}
VERTICAL = {
    "kind": "vertical_logistic",
    "task": "cancer",
    "parties": {"hospital": {"role": "active"}, "laboratory": {"role": "passive"}},
}
SPLIT = {
    "kind": "split",
    "topology": "V",
    "task": "split_cancer",
    "parties": {"clinic": {"role": "leader"}, "laboratory": {"role": "follower"}},
}
MODEL = UPDATES | {"covers": ["model"], "unit": "record", "relation": "add-remove", "against": "for each record"}


def training(root, name: str, base: dict, epochs: int = 3, *, metrics=True, local=True, ledger=None, **changed):
    """The directory of a training whose figures are known."""
    made = load({**base, "name": name, **changed})
    happened = [events.TrainingStarted(name, made.kind, 2, epochs, 10, "some noise", 650)]
    for epoch in range(epochs):
        happened.append(events.Stepped(epoch, 5, 10, loss=2.0 - epoch / 8))
        happened.append(
            events.EpochFinished(
                epoch,
                3.5,
                {"accuracy": 0.5 + epoch / 8} if metrics else {},
                {"training loss": 1.5 - epoch / 8} if local else {},
                epsilon=0.5 * (epoch + 1) if ledger else None,
                delta=1e-5 if ledger else None,
                bytes_sent=0 if ledger else 250_000,
                bytes_received=0 if ledger else 150_000,
            )
        )
    happened.append(events.RunFinished("done", epochs, 12.0, unit="epochs"))
    return write(root, made, happened, [ledger] if ledger else [])


def charts(page: str) -> list[str]:
    return re.findall(r"<figure>.*?<h3>(.*?)</h3>", page, flags=re.DOTALL)


@pytest.mark.parametrize(("base", "traffic"), [(PRIVATE, False), (VERTICAL, True), (SPLIT, True)])
def test_trainings_are_compared_in_figures_costs_and_settings(tmp_path, base, traffic):
    ledger = None if traffic else MODEL
    runs = [training(tmp_path, "one", base, ledger=ledger), training(tmp_path, "two", base, seed=9, ledger=ledger)]
    page = write_report(runs, tmp_path / "page.html").read_text()
    drawn = ["Accuracy", "Training loss", "Loss of steps", *([] if traffic else ["ε"]), "Seconds"]
    assert charts(page) == [*drawn, *(["Traffic"] if traffic else [])]
    assert "accuracy 75.0%" in page
    assert "training loss" in page
    assert re.search(r"<td[^>]*>seed</td>\s*<td[^>]*>0</td>\s*<td[^>]*>9</td>", page)
    assert ("400 kB an epoch" in page) == traffic
    assert ("2.5 at δ = 10⁻⁵" in page) == (not traffic)
    assert "4 s" in page  # an epoch, of 12 s in all
    for number in (1, 2, 3):
        assert f"one, {number}: " in page  # epochs count from 1
    assert "one, 0: " not in page
    assert {path.stem for path in (tmp_path / "page-plots").glob("*.svg")} >= {"metrics-accuracy", "seconds"}


def test_trainings_of_different_kinds_are_compared_in_what_they_share(tmp_path):
    runs = [training(tmp_path, "one", VERTICAL, metrics=False), training(tmp_path, "two", SPLIT, local=False)]
    page = write_report(runs, tmp_path / "page.html").read_text()
    assert charts(page) == ["Accuracy", "Training loss", "Loss of steps", "Seconds", "Traffic"]
    assert "At the end of each epoch. Only two has such numbers." in page
    assert re.search(r"<td[^>]*>kind</td>\s*<td[^>]*>vertical_logistic</td>\s*<td[^>]*>split</td>", page)


def test_a_federation_and_a_training_are_not_compared(tmp_path):
    made = settings()
    runs = [write(tmp_path, made, whole(made), []), training(tmp_path, "one", SPLIT)]
    with pytest.raises(ValueError, match="a federation and a training of one or a few parties cannot be compared"):
        write_report(runs, tmp_path / "page.html")


def test_a_shared_comparison_shows_only_what_an_epsilon_covers(tmp_path):
    runs = [
        training(tmp_path, "one", PRIVATE, ledger=MODEL, task_options={"path": "/home/me/secret"}),
        training(tmp_path, "two", SPLIT),
    ]
    page = write_report(runs, tmp_path / "page.html", share=True).read_text()
    assert charts(page) == ["Accuracy"]
    assert "Only one has such numbers." in page
    assert "secret" not in page
    assert "training loss" not in page
    assert "3.5" not in page
    assert "This page is for sharing" in page


def test_runs_of_one_name_are_told_apart(tmp_path):
    runs = [training(tmp_path / name, "same", PRIVATE, ledger=MODEL) for name in "ab"]
    page = write_report(runs, tmp_path / "page.html").read_text()
    folder = json.dumps(runs[0].name)[1:-1]
    assert f"{folder} 1 and {folder} 2" in page
