"""Checking a pack of evidence, offline and without the party's data: `tacit verify PACK`.

    verified(path, public)                  every check of a pack that was signed with this key
    signer_of(pack, authority)              the key of the certificate in a pack, if this authority signed it

What the checks show is authorship and arithmetic: who signed, that nothing was changed since, that every epsilon is
what the listed events cost, and that the file, its boundary, its ledgers and its log fit each other. They do not show
that the run happened as it is told, or that it is all that was released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tacit.config.source import to_yaml
from tacit.dp.accounting import Ledger
from tacit.dp.release import number
from tacit.errors import PeerError
from tacit.events import Event, RunStarted, TrainingStarted
from tacit.kind import kind_of
from tacit.net.identity import Identity, identity_of
from tacit.report.recomputed import Check, check, same, stated
from tacit.report.statement import Facts, statement
from tacit.runs.evidence import plain_boundary, read_json, read_settings, shown_settings, without_names
from tacit.sections import Settings
from tacit.store.chain import START
from tacit.store.environment import package_digest
from tacit.store.pack import BadPack, Pack, read_pack
from tacit.store.shown_events import Chained, follow_chain
from tacit.version import __version__

_LARGEST_CONFIG = 1 << 18  # bytes
_DEEPEST = 32  # levels of settings
_OPENS = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_CLOSES = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)
_OF_LEDGER = ("against", "budget", "covers", "delta", "epsilon", "lines", "relation", "tier", "unit", "version", "view")
_KEYS = {  # that tacit evidence writes, of what is JSON
    "audit.json": ("confidence", "false_claims", "findings", "not_tested", "proved", "quick"),
    "environment.json": ("installed", "packages", "python"),
    "ledgers.json": ("ledgers",),
    "manifest.json": ("events", "files", "format", "kind", "made", "name", "party", "tacit"),
}
_NEEDED = ("config.yaml", "boundary.json", "ledgers.json", "events.jsonl", "environment.json", "statement.html")


@dataclass(frozen=True, slots=True)
class Verified:
    """What came out."""

    signer: str
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        return all(each.verdict != "does not hold" for each in self.checks)


def signer_of(pack: Pack, authority: bytes) -> Identity:
    """Who signed, by the certificate in the pack: raises BadPack unless this authority signed it, in time.

    `authority` must come from elsewhere: a pack that brought its own would prove nothing.
    """
    certificate = pack.files.get("certificate.pem")
    if certificate is None:
        raise BadPack("there is no certificate in the pack: give the signer's key with --public-key")
    try:
        return identity_of(certificate, authority, datetime.fromisoformat(str(pack.manifest.get("made"))))
    except (PeerError, ValueError) as error:
        raise BadPack(f"certificate.pem: {error}") from None


def verified(path: Path, *, public: bytes | None = None, authority: bytes | None = None) -> Verified:
    """Every check. Raises BadPack if the pack is none, was changed, or was signed by another key."""
    pack = read_pack(path)
    if authority is not None:
        signer = signer_of(pack, authority)
        public, who = signer.signing_public, f"{signer.name}, whose certificate that authority signed"
    elif public is not None:
        who = f"the holder of the key {public.hex()[:16]}…"
    else:
        raise ValueError("give the signer's public key, or the certificate of the authority")
    pack.check_signature(public)
    if missing := [name for name in _NEEDED if name not in pack.files]:
        raise BadPack(f"{missing[0]} is missing: this is no pack of tacit evidence")
    log = follow_chain(pack.files["events.jsonl"], _hex(pack.manifest, "begin"))
    checks = [
        Check("signature", "holds", f"signed by {who}; the pack says on {pack.manifest.get('made')}"),
        _files(pack),
        *_told(pack, log),
        *_figures(pack, log),
    ]
    return Verified(who, tuple(checks))


def _files(pack: Pack) -> Check:
    """Nothing is in the pack that no other check looks at: people would take it for checked."""
    strange = [f"file {name}" for name in sorted(pack.files.keys() - {*_NEEDED, "audit.json", "certificate.pem"})]
    for name, known in _KEYS.items():
        if name in pack.files or name == "manifest.json":
            data = pack.manifest if name == "manifest.json" else read_json(pack.files[name], name)
            strange += [f"{name}: {key}" for key in sorted(data.keys() - set(known))]
    if strange:
        text = f"Tacit {__version__} writes no {', no '.join(strange[:5])}"
        return Check("files", "not checked" if pack.manifest.get("tacit") != __version__ else "does not hold", text)
    return Check("files", "holds", f"{len(pack.files)} files are those of the manifest")


def _hex(manifest: Mapping[str, Any], name: str) -> bytes:
    try:
        found = bytes.fromhex(manifest["events"][name])
    except (KeyError, TypeError, ValueError):
        raise BadPack(f"manifest.json: events.{name} is no digest") from None
    if len(found) != 32:
        raise BadPack(f"manifest.json: events.{name} is no digest")
    return found


def _told(pack: Pack, log: Chained) -> Iterator[Check]:
    """The log, and the release it was made with."""
    events = pack.manifest.get("events", {})
    whole = log.end.hex() == events.get("end") and log.lines == events.get("lines")
    text = f"{log.lines} lines, {log.withheld} of them withheld, follow each other up to {log.end.hex()[:16]}…"
    yield check("chain of events", whole, text if whole else "the log ends before, or after, what the manifest says")
    if log.begin != START:
        yield Check(
            "events before the chain",
            "not checked",
            "a release before 0.3 wrote the first lines, and they are not shown",
        )
    installed = read_json(pack.files["environment.json"], "environment.json").get("installed")
    if not isinstance(installed, dict):
        raise BadPack("environment.json: installed does not say which release made the pack")
    theirs = installed.get("tacit"), installed.get("sha256")
    if theirs == (__version__, package_digest()):
        yield Check("package", "holds", f"the signer states the same source as is installed here: Tacit {__version__}")
    else:
        yield Check(
            "package",
            "not checked",
            f"the signer states Tacit {theirs[0]} with the digest {str(theirs[1])[:16]}…, here is {__version__}: "
            "install that release to compare",
        )


def _figures(pack: Pack, log: Chained) -> Iterator[Check]:
    """The file, what it says leaves a party, and every epsilon."""
    try:
        settings = read_settings(_yaml(pack.files["config.yaml"]))
        plain = without_names(settings)[0] == settings and _is_plain(pack, settings)
        own = plain_boundary(kind_of(settings).boundary(settings))
    except Exception as error:  # settings that nobody would run: what they break is not known ahead
        reason = " ".join(str(error).split())[:200]
        yield check("config.yaml", False, f"this release cannot read it: {reason}")
        return
    yield check(
        "config.yaml",
        plain,
        f"kind {settings.kind}, name {settings.name}" if plain else "it has keys or comments that a pack does not show",
    )
    release = read_json(pack.files["environment.json"], "environment.json")["installed"].get("tacit")
    about = tuple(pack.manifest.get(key) for key in ("kind", "name", "tacit"))
    named = about == (settings.kind, settings.name, release)
    text = "the run of config.yaml, and the release of environment.json"
    yield check("manifest", named, f"it {'names' if named else 'does not name'} {text}")
    stated = read_json(pack.files["boundary.json"], "boundary.json")
    if stated == own:
        yield Check("boundary", "holds", f"{len(own['releases'])} releases are those of this file")
    else:
        other = pack.manifest.get("tacit") != __version__
        yield Check(
            "boundary",
            "not checked" if other else "does not hold",
            f"it differs from what Tacit {__version__} says of this file"
            + (f"; the pack was made with {pack.manifest.get('tacit')}" if other else ""),
        )
    ledgers = read_json(pack.files["ledgers.json"], "ledgers.json").get("ledgers")
    yield from _ledgers(settings, ledgers)
    audit = read_json(pack.files["audit.json"], "audit.json") if "audit.json" in pack.files else None
    if audit is not None:
        yield _audit(audit)
    yield _page(pack, settings, ledgers, audit)
    if isinstance(ledgers, list):
        if ledgers and log.begin == START and not any(isinstance(e, RunStarted | TrainingStarted) for e in log.events):
            yield check("events", False, "they do not tell how the run began")
        yield from _of_events(settings, log.events, ledgers)


def _is_plain(pack: Pack, settings: Settings) -> bool:
    """Whether the file is what this release writes of its settings; another may write other defaults."""
    mine = to_yaml(shown_settings(settings)).encode() == pack.files["config.yaml"]
    return mine or pack.manifest.get("tacit") != __version__


def _yaml(data: bytes) -> dict[str, Any]:
    """Settings as `to_yaml` writes them: without aliases, which would stand for more than was ever written."""
    if len(data) > _LARGEST_CONFIG:
        raise ValueError(f"{len(data):,} bytes, settings have at most {_LARGEST_CONFIG:,}")
    try:
        depth = 0
        for token in yaml.scan(data, yaml.SafeLoader):
            depth += isinstance(token, _OPENS) - isinstance(token, _CLOSES)
            if depth > _DEEPEST or isinstance(token, yaml.AliasToken | yaml.TagToken):
                raise ValueError("it has an alias or a tag, or is too deep")
        found = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"this is not YAML: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("it holds no settings")
    return found


def _ledgers(settings: Settings, ledgers: Any) -> Iterator[Check]:
    if not isinstance(ledgers, list):
        yield check("ledgers", False, "ledgers.json holds no list")
        return
    if not ledgers:
        yield Check("ledgers", "holds", "there are none: no epsilon is stated")
    more = {key for each in ledgers if isinstance(each, dict) for key in each} - {*_OF_LEDGER}
    for key in sorted(more):
        yield Check(f"{key} of a ledger", "not checked", "the kind wrote it")
    for place, data in enumerate(ledgers, 1):
        try:
            yield _ledger(settings, data)
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
            yield check(f"ledger {place}", False, f"it cannot be priced: {error}")


def _ledger(settings: Settings, data: Mapping[str, Any]) -> Check:
    """Its epsilon against the least that the listed events cost, by any method of this release."""
    what = f"epsilon of {' and '.join(map(str, data['covers']))} ({data['view']})"
    stated = _epsilon(data)
    if math.isinf(stated):
        return Check(what, "holds", "infinite: it promises nothing")
    if settings.insecure:
        return check(what, False, f"{stated:.6g} is stated, and the file fixes the noise: it is infinite")
    ledger = Ledger.from_json({**data, "budget": data.get("budget")})
    delta = number(data["delta"])
    if not ledger.lines and data["view"] == "records":
        return Check(what, "not checked", f"{stated:.6g} is a limit; the events behind it are with each client")
    least = ledger.pure_epsilon() if delta == 0 else min(_priced(ledger, delta))
    holds = stated >= least or same(stated, least)
    times = sum(count for _, count in ledger.lines)
    text = f"{stated:.6g} at delta {delta:.3g} is stated; its {times:,} events cost {least:.6g}"
    return check(what, holds, text)


def _priced(ledger: Ledger, delta: float) -> Iterator[float]:
    for method in ("pld", "rdp"):
        try:
            yield ledger.epsilon(delta, method)
        except ValueError:
            continue  # this method has no price for one of the events
    yield math.inf


def _audit(audit: Mapping[str, Any]) -> Check:
    """What the signer states of an audit, against its own bounds: the attacks themselves are not made again."""
    try:
        wrong = [each["attack"] for each in audit["findings"] if each["refuted"] is not _refuted(each)]
        false = sum(each["refuted"] for each in audit["findings"])
        holds = not wrong and audit["false_claims"] == false
        text = f"{len(audit['findings'])} tested claims or rules, {false} found false, as the signer states"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return check("audit", False, f"these are no findings of an audit: {error!r}")
    return check("audit", holds, text if holds else f"its verdicts are not those of its bounds: {', '.join(wrong)}")


def _refuted(finding: Mapping[str, Any]) -> bool:
    proved, bound, curve = finding["proved"], finding["audited"], finding["curve"]
    above = bool(proved and bound) and _epsilon(bound) > _epsilon(proved)
    return bool(above or (curve and curve["refuted"]) or finding["broken"])


def _epsilon(data: Mapping[str, Any]) -> float:
    return math.inf if data["epsilon"] == "infinite" else number(data["epsilon"])


def _page(pack: Pack, settings: Settings, ledgers: Any, audit: Mapping[str, Any] | None) -> Check:
    """The page for auditors, made again of the files beside it: people sign it, and read nothing else."""
    packages = read_json(pack.files["environment.json"], "environment.json")
    if packages["installed"] != {"tacit": __version__, "sha256": package_digest()}:
        return Check("statement.html", "not checked", "another release made it: compare it with the files")
    about, boundary = pack.manifest, kind_of(settings).boundary(settings)
    try:
        facts = Facts(settings, boundary, str(about["party"]), ledgers, audit, packages, str(about["made"]))
        same_page = statement(facts).encode() == pack.files["statement.html"]
    except Exception:  # of files that no release wrote: what is wrong with them is told by the other checks
        same_page = False
    return check("statement.html", same_page, f"its answers are {'' if same_page else 'not '}those of the files")


def _of_events(settings: Settings, events: Sequence[Event], ledgers: Sequence[Any]) -> Iterator[Check]:
    kind = kind_of(settings)
    for event in events:
        if isinstance(event, RunStarted | TrainingStarted) and (event.kind, event.name) != (kind.name, settings.name):
            yield check("events", False, f"they are of {event.kind} {event.name}, and not of this file")
            return
    if kind.recompute is None:
        if ledgers or any(stated(events)):
            yield Check(
                "ledgers of the file", "not checked", f"the kind {kind.name} does not say what its epsilons come to"
            )
        return
    try:
        yield from kind.recompute(settings, events, ledgers)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        yield check("epsilons in events", False, f"they cannot be computed again: {error}")
