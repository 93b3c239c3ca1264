"""`tacit status`: how far a running party is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tacit.cli.asking import asked


@click.command("status")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def command(run: Path, as_json: bool) -> None:
    """Print how far the party is that runs in the folder RUN.

    RUN is the folder that --state named, or the run's folder under runs. It says what GET /status says: the state, the
    round and its stage, or the epoch and step; connected parties; ε, and what is left of the budget; the last success;
    until when certificates are valid. Only the user who started the party may ask.

    Exit codes: 0 done, 2 no party runs there.
    """
    told = asked(run, "status")
    if as_json:
        click.echo(json.dumps(told))
        return
    for name, words in lines(told):
        click.echo(f"{name:<13}{words}")


def lines(told: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What was told, as lines with a name each."""
    whose = told["party"] or "all parties in one process"
    yield "party", f"{whose} of a run of kind {told['kind']}, version {told['version']}"
    yield "state", f"{told['state']}, {'takes part' if told['ready'] else 'takes no part at the moment'}"
    for name in ("round", "epoch"):
        if told[name] is not None:
            of = f" of {told[f'{name}s']}" if told[f"{name}s"] is not None else ""
            stage = f", {told['stage']}" if name == "round" and told["stage"] else ""
            step = f", step {told['step']} of {told['steps']}" if name == "epoch" and told["step"] is not None else ""
            yield name if name == "round" else _counted(told["kind"]), f"{told[name]}{of}{stage}{step}"
    if told["needed"] is not None:
        yield "connected", f"{told['connected']}, at least {told['needed']} are needed"
    for of, epsilon in told["epsilon"].items():
        delta = f" (delta {_number(told['delta'][of])})" if of in told["delta"] else ""
        left = f", {_number(told['left'][of])} left of {_number(told['budget'])}" if of in told["left"] else ""
        yield "epsilon", f"{_number(epsilon)} of {of}{delta}{left}"
    yield "last success", told["last_success"] or "none yet"
    if told["started"]:
        yield "started", told["started"]
    for name, until in told["certificates"].items():
        yield "certificate", f"of the {name}: valid until {until}"


def _counted(kind: str) -> str:
    """What a training of this kind goes through one after another."""
    from tacit.config.source import ConfigError
    from tacit.events import EPOCHS
    from tacit.kind import find

    try:
        return find(kind).counted.one
    except ConfigError:  # the party runs in another environment, which has that kind
        return EPOCHS.one


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
