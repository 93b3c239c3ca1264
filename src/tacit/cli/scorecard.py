"""`tacit scorecard`: a trained regression as points for each party's own columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli.exits import USER, end

if TYPE_CHECKING:
    from tacit.store.scores import Scores


@click.command("scorecard")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--party", metavar="NAME", help="Write only the card of this party.")
@click.option("--points", type=float, metavar="NUMBER", help="Points at the odds of --odds; default: predict.points.")
@click.option("--odds", type=float, metavar="NUMBER", help="Good rows for one bad row; default: predict.odds.")
@click.option("--pdo", type=float, metavar="NUMBER", help="Points that double the odds; default: predict.pdo.")
@click.option(
    "--good",
    metavar="LABEL",
    help="The class that gets more points: a label, or first or second at a party without labels.",
)
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Path of the card of one party.")
def command(
    run: Path,
    party: str | None,
    points: float | None,
    odds: float | None,
    pdo: float | None,
    good: str | None,
    output: Path | None,
) -> None:
    """Write the scorecard of RUN, the folder of a vertical regression of two classes.

    A row's points are the sum of its points in the cards of all parties. Each party's card has its own columns only:
    points of every category, bin or group, points per unit of every number, and base points at the party with the
    labels. In a run of all parties the cards are RUN/NAME/scorecard.csv; in the run of one party the card is
    RUN/scorecard.csv. All parties must give the same numbers and the same good class (default: the first label).

    Exit codes: 0 done, 2 a mistake in the input.
    """
    from tacit.kind import CardScale
    from tacit.runs.scorecard import write_scorecards

    try:
        written = write_scorecards(run, party, CardScale(points, odds, pdo, good), output)
    except ValueError as error:
        end(str(error), USER)
    except OSError as error:
        end(f"{error.filename}: {error.strerror}", USER)
    click.echo(f"More points: better odds of {good or 'the first label'}.")
    for path, card in written.items():
        click.echo(f"Scorecard: {path}")
        for line in _lines(card):
            click.echo(f"  {line}")


def _lines(card: Scores) -> list[str]:
    """The card as a table for a terminal."""
    rows = [[_shown(cell) for cell in row] for row in (card.header, *card.rows)]
    kept = [place for place, name in enumerate(card.header) if name != "points"]  # rounded ones are enough to read
    widths = [max(len(row[place]) for row in rows) for place in kept]
    return [
        "  ".join(row[place].ljust(wide) for place, wide in zip(kept, widths, strict=True)).rstrip() for row in rows
    ]


def _shown(cell: object) -> str:
    return f"{cell:.5g}" if isinstance(cell, float) else str(cell)
