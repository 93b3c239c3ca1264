"""What a file will cost and show: all of it, or one party's part over a network."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.kind import fingerprint, kind_of
from tacit.report.forecast import Forecast, PartyForecast
from tacit.report.party_forecast import Own
from tacit.runs.load import load
from tacit.runs.policy import views
from tacit.sections import Settings


def planned(settings: Settings) -> Forecast:
    """What the settings come to. The task may be made, for the size of its model; nothing is trained."""
    return kind_of(settings).forecast(settings)


def planned_for(settings: Settings, party: str, local: Local, folder: Path, state: Path | None) -> PartyForecast:
    """What `tacit join` will make of the file for this party. Nothing is trained, sent or written."""
    join = kind_of(settings).join
    if join is None:
        raise ConfigError(f"kind {settings.kind} has one party: leave out --party, --local and --state")
    networked = join.networked(settings)

    def same(run: Path) -> bool:
        return fingerprint(load(run / "config.yaml")) == fingerprint(networked)

    if local.policy is None:
        return join.forecast(networked, Own(party, local, folder, state, same))
    made = join.forecast(networked, Own(party, local, folder, state, same))
    client = re.fullmatch(r"client-(\d{1,9})", party)
    try:
        seat = join.seat(networked, party, None)
    except ConfigError:
        if client is None:
            raise
        seat = join.seat(networked, "client", client[1])
    said = tuple(views(networked, seat, local, folder, "FILE --party NAME --local SITE"))
    return replace(made, own={**made.own, "The site's own policy": said})
