"""A site's own policy: what a party may take part in, and what its site has left.

    checked(...)        before a run's folder is made or its task imported: kind, type, tasks, approval
    charged(...)        while a party takes part: reserves what its run may come to, and counts what it pays
    views(...)          what both would say, in sentences for `tacit plan`
    code_of(settings)   digests of the code that a file would run
    plan_digest(...)    what an approval is of

A join that the policy does not allow ends before anything is sent. What is reserved is what the run comes to if nothing
interrupts it. The limit itself is kept at each payment, before anything leaves that it pays for: what is beyond the
reservation is reserved first, or nothing leaves.

The ledger is changed under a lock, so that of two parties that ask for the last of a budget one is refused. A payment
reaches the run's own folder first and the site's ledger second: killed in between, the folder says more, and the next
payment, which is of everything so far, brings the ledger up to it. A folder that says less was put back to an earlier
time, and would answer twice for one price: it is refused.

The limits are those of an operator who keeps to them: who can edit the local file or the site's folder can lift them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit.config.load import fingerprint_without, flat
from tacit.config.local import Lifetime, Local, Policy
from tacit.config.source import ConfigError
from tacit.config.task_source import Source, sources
from tacit.dp.lifetime import Plain, Together, at, covers, larger, together, within
from tacit.errors import BudgetError
from tacit.kind import Most, Paid, Seat, fingerprint, kind_of
from tacit.sections import Settings
from tacit.store.files import write_twice
from tacit.store.party_folder import CLIENT, LEDGER, read_intact
from tacit.store.site_ledger import Entry, SiteLedger, approved, changed, checked_folder, held, read

ACCOUNT = "account.json"  # in a run's folder: under which id, of which ledger, its site counts it
_TOLERANCE = 1 + 1e-9  # of a limit: what was calibrated to it meets it


@dataclass(slots=True)
class Outcome:
    """How a party's part ended, for its site's ledger."""

    over: bool = False  # nothing more will be paid
    paid: Paid = lambda ledgers: None


# --- before anything else


def checked(policy: Policy | None, settings: Settings, seat: Seat, folder: Path, again: str) -> None:
    """ConfigError if the policy does not allow to join at all. No code of the task is run. `again`: the words after
    `tacit approve`."""
    if policy is None:
        return
    if len(seat.clients) > 1:
        raise ConfigError("--id: a policy is of one client: start one process for each")
    _check_names(policy, settings)
    _check_code(policy, settings)
    check_approved(policy, settings, seat, folder, again)
    if policy.lifetime is not None:
        read(folder_of(policy, folder))


def check_approved(policy: Policy | None, settings: Settings, seat: Seat, folder: Path, again: str) -> None:
    """ConfigError if the operator is to be asked, and did not approve this plan with this code."""
    if policy is None or policy.approve != "ask":
        return
    if plan_digest(settings, seat) not in approved(folder_of(policy, folder)):
        raise ConfigError(
            f"policy.approve: this plan, with this code, was not approved at this site: tacit approve {again}"
        )


def check_uncounted(policy: Policy | None, settings: Settings, what: str) -> None:
    """ConfigError where a policy limits an epsilon that `what` a party is about to do would not count."""
    if policy is None:
        return
    _check_names(policy, settings)
    _check_code(policy, settings)
    if policy.counts and not _named(policy, settings):
        raise ConfigError(
            f"policy: it counts what tacit join pays, and not {what}: add {settings.kind} to policy.without_epsilon if "
            "that may go uncounted"
        )


def _check_code(policy: Policy, settings: Settings) -> None:
    if policy.tasks is None:
        return
    for each in code_of(settings):
        if each.digest not in policy.tasks:
            raise ConfigError(
                f"policy.tasks: the {each.what} has the digest {each.digest}, which is not among the "
                f"{len(policy.tasks)} that this site allows: read the code, and add it to the local file"
            )


def _check_names(policy: Policy, settings: Settings) -> None:
    if policy.kinds is not None and settings.kind not in policy.kinds:
        raise ConfigError(f"policy.kinds: this site does not take part in kind {settings.kind}: {_list(policy.kinds)}")
    protection = _protection(settings)
    if protection and policy.encrypt_types is not None and protection not in policy.encrypt_types:
        raise ConfigError(
            f"policy.encrypt_types: this site does not take part with encrypt_type {protection}: "
            f"{_list(policy.encrypt_types)}"
        )


def _list(names: Sequence[str]) -> str:
    return f"only with {', '.join(names)}" if names else "it takes part in none"


def _protection(settings: Settings) -> str:
    join = kind_of(settings).join
    return "" if join is None else join.protection(settings)


def _named(policy: Policy, settings: Settings) -> bool:
    """Whether it may run though it promises no epsilon."""
    return bool({settings.kind, _protection(settings)} & set(policy.without_epsilon or ()))


def folder_of(policy: Policy, folder: Path) -> Path:
    """Where the site keeps its ledger; `folder` is that of the local file."""
    if policy.folder is None:
        raise ConfigError("policy.folder is missing: name a folder that outlives runs, such as /var/lib/tacit/site")
    return folder / policy.folder


def code_of(settings: Settings) -> tuple[Source, ...]:
    """The code that a file would run, by digests."""
    return sources(getattr(settings, "task", None), settings.model_dump(mode="json", fallback=lambda value: ""))


def plan_digest(settings: Settings, seat: Seat) -> str:
    """Of everything that the operator approves: the whole file but for its network, the party, and the code."""
    free = {key for key, _ in flat(settings) if key.partition(".")[0] == "network"}
    about = [fingerprint_without(free, settings), seat.name, *sorted(each.digest for each in code_of(settings))]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


# --- while it takes part


@contextmanager
def charged(settings: Settings, seat: Seat, local: Local, folder: Path, run: Path) -> Iterator[Outcome]:
    """Reserve what the run may come to, and count what it pays. ConfigError if the policy does not allow it."""
    policy, outcome = local.policy, Outcome()
    if policy is None or not policy.counts:
        yield outcome
        return
    most = _most(policy, settings, seat, local, folder)
    if most is None:
        yield outcome
        return
    if policy.lifetime is None:
        outcome.paid = lambda ledgers: _check_run(policy, ledgers, BudgetError)
        yield outcome
        return
    site = folder_of(policy, folder)
    with _unless_unwritable(site):
        checked_folder(site)
    stored = _stored(run, seat)
    id = _known_id(run, read(site))
    fresh = id is None
    id = id or os.urandom(16).hex()
    with held(site, id):
        entry = _entry(settings, seat, id, most)
        with _unless_unwritable(site):
            _reserve(site, policy.lifetime, entry, stored, run)
            if fresh:
                write_twice(run / ACCOUNT, {"version": 1, "id": id, "site": read(site).site})
        outcome.paid = _payer(site, policy, policy.lifetime, id)
        try:
            yield outcome
        finally:
            with suppress(ConfigError, OSError):  # what stays reserved is counted: too much, and never too little
                _closed(site, id, outcome.over)


def _most(policy: Policy, settings: Settings, seat: Seat, local: Local, folder: Path) -> tuple[Plain, ...] | None:
    """What a run comes to; None for a party whose data is not private. ConfigError if one run may not cost that."""
    join = kind_of(settings).join
    found = Most() if join is None else join.most(settings, seat, local, folder)
    if found is None:
        return None
    promises = any(each["epsilon"] for each in found.ledgers)
    if (found.uncovered or not promises) and not _named(policy, settings):
        name = _protection(settings) or settings.kind
        what = f"sends {' and '.join(found.uncovered)} under no epsilon" if promises else "promises no epsilon"
        raise ConfigError(
            f"policy: this run {what}, and the policy limits it: add {name} to policy.without_epsilon if it may run "
            "all the same"
        )
    if not promises:
        return ()
    _check_run(policy, found.ledgers, ConfigError)
    return tuple(found.ledgers)


def _check_run(policy: Policy, ledgers: Sequence[Plain], error: Callable[[str], Exception]) -> None:
    """Raise unless each ledger of one run is within the policy's limit."""
    if policy.epsilon is None:
        return
    for each in ledgers:
        epsilon = at(each, policy.delta)
        if epsilon > policy.epsilon * _TOLERANCE:
            raise error(
                f"policy.epsilon: the {each['view']} epsilon of {' and '.join(each['covers'])} of this run would be "
                f"{_shown(epsilon)} at delta {policy.delta:.3g}, and this site allows {policy.epsilon:g}: nothing is "
                "sent"
            )


