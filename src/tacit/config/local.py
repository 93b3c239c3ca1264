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
    policy: {epsilon: 3}                what this party takes part in at all, whatever a shared file asks for

Paths are relative to the file itself.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from tacit.config.explain import explain
from tacit.config.source import ConfigError, from_file
from tacit.config.spelling import Placed
from tacit.sections import Added, Address, Count, Delta, Network, Positive, Section


def _digest(text: str) -> str:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", text):
        raise ValueError("must be sha256: and 64 hexadecimal digits, as tacit approve prints them")
    return text


Digest = Annotated[str, AfterValidator(_digest)]


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

    address: Annotated[Address, Added("0.3.0", changes=True)]
    token_file: Annotated[str | None, Added("0.3.0")] = None  # without it, requests are answered from this machine only
    certificate: Annotated[str | None, Added("0.3.0")] = None  # for HTTPS, with its private key
    private: Annotated[str | None, Added("0.3.0")] = None


class Lifetime(Section):
    """The most that all runs under one ledger may cost together."""

    epsilon: Annotated[Positive, Added("0.3.0", changes=True)]
    delta: Annotated[Delta, Added("0.3.0", changes=True)]


class Policy(Section):
    """What a site takes part in. It can refuse what a shared file asks for, and never allows more than that file."""

    folder: Annotated[str | None, Added("0.3.0")] = None
    kinds: Annotated[tuple[str, ...] | None, Added("0.3.0")] = None
    encrypt_types: Annotated[tuple[str, ...] | None, Added("0.3.0")] = None
    epsilon: Annotated[Positive | None, Added("0.3.0")] = None
    delta: Annotated[Delta, Added("0.3.0")] = 1e-5
    without_epsilon: Annotated[tuple[str, ...] | None, Added("0.3.0")] = None
    lifetime: Annotated[Lifetime | None, Added("0.3.0")] = None
    tasks: Annotated[tuple[Digest, ...] | None, Added("0.3.0")] = None
    approve: Annotated[Literal["ask", "never"], Added("0.3.0")] = "never"

    @property
    def counts(self) -> bool:
        """Whether it limits any epsilon."""
        return self.epsilon is not None or self.lifetime is not None

    @model_validator(mode="after")
    def _has_a_place(self) -> Policy:
        if self.folder is None and (self.lifetime is not None or self.approve == "ask"):
            raise ValueError(
                "lifetime and approve: ask need a folder that outlives runs: add folder: PATH, such as "
                "/var/lib/tacit/site"
            )
        return self


class Local(Section):
    """One party's own settings."""

    coordinator: Address | None = None
    bind: Address | None = None
    keys: Keys | None = None
    task_options: dict[str, Any] = Field(default_factory=dict)
    data: dict[str, Any] | None = None
    network: Network | None = None
    predict: Answering | None = None
    metrics: Annotated[Metrics | None, Added("0.3.0")] = None
    policy: Annotated[Policy | None, Added("0.3.0")] = None


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
