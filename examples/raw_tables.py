"""Two tables of a credit case as companies have them: raw CSV files of a bank and a shop, made from a seed.

Run it: python examples/raw_tables.py [FOLDER]

It writes bank.csv and shop.csv to train on, and new_bank.csv and new_shop.csv with people who are in neither: the bank
wants to know how likely each of them is to default. docs/tutorial-tables.md continues from there.
"""

from __future__ import annotations

import argparse
import csv
import io
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

JOBS = {
    "clerk": 0.16, "teacher": 0.13, "driver": 0.12, "nurse": 0.11, "retired": 0.1, "engineer": 0.09, "cook": 0.08,
    "farmer": 0.06, "lawyer": 0.05, "artist": 0.04, "student": 0.035, "pilot": 0.003, "diver": 0.002, "": 0.02,
}  # fmt: skip
RISKS = {"driver": 0.5, "cook": 0.6, "artist": 0.9, "student": 1.1, "engineer": -0.6, "lawyer": -0.8, "retired": -0.4}
CITIES = {
    "Roma": 0.2, "Milano": 0.16, "Napoli": 0.13, "Torino": 0.1, "Palermo": 0.08, "Genova": 0.07, "Bologna": 0.06,
    "Firenze": 0.06, "Bari": 0.05, "Catania": 0.04, "Verona": 0.03, "Lecce": 0.003, "Aosta": 0.002, "n/a": 0.015,
}  # fmt: skip
DRIFT = {"Napoli": 0.5, "Palermo": 0.7, "Catania": 0.6, "Milano": -0.5, "Bologna": -0.6, "Verona": -0.5}
BLANKS = ("", "n/a", "N/A", "  ")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
TODAY = date(2024, 6, 30)


@dataclass(frozen=True, eq=False)
class Truth:
    """What the texts were made from: the people that both tables have, and how likely each was to default."""

    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]


