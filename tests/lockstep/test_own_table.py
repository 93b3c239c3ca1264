"""Tables of parties with the same rows; the verbs of each kind are tested with their commands."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.events import Nowhere
from tacit.kinds.vertical_trees.settings import Data, Settings
from tacit.lockstep import own_table
from tacit.lockstep.run import Place

PARTIES = {"bank": {"role": "active"}, "shop": {"role": "passive"}}
PLACE = Place(None, Nowhere())


@pytest.fixture
def settings(here):
    (here / "bank.csv").write_text("id,y,age\n" + "".join(f"p{row},{row % 2},{row}\n" for row in range(40)))
    (here / "shop.csv").write_text("id,spent\n" + "".join(f"p{row},{3 * row}\n" for row in reversed(range(10, 50))))
    data = {name: {"path": f"{name}.csv"} for name in PARTIES}
    return Settings.model_validate({"parties": PARTIES, "data": data})


def opened(settings, name):
    return own_table.opened(settings, name, PLACE, settings.label_kind, Data)


def test_labels_are_read_at_the_party_that_has_them(settings):
    bank, shop = opened(settings, "bank"), opened(settings, "shop")
    assert own_table.labels_of(bank, np.array([0, 3])).tolist() == [0, 1]
    with pytest.raises(ConfigError, match="has no labels"):
        own_table.labels_of(shop, np.array([0]))


def test_rows_in_common_are_found_in_the_order_of_the_lead(settings):
    tables = {name: opened(settings, name) for name in PARTIES}
    rows = own_table.common(settings, tables)
    assert [tables["bank"].ids[row] for row in rows["bank"]] == [tables["shop"].ids[row] for row in rows["shop"]]
    assert len(rows["bank"]) == 30
    as_they_are = settings.model_copy(update={"align": False})
    assert own_table.common(as_they_are, tables)["shop"].tolist() == list(range(40))
    assert own_table.aligned(as_they_are, "shop", tables["shop"].ids, {}, Nowhere()).tolist() == list(range(40))


def test_a_resumed_run_knows_its_table_again(settings, here):
    table, rows = opened(settings, "shop"), np.array([4, 2])
    known = own_table.people(table, rows)
    assert own_table.fits(table, rows, known)
    assert not own_table.fits(table, np.array([2, 4]), known)
    assert not own_table.fits(table, np.array([400]), known)
    (here / "shop.csv").write_text((here / "shop.csv").read_text().replace("spent", "paid"))
    assert not own_table.fits(opened(settings, "shop"), rows, known)


def test_data_come_from_the_local_file_first(settings, here):
    place = Place(None, Nowhere(), Local(data={"path": "mine.csv", "columns": {"x": {"monotone": "rising"}}}), here)
    data, folder = own_table.data_of(settings, "shop", place, Data)
    assert isinstance(data, Data)
    assert (data.path, folder, data.sign("x")) == ("mine.csv", here, 1)
    wrong = Place(None, Nowhere(), Local(data={"path": "mine.csv", "columns": {"x": {"monotone": "up"}}}), here)
    with pytest.raises(
        ConfigError, match=r"the local file of shop: data\.columns\.x\.monotone: Input should be 'rising' or 'falling'"
    ):
        own_table.data_of(settings, "shop", wrong, Data)
    with pytest.raises(ConfigError, match="there are no data of shop"):
        own_table.data_of(settings.model_copy(update={"data": {}}), "shop", PLACE, Data)


def test_a_table_that_is_elsewhere_is_not_here(settings, here):
    assert own_table.here(settings, "shop", settings.label_kind, Data) is not None
    (here / "shop.csv").unlink()
    assert own_table.here(settings, "shop", settings.label_kind, Data) is None


def test_tables_are_checked_for_one_party_or_for_all(settings, here):
    found = own_table.check_tables(settings, None, Local(), here, settings.label_kind, Data)
    assert {name: checked.rows for name, checked in found.items()} == {"bank": 40, "shop": 40}
    assert list(own_table.check_tables(settings, "shop", Local(), here, settings.label_kind, Data)) == ["shop"]
    with pytest.raises(ConfigError, match="--party is 'who': give bank or shop"):
        own_table.check_tables(settings, "who", Local(), here, settings.label_kind, Data)
    task = settings.model_copy(update={"data": {}, "task": "cancer"})
    with pytest.raises(ConfigError, match="there is no table to check"):
        own_table.check_tables(task, "shop", Local(), here, settings.label_kind, Data)


def test_a_task_gives_numbers_and_the_labels_of_the_lead():
    settings = Settings.model_validate({"parties": PARTIES, "task": "cancer"})
    bank, shop = (own_table.opened(settings, name, PLACE, settings.label_kind, Data) for name in PARTIES)
    assert bank.labels.classes == ("0", "1")
    assert shop.labels is None
    assert len(bank.choices) == len(shop.choices) == 15
    squared = Settings.model_validate({"parties": PARTIES, "task": "cancer", "train": {"objective": "squared"}})
    assert own_table.opened(squared, "bank", PLACE, squared.label_kind, Data).labels.dtype == np.float64
