"""A horizontal federation on Flower (extra `flower`): a `ServerApp` and a `ClientApp` made from a file.

    server_app(file), client_app(file)      what an app directory names
    node        one client on a SuperNode, a stage at a time: its state is bytes between two messages
    once        what a client has answered, on its own disk
    fleet       the coordinator over Flower's grid
    project     the app directory that `flwr run` takes

The parties are those of `tacit.kinds.horizontal`, unchanged. Flower carries the frames; it does not say whose keys are
whose: it signs a timestamp, not what is sent. So clients show certificates of `tacit keys`, and sign the keys of each
round.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

TELEMETRY_OFF = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
MISSING = "Flower is not installed: pip install 'tacit-learning[flower]'"


def server_app(file: str | Path) -> Any:
    """The coordinator of a file, as Flower's `ServerApp`."""
    from tacit.flower.apps import make_server_app

    return make_server_app(Path(file))


def client_app(file: str | Path) -> Any:
    """A client of a file, as Flower's `ClientApp`. Which one it is, the SuperNode's own configuration says."""
    from tacit.flower.apps import make_client_app

    return make_client_app(Path(file))
