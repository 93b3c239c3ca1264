"""One party's part in a file over a network, before it joins: how it joins, with which data, and what it paid so far.

described(settings, party, local, ...)     the plan as `join` will carry it out, and what is this party's own
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit import kind as kinds
from tacit.boundary import Forecast
from tacit.config.load import Settings, fingerprint, load
from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.kinds.horizontal.costs import Costs, Spent
from tacit.kinds.horizontal.forecast import Plan, plan
from tacit.kinds.horizontal.settings import Settings as Horizontal
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.net.site import own_credentials
from tacit.store.party_folder import party_of
from tacit.store.reading import Account, client_ledgers, ledgers

_MODES = {
    "active": "masks hold against a coordinator that cheats",
    "semi_honest": "the coordinator is trusted to follow the protocol",
}


@dataclass(frozen=True, slots=True)
class PartyPlan:
    """A plan, and what of it is one party's own: sentences under headings."""

    party: str
    sections: dict[str, tuple[str, ...]]
    plan: Plan | Forecast


@dataclass(frozen=True, slots=True)
class _Own:
    """What a party brings."""

    name: str
    local: Local
    folder: Path  # that the local file's paths are relative to
    state: Path | None  # of an earlier start


def described(settings: Settings, party: str, local: Local, folder: Path, state: Path | None) -> PartyPlan:
    """What `tacit join` will make of the file for this party. Nothing is trained, sent or written."""
    own = _Own(party, local, folder, state)
    if isinstance(settings, Horizontal):
        return _of_federation(settings.networked(), own)
    parties = getattr(settings, "parties", None)
    if parties is None:
        raise ConfigError(f"kind {settings.kind} has one party: leave out --party, --local and --state")
    if party not in parties:
        raise ConfigError(f"--party is {party!r}: give {' or '.join(parties)}")
    return _of_lockstep(settings, own)


# --- a federation


def _of_federation(settings: Horizontal, own: _Own) -> PartyPlan:
    identity = _identity(settings, own.name)
    task = tasks.make(
        settings.task, settings.clients, settings.seed, {**settings.task_options, **own.local.task_options}
    )
    layout = Layout.of(task.model())
    judged = tasks.infers(task, settings)
    costs = Costs(settings, layout.size)
    found: dict[str, tuple[str, ...]] = {f"{own.name}, over the network": tuple(_joining(settings, own, identity))}
    found["Its own data"] = tuple(_data(settings, own, task, identity))
    if so_far := _so_far(settings, own, costs, identity):
        found["What it paid so far" if settings.spends else "What it did so far"] = tuple(so_far)
    return PartyPlan(own.name, found, plan(settings, layout, judged.classes if judged else None))


def _identity(settings: Horizontal, party: str) -> int | None:
    """The client's number; None for the coordinator."""
    if party == "coordinator":
        return None
    found = re.fullmatch(r"client-(\d{1,9})", party)
    if found is None:
        raise ConfigError(
            f"--party is {party!r}: give coordinator, or client-K with K from 0 to {settings.clients - 1}"
        )
    if int(found[1]) >= settings.clients:
        raise ConfigError(f"--party is {party!r}: the file has client-0 to client-{settings.clients - 1}")
    return int(found[1])


def _joining(settings: Horizontal, own: _Own, identity: int | None) -> list[str]:
    who = "--party coordinator" if identity is None else f"--party client --id {identity}"
    found = [f"It joins with tacit join FILE {who}."]
    if settings.masked:
        found.append(f"Secure aggregation runs in mode {settings.mode}: {_MODES[settings.mode]}.")
    address = own.local.coordinator or settings.network.coordinator
    if address is None:
        found.append("The file does not say where the coordinator is: add network: {coordinator: HOST:PORT}.")
    elif identity is None:
        found.append(f"It listens on {own.local.bind or address}.")
    else:
        found.append(f"It connects to the coordinator at {address}.")
    found.append(_certified(own))
    if identity is not None:
        kept = "It keeps" if settings.share_model else "It does not keep"
        found.append(f"{kept} the last model that it was sent (share_model: {str(settings.share_model).lower()}).")
        found.append(
            f"It answers {settings.rounds} rounds, and at most {settings.answers} times if rounds are abandoned."
        )
    return found


