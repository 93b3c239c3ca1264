"""The report of a client's own folder: what this site did, what it paid and what left it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from tacit.dp.accounting import reading
from tacit.kinds.horizontal import boundary
from tacit.kinds.horizontal.participation import Participant, Participation
from tacit.kinds.horizontal.report.single import footer, tone
from tacit.report import page
from tacit.report import page_sections as sections
from tacit.report.chart import Chart, Panel, Series
from tacit.report.figure import Figure, Report, slug, with_points
from tacit.report.markup import Markup, element, join
from tacit.report.numbers import cut, numbered, or_nothing, short, size
from tacit.report.page_sections import promise_card
from tacit.report.promises import Promise, promised

_COVER = page.Cover(frozenset(), frozenset())
_MOST_REASONS = 20
_REFUSALS = {
    "budget": "its budget does not pay for another answer",
    "request": "it was asked for what a client does not answer",
    "update": "its training gave nothing that can be sent: it left the round",
    "training": "its training or inference failed: what was sent is noise around nothing",
}


def participant(record: Participation, share: bool) -> Report:
    """The page, and the figures on it."""
    drawn = [] if share else _spending(record)
    parts = [
        ("rounds", "Taking part", None if share else _taking_part(record)),
        ("privacy", "Privacy", _privacy(record, page.figures(drawn, _COVER))),
        ("sent", "What left", None if share else _left(record)),
        ("refusals", "Refused", None if share else _refused(record)),
        ("boundary", "Who sees what", sections.boundary(boundary.of(record.settings), fields=share)),
        ("settings", "Settings", _settings(record, share)),
    ]
    whole = page.page(
        f"{record.settings.name}: report of {_whose(record)}",
        _headline(record, share),
        *_notices(record, share),
        *page.sections(parts),
        footer(),
    )
    return Report(whole, tuple(drawn))


def _whose(record: Participation) -> str:
    first, last = record.clients[0].name, record.clients[-1].name
    return first if len(record.clients) == 1 else f"{first} to {last}"


def _headline(record: Participation, share: bool) -> Markup:
    settings = record.settings
    badge = element("span", record.status, class_=f"badge {tone(record.status)}")
    parts = [_whose(record), settings.updates.label, f"{settings.clients:,} clients in all"]
    if record.started is not None:
        parts.append(f"{record.started.parameters:,} parameters")
    lines = [element("p", "" if share else join(badge, " "), " · ".join(parts))]
    if not share:
        lines.append(element("p", record.path.resolve().name))
    return join(page.header("Tacit client", settings.name, *lines), page.cards(*_cards(record, share)))


def _cards(record: Participation, share: bool) -> list[Markup]:
    found = [promise_card(promise) for promise in _promises(record, record.most)]
    if not record.settings.spends:
        found.append(page.card("ε", "none", "nothing that leaves a client has an ε", "bad"))
    if share:
        return found
    begun = {each.round for client in record.clients for each in client.rounds}
    uploads = sum(client.uploads for client in record.clients)
    sent = sum(client.bytes.total() for client in record.clients)
    refusals = sum(len(client.refusals) for client in record.clients)
    each = f"of {len(record.clients)} clients" if len(record.clients) > 1 else ""
    return [
        *found,
        page.card("Rounds", str(len(begun)), f"in which it took part, in a run of {record.settings.rounds}"),
        page.card("Uploads", str(uploads), each),
        page.card("Sent", size(sent), f"in {sum(c.messages.total() for c in record.clients):,} messages"),
        page.card("Refused", str(refusals), "by this site", "fair" if refusals else "plain"),
    ]


def _promises(record: Participation, client: Participant) -> list[Promise]:
    """What holds for one client: from its own ledgers, which also count what was paid and never left."""
    found = []
    for account in client.ledgers:
        words = {
            "local": "for replacing all its data, against everybody who sees its messages",
            "central": "for leaving its update out of the sums, against all who see the noisy sums",
            "composed": "for leaving its data out, against the coordinator, who sees the noisy sums and its vectors",
        }.get(account.view, "")
        made = list(promised(account))
        found += [replace(each, against=f"for {client.name}, {words}") for each in made] if words else made
    found.sort(key=lambda each: (" and " in each.what, each.what != "updates"))
    if record.settings.insecure:
        return [replace(each, epsilon=math.inf, reading=reading(math.inf)) for each in found]
    return found


def _notices(record: Participation, share: bool) -> list[Markup]:
    found = []
    if record.settings.insecure:
        found.append(
            page.notice("bad", "ε = ∞: this run protects nothing", "simulation.insecure_noise_seed fixes the noise.")
        )
    if share:
        found.append(
            page.notice(
                "plain",
                "This page is for sharing",
                "Left out, because no ε covers it: in which rounds the site took part, what it sent and when, what it "
                "refused, and how its run ended.",
            )
        )
        return found
    if any(refusal.why == "budget" for client in record.clients for refusal in client.refusals):
        found.append(page.notice("fair", "The privacy budget is spent", "This site answers no more."))
    if record.finished is not None and record.finished.text:
        found.append(page.notice("fair", f"The run ended: {record.finished.status}", record.finished.text))
    if record.starts > 1:
        found.append(
            page.notice("plain", f"This client was started {record.starts} times", "Its ledger holds what all paid.")
        )
    behind = [client.name for client in record.clients if client.counters.get("attempts", 0) > _last(client)]
    if behind:
        found.append(
            page.notice(
                "plain",
                "Something was paid that no event tells of",
                f"{', '.join(behind)}: the process ended between paying and sending, or refused after it had paid. "
                "The ledger counts it.",
            )
        )
    return found


def _last(client: Participant) -> int:
    return max((each.round + 1 for each in client.rounds), default=0)


# --- the sections


def _taking_part(record: Participation) -> Markup:
    model = page.paragraph(record.model)
    if not any(client.rounds for client in record.clients):
        return join(page.paragraph("It was not part of any round yet."), model)
    if len(record.clients) == 1:
        return join(_rounds(record.clients[0]), model)
    rows = [
        (
            client.name,
            numbered(sorted({each.round for each in client.rounds})),
            str(client.uploads),
            size(client.bytes.total()),
            str(len(client.refusals)),
            *(short(epsilon) for epsilon in _epsilons(record, client)),
        )
        for client in record.clients
    ]
    names = [promise.what for promise in _promises(record, record.most)]
    head = ["client", "rounds", "uploads", "sent", "refused", *(f"ε of {name}" for name in names)]
    return join(
        page.table(head, rows, label="Clients"),
        *(page.folded(f"The rounds of {client.name}", _rounds(client)) for client in record.clients if client.rounds),
        model,
    )


def _epsilons(record: Participation, client: Participant) -> list[float]:
    found = {promise.what: promise.epsilon for promise in _promises(record, client)}
    return [found.get(promise.what, 0.0) for promise in _promises(record, record.most)]


def _rounds(client: Participant) -> Markup:
    names = list(dict.fromkeys(name for each in client.rounds for name in each.epsilons))
    rows = [
        (
            str(each.round + 1),
            "yes" if each.uploaded else "no",
            *(or_nothing(each.epsilons.get(name)) for name in names),
            size(each.bytes.total()),
            ", ".join(each.messages),
        )
        for each in client.rounds
    ]
    head = ["round", "uploaded", *(f"ε of {name}" for name in names), "sent", "messages"]
    return page.table(head, rows, label=f"Rounds of {client.name}")


def _privacy(record: Participation, drawn: Markup) -> Markup:
    most = record.most
    made = _promises(record, most)
    found: list[Markup | None] = []
    if not record.settings.spends:
        found.append(page.paragraph("Nothing that leaves a client has an ε: what it tells is not bounded."))
    elif not made:
        found.append(page.paragraph("Nothing was released with an ε yet."))
    elif len(record.clients) > 1:
        alike = all(client.epsilon == most.epsilon for client in record.clients)
        words = f"These clients paid the same: {most.name} stands for all" if alike else f"{most.name} paid most"
        found.append(page.paragraph(f"{words}. Each has a ledger of its own."))
    found += [sections.promised(promise) for promise in made]
    found += [drawn]
    if len(record.clients) == 1:
        found.append(sections.ledgers(most.ledgers))
    else:
        for client in record.clients:
            if (table := sections.ledgers(client.ledgers)) is not None:
                found.append(page.folded(f"The ledger of {client.name}", table))
    return join(*found)


def _left(record: Participation) -> Markup:
    about = page.paragraph(
        "Everything that left, field by field, with how often such a message was sent and the bytes of the whole "
        "message. The connection itself adds its hello, confirmations and farewell; they hold names and counts."
    )
    if len(record.clients) == 1:
        return join(about, _fields(record, record.clients))
    each = [page.folded(f"What left {client.name}", _fields(record, [client])) for client in record.clients]
    return join(about, _fields(record, record.clients), *each)


def _fields(record: Participation, clients: Iterable[Participant]) -> Markup:
    messages: Counter[str] = sum((client.messages for client in clients), Counter())
    sizes: Counter[str] = sum((client.bytes for client in clients), Counter())
    rows = [
        (each.message, each.field, each.what, each.protection, f"{messages[each.message]:,}", size(sizes[each.message]))
        for each in boundary.releases(record.settings)
    ]
    head = ["message", "field", "what it is", "how it is protected", "sent", "bytes"]
    return page.table(head, rows, label="What left")


def _refused(record: Participation) -> Markup:
    found: Counter[tuple[str, str, str]] = Counter()
    rounds: dict[tuple[str, str, str], list[int]] = {}
    for client in record.clients:
        for refusal in client.refusals:
            key = client.name, _REFUSALS[refusal.why], cut(refusal.reason)
            found[key] += 1
            rounds.setdefault(key, []).append(refusal.round)
    if not found:
        return page.paragraph("Nothing: it did what it was asked, in every round.")
    rows = [
        (name, str(count), numbered(sorted(set(rounds[name, why, reason]))), why, reason)
        for (name, why, reason), count in found.most_common(_MOST_REASONS)
    ]
    if len(found) > _MOST_REASONS:
        rows.append(("", str(found.total() - sum(int(row[1]) for row in rows)), "", "other reasons", "see run.log"))
    return page.table(["client", "times", "rounds", "what", "why"], rows, label="Refused")


def _spending(record: Participation) -> list[Figure]:
    """Epsilon over rounds, of the client that paid most."""
    client = record.most
    found = []
    for name in dict.fromkeys(name for each in client.rounds for name in each.epsilons):
        points = tuple((each.round + 1, each.epsilons.get(name)) for each in client.rounds if each.uploaded)
        panel = Panel("ε", (Series(name, points, "violet"),), from_zero=True)
        words = f"What {client.name} paid so far."
        chart = Chart(f"epsilon-{slug(name)}", f"ε of the {name}", words, "round", (panel,))
        found.append(Figure(chart, frozenset({"epsilon"})))
    return with_points(found)


def _settings(record: Participation, share: bool) -> Markup:
    notes = record.settings.notes() if share else list(record.notes)
    return join(
        page.bullets(notes) if notes else None,
        *sections.stored(record.settings, record.environment, share),
    )
