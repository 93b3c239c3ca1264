"""A url with a password is refused in one sentence that does not show it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tacit.tables.settings import Data, Source, data_from


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bank:hunter2@host/db",
        "postgresql+psycopg://bank:hunter2@host:5432/db?sslmode=require",
        "postgresql://bank:hun/ter2@host/db",
        "postgresql://host/db?user=bank&password=hunter2",
        "mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3Dhunter2",
        "postgresql://bank@host/db%3Fpassword=hunter2",
        "postgresql://bank:hunter2",
        "postgresql://ba/nk:hunter2@host/db",
        "oracle://bank/hunter2@host/db",
        "bank:hunter2@host/db",
        "mysql://bank@host/db?pass=hunter2",
        "mysql://bank@host/db?ssl_key_pass=hunter2",
        "mysql://bank@host/db?passphrase=hunter2",
        "bigquery://bank?credentials_base64=hunter2",
        "other://host?api_key=hunter2",
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_password_in_the_url_is_refused_and_not_shown(url, inside):
    source = {"url": url, "query": "select 1"}
    with pytest.raises(ValidationError, match="url holds a password: take it out, and name the environment") as error:
        Data.model_validate({"source": source}) if inside else Source.model_validate(source)
    assert "hun" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///bank.db",
        "postgresql://bank@host:5432/db",
        "postgresql://host:5432/db?passfile=x",
        "sqlite://",
        "postgresql://bank@[::1]:5432/db",
        "sqlite:////a/b@c/bank.db",
        "postgresql:///db?host=/tmp&sslkey=x.pem",
    ],
)
def test_other_urls_are_taken(url):
    assert Source(url=url, query="select 1").url == url


def test_a_section_that_is_wrong_is_said_with_its_place():
    assert data_from({"path": "a.csv"}, "data.bank").path == "a.csv"
    with pytest.raises(ValueError, match=r"^data\.bank\.ids\.dedupe: "):
        data_from({"path": "a.csv", "ids": {"dedupe": "last"}}, "data.bank")
    with pytest.raises(ValueError, match=r"^data\.bank: a table comes from path, source or frame"):
        data_from({}, "data.bank")