def _shown(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"


def _stored(run: Path, seat: Seat) -> list[Plain]:
    """What the run's own folder says that this party paid."""
    if seat.clients:
        found = read_intact(run / f"{seat.name}.json", CLIENT) or {}
        found = found.get("ledger", {})
    else:
        found = read_intact(run / "ledger.json", LEDGER) or {}
    return list(found.get("ledgers", []))


def _known_id(run: Path, site: SiteLedger) -> str | None:
    """Under which id the site counts a run; None for a run that it does not count yet."""
    account = read_intact(run / ACCOUNT, frozenset())
    if account is None:
        return None
    id = account.get("id")
    if account.get("site") != site.site or id not in site.runs:
        raise ConfigError(
            f"{run}: this run was counted by a ledger that is not the one in policy.folder, or was put back to an "
            "earlier time since: put the ledger back as it was, or start a new run"
        )
    return str(id)


def _entry(settings: Settings, seat: Seat, id: str, most: tuple[Plain, ...]) -> Entry:
    now = time.time()
    code: tuple[str, ...] = ()
    with suppress(ConfigError):  # code that the policy does not name may be where no file is found
        code = tuple(each.digest for each in code_of(settings))
    return Entry(
        id,
        settings.name,
        settings.kind,
        _protection(settings),
        seat.name,
        fingerprint(settings),
        code,
        now,
        now,
        most,
        (),
        "open",
    )


def _reserve(site: Path, lifetime: Lifetime, entry: Entry, stored: Sequence[Plain], run: Path) -> None:
    with changed(site) as ledger:
        before = ledger.runs.get(entry.id)
        if before is not None:
            if not within(before.paid, stored):
                raise ConfigError(
                    f"{run}: this run's folder is older than the site's ledger: it was put back to an earlier time, or "
                    "a copy was resumed. It would answer twice for one price: take the later folder, or start anew"
                )
            entry = replace(entry, began=before.began)
        paid = larger(stored, before.paid if before is not None else ())
        entry = replace(entry, most=tuple(larger(entry.most, paid)), paid=tuple(paid))
        _check_lifetime(ledger, lifetime, entry, ConfigError)
        ledger.runs[entry.id] = entry


def _check_lifetime(
    ledger: SiteLedger, lifetime: Lifetime, entry: Entry, error: Callable[[str], Exception]
) -> tuple[Together, Together]:
    """What all runs come to without this one and with it; raises if that is beyond the limit."""
    others = [each.counted for id, each in ledger.runs.items() if id != entry.id]
    after = together([*others, entry.counted], lifetime.delta)
    before = together(others, lifetime.delta)
    if after.epsilon > lifetime.epsilon * _TOLERANCE and any(each["epsilon"] for each in entry.counted):
        why = " (the deltas of what is promised come to more than that)" if math.isinf(after.epsilon) else ""
        raise error(
            f"policy.lifetime: with this run the epsilon of all runs of this site would be {_shown(after.epsilon)} at "
            f"delta {lifetime.delta:.3g}{why}, of which {_shown(before.epsilon)} is spent or reserved by others, and "
            f"the limit is {lifetime.epsilon:g}: nothing is sent"
        )
    return before, after


def _payer(site: Path, policy: Policy, lifetime: Lifetime, id: str) -> Paid:
    """Counts what a run paid, before anything leaves for it."""

    def pay(ledgers: Sequence[Mapping[str, Any]]) -> None:
        _check_run(policy, ledgers, BudgetError)
        with changed(site) as ledger:
            entry = ledger.runs.get(id)
            if entry is None or not within(entry.paid, ledgers):
                raise BudgetError("the site's ledger was changed during this run: nothing is sent")
            most = entry.most
            if entry.state != "open" or not covers(most, ledgers):
                most = tuple(larger(most, ledgers))
            paid = replace(entry, most=most, paid=tuple(ledgers), last=time.time(), state="open")
            if most is not entry.most:
                _check_lifetime(ledger, lifetime, paid, BudgetError)
            ledger.runs[id] = paid

    return pay


def _closed(site: Path, id: str, over: bool) -> None:
    """Give back what was reserved and not paid, of a run that is over or has paid nothing. A run that is resumed asks
    for it again."""
    with changed(site) as ledger:
        entry = ledger.runs.get(id)
        if entry is not None and entry.state == "open" and (over or not entry.paid):
            ledger.runs[id] = replace(entry, state="closed", last=time.time())


@contextmanager
def _unless_unwritable(site: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{site}: the site's ledger cannot be written there ({error.strerror}): nothing is sent"
        ) from None


# --- in words


def views(settings: Settings, seat: Seat, local: Local, folder: Path, again: str) -> list[str]:
    """What the policy will say to a join."""
    policy = local.policy
    if policy is None:
        return []
    found = []
    try:
        checked(policy, settings, seat, folder, again)
        most = _most(policy, settings, seat, local, folder) if policy.counts else None
        if policy.epsilon is not None and most:
            largest = max(at(each, policy.delta) for each in most)
            found.append(f"A run may cost epsilon {policy.epsilon:g}; this one comes to {largest:.4g} at most.")
        if policy.lifetime is not None and most is not None:
            ledger = read(folder_of(policy, folder))
            before, after = _check_lifetime(ledger, policy.lifetime, _entry(settings, seat, "", most), ConfigError)
            found.append(
                f"All runs of this site may cost epsilon {policy.lifetime.epsilon:g} at delta "
                f"{policy.lifetime.delta:.3g}: {before.epsilon:.4g} before this run, {after.epsilon:.4g} if it is new."
            )
    except ConfigError as error:
        return [*found, f"Refused. {error}."]
    return [*found, "Allowed."]


def settled(site: Path, id: str) -> None:
    """Give back by hand what a run reserved and did not pay. A run that is resumed all the same asks for it again."""
    with changed(site) as ledger:
        found = [each for each in ledger.runs if each.startswith(id)] if len(id) >= 4 else []
        if len(found) != 1:
            raise ConfigError(f"--settle: {id!r} is not the id of one run: take it from tacit ledger SITE")
        with held(site, found[0]):
            ledger.runs[found[0]] = replace(ledger.runs[found[0]], state="settled")
