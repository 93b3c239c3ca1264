"""Queries: SQLite beside the file, PostgreSQL with a password that comes from the environment and shows nowhere."""

from __future__ import annotations

import builtins
import logging
import math
import sqlite3
import traceback

import numpy as np
import pytest

from tacit.tables import sql
from tacit.tables.problems import TableError
from tacit.tables.settings import Data, Source
from tacit.tables.sources import read
from tacit.tables.sql import read_query
from tacit.tables.table import checked
from tests.tables.postgresql import binaries, server

sqlalchemy = pytest.importorskip("sqlalchemy", reason="the extra sql is not installed")


@pytest.fixture
def folder(tmp_path):
    with sqlite3.connect(tmp_path / "bank.db") as connection:
        connection.execute("create table people (id text, age integer, income real, opened text, city text)")
        rows = [("007", 30, 1.5, "2024-01-31", "Rome"), (" x", None, 2.0, "2024-02-01", None)]
        connection.executemany("insert into people values (?, ?, ?, ?, ?)", rows)
    connection.close()
    return tmp_path


def query(text="select * from people", **options):
    return Source(**{"url": "sqlite:///bank.db", "query": text, **options})


def test_sqlite_lies_beside_the_file(folder):
    raw = read_query(query(), folder)
    assert raw.where == str(folder / "bank.db")
    assert raw.names == ("id", "age", "income", "opened", "city")
    assert raw.column("id").values == ["007", "x"]
    assert raw.padded == {"id": (1,)}
    assert np.array_equal(raw.column("age").values, [30, math.nan], equal_nan=True)
    assert raw.column("opened").values == ["2024-01-31", "2024-02-01"]
    assert raw.column("city").values == ["Rome", ""]


def test_a_query_may_hold_percent_signs_and_colons(folder):
    raw = read_query(query("select id, 'a:b' as colon from people where id like '00%'"), folder)
    assert raw.column("id").values == ["007"]
    assert raw.column("colon").values == ["a:b"]


def test_a_column_twice_is_a_problem(folder):
    raw = read_query(query("select id, age, age from people"), folder)
    assert [problem.kind for problem in raw.problems] == ["name again"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "sqlite:///none.db"}, "none.db: there is no such database: correct the path"),
        ({"text": "select nonesuch from people"}, "bank.db: no such column: nonesuch: correct url, password or query"),
        ({"text": "update people set age = 1"}, "gives no rows of its own"),
        ({"url": "nonsense"}, "url cannot be read"),
        ({"url": "unheard://host/db"}, "unheard"),
        ({"password": "TACIT_NO_SUCH"}, "the environment variable TACIT_NO_SUCH holds no password: set it"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(folder, options, message):
    with pytest.raises(TableError, match=message) as error:
        read_query(query(**options), folder)
    assert len(error.value.problems) == 1


def test_no_database_is_made_and_nothing_is_committed(folder):
    with pytest.raises(TableError):
        read_query(query(url="sqlite:///none.db"), folder)
    assert not (folder / "none.db").exists()
    read_query(query("delete from people returning id"), folder)
    assert read_query(query(), folder).rows == 2


def test_too_many_rows_are_refused_while_they_are_read(folder, monkeypatch):
    monkeypatch.setattr(sql, "CELLS", 9)
    with pytest.raises(TableError, match="more than 0 rows of 5 columns"):
        read_query(query(), folder)


def test_without_sqlalchemy_the_extra_is_named(folder, monkeypatch):
    original = builtins.__import__

    def without(name, *arguments):
        if name.partition(".")[0] == "sqlalchemy":
            raise ModuleNotFoundError(name=name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ValueError, match=r"extra sql: pip install 'tacit-learning\[sql\]'"):
        read_query(query(), folder)


PASSWORD = "Tr0ub4dor&3 /@:%"  # noqa: S105 -- with signs that a url spells in another way
WRONG = "c0rrect-h0rse"


@pytest.fixture(scope="module")
def postgresql():
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    folder = binaries()
    if folder is None:
        pytest.skip("PostgreSQL is not installed (on Debian: apt-get install postgresql)")
    with server(folder, PASSWORD) as url:
        yield url


@pytest.fixture
def bank(postgresql, monkeypatch):
    monkeypatch.setenv("TACIT_BANK", PASSWORD)
    return lambda text: Source(url=postgresql, query=text, password="TACIT_BANK")  # noqa: S106 -- the variable's name


ROWS = """
select * from (values
    ('007', 100000000000000001::bigint, 1.50::numeric, true, date '2024-01-31',
     timestamptz '2024-01-31 12:00+00', 'a%b'),
    (' x', 7, null, false, null, null, null)
) as people (id, account, price, glad, day, moment, note)
"""


def test_postgresql_gives_typed_columns(bank, tmp_path):
    raw = read(Data(source=bank(ROWS)), tmp_path)
    assert raw.column("id").values == ["007", "x"]
    assert raw.column("account").values == ["100000000000000001", "7"]
    assert np.array_equal(raw.column("price").values, [1.5, math.nan], equal_nan=True)
    assert raw.column("glad").values.tolist() == [1, 0]
    assert [raw.column(name).values[0] for name in ("day", "moment")] == [19753, 19753.5]
    assert raw.column("note").values == ["a%b", ""]
    assert raw.problems == ()


def test_postgresql_reads_many_rows_in_a_stream(bank, tmp_path):
    raw = read_query(bank("select n as id, n * 0.5 as half from generate_series(1, 20000) as n"), tmp_path)
    assert raw.rows == 20_000
    assert raw.column("half").values[-1] == 10_000


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (WRONG, "select 1"),
        (PASSWORD, "select nothing"),
        (PASSWORD, f"select '{PASSWORD}'::int as id"),
        (PASSWORD, "drop table nothing"),
    ],
)
def test_no_error_log_traceback_or_note_shows_the_password(bank, tmp_path, monkeypatch, caplog, given, text):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TACIT_BANK", given)
    with pytest.raises(TableError) as error:
        read_query(bank(text), tmp_path)
    inner = traceback.TracebackException.from_exception(error.value, capture_locals=given not in text)
    inner.stack[:] = [frame for frame in inner.stack if frame.filename != __file__]  # this test knows the password
    assert inner.stack
    shown = [str(error.value), repr(error.value), caplog.text, *inner.format()]
    shown += map(str, checked(Data(source=bank(text)), tmp_path, None).problems)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None
    assert not any(given in line for line in shown)
    assert "correct url, password or query" in str(error.value)


def test_a_wrong_password_is_said_by_the_server(bank, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_BANK", WRONG)
    with pytest.raises(TableError, match="password authentication failed"):
        read_query(bank("select 1"), tmp_path)


def test_where_a_table_came_from_holds_no_password_and_no_user(bank, tmp_path):
    raw = read_query(bank("select 1 as id"), tmp_path)
    assert raw.where == "postgresql:///postgres"
