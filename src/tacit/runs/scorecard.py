"""A trained model as points of each party's own columns: one CSV a party, in the folder of its part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tacit.config.source import ConfigError
from tacit.kind import CardScale, kind_of
from tacit.lockstep.run import model_path
from tacit.runs.load import load
from tacit.store.directory import party_of, read_model
from tacit.store.scores import Scores, write_scores

FILE = "scorecard.csv"


def write_scorecards(run: Path, party: str | None, asked: CardScale, output: Path | None = None) -> dict[Path, Scores]:
    """Write the cards of a run: each with where it is.

    In the folder of a run of all parties each gets its own, `RUN/NAME/scorecard.csv`; in a party's own it is
    `RUN/scorecard.csv`. Raises ValueError in a sentence if there is no such run, or its model has no points.
    """
    if not (run / "config.yaml").is_file():
        raise ConfigError(f"{run}: this is not the folder of a run, it has no config.yaml: `tacit run` makes one")
    settings = load(run / "config.yaml")
    scorecard = kind_of(settings).scorecard
    if scorecard is None:
        raise ConfigError(f"kind {settings.kind} has no scorecard: it is of vertical regressions")
    everyone = scorecard.parties(settings)
    own = party if party is not None else party_of(run)
    if own is not None and own not in everyone:
        raise ConfigError(f"--party is {own!r}: give {' or '.join(everyone)}")
    names = everyone if own is None else (own,)
    if output is not None and len(names) > 1:
        raise ConfigError(f"--output names one file, and {len(names)} parties have a card: add --party NAME")
    paths = {name: model_path(run, name) for name in names}
    parts = {name: read_model(path) for name, path in paths.items()}
    if isinstance(asked.good, str):
        asked = replace(asked, good=scorecard.good(parts, asked.good))  # one party's labels, for the cards of all
    cards = {name: scorecard.of(settings, name, part, asked) for name, part in parts.items()}
    written = {output or paths[name].with_name(FILE): found for name, found in cards.items()}
    for path, found in written.items():
        write_scores(found, path)
    return written
