"""What one party keeps to itself: the file given by `--local`. It is never sent and never compared.

    coordinator: 10.0.0.5:8443          where to find the coordinator, or the active or leader, if not as the file says
    bind: 0.0.0.0:8443                  where that party listens
    keys: {private: p.pem, certificate: c.pem, authority: a.pem, revoked: r.pem}     revoked: a revocation list, or none
    task_options: {path: data.npz}      added to those of the shared file; `data` of the task table: this party's table
    data: {path: bank.csv, id: id}      this party's table, in a vertical regression
    network: {patience: 600}            how this party treats its network, if not as the file says
    predict: {budget: 10000}            rows that this party answers with one model, if not as the file says
    metrics: {address: 127.0.0.1:9100}  where this party shows its state and its metrics; elsewhere than on this machine
                                        with certificate, private and token_file

Paths are relative to the file itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from tacit.config.explain import explain
from tacit.config.source import ConfigError, from_file
from tacit.config.spelling import Placed
from tacit.sections import Added, Address, Count, Network, Section


class Keys(Section):
    private: str
    certificate: str
    authority: str
    revoked: Annotated[str | None, Added("0.3.0")] = None


class Answering(Section):
    """What this party tells about new rows."""

    budget: Count | None = None  # rows with one model, over all predictions


class Metrics(Section):
    """Where this party shows its state to operators, over HTTP."""

    address: Annotated[Address, Added("0.3.0")]
    token_file: Annotated[str | None, Added("0.3.0")] = None  # without it no request is answered but from this machine
    certificate: Annotated[str | None, Added("0.3.0")] = None  # for HTTPS, with its private key
    private: Annotated[str | None, Added("0.3.0")] = None


class Local(Section):
    """One party's own settings."""

    coordinator: Address | None = None
    bind: Address | None = None
    keys: Keys | None = None
    task_options: dict[str, Any] = Field(default_factory=dict)
    data: dict[str, Any] | None = None
    network: Network | None = None
    predict: Answering | None = None
    metrics: Metrics | None = None


def load_local(path: Path | None) -> tuple[Local, Path]:
    """The settings, and the folder that their paths are relative to."""
    if path is None:
        return Local(), Path()
    placed = Placed(Local)
    placed.add(from_file(path))
    try:
        local = Local.model_validate(placed.data)
    except ValidationError as error:
        raise ConfigError("\n".join([*placed.conflicts, *explain(error, placed)])) from None
    return local, path.parent