def _certified(own: _Own) -> str:
    if own.local.keys is None:
        return "Its local file names no keys: `tacit keys` makes them, and on one machine --insecure does without."
    credentials = own_credentials(own.local, own.folder, own.name)
    return f"Its certificate is that of {credentials.name}, valid until {credentials.expires:%Y-%m-%d}."


def _data(settings: Any, own: _Own, task: Any, identity: int | None) -> list[str]:
    found = [_options(settings, own)]
    held = getattr(task, "held" if identity is not None else "public", None)
    if callable(held):  # what a task tells the audit of its records
        records = held(identity) if identity is not None else held()
        whose = "this client trains on" if identity is not None else "the coordinator judges models on"
        found.append(f"As the task tells it, {whose} {len(records):,} records.")
        if identity is not None and (most := _largest_weight(settings)) is not None and len(records) > most:
            found.append(
                f"That is more than pw_encrypt.largest_weight, {most:,}: it is refused in every round unless all "
                "parties raise it."
            )
    return found


def _largest_weight(settings: Any) -> int | None:
    """The most samples that a client may have; None where all weigh the same."""
    return settings.encrypt.pw_encrypt.largest_weight if settings.updates.weighted else None


def _options(settings: Any, own: _Own) -> str:
    name, options = settings.task, own.local.task_options
    if not options:
        return f"The task {name} is made with the options of the shared file: the local file adds none."
    replaced = sorted(options.keys() & settings.task_options.keys())
    words = ", ".join(f"{key}: {value}" for key, value in options.items())
    over = f"; {', '.join(replaced)} of the shared file {'is' if len(replaced) == 1 else 'are'} replaced"
    return f"The task {name} is made with these options of the local file: {words}{over if replaced else ''}."


# --- what was paid


def _so_far(settings: Horizontal, own: _Own, costs: Costs, identity: int | None) -> list[str]:
    counters, accounts = _counted(settings, own, identity)
    uploads = counters.get("uploads", 0)
    if identity is None:
        return [_account(each) for each in accounts] or ([_nothing(own)] if settings.spends else [])
    if not settings.spends:
        return [] if own.state is None else _sent(settings, counters, uploads) if uploads else [_nothing(own)]
    found = (
        [*_sent(settings, counters, uploads), *(_account(each) for each in accounts)] if uploads else [_nothing(own)]
    )
    return found + _further(settings, costs, counters)


def _sent(settings: Horizontal, counters: dict[str, int], uploads: int) -> list[str]:
    found = [f"It was sent the model {'once' if uploads == 1 else f'{uploads} times'}."]
    if settings.unpaid_sums:
        used = counters.get("repeats", 0)
        found.append(f"It used {used} of {settings.round.repeats} repeats (round.repeats): uploads for the same model.")
    return found


def _further(settings: Horizontal, costs: Costs, counters: dict[str, int]) -> list[str]:
    """What it may still upload, and what that costs."""
    answers, uploads, sums = (counters.get(name, 0) for name in ("attempts", "uploads", "sums"))
    found = []
    left = max(0, settings.answers - answers)
    beyond = _affordable(costs, uploads, sums, left)
    if beyond < left:  # by the file's budget, or by what the noise of the sums was sized for
        sized = costs.limit if settings.budget is None else None
        payer = "Its budget" if sized is None else f"{sized.key} {sized.epsilon:g}"
        found.append(
            f"{payer} pays for {beyond} more upload{'s' * (beyond > 1)}: after that it answers no more."
            if beyond
            else f"{payer} pays for no further upload: it answers no more."
        )
    if beyond:
        found += [f"One more upload: {_words(each)}." for each in costs.spent(uploads + 1, sums + 1)]
    if beyond > 1:
        most = costs.spent(uploads + beyond, min(sums + beyond, max(settings.rounds, sums)))
        found += [f"All {beyond} uploads that it may still make: {_words(each)}." for each in most]
    return found


