"""One party's part in a federation over a network, before it joins."""

from __future__ import annotations

import re
from typing import Any

from tacit.config.source import ConfigError
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.forecast import plan
from tacit.kinds.horizontal.plan_words import in_words
from tacit.kinds.horizontal.record_privacy import weighted
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.report.forecast import PartyForecast
from tacit.report.party_forecast import Own, account, certified, counted, nothing_paid, price, task_options

_MODES = {
    "active": "masks hold against a coordinator that cheats",
    "semi_honest": "the coordinator is trusted to follow the protocol",
}


def party_forecast(settings: Settings, own: Own) -> PartyForecast:
    """What `tacit join` will make of the file for the coordinator, or for a client."""
    identity = _identity(settings, own.name)
    task = tasks.make(
        settings.task, settings.clients, settings.seed, {**settings.task_options, **own.local.task_options}
    )
    tasks.check_private_fit(task, settings)
    layout = Layout.of(task.model())
    judged = tasks.infers(task, settings)
    costs = Costs(settings, layout.size)
    found: dict[str, tuple[str, ...]] = {f"{own.name}, over the network": tuple(_joining(settings, own, identity))}
    found["Its own data"] = tuple(_data(settings, own, task, identity))
    if so_far := _so_far(settings, own, costs, identity):
        found["What it paid so far" if settings.spends else "What it did so far"] = tuple(so_far)
    return PartyForecast(own.name, found, in_words(plan(settings, layout, judged.classes if judged else None)))


def _identity(settings: Settings, party: str) -> int | None:
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


def _joining(settings: Settings, own: Own, identity: int | None) -> list[str]:
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
    found.append(certified(own))
    if identity is not None:
        kept = "It keeps" if settings.share_model else "It does not keep"
        found.append(f"{kept} the last model that it was sent (share_model: {str(settings.share_model).lower()}).")
        found.append(
            f"It answers {settings.rounds} rounds, and at most {settings.answers} times if rounds are abandoned."
        )
        if (most := settings.round.participations) is not None:
            found.append(f"It uploads at most {most} times in the run, whatever it is asked (round.participations).")
    return found


def _data(settings: Settings, own: Own, task: Any, identity: int | None) -> list[str]:
    found = [task_options(settings.task, settings.task_options, own)]
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


def _largest_weight(settings: Settings) -> int | None:
    """The most samples that a client may have; None where all weigh the same."""
    return settings.encrypt.pw_encrypt.largest_weight if weighted(settings) else None


# --- what was paid


def _so_far(settings: Settings, own: Own, costs: Costs, identity: int | None) -> list[str]:
    counters, accounts = counted(own, identity)
    uploads = counters.get("uploads", 0)
    if identity is None:
        return [account(each) for each in accounts] or ([nothing_paid(own)] if settings.spends else [])
    if not settings.spends:
        return [] if own.state is None else _sent(settings, counters, uploads) if uploads else [nothing_paid(own)]
    found = (
        [*_sent(settings, counters, uploads), *(account(each) for each in accounts)] if uploads else [nothing_paid(own)]
    )
    return found + _further(settings, costs, counters)


def _sent(settings: Settings, counters: dict[str, int], uploads: int) -> list[str]:
    found = [f"It was sent the model {'once' if uploads == 1 else f'{uploads} times'}."]
    if settings.unpaid_sums:
        used = counters.get("repeats", 0)
        found.append(f"It used {used} of {settings.round.repeats} repeats (round.repeats): uploads for the same model.")
    if (most := settings.round.participations) is not None:
        sent = counters.get("sums", 0)
        over = ": it answers no more" if sent >= most else ""
        found.append(f"It uploaded {sent} of {most} times (round.participations){over}.")
    return found


def _further(settings: Settings, costs: Costs, counters: dict[str, int]) -> list[str]:
    """What it may still upload, and what that costs."""
    answers, uploads, sums = (counters.get(name, 0) for name in ("attempts", "uploads", "sums"))
    found = []
    left = max(0, settings.answers - answers)
    if (cap := settings.round.participations) is not None:
        left = max(0, min(left, cap - sums))
    beyond = costs.affordable(uploads, sums, left)
    if beyond < left:  # by the file's budget, or by what the noise of the sums was sized for
        sized = costs.limit if settings.budget is None else None
        payer = "Its budget" if sized is None else f"{sized.key} {sized.epsilon:g}"
        found.append(
            f"{payer} pays for {beyond} more upload{'s' * (beyond > 1)}: after that it answers no more."
            if beyond
            else f"{payer} pays for no further upload: it answers no more."
        )
    if beyond:
        found += [f"One more upload: {price(each)}." for each in costs.spent(uploads + 1, sums + 1)]
    if beyond > 1:
        most = costs.spent(uploads + beyond, min(sums + beyond, max(settings.most_sums, sums)))
        found += [f"All {beyond} uploads that it may still make: {price(each)}." for each in most]
    return found
