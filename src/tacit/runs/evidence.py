"""A pack from which anyone without the data can check a run's figures: `tacit evidence RUN`.

    make(run, output, key, certificate)     writes the pack, and returns what is in it

What it holds is what `tacit report --share` shows, and nothing else of the run: no paths, addresses or names of
parties, no time of an event, no figure that no epsilon covers, no finding about single records. Names of parties are
replaced by their roles. Of everything else in the log there is a digest (`store.chain`), so that the log cannot be
shortened.

    manifest.json, manifest.sig     every file with its digest, and the party's signature
    certificate.pem                 of the signer, if it gave one: to be checked against the authority's, from elsewhere
    config.yaml                     the settings, every default filled in
    boundary.json                   everything that leaves a party, and who sees what
    ledgers.json                    every ledger, with all its lines
    events.jsonl                    the log, in part
    audit.json                      which claims were attacked, with bounds; no scores, no pictures
    environment.json                versions, and a digest of the installed package
    statement.html                  answers to the questions of auditors, with a place to sign
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.boundary import Boundary
from tacit.config.source import ConfigError, to_yaml
from tacit.crypto.signing import SigningKey
from tacit.dp.release import number
from tacit.kind import find, kind_of
from tacit.report.page_sections import PRIVATE_SETTINGS
from tacit.report.statement import Facts, statement
from tacit.runs.report import read_run
from tacit.sections import Settings
from tacit.store.environment import environment, package_digest
from tacit.store.files import json_file
from tacit.store.pack import write_pack
from tacit.store.party_folder import CLIENT, Store, read_intact
from tacit.store.record import Record
from tacit.store.shown_events import allowed_fields, follow_chain, shown
from tacit.version import __version__

AUDIT = "audit.json"  # in a run's folder, next to the page that `tacit audit RUN` writes
_TESTED = ("adversary", "protection", "proved", "curve", "watched", "refuted")  # of a finding
_COUNTED = re.compile(r"\b\d[\d,]* ((planted )?(records?|owners?)|rows?|federations)\b")  # in words about a protection
# Of each event the fields that are always shown: nothing in them depends on who took part, or on private records.
SHOWN: Mapping[str, frozenset[str]] = {
    name: allowed_fields(fields)
    for name, fields in {
        "RunStarted": ("name", "kind", "clients", "rounds", "protection", "parameters"),
        "RunResumed": ("round", "abandoned"),
        "RoundStarted": ("round",),
        "RoundFinished": (
            "round",
            "epsilon",
            "delta",
            "epsilon_of",
            "evaluation_epsilon",
            "composed_epsilon",
            "composed_delta",
        ),
        "RoundAborted": ("round",),
        "BudgetReached": ("round", "epsilon", "budget", "delta", "of"),
        "Evaluated": ("round", "eval_type"),
        "TrainingStarted": ("name", "kind", "parties", "epochs", "protection", "parameters"),
        "TrainingResumed": ("epoch",),
        "EpochFinished": ("epoch", "epsilon", "delta"),
        "Answered": ("client", "round", "epsilons", "deltas"),
        "RunFinished": ("rounds", "unit"),
    }.items()
}


@dataclass(frozen=True, slots=True)
class Made:
    """What a pack holds."""

    path: Path
    lines: int  # of the log
    withheld: int  # of them, that show nothing
    ledgers: int
    findings: int


def make(run: Path, output: Path, key: SigningKey, certificate: bytes | None = None) -> Made:
    """Write the pack of a run. ConfigError or ValueError, in a sentence, if the run cannot be read."""
    record = read_run(run)
    settings, names = without_names(record.settings)
    covered = record.boundary.covered
    events, begin = shown((run / "events.jsonl").read_bytes(), lambda line: _allowed(line, covered))
    ledgers = [_renamed(each, names) for each in _ledgers(record)]
    audit = _audit(run / AUDIT, names)
    boundary = kind_of(settings).boundary(settings)
    versions = environment()
    packages = {
        "python": versions["python"],
        "packages": record.environment and {k: v for k, v in record.environment.items() if k in versions["packages"]},
        "installed": {"tacit": __version__, "sha256": package_digest()},
    }
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    files = {
        "config.yaml": to_yaml(shown_settings(settings)).encode(),
        "boundary.json": json_file(plain_boundary(boundary)),
        "ledgers.json": json_file({"ledgers": ledgers}),
        "events.jsonl": events,
        "environment.json": json_file(packages),
        **({"audit.json": json_file(audit)} if audit is not None else {}),
        **({"certificate.pem": certificate} if certificate is not None else {}),
    }
    followed = follow_chain(events, begin)
    party = names.get(record.party or "", record.party or "all parties in one process")
    facts = Facts(settings, boundary, party, ledgers, audit, packages, made_at)
    files["statement.html"] = statement(facts).encode()
    about = {
        "tacit": __version__,
        "made": made_at,
        "kind": settings.kind,
        "name": settings.name,
        "party": party,
        "events": {"lines": followed.lines, "begin": begin.hex(), "end": followed.end.hex()},
    }
    write_pack(output, files, about, key)
    return Made(output, followed.lines, followed.withheld, len(ledgers), len(audit["findings"]) if audit else 0)


def _allowed(line: Mapping[str, Any], covered: frozenset[str]) -> frozenset[str]:
    kind = str(line.get("event"))
    always = SHOWN.get(kind)
    return frozenset() if always is None else always | (covered & line.keys())


def without_names(settings: Settings) -> tuple[Settings, dict[str, str]]:
    """The settings as others may see them: parties are called by their roles; and which name became which role."""
    data = shown_settings(settings)
    parties = getattr(settings, "parties", None)
    names: dict[str, str] = {}
    if parties is not None:
        roles = [party.role for party in parties.values()]
        for number, (name, party) in enumerate(parties.items()):
            earlier = roles[:number].count(party.role)
            names[name] = party.role if roles.count(party.role) == 1 else f"{party.role}-{earlier + 1}"
        data["parties"] = {names[name]: {"role": party.role} for name, party in parties.items()}
    return read_settings(data), names


def read_settings(data: Mapping[str, Any]) -> Settings:
    """Settings of a pack; ValueError if this release has no such kind, or they are none."""
    found: Settings = find(data.get("kind"), "config.yaml: ").settings.model_validate(dict(data))
    return found


def shown_settings(settings: Settings) -> dict[str, Any]:
    """Those that are for sharing, as plain data: of parties their roles, no paths, addresses, options or seeds."""
    data = settings.model_dump(mode="json", fallback=lambda value: f"<{type(value).__name__}>")
    kept = {key: value for key, value in data.items() if key not in PRIVATE_SETTINGS}
    if "engine" in data:
        kept["engine"] = {key: value for key, value in data["engine"].items() if key != "address"}
    if "parties" in data:
        kept["parties"] = {name: {"role": party["role"]} for name, party in data["parties"].items()}
    return kept


def plain_boundary(boundary: Boundary) -> dict[str, Any]:
    return {
        "releases": [asdict(each) for each in boundary.releases],
        "sees": list(boundary.sees),
        "unprotected": list(boundary.unprotected),
        "covered": sorted(boundary.covered),
    }


def _ledgers(record: Record[Settings]) -> list[dict[str, Any]]:
    """All ledgers of a folder as they were stored: those of a client over a network are in its own file. Of several
    clients, of one that paid no less than any other: all promise the same."""
    whole = (Store(record.path).intact_ledger() or {}).get("ledgers", [])
    clients = [
        (read_intact(path, CLIENT) or {}).get("ledger", {}).get("ledgers", [])
        for path in sorted(record.path.glob("client-*.json"))
        if not path.stem.endswith(".copy")
    ]
    return [dict(each) for each in [*whole, *max(clients, key=_most_paid, default=[])]]


def _most_paid(ledgers: Sequence[Mapping[str, Any]]) -> list[float]:
    epsilons = [math.inf if each["epsilon"] == "infinite" else number(each["epsilon"]) for each in ledgers]
    return sorted(epsilons, reverse=True)


def _renamed(ledger: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    covers = [_called(what, names) for what in ledger["covers"]]
    return {**ledger, "covers": covers}


def _called(what: str, names: Mapping[str, str]) -> str:
    """`records of bank` with the role in the place of the name."""
    head, of, name = what.rpartition(" of ")
    return f"{head}{of}{names[name]}" if of and name in names else what


def _audit(path: Path, names: Mapping[str, str]) -> dict[str, Any] | None:
    """Which claims were attacked, and the bounds that were found.

    Scores are about private records, and stay. So do texts that name parties, clients or numbers of records: of broken
    rules there is the number, and of what was not tested each sentence without a number or a name.
    """
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        tested = [each for each in found["findings"] if each.get("audited") or each.get("curve") or each.get("watched")]
        plain = {said.partition(":")[0] for said in found["not_tested"]}
        named = re.compile("|".join([r"\d", *(rf"\b{re.escape(name)}\b" for name in names)]))
        return {
            "quick": found["quick"],
            "proved": [_promise(each, names) for each in found["proved"]],
            "confidence": found["confidence"],
            "findings": [_finding(each) for each in tested],
            "false_claims": len(found["false_claims"]),
            "not_tested": sorted(said for said in plain if not named.search(said)),
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: these are no findings of an audit ({error}): run tacit audit again") from None


def _promise(proved: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    head, comma, rest = proved["against"].partition(",")
    return {**proved, "what": _called(proved["what"], names), "against": f"{_called(head, names)}{comma}{rest}"}


def _finding(found: Mapping[str, Any]) -> dict[str, Any]:
    bound = found["audited"]
    return {
        "attack": found["attack"].partition(";")[0],
        **{name: found[name] for name in _TESTED},
        "protection": _COUNTED.sub(r"some \1", found["protection"]),
        "audited": bound and {name: bound[name] for name in ("epsilon", "delta", "confidence")},
        "broken": len(found["broken"]),
    }


def read_json(data: bytes, name: str) -> dict[str, Any]:
    """A JSON file of a pack."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: this is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{name}: it holds no fields")
    return found


__all__ = [
    "AUDIT",
    "SHOWN",
    "Made",
    "make",
    "plain_boundary",
    "read_json",
    "read_settings",
    "shown_settings",
    "without_names",
]
