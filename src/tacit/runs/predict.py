"""What a trained model says about new rows: every party here, or one of them over a network.

Each party brings its own part of the model, from the directory of its run, and its own rows. Only the active, or the
leader, gets the scores.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from tacit import kind as kinds
from tacit.channel import Channel, run_parties
from tacit.config.load import ConfigError
from tacit.events import Nowhere, Sink
from tacit.lockstep.run import Place, meeting_place, telling
from tacit.net.site import Site
from tacit.store.directory import party_of, read_model, replace_file


@dataclass(frozen=True, slots=True)
class Scores:
    """Rows with what the model says about them; the first column is the id."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


Predictor = Callable[[Mapping[str, Channel]], Scores | None]


class Kind(Protocol):
    """What a kind adds whose models are used by the parties together."""

    told: tuple[type[Exception], ...]  # as in `lockstep.Kind`

    def predictor(
        self, settings: Any, name: str, model: Mapping[str, Any], source: Path | None, place: Place
    ) -> Predictor:
        """One party of a prediction. Raises ValueError where its rows or its part do not fit, or rows are missing."""


def predict_here(settings: Any, run: Path, sources: Mapping[str, Path], sink: Sink) -> Scores:
    """Predict with every party in this process."""
    kind = _kind(settings)
    unknown = [name for name in sources if name not in getattr(settings, "parties", {})]
    if unknown:
        raise ConfigError(f"--input: {unknown[0]} is no party of the file: it has {', '.join(settings.parties)}")
    parties = {}
    for name in settings.parties:
        place = Place(None, sink if name == settings.lead else Nowhere())
        parties[name] = kind.predictor(settings, name, _model(run, name), sources.get(name), place)
    found = run_parties(parties)[settings.lead]
    if found is None:
        raise ConfigError(f"{settings.lead} made no scores")
    return found


def predict_as(settings: Any, name: str, run: Path, source: Path | None, site: Site, sink: Sink) -> Scores | None:
    """Be one party of a prediction over a network: the scores, if this party gets them."""
    place = Place(None, sink, site.local, site.folder, apart=True)
    kind = _kind(settings)
    own = kind.predictor(settings, name, _model(run, name), source, place)
    with meeting_place(settings, name, site, sink) as ends, telling(ends, kind.told):
        return own(ends.meet())


def needed(name: str, source: Path | None) -> Path:
    """The rows of a party that must bring some."""
    if source is None:
        raise ConfigError(f"there are no rows of {name}: give --input {name}=FILE, or with --party {name} --input FILE")
    return source


def write_scores(scores: Scores, output: Path) -> None:
    """Store the scores as CSV, in one step."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(scores.header)
    writer.writerows(scores.rows)
    replace_file(output, text.getvalue().encode())


def _kind(settings: Any) -> Kind:
    kind = kinds.of(settings)
    if not hasattr(kind, "predictor"):
        raise ConfigError(f"kind {settings.kind} has no predict: its model.safetensors is whole, use it as it is")
    return cast(Kind, kind)


def _model(run: Path, name: str) -> dict[str, Any]:
    """A party's part of the model: of a run of all parties, or of its own."""
    whose = party_of(run) if run.is_dir() else None
    if whose is not None and whose != name:
        raise ConfigError(f"{run}: this is the run of {whose}, and not of {name}: name the right one")
    for path in (run / name / "model.safetensors", run / "model.safetensors"):
        if path.is_file():
            return read_model(path)
    raise ConfigError(f"{run}: there is no model of {name}: give the folder of a finished run with --run")
