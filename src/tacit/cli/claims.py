"""`tacit audit --mechanism`, `--opacus` and `--flower`: the ε that other people's code claims."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.audit.claims.samples import Effort
    from tacit.audit.claims.verdict import ClaimAudit
    from tacit.dp.release import Relation


@dataclass(frozen=True, slots=True)
class ClaimOptions:
    """The options of `tacit audit` that are about the claims of others."""

    mechanism: str | None
    opacus: str | None
    flower: str | None
    epsilon: float | None
    delta: float | None
    relation: Relation | None
    confidence: float | None

    @property
    def given(self) -> list[str]:
        """Names of the options that were given, without `--`."""
        return [name for name in self.__slots__ if getattr(self, name) is not None]

    @property
    def code(self) -> tuple[str, str] | None:
        """The option that names the code, and its value."""
        named = {"mechanism": self.mechanism, "opacus": self.opacus, "flower": self.flower}
        found = [(name, value) for name, value in named.items() if value is not None]
        if len(found) > 1:
            raise ValueError("--mechanism, --opacus and --flower name one claim each: give one of them")
        if not found and self.given:
            raise ValueError(f"--{self.given[0]} needs one of --mechanism, --opacus and --flower")
        return found[0] if found else None


def page_of(options: ClaimOptions) -> Path:
    """Where the page goes, unless --output says another place: after the code's name."""
    found = options.code
    name = "claim" if found is None else Path(found[1]).resolve().name.replace(":", "-").replace(".", "-")
    return Path(f"{name}-audit.html")


def audit_claim(options: ClaimOptions, *, quick: bool, seed: int) -> ClaimAudit:
    """Load the code that the options name, and audit its claim. ValueError if the options or the code do not fit."""
    from tacit.audit.claims.samples import Effort

    found = options.code
    if found is None:
        raise ValueError("give one of --mechanism, --opacus and --flower")
    effort = Effort() if quick else Effort(learn=4000, choose=8000, judge=20_000, seconds=100.0)
    kind, name = found
    if options.confidence is not None and not 0.5 <= options.confidence < 1:
        raise ValueError(f"--confidence must be from 0.5 to below 1, got {options.confidence:g}")
    if options.relation is not None and kind != "flower":
        raise ValueError(f"--relation is for --flower: with --{kind} the relation is the one of the code")
    audit = {"mechanism": _mechanism, "opacus": _opacus, "flower": _flower}[kind]
    return audit(name, options, effort, seed)


def _mechanism(name: str, options: ClaimOptions, effort: Effort, seed: int) -> ClaimAudit:
    from tacit.audit.claims.mechanism import Mechanism, audit_mechanism

    if options.epsilon is None or options.delta is None:
        raise ValueError("--mechanism needs the claim: --epsilon and --delta (0 for pure differential privacy)")
    made = _read("mechanism", name, Mechanism.of, seed)
    return audit_mechanism(
        made,
        epsilon=options.epsilon,
        delta=options.delta,
        subject=name,
        confidence=_confidence(options),
        effort=effort,
    )


def _opacus(name: str, options: ClaimOptions, effort: Effort, seed: int) -> ClaimAudit:
    from tacit.audit.claims.opacus_training import Training, audit_training

    if options.delta is None:
        raise ValueError("--opacus needs --delta: an ε of DP-SGD holds at a δ")
    made = _read("opacus", name, Training.of, seed)
    return audit_training(
        made,
        subject=name,
        epsilon=options.epsilon,
        delta=options.delta,
        confidence=_confidence(options),
        effort=effort,
    )


def _flower(name: str, options: ClaimOptions, effort: Effort, seed: int) -> ClaimAudit:
    from tacit.audit.claims.flower_mods import audit_mods, component, mods_of
    from tacit.config.task import look_beside

    named, folder = component(name)
    look_beside(None if folder is None else folder / "pyproject.toml")
    mods = mods_of(_named("flower", named))
    _seed(seed)
    return audit_mods(
        mods,
        subject=name,
        epsilon=options.epsilon,
        delta=options.delta,
        relation=options.relation or "zero-out",
        confidence=_confidence(options),
        effort=effort,
    )


def _confidence(options: ClaimOptions) -> float:
    return 0.95 if options.confidence is None else options.confidence


def _named(kind: str, name: str) -> Any:
    """What `module:attribute` names."""
    from tacit.config.task import module_of

    if ":" not in name or name.startswith(":") or name.endswith(":"):
        raise ValueError(f"--{kind} {name}: name it as module:function")
    module, attribute = module_of(name, {}, "", what=f"--{kind}")
    return getattr(module, attribute)


def _read(kind: str, name: str, read: Any, seed: int) -> Any:
    """What the named function returns, read and checked."""
    from tacit.config.task import look_beside

    look_beside(None)
    function = _named(kind, name)
    _seed(seed)
    made = function()
    try:
        return read(made)
    except ValueError as error:
        raise ValueError(f"--{kind} {name}: {error}") from error


def _seed(seed: int) -> None:
    """Of the generators that others' code usually draws from, so that an audit can be repeated."""
    import random

    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 -- the generator of the audited code
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
