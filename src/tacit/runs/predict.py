"""What a trained model says about new rows: every party here, or one of them over a network.

Each party brings its own part of the model, from the directory of its run, and its own rows. Only the active, or the
leader, gets the scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.config.source import ConfigError
from tacit.events import Sink
from tacit.kind import Predict, S, kind_of
from tacit.net.site import Site
from tacit.sections import Settings
from tacit.store.scores import Scores


def predict_of(settings: S) -> Predict[S]:
    """How parties of such a file predict; ConfigError for a kind whose model is whole."""
    predict = kind_of(settings).predict
    if predict is None:
        raise ConfigError(f"kind {settings.kind} has no predict: its model.safetensors is whole, use it as it is")
    return predict


def predict_here(settings: Settings, run: Path, sources: Mapping[str, Path], sink: Sink) -> Scores:
    """Predict with every party in this process."""
    return predict_of(settings).here(settings, run, sources, sink)


def predict_as(settings: Settings, name: str, run: Path, source: Path | None, site: Site, sink: Sink) -> Scores | None:
    """Be one party of a prediction over a network: the scores, if this party gets them."""
    return predict_of(settings).join(settings, name, run, source, site, sink)
