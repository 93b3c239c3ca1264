"""`tacit ledger`: what a site spent over all its runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.exits import USER, end

if TYPE_CHECKING:
    from tacit.config.local import Lifetime
    from tacit.store.site_ledger import Entry, SiteLedger


@click.command("ledger")
@click.argument("site", type=click.Path(path_type=Path))
@click.option("--begin", is_flag=True, help="Begin the ledger of a site that never had one.")
@click.option("--settle", metavar="ID", help="Give back what a run reserved and did not pay: it will not be resumed.")
@click.option("--json", "as_json", is_flag=True, help="Print the ledger as JSON.")
def command(site: Path, begin: bool, settle: str | None, as_json: bool) -> None:
    """Show what a site spent, when and on what, and what is left of policy.lifetime.

    SITE is the --local file of the site's runs; its policy.folder holds the ledger. A run that is not over counts with
    all that it reserved.

    The number of writes only grows. Note it elsewhere: a ledger that shows a smaller one was put back to an earlier
    time.
    """
    from tacit.config.local import load_local
    from tacit.runs.policy import folder_of, settled
    from tacit.store import site_ledger

    try:
        local, folder = load_local(site)
        if local.policy is None or local.policy.folder is None:
            end(f"{site}: it names no policy.folder, which holds the ledger", USER)
        place = folder_of(local.policy, folder)
        if begin:
            site_ledger.begin(place)
        if settle is not None:
            settled(place, settle)
        found = site_ledger.read(place)
    except ValueError as error:
        end(str(error), USER)
    except OSError as error:
        end(f"{error.filename or site}: the site's ledger cannot be used: {error.strerror}", USER)
    shown = _plain(found, local.policy.lifetime)
    click.echo(json.dumps(shown, indent=2) if as_json else _words(shown, place))


def _plain(found: SiteLedger, lifetime: Lifetime | None) -> dict[str, Any]:
    from tacit.dp.lifetime import together

    delta = 1e-5 if lifetime is None else lifetime.delta
    entries = list(found.runs.values())
    total = together([each.counted for each in entries], delta)
    paid = together([each.paid for each in entries], delta)
    return {
        "site": found.site,
        "began": _date(found.began),
        "writes": found.writes,
        "delta": delta,
        "paid": _number(paid.epsilon),
        "counted": _number(total.epsilon),
        "promised": _number(total.promised),
        "groups": [
            {"unit": unit, "relation": relation, "epsilon": _number(epsilon)}
            for (unit, relation), epsilon in total.groups.items()
        ],
        "limit": None if lifetime is None else lifetime.epsilon,
        "left": None if lifetime is None else max(0.0, lifetime.epsilon - total.epsilon),
        "runs": [_run(each, delta) for each in entries],
    }


def _run(entry: Entry, delta: float) -> dict[str, Any]:
    from tacit.dp.lifetime import together

    return {
        "id": entry.id,
        "began": _date(entry.began),
        "last": _date(entry.last),
        "name": entry.name,
        "kind": entry.kind,
        "protection": entry.protection,
        "party": entry.party,
        "file": entry.file,
        "tasks": list(entry.tasks),
        "state": entry.state,
        "paid": _number(together([entry.paid], delta).epsilon),
        "counted": _number(together([entry.counted], delta).epsilon),
    }


def _words(shown: dict[str, Any], place: Path) -> str:
    rows = [("began", "run", "party", "kind", "paid", "counted", "state", "id")]
    for run in shown["runs"]:
        kind = " ".join(filter(None, (run["kind"], run["protection"])))
        figures = (_figure(run["paid"]), _figure(run["counted"]))
        rows.append((run["began"], run["name"], run["party"], kind, *figures, run["state"], run["id"]))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if not shown["runs"]:
        lines = ["No run yet."]
    at = f"at delta {shown['delta']:.3g}"
    lines += ["", f"All runs: epsilon {_figure(shown['paid'])} paid, {_figure(shown['counted'])} counted, {at}."]
    for group in shown["groups"]:
        lines.append(f"  for a {group['unit']} ({group['relation']}): {_figure(group['epsilon'])}")
    if shown["promised"]:
        lines.append(f"  promised by runs that are not over: {_figure(shown['promised'])}")
    if shown["limit"] is not None:
        lines.append(f"The site's limit is {shown['limit']:g}: {_figure(shown['left'])} is left.")
    lines.append(f"{place}: begun {shown['began']}, written {shown['writes']} times since.")
    return "\n".join(lines)


def _number(epsilon: float) -> float | str:
    return "infinite" if epsilon == float("inf") else epsilon


def _figure(epsilon: float | str) -> str:
    return epsilon if isinstance(epsilon, str) else f"{epsilon:.4g}"


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
