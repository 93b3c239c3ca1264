"""Tables from a query, by SQLAlchemy 2.

The password never stands in a file: `password` names the environment variable that holds it. It goes into the
connection and nowhere else: errors of the driver are put into one sentence of ours, in which it is struck out, and are
not chained, so that no traceback shows them. The query is read in a stream; nothing is ever committed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from tacit.tables.assembly import assembled, fatal, header, too_large
from tacit.tables.cells import CELLS, Raw
from tacit.tables.settings import Source
from tacit.tables.typed import typed_column

_BLOCK = 1 << 12  # rows that are fetched at a time
_LONGEST = 300  # characters of a driver's message
_DRIVERS = {"postgresql": "postgresql+psycopg"}  # the one that the extra sql installs


def read_query(source: Source, folder: Path) -> Raw:
    """The table that a query gives. Paths of SQLite are relative to `folder`."""
    try:
        import sqlalchemy
        import sqlalchemy.exc
    except ModuleNotFoundError:
        raise fatal(
            "extra", "the database", "a query needs the extra sql", "pip install 'tacit-learning[sql]'"
        ) from None
    url, where = _address(sqlalchemy, source, folder)
    failure = None
    try:
        engine = sqlalchemy.create_engine(_with_password(url, source, where), hide_parameters=True)
    except ModuleNotFoundError as error:
        failure = fatal(
            "extra", where, f"the driver {error.name} is not installed", "pip install 'tacit-learning[sql]', or it"
        )
    except sqlalchemy.exc.SQLAlchemyError as error:
        failure = fatal("database", where, _scrubbed(error, source), "correct url")
    if failure is None:
        try:
            names, columns = _fetched(engine, source.query, where)
        except sqlalchemy.exc.SQLAlchemyError as error:
            failure = fatal("database", where, _scrubbed(error, source), "correct url, password or query")
        except UnicodeError:
            failure = fatal("database", where, "it holds text that is not UTF-8", "convert it in the query")
        finally:
            engine.dispose()
    if failure is not None:
        raise failure  # here, not above: an error that is being handled would stay attached to it
    return assembled(where, *header(where, names), [typed_column(column) for column in columns])


def _address(sqlalchemy: Any, source: Source, folder: Path) -> tuple[Any, str]:
    """The url as SQLAlchemy has it, and what the database is called in messages."""
    try:
        url = sqlalchemy.engine.make_url(source.url)
    except Exception:  # of several kinds; the words may hold the url
        url = None
    if url is None:
        raise fatal("database", "the database", "url cannot be read", "give DIALECT://USER@HOST/DATABASE")
    if url.drivername in _DRIVERS:
        url = url.set(drivername=_DRIVERS[url.drivername])
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        path = folder / str(url.database)
        if not path.is_file():
            raise fatal("file", str(path), "there is no such database", "correct the path in url")
        return url.set(database=str(path)), str(path)
    return url, f"{url.get_backend_name()}://{url.host or ''}/{url.database or ''}"


def _with_password(url: Any, source: Source, where: str) -> Any:
    if source.password is None:
        return url
    if not os.environ.get(source.password):
        what = f"the environment variable {source.password} holds no password"
        raise fatal("password", where, what, "set it before you start")
    return url.set(password=os.environ[source.password])


def _scrubbed(error: Exception, source: Source) -> str:
    """A driver's message in one line, without the password in any spelling."""
    words = " ".join(str(getattr(error, "orig", None) or error).split())
    secret = os.environ.get(source.password, "") if source.password is not None else ""
    if secret:
        for spelling in {secret, quote(secret), quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1]}:
            words = words.replace(spelling, "…")
    return words if len(words) <= _LONGEST else words[:_LONGEST] + "…"


def _fetched(engine: Any, query: str, where: str) -> tuple[list[str], list[list[Any]]]:
    options = {"stream_results": True, "max_row_buffer": _BLOCK, "no_parameters": True}  # a % in the query is a %
    with engine.connect() as connection:
        result = connection.execution_options(**options).exec_driver_sql(query)
        if not result.returns_rows:
            raise fatal("query", where, "the query gives no rows of its own", "write one that starts with select")
        names = list(result.keys())
        columns: list[list[Any]] = [[] for _ in names]
        for block in result.partitions(_BLOCK):
            if (len(columns[0]) + len(block)) * len(names) > CELLS:
                raise too_large(where, len(columns[0]), len(names))
            for column, values in zip(columns, zip(*block, strict=True), strict=True):
                column.extend(values)
    return names, columns
