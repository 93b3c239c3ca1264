"""Directories of runs with known figures."""

import json
from pathlib import Path

from tacit import events
from tacit.runs.load import load
from tacit.store.directory import RunDirectory

NOW = 1_700_000_000.0
LAPLACE = {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": 230260}
DDP = {"encrypt_type": "DDP_ENCRYPT", **LAPLACE}
LOCAL = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1, "dp_delta": 1e-6}
UPDATES = {
    "covers": ["updates"],
    "view": "central",
    "unit": "client",
    "relation": "zero-out",
    "budget": None,
    "lines": [
        {"kind": "skellam", "count": 29, "variance": 9183422.5, "l2_sensitivity": 401.25, "l1_sensitivity": 16000.0}
    ],
    "epsilon": 2.5,
    "delta": 1e-05,
}
VECTORS = {
    "covers": ["inference vectors"],
    "view": "local",
    "unit": "client",
    "relation": "replace-one",
    "budget": None,
    "lines": [{"kind": "pure", "count": 240, "epsilon": 230260.0}],
    "epsilon": 55262400.0,
    "delta": 0.0,
}


def settings(**changed):
    base = {"kind": "horizontal", "name": "fleet", "task": "digits", "rounds": 6, "clients": 10}
    return load({**base, **changed})


def write(root: Path, made, happened, ledgers=None) -> Path:
    """The directory of a run with these settings, events and ledgers."""
    directory = RunDirectory.create(root, made, NOW, clock=lambda: NOW)
    for event in happened:
        directory.emit(event)
    directory.close()
    if ledgers is not None:
        (directory.path / "ledger.json").write_text(json.dumps({"version": 1, "ledgers": ledgers}))
    return directory.path


def finished(round, **changed):
    """A round whose every figure can be told from any other."""
    figures = {
        "survivors": 7,
        "refused": 3,
        "seconds": 61.25 + round,
        "bytes_up": 31337,
        "metrics": {"accuracy": 0.5 + 0.0625 * round, "loss": 2.25 - 0.125 * round},
        "training_loss": 3.375 - 0.25 * round,
        "epsilon": 0.5 * (round + 1),
        "delta": 1e-05,
        "update_norm": 0.875,
        "evaluation_epsilon": 1842080.0 * (round + 1),
        "bytes_down": 27182,
        "stages": {"fitting": 41.125, "unmasking": 20.0625},
    }
    return events.RoundFinished(round, **{**figures, **changed})


def whole(made, **changed):
    """A run of five rounds, of which the fourth changed nothing and the first could not be evaluated."""
    happened = [events.RunStarted(made.name, "horizontal", made.clients, made.rounds, made.encrypt.encrypt_type, 650)]
    for round in range(5):
        happened += [
            events.RoundStarted(round, 9),
            events.ClientRefused(round, 4242, "its shares are torn"),
            evaluated(round, None if round == 0 else 0.125 + 0.0625 * round),
            events.RoundAborted(3, "2 survivors of 5 needed", 17.75) if round == 3 else finished(round, **changed),
        ]
    return [*happened, events.RunFinished("done", 5, 321.5, "wound down slowly")]


def evaluated(round, score):
    return events.Evaluated(round, "SILHOUETTE_SCORE", score, "" if score else "only one lump", 7, 56, 10)
