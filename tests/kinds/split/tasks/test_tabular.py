"""The task `table`: against a plain network in one piece, resumed, and row by row in a prediction."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tacit.channel import Recorder, run_parties
from tacit.config.local import Local
from tacit.events import Nowhere
from tacit.kinds.split import boundary
from tacit.kinds.split.party import LOCKSTEP
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Bottom, Seat, Top, Unfitted, modules
from tacit.kinds.split.tasks.load import make_part, task_part
from tacit.lockstep.run import Place
from tacit.store.party_folder import Store
from tests.inside import inside
from tests.kinds.split import messy_cancer
from tests.lockstep.interruptions import Trial
from tests.subprocesses import HANGS


def settings_of(folder: Path, **changes: Any) -> Settings:
    return Settings.model_validate(messy_cancer.settings(folder, **changes))


def trained(settings: Settings, folder: Path) -> Trial:
    """All parties to the end, each with its part stored in its own folder."""
    trial = Trial(settings, folder / "run")
    run_parties({name: trial.party(name) for name in settings.parties}, patience=HANGS)
    return trial


def predicted(
    settings: Settings, trial: Trial, sources: dict[str, Path], *, local: Any = None
) -> dict[str, list[float]]:
    """The scores of new rows by id."""
    parties = {
        name: LOCKSTEP.predictor(
            settings, name, trial.model(name), sources[name], Place(None, Nowhere(), *(local or {}).get(name, ()))
        )
        for name in settings.parties
    }
    found = run_parties(parties, patience=HANGS)[settings.leader]
    return {str(line[0]): [float(value) for value in line[1:]] for line in inside(found).rows}


def without_label(folder: Path, name: str, keep: Any = lambda row: True) -> Path:
    """A file with some rows of a party's table, without its label."""
    with (folder / f"{name}.csv").open() as file:
        header, *rows = list(csv.reader(file))
    columns = [k for k, column in enumerate(header) if column != "diagnosis"]
    path = folder / f"new-{name}.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[line[k] for k in columns] for line in (header, *filter(keep, rows))])
    return path


def scikit_features(data: messy_cancer.Messy, training: Any) -> np.ndarray:
    """All columns of both parties as scikit-learn transforms them, fitted on the training rows."""
    numbers = np.c_[data.clinic, data.laboratory]
    names = np.array([size or "missing" for size in data.sizes], dtype=object)[:, None]
    pipeline = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), slice(0, numbers.shape[1])),
            ("size", make_pipeline(OneHotEncoder(sparse_output=False), StandardScaler()), [numbers.shape[1]]),
        ]
    )
    cells = np.empty((len(names), numbers.shape[1] + 1), dtype=object)
    cells[:, :-1], cells[:, -1:] = numbers, names
    pipeline.fit(cells[training])
    return np.asarray(pipeline.transform(cells), dtype=np.float32)


