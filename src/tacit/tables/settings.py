"""The section `data` of a file: where a party's table lies, and what its columns are for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import unquote

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from tacit.sections import Count, Section

Use = Literal["drop", "numeric", "log", "bin", "one_hot", "woe"]
Missing = Literal["mean", "median", "constant", "own category", "refuse"]

_SECRET_OPTIONS = ("password", "passwd", "passphrase", "pass=", "pwd=", "secret", "token", "credential", "api_key",
                   "apikey", "access_key")  # fmt: skip
_UNFIT = {("one_hot", "mean"), ("one_hot", "median"), ("numeric", "own category"), ("log", "own category")}


def fits(use: Use | None, missing: Missing) -> bool:
    """Whether missing cells can be treated so: a category has no mean, and a number is no category."""
    return (use, missing) not in _UNFIT


def _holds_password(url: str) -> bool:
    """Whether a url seems to have a password: behind a user, in a port that is no number, or as an option."""
    plain = unquote(url).lower()
    if any(word in plain.partition("?")[2] for word in _SECRET_OPTIONS):
        return True
    if "://" not in url:
        return ":" in url and "@" in url
    rest = url.partition("?")[0].partition("://")[2]
    host, _, path = rest.partition("/")
    if host and "@" in path:
        return True  # user/password@host, or a / in a password
    user, at, address = host.rpartition("@")
    return (at != "" and ":" in user) or re.fullmatch(r"(\[[^\]]*\]|[^:]*)(:[0-9]*)?", address) is None


class Source(Section):
    """A query of a database, by SQLAlchemy."""

    model_config = ConfigDict(hide_input_in_errors=True)
    url: str  # without a password
    query: str
    password: str | None = None  # the name of the environment variable that holds it

    @model_validator(mode="after")  # of the whole section: a message about a field alone would show its value
    def _no_password(self) -> Source:
        if _holds_password(self.url):
            raise ValueError(
                "url holds a password: take it out, and name the environment variable that holds it as password"
            )
        return self


class Ids(Section):
    """How ids are made alike before they are compared with those of other parties."""

    strip: bool = True  # white space around them
    casefold: bool = False  # capital letters
    dedupe: Literal["first", "refuse"] = "refuse"  # rows with the same id: keep the first, or refuse the table


class Column(Section):
    """What becomes of a column. What is not given is chosen by what is in it, and said."""

    missing_apart: ClassVar[bool] = False  # whether missing numbers are a group of their own, and not filled in
    use: Use | None = None
    rare: Count = 20  # one_hot and woe of text: categories with fewer training rows are taken together
    bins: Annotated[int, Field(ge=2, le=100, strict=True)] = 10  # bin and woe of numbers: quantiles
    least: Annotated[int, Field(ge=10, strict=True)] = 50  # woe: rows of a group, at least
    missing: Missing | None = None
    value: float | str | None = None  # of missing: constant
    decimal: Literal[".", ","] | None = None  # of numbers in text; found by itself if they tell

    @model_validator(mode="before")
    @classmethod
    def _short(cls, data: Any) -> Any:
        """`city: one_hot` is short for `city: {use: one_hot}`."""
        return {"use": data} if isinstance(data, str) else data

    @field_validator("missing", mode="before")
    @classmethod
    def _spelling(cls, value: Any) -> Any:
        return "own category" if value == "own_category" else value

    @model_validator(mode="after")
    def _fits(self) -> Column:
        if (self.missing == "constant") != (self.value is not None):
            raise ValueError("missing: constant and value: NUMBER go together: give both or neither")
        return self

    def unfit(self, *, number: bool) -> str:
        """What a kind of training finds wrong with this column of numbers, or of categories, and the remedy; or ""."""
        return ""


class Data(Section):
    """Where a party's table lies, and what its columns are for."""

    model_config = ConfigDict(hide_input_in_errors=True)  # a url in it may hold a password that must not be there
    path: str | None = None  # CSV or Parquet
    source: Source | None = None  # or a query
    frame: Any = None  # or a pandas or polars frame, from Python
    id: str | tuple[str, ...] | None = None  # the column, the first by default; several make one key, hashed
    ids: Ids = Ids()
    label: str | None = None  # of the active; the second column by default
    columns: tuple[str, ...] | dict[str, Column] | None = None  # a list: which features; a mapping: what each is for
    missing: Missing | None = None  # of every column that does not say; mean, and own category, by default
    label_counts: bool = False  # of the active: passives may have counts of labels, for weight of evidence

    @field_validator("missing", mode="before")
    @classmethod
    def _spelling(cls, value: Any) -> Any:
        return "own category" if value == "own_category" else value

    @model_validator(mode="after")
    def _one_source(self) -> Data:
        given = [name for name in ("path", "source", "frame") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a table comes from path, source or frame: give one of them, got {', '.join(given) or 0}")
        if self.missing == "constant":
            raise ValueError("missing: constant needs a value for each column: give it under columns")
        return self

    def column(self, name: str) -> Column:
        """What the file says of a column; all that is not said is left to `choose`."""
        given = self.columns.get(name, Column()) if isinstance(self.columns, dict) else Column()
        if given.missing is None and self.missing is not None and fits(given.use, self.missing):
            return given.model_copy(update={"missing": self.missing})
        return given

    @property
    def weighs_evidence(self) -> bool:
        """Whether a column needs counts of labels."""
        return isinstance(self.columns, dict) and any(column.use == "woe" for column in self.columns.values())


def data_from(section: Mapping[str, Any], where: str, model: type[Data] = Data) -> Data:
    """The section of a table; ValueError says in a sentence what is wrong with it. `where`: what the section is."""
    try:
        return model.model_validate(section)
    except ValidationError as error:
        first = max(error.errors(include_url=False), key=lambda each: len(each["loc"]))  # of a list or mapping: the fit
        names = [each for each in map(str, first["loc"]) if "[" not in each]
        key, words = ".".join([where, *names]), first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{key}: {words}") from None