def messy(rows: int = 5000, seed: int = 0) -> tuple[str, str, Truth]:
    """The bank's CSV (commas, 1,234.50, with the label), the shop's (semicolons, 1.234,50), and the truth.

    Both have the same people, and each a tenth as many that the other lacks, in an order of its own. Deterministic.
    """
    rng = np.random.default_rng(seed)
    ids = _people(rows, rng)[: rows + 2 * (rows // 10)]
    bank, bank_risk = _bank(len(ids), rng)
    shop, shop_risk = _shop(len(ids), rng)
    probabilities = 1 / (1 + np.exp(-(bank_risk + shop_risk - 2.4)))
    labels = (rng.random(len(ids)) < probabilities).astype(np.int64)
    bank = {"default": ["yes" if label else "no" for label in labels.tolist()], **bank}
    return *_texts(ids, bank, shop, rows, rng), Truth(tuple(ids[:rows]), labels[:rows], probabilities[:rows])


def new_rows(count: int = 200, rows: int = 5000, seed: int = 0) -> tuple[str, str]:
    """The bank's CSV and the shop's about people who are in neither table of `messy(rows, seed)`, without the label.

    `count` people are in both, and each table has a tenth as many that the other lacks.
    """
    first = rows + 2 * (rows // 10)
    ids = _people(rows, np.random.default_rng(seed))[first : first + count + 2 * (count // 10)]
    rng = np.random.default_rng([seed, 1])
    return _texts(ids, _bank(len(ids), rng)[0], _shop(len(ids), rng)[0], count, rng)


def write(folder: Path, rows: int = 5000, new: int = 200, seed: int = 0) -> list[Path]:
    """The two tables and the new rows as files."""
    bank, shop, _ = messy(rows, seed)
    new_bank, new_shop = new_rows(new, rows, seed)
    texts = {"bank.csv": bank, "shop.csv": shop, "new_bank.csv": new_bank, "new_shop.csv": new_shop}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def _people(rows: int, rng: Generator) -> list[str]:
    """Ids in an order of chance, many more than the tables take."""
    return [f"C{number:06d}" for number in (rng.permutation(10 * rows + 90_000) + 10_000).tolist()]


def _texts(
    ids: list[str], bank: dict[str, list[str]], shop: dict[str, list[str]], common: int, rng: Generator
) -> tuple[str, str]:
    """Both tables: the first people are common, the next tenth is the bank's, and the rest the shop's."""
    tenth = common // 10
    here, there = np.arange(common + tenth), np.r_[:common, common + tenth : len(ids)]
    bank_text = _table({"customer": ids, **bank}, rng.permutation(here), ",", rng)
    shop_text = _table({"card": ids, **shop}, rng.permutation(there), ";", rng)
    return bank_text, shop_text


def _bank(rows: int, rng: Generator) -> tuple[dict[str, list[str]], NDArray[np.float64]]:
    age = rng.integers(19, 85, rows)
    income = np.round(rng.lognormal(7.6, 0.5, rows), 2)
    debt = np.round(income * rng.gamma(1.5, 2.0, rows), 2)
    days = rng.integers(30, 9000, rows)
    used = np.clip(rng.beta(1.4, 2.0, rows), 0, 1)
    job = rng.choice(list(JOBS), rows, p=np.array([*JOBS.values()]) / sum(JOBS.values())).tolist()
    owner = rng.random(rows) < 0.45
    risk = 0.28 * debt / income - 0.5 * np.log(income / 2000) - 0.00012 * days + 2.0 * used - 0.5 * owner
    risk += np.array([RISKS.get(name, 0.0) for name in job]) - 0.012 * (age - 45)
    columns = {
        "age": _blanked([str(value) for value in age.tolist()], 0.03, rng),
        "income": _blanked([f"{value:,.2f}" for value in income.tolist()], 0.06, rng),
        "debt": [f"{value:,.2f}" for value in debt.tolist()],
        "limit used": [f"{100 * value:.1f}%" for value in used.tolist()],
        "customer since": _blanked([_day(day, "iso") for day in days.tolist()], 0.02, rng),
        "last payment": [_day(day, "words") for day in rng.integers(0, 90, rows).tolist()],
        "job": job,
        "home owner": ["Y" if value else "N" for value in owner.tolist()],
        "currency": ["EUR"] * rows,
        "note": _notes(rows, rng),
    }
    return columns, risk


def _shop(rows: int, rng: Generator) -> tuple[dict[str, list[str]], NDArray[np.float64]]:
    spent = np.round(rng.lognormal(6.2, 0.9, rows), 2)
    orders = rng.poisson(9, rows)
    returned = rng.binomial(orders, 0.15)
    late = rng.poisson(0.8, rows)
    since = rng.integers(10, 3000, rows)
    city = rng.choice(list(CITIES), rows, p=np.array([*CITIES.values()]) / sum(CITIES.values())).tolist()
    rate = returned / np.maximum(1, orders)
    risk = 0.65 * late + 1.5 * rate - 0.3 * (np.log(spent) - 6.2) - 0.0003 * since
    risk += np.array([DRIFT.get(name, 0.0) for name in city])
    columns = {
        "spent": _blanked([_european(value) for value in spent.tolist()], 0.05, rng),
        "orders": [str(value) for value in orders.tolist()],
        "returned": [f"{100 * value:.1f}".replace(".", ",") + " %" for value in rate.tolist()],
        "late payments": _blanked([str(value) for value in late.tolist()], 0.04, rng),
        "first order": [_day(day, "dots") for day in since.tolist()],
        "last visit": _blanked([_day(day, "slashes") for day in rng.integers(0, 400, rows).tolist()], 0.03, rng),
        "city": city,
        "newsletter": ["on" if value else "off" for value in (rng.random(rows) < 0.6).tolist()],
        "country": ["IT"] * rows,
    }
    return columns, risk


def _day(ago: int, written: str) -> str:
    day = TODAY - timedelta(days=ago)
    return {
        "iso": day.isoformat(),
        "words": f"{day.day} {MONTHS[day.month - 1]} {day.year}",
        "dots": f"{day.day:02d}.{day.month:02d}.{day.year}",
        "slashes": f"{day.day:02d}/{day.month:02d}/{day.year}",
    }[written]


def _european(value: float) -> str:
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def _notes(rows: int, rng: Generator) -> list[str]:
    """Free text: nearly every row has its own."""
    tickets, days = rng.integers(1, 10_000, rows).tolist(), rng.integers(1, 365, rows).tolist()
    return [f'ticket {ticket}, "urgent"; closed after {day} days' for ticket, day in zip(tickets, days, strict=True)]


def _blanked(values: list[str], share: float, rng: Generator) -> list[str]:
    blank = rng.random(len(values)) < share
    kinds = rng.integers(len(BLANKS), size=len(values)).tolist()
    return [BLANKS[kind] if empty else value for value, empty, kind in zip(values, blank.tolist(), kinds, strict=True)]


def _table(columns: dict[str, list[str]], order: NDArray[np.int64], delimiter: str, rng: Generator) -> str:
    """As CSV, in this order, with white space around one id in ten."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    stray = rng.random(len(order)) < 0.1
    for row, spaced in zip(order.tolist(), stray.tolist(), strict=True):
        identity, *cells = (column[row] for column in columns.values())
        writer.writerow([f" {identity} " if spaced else identity, *cells])
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the raw tables of a bank and a shop, and new rows.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the files go; here if left out")
    parser.add_argument("--rows", type=int, default=5000, help="people that both tables have")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for path in write(given.folder, given.rows, seed=given.seed):
        print(path)


if __name__ == "__main__":
    main()