def in_one_piece(features: np.ndarray, labels: np.ndarray, training: Any, epochs: int) -> np.ndarray:
    """Scores of all rows by an ordinary network that an ordinary loop trained."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Linear(features.shape[1], 32), torch.nn.ReLU(), torch.nn.Linear(32, 16), torch.nn.Tanh(),
            torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.ReLU(), torch.nn.Linear(16, 1),
        )  # fmt: skip
        optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
        x, y = torch.from_numpy(features), torch.from_numpy(labels.astype(np.float32))
        for _ in range(epochs):
            for batch in torch.from_numpy(training)[torch.randperm(len(training))].split(16):
                optimizer.zero_grad()
                loss = torch.nn.functional.binary_cross_entropy_with_logits(network(x[batch]).squeeze(1), y[batch])
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            return np.asarray(network(x).squeeze(1).numpy())


def test_two_messy_files_are_learnt_as_well_as_by_a_network_in_one_piece(tmp_path):
    data = messy_cancer.write(tmp_path)
    shared = messy_cancer.settings(tmp_path, train={"epochs": 6, "batch": 16, "learning_rate": 0.003})
    shared["task_options"]["test"] = 0.5  # AUCs of few rows differ by chance: the order of rows is drawn anew each time
    settings = Settings.model_validate(shared)
    trial = trained(settings, tmp_path)
    clinic = inside(task_part(settings, Seat.of(settings, "clinic")))
    part = clinic.fit(inside(trial.state("clinic"))["rows.all"], None)  # as in the run
    training, held_out = (np.array([data.ids.index(each) for each in rows.ids]) for rows in (part.train, part.test))
    assert sorted([*held_out, *training]) == data.everywhere.tolist()
    scores = predicted(settings, trial, {name: without_label(tmp_path, name) for name in settings.parties})
    assert len(scores) == len(data.everywhere)
    ours = np.array([scores.get(each, [np.nan])[0] for each in data.ids])
    oracle = -in_one_piece(scikit_features(data, training), data.labels, training, 6)
    malignant = 1 - data.labels  # classes are in the order of their names: "malignant" is the second
    for rows, least, apart in ((data.everywhere, 0.96, 0.02), (held_out, 0.93, 0.03)):
        # The order of rows is drawn anew each time: the AUC of few rows differs by chance, with a deviation of .005.
        found, expected = (roc_auc_score(malignant[rows], each[rows]) for each in (ours, oracle))
        assert found > least
        assert abs(found - expected) < apart


def test_the_held_out_rows_are_learnt_from_by_nobody(tmp_path):
    """Other numbers and categories in held-out rows change no transform, and no training record."""
    messy_cancer.write(tmp_path)
    settings = settings_of(tmp_path)
    before = make_part(settings, "laboratory")
    with (tmp_path / "laboratory.csv").open() as file:
        header, *rows = list(csv.reader(file))
    held_out = set(inside(before.test.ids))
    for row in rows:
        if row[0] in held_out:
            row[2:] = ["77.5"] * len(row[2:])
            row[1] = "large"
    with (tmp_path / "laboratory.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    after = make_part(settings, "laboratory")
    assert inside(after.test.ids) == inside(before.test.ids)
    for name, array in before.kept.items():
        assert np.array_equal(after.kept[name], array), name
    assert np.array_equal(after.train.features, before.train.features)
    assert not np.array_equal(after.test.features, before.test.features)


def test_a_row_alone_has_the_score_that_it_has_among_others(tmp_path):
    data = messy_cancer.write(tmp_path)
    settings = settings_of(tmp_path, train={"epochs": 2, "batch": 32, "learning_rate": 0.01})
    trial = trained(settings, tmp_path)
    whole = predicted(settings, trial, {name: without_label(tmp_path, name) for name in settings.parties})
    blank = next(
        row for row in data.everywhere if np.isnan(data.laboratory[row]).any() and np.isnan(data.clinic[row]).any()
    )
    for row in (int(blank), 3, 99):
        mine = {
            name: without_label(tmp_path, name, lambda cells, one=data.ids[row]: cells[0].strip() == one)
            for name in settings.parties
        }
        alone = predicted(settings, trial, mine)
        assert alone.keys() == {data.ids[row]}
        np.testing.assert_allclose(alone[data.ids[row]], whole[data.ids[row]], rtol=0, atol=1e-5)


def test_predictions_need_no_table_of_the_training_and_come_in_the_order_of_the_file(tmp_path):
    messy_cancer.write(tmp_path)
    settings = settings_of(tmp_path, train={"epochs": 1, "batch": 64})
    trial = trained(settings, tmp_path)
    sources = {name: without_label(tmp_path, name) for name in settings.parties}
    for name in settings.parties:
        (tmp_path / f"{name}.csv").unlink()
    with sources["clinic"].open() as file:
        ids = [row[0].strip() for row in csv.reader(file)][1:]
    found = list(predicted(settings, trial, sources))
    assert found == [each for each in ids if each in set(found)]


def test_several_classes_have_a_score_each_under_their_names(tmp_path):
    data = messy_cancer.write(tmp_path, classes=3, clinic_features=False)
    settings = settings_of(tmp_path)
    trial = trained(settings, tmp_path)
    part = make_part(settings, "clinic")
    assert isinstance(part, Top)
    assert set(modules(part)) == {"network"}  # the clinic has labels only
    sources = {name: without_label(tmp_path, name) for name in settings.parties}
    parties = {
        name: LOCKSTEP.predictor(settings, name, trial.model(name), sources[name], Place(None, Nowhere()))
        for name in settings.parties
    }
    scores = inside(run_parties(parties, patience=HANGS)["clinic"])
    assert tuple(scores.header) == ("id", "score_first", "score_second", "score_third")
    right = [np.argmax(line[1:]) == data.labels[data.ids.index(str(line[0]))] for line in scores.rows]
    assert np.mean(right) > 0.8


@pytest.mark.parametrize("align", [True, False], ids=["aligned", "in the same order"])
def test_killed_and_resumed_it_ends_as_if_it_had_not_been(tmp_path, monkeypatch, align):
    messy_cancer.write(tmp_path)
    if not align:
        _same_people(tmp_path)
    settings = settings_of(tmp_path, align=align, train={"epochs": 2, "batch": 128}, evaluate=2)
    whole = Trial(settings, tmp_path / "whole")
    actions = whole.attempt(monkeypatch, "laboratory").count
    expected = {name: whole.model(name) for name in settings.parties}
    trial = Trial(settings, tmp_path / "killed")
    at = int(0.8 * actions)
    assert trial.interrupted(monkeypatch, "laboratory", at)
    trial.brought_to_an_end(monkeypatch)
    assert trial.resumed
    for name in settings.parties:
        found = trial.model(name)
        assert found.keys() == expected[name].keys()
        assert {"kept.transforms", "kept.mean", "kept.factor"} <= found.keys()
        if not align:  # with an alignment the common order is drawn anew, and the batches with it
            for key, array in expected[name].items():
                np.testing.assert_allclose(found[key], array, rtol=0, atol=1e-6, err_msg=key)


def test_a_resumed_run_takes_the_stored_transforms_and_refuses_other_rows(tmp_path, monkeypatch):
    messy_cancer.write(tmp_path)
    _same_people(tmp_path)
    settings = settings_of(tmp_path, align=False, train={"epochs": 2, "batch": 128}, evaluate=2)
    trial = Trial(settings, tmp_path / "run")
    actions = Trial(settings, tmp_path / "whole").attempt(monkeypatch, "laboratory").count
    assert trial.interrupted(monkeypatch, "laboratory", int(0.8 * actions))
    stored = dict(trial.model("laboratory"))
    path = tmp_path / "laboratory.csv"
    text = path.read_text()
    path.write_text(text.replace("small", "middle"))  # the same people with other cells
    trial.attempt(monkeypatch)
    assert np.array_equal(trial.model("laboratory")["kept.transforms"], stored["kept.transforms"])
    path.write_text("\r\n".join([text.splitlines()[0], *reversed(text.splitlines()[1:])]))
    with pytest.raises(ValueError, match="the table of laboratory has other rows, or another order"):
        trial.attempt(monkeypatch)


def _same_people(folder: Path) -> None:
    """Both files with the common people, in one order."""
    tables: dict[str, tuple[list[str], dict[str, list[str]]]] = {}
    for name in ("clinic", "laboratory"):
        with (folder / f"{name}.csv").open() as file:
            header, *rows = list(csv.reader(file))
        tables[name] = header, {row[0].strip(): row for row in rows}
    common = sorted(tables["clinic"][1].keys() & tables["laboratory"][1].keys())
    for name, (header, by_id) in tables.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *(by_id[each] for each in common)])


def test_each_party_gets_its_table_from_its_own_local_file(tmp_path):
    """The paths are relative to the local file, and the shared file names none."""
    messy_cancer.write(tmp_path)
    shared = messy_cancer.settings(tmp_path, train={"epochs": 1, "batch": 64})
    del shared["task_options"]["data"]
    settings = Settings.model_validate(shared)
    local = {name: (Local(task_options={"data": {"path": f"{name}.csv"}}), tmp_path, True) for name in settings.parties}
    parties = {
        name: LOCKSTEP.party(settings, name, Place(_store(tmp_path, name), Nowhere(), *local[name])) for name in local
    }
    run_parties(parties, patience=HANGS)
    trial = Trial(settings, tmp_path / "stores")
    sources = {name: without_label(tmp_path, name) for name in settings.parties}
    assert len(predicted(settings, trial, sources, local=local)) > 500
    with pytest.raises(ValueError, match="there are no data of laboratory: add task_options"):
        LOCKSTEP.party(settings, "laboratory", Place(None, Nowhere()))


def _store(folder: Path, name: str) -> Store:
    path = folder / "stores" / name
    path.mkdir(parents=True, exist_ok=True)
    return Store(path)


def test_what_leaves_a_party_is_on_the_list(tmp_path):
    messy_cancer.write(tmp_path)
    _same_people(tmp_path)
    settings = settings_of(tmp_path, align=False, train={"epochs": 1, "batch": 128})
    sent: dict[str, list[Any]] = {}

    def recorded(name: str) -> Any:
        party = LOCKSTEP.party(settings, name, Place(None, Nowhere()))

        def live(channels: Any) -> None:
            recorders = {other: Recorder(channel) for other, channel in channels.items()}
            party(recorders)
            sent[name] = [message for recorder in recorders.values() for message in recorder.sent]

        return live

    run_parties({name: recorded(name) for name in settings.parties}, patience=HANGS)
    listed = {(release.message, release.field, release.sender) for release in boundary.releases(settings)}
    seen = {
        (type(message).__name__, field, settings.parties[name].role)
        for name, messages in sent.items()
        for message in messages
        for field in message.__struct_fields__
    }
    assert seen <= listed
    assert {entry for entry in listed - seen if entry[0] != "Failed"} == set()


def test_first_weights_are_secret_over_a_network(tmp_path):
    messy_cancer.write(tmp_path)
    settings = settings_of(tmp_path)

    def first(secret: bool) -> Any:
        part = make_part(settings, "laboratory", secret=secret)
        assert isinstance(part, Bottom)
        return part.network[0].weight.detach()

    assert torch.equal(first(False), first(False))
    assert not torch.equal(first(True), first(True))
    assert not torch.equal(first(True), first(False))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden": 32}, r"hidden is 32: give a list"),
        ({"hidden": [0]}, r"hidden is \[0\]: give a list"),
        ({"cut": 0}, "cut is 0: give a whole number from 1"),
        ({"test": 0.9}, "test is 0.9: give the part"),
        ({"colour": 1}, "does not take these task_options"),
        ({"data": {}}, "there are no data of laboratory"),
    ],
)
def test_options_that_are_refused(tmp_path, options, words):
    messy_cancer.write(tmp_path)
    shared = messy_cancer.settings(tmp_path)
    shared["task_options"] |= options
    settings = Settings.model_validate(shared)
    with pytest.raises(ValueError, match=words):
        task_part(settings, Seat.of(settings, "laboratory"))


def test_tables_that_are_refused(tmp_path):
    messy_cancer.write(tmp_path)
    settings = settings_of(tmp_path)
    (tmp_path / "laboratory.csv").write_text("id,note\n" + "".join(f"P{row:04d},same\n" for row in range(99)))
    with pytest.raises(ValueError, match="no column is left to learn from"):
        task_part(settings, Seat.of(settings, "laboratory"))
    (tmp_path / "clinic.csv").write_text("id,y,x\n" + "".join(f"P{row:04d},1,{row}\n" for row in range(99)))
    with pytest.raises(ValueError, match="one class only"):
        task_part(settings, Seat.of(settings, "clinic"))
    twice = "id,x\n" + "".join(f"P{row // 2:04d},{row}\n" for row in range(99))
    (tmp_path / "laboratory.csv").write_text(twice)
    shared = messy_cancer.settings(tmp_path, align=False)
    shared["task_options"]["data"]["laboratory"]["ids"] = {"dedupe": "first"}
    unaligned = Settings.model_validate(shared)
    with pytest.raises(ValueError, match=r"49 rows are left out .* set align: true"):
        task_part(unaligned, Seat.of(unaligned, "laboratory"))
    assert any("no align" in note for note in unaligned.notes())
    shared["align"] = True
    aligned = Settings.model_validate(shared)
    assert isinstance(task_part(aligned, Seat.of(aligned, "laboratory")), Unfitted)