def _nothing(own: _Own) -> str:
    if own.state is not None:
        return f"Nothing: {own.state} holds nothing of {own.name} yet."
    return "Its ledger begins at nothing: name the folder of an earlier start with --state DIR."


def _affordable(costs: Costs, uploads: int, sums: int, left: int) -> int:
    """How many of so many further uploads the budgets pay for."""
    low, high = 0, left
    while low < high:
        middle = (low + high + 1) // 2
        if costs.beyond(uploads + middle, sums + middle) is None:
            low = middle
        else:
            high = middle - 1
    return low


def _words(spent: Spent | Account) -> str:
    return f"{spent.view} epsilon of {' and '.join(spent.covers)} {spent.epsilon:.4g} at delta {spent.delta:.3g}"


def _account(account: Account) -> str:
    words = _words(account)
    return f"{words[:1].upper()}{words[1:]} (unit {account.unit}, {account.relation})."


def _counted(settings: Any, own: _Own, identity: int | None) -> tuple[dict[str, int], tuple[Account, ...]]:
    """The counters and ledgers of an earlier start."""
    folder = own.state
    if folder is None or not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return {}, ()
    if not (folder / "config.yaml").is_file():
        raise ConfigError(f"{folder}: this is not the folder of a run, it has no config.yaml: name that of {own.name}")
    whose = party_of(folder)
    if not _holds(whose, own.name, identity):
        raise ConfigError(f"{folder}: this is the run of {whose or 'all parties in one process'}, not of {own.name}")
    if fingerprint(load(folder / "config.yaml")) != fingerprint(settings):
        raise ConfigError(f"{folder}: its settings differ from those of the file, and `tacit join` would refuse them")
    return ({}, ledgers(folder)) if identity is None else client_ledgers(folder / f"client-{identity}.json")


def _holds(whose: str | None, party: str, identity: int | None) -> bool:
    """Whether the folder of `whose`, which may be several clients, is of this party."""
    several = re.fullmatch(r"client-(\d{1,9}) to (\d{1,9})", whose or "")
    if several and identity is not None:
        return int(several[1]) <= identity <= int(several[2])
    return whose == party


# --- parties in lock step


def _of_lockstep(settings: Any, own: _Own) -> PartyPlan:
    role = settings.parties[own.name].role
    hub = settings.hub
    address = own.local.coordinator or settings.parties[hub].address
    place = f"at {address}" if address else f"whose address the file does not name: add address: HOST:PORT to {hub}"
    found = [f"It is {role}, and joins with tacit join FILE --party {own.name}."]
    if own.name == hub:
        found.append(f"It listens on {own.local.bind or address or 'an address that the file does not name'}.")
    else:
        found.append(f"It connects to {hub}, {place}.")
    found.append(_certified(own))
    releases = kinds.of(settings).boundary.releases(settings)
    sent = [f"{each.message}.{each.field}: {each.what}, {each.protection}." for each in releases if each.sender == role]
    got = [
        f"{each.message}.{each.field}: {each.what}, {each.protection}." for each in releases if each.receiver == role
    ]
    sections = {f"{own.name}, over the network": tuple(found), "Its own data": (_table(settings, own),)}
    _, accounts = _counted(settings, own, None)
    if own.state is not None:
        sections["What it paid so far"] = tuple(_account(each) for each in accounts) or (_nothing(own),)
    sections |= {f"What leaves {own.name}": tuple(sent), f"What {own.name} receives": tuple(got)}
    return PartyPlan(own.name, sections, kinds.of(settings).forecast(settings))


def _table(settings: Any, own: _Own) -> str:
    if own.local.data is not None:
        return f"Its table is {own.local.data.get('path', 'not named')}, as its local file says."
    given = getattr(settings, "data", {}).get(own.name)
    if given is not None:
        return f"Its table is {given.path}, as the shared file says."
    if getattr(settings, "task", None) is not None:
        return _options(settings, own)
    return "No table is named: add data: {path: FILE, id: COLUMN} to its local file."
