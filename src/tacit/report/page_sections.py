"""Parts of a report that every kind has: what a promise means, the ledger, who saw what, stages, settings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.boundary import Boundary
from tacit.config.source import to_yaml
from tacit.dp.accounting import strength
from tacit.report import page
from tacit.report.chart import number
from tacit.report.markup import Markup, element, join
from tacit.report.numbers import percent, short
from tacit.report.promises import Promise, against, explained
from tacit.store.reading import Account

PRIVATE_SETTINGS = ("task_options", "network", "parties", "data", "seed")  # paths, addresses, and who was sampled


def promised(promise: Promise) -> Markup:
    """A promise in words."""
    if math.isinf(promise.epsilon):
        return page.paragraph(element("strong", f"ε of the {promise.what}: ∞"), " — ", explained(promise))
    lead = element("strong", f"ε of the {promise.what}: {short(promise.epsilon)} at δ = {short(promise.delta, 3)}")
    return page.paragraph(lead, f" — {strength(promise.epsilon)}. It holds {against(promise)}. ", explained(promise))


def ledgers(found: tuple[Account, ...]) -> Markup | None:
    """Every event of every ledger."""
    if not found:
        return None
    rows = []
    for account in found:
        for line in account.lines:
            others = ", ".join(
                f"{key} {short(value) if isinstance(value, int | float) else value}"
                for key, value in line.items()
                if key not in ("kind", "count") and value is not None
            )
            rows.append(
                (
                    " and ".join(account.covers),
                    account.view,
                    f"{account.unit}, {account.relation}",
                    str(line.get("kind", "")),
                    f"{line['count']:,}" if isinstance(line.get("count"), int) else "",
                    f"{others}, tier {account.tier}" if account.tier else others,
                )
            )
    head = element("h3", "Ledger")
    table = page.table(["covers", "view", "unit, relation", "event", "times", "parameters"], rows, label="Ledger")
    return join(head, table)


def boundary(found: Boundary, *, fields: bool = True) -> Markup:
    """Who saw what, what is not protected, and all that left a party, unless the page has its `fields` elsewhere."""
    releases = found.releases
    senders = list(dict.fromkeys(each.sender for each in releases))
    whose = f"a {senders[0]}" if len(senders) == 1 else "a party"
    head = ["message", "field", "what it is", "how it is protected"]
    rows = [[each.message, each.field, each.what, each.protection] for each in releases]
    if len(senders) > 1:
        head = ["from", "to", *head]
        rows = [[each.sender, each.receiver, *row] for each, row in zip(releases, rows, strict=True)]
    return join(
        page.bullets(found.sees),
        element("h3", "What is not protected"),
        page.bullets(found.unprotected),
        page.folded(
            f"Everything that leaves {whose}, field by field ({len(rows)})",
            page.table(head, rows, label=f"What leaves {whose}"),
        )
        if rows and fields
        else None,
    )


def stages(found: Sequence[Mapping[str, float]], label: str) -> Markup | None:
    """How long each stage took."""
    names = list(dict.fromkeys(name for each in found for name in each))
    if not names:
        return None
    whole = math.fsum(number(seconds) or 0.0 for each in found for seconds in each.values())
    rows = []
    for name in names:
        seconds = [number(each.get(name)) or 0.0 for each in found]
        part = percent(math.fsum(seconds) / whole) if whole else ""
        rows.append((name, short(statistics.median(seconds), 3), short(max(seconds), 3), part))
    return page.table(["stage", "median, s", "longest, s", "share"], rows, numbers=True, label=label)


def settings(found: Any, notes: Sequence[str], fixes: str, environment: Mapping[str, str], share: bool) -> Markup:
    """The settings, and how to run them again. `fixes`: what the seed fixes."""
    name = getattr(found, "task", None) or ""
    task = f" The task {name} must be importable." if ":" in name else ""
    return join(
        page.bullets(notes) if notes else None,
        page.paragraph("The same settings run again with:"),
        page.code("tacit run config.yaml"),
        page.paragraph(f"{fixes}{task}"),
        *stored(found, environment, share),
    )


def stored(found: Any, environment: Mapping[str, str], share: bool) -> list[Markup | None]:
    """The settings with every default, and the versions; of what is for sharing, neither places nor versions."""
    data = found.model_dump(mode="json", fallback=lambda value: f"<{type(value).__name__}>")
    if share:
        data = {key: value for key, value in data.items() if key not in PRIVATE_SETTINGS}
        if "engine" in data:
            data["engine"] = {key: value for key, value in data["engine"].items() if key != "address"}
    versions = page.table(["what", "version"], list(environment.items()), label="Environment")
    return [
        page.folded("config.yaml, with every default filled in", page.code(to_yaml(data))),
        None if share or not environment else page.folded("Environment", versions),
    ]


def promise_card(promise: Promise, run: str = "") -> Markup:
    tone: page.Tone = "good" if promise.epsilon <= 3 else "fair" if promise.epsilon <= 10 else "bad"
    at = "" if promise.delta == 0 or math.isinf(promise.epsilon) else f"at δ = {short(promise.delta, 3)}: "
    label = f"{run}: ε of {promise.what}" if run else f"ε of {promise.what}"
    return page.card(label, short(promise.epsilon, 3), f"{at}{strength(promise.epsilon)}", tone)
