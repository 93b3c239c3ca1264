"""The report of one run."""

from __future__ import annotations

import statistics
from collections import Counter

from tacit.kinds.horizontal import boundary
from tacit.kinds.horizontal.report import figures
from tacit.kinds.horizontal.report.notices import notices
from tacit.kinds.horizontal.report.promises import hollow, promises, spent_on
from tacit.kinds.horizontal.report.scores import loss, pairs
from tacit.kinds.horizontal.rounds_view import Rounds
from tacit.kinds.horizontal.settings import Settings
from tacit.report import page
from tacit.report import page_sections as sections
from tacit.report.chart import number
from tacit.report.correlation import correlation
from tacit.report.figure import Report
from tacit.report.markup import Markup, element, join
from tacit.report.numbers import cut, duration, metric, numbered, or_nothing, percent, short, signed
from tacit.report.page_sections import promise_card
from tacit.report.promises import Promise
from tacit.version import __version__

_TONES: dict[str, page.Tone] = {"done": "good", "budget reached": "fair", "failed": "bad"}
_MOST_REASONS = 20


def single(record: Rounds, share: bool) -> Report:
    """The page, and the figures on it."""
    covered = boundary.covered(record.settings)
    allowed = covered if share else None
    losses = loss(record, covered=allowed)
    groups = {
        "learning": figures.learning(record),
        "scoring": figures.scoring(record, losses),
        "spending": figures.spending(record),
        "participation": figures.participation(record),
        "costs": figures.costs(record),
    }
    shown = {name: [each for each in found if not share or each.fields <= covered] for name, found in groups.items()}
    left_out = [each for found in groups.values() for each in found if share and not each.fields <= covered]
    made = promises(record)
    cover = page.Cover(covered, hollow(made))
    drawn = {name: page.figures(found, cover) for name, found in shown.items()}
    parts = [
        ("learning", "Learning", _learning(record, drawn["learning"], share, covered)),
        ("score", "Score", _score(record, drawn["scoring"], share, covered)),
        ("privacy", "Privacy", _privacy(record, made, drawn["spending"])),
        ("boundary", "Who saw what", sections.boundary(boundary.of(record.settings))),
        ("clients", "Clients", None if share else _clients(record, drawn["participation"])),
        ("costs", "Time and traffic", None if share else _costs(record, drawn["costs"])),
        ("settings", "Settings", _settings(record, share)),
    ]
    whole = page.page(
        f"{record.settings.name}: report",
        _headline(record, made, share, covered),
        *notices(record, cover, share, left_out),
        *page.sections(parts),
        footer(),
    )
    return Report(whole, tuple(each for found in shown.values() for each in found))


def footer() -> Markup:
    return element("footer", f"Made by tacit {__version__}. Rounds count from 1.")


def tone(status: str) -> page.Tone:
    """How a run's end is coloured."""
    return _TONES.get(status, "fair")


# --- the top of the page


def _headline(record: Rounds, made: list[Promise], share: bool, covered: frozenset[str]) -> Markup:
    settings = record.settings
    badge = element("span", record.status, class_=f"badge {tone(record.status)}")
    parts = [settings.updates.label, f"{settings.clients:,} clients"]
    if record.started is not None:
        parts.append(f"{record.started.parameters:,} parameters")
    if settings.vectors.protects:
        parts.insert(1, f"inference results with {settings.vectors.label} noise")
    lines = [element("p", "" if share else join(badge, " "), " · ".join(parts))]
    if not share:
        lines.append(element("p", record.path.resolve().name))
    return join(page.header("Tacit run", settings.name, *lines), page.cards(*_cards(record, made, share, covered)))


def _cards(record: Rounds, made: list[Promise], share: bool, covered: frozenset[str]) -> list[Markup]:
    found = []
    if not share or "metrics" in covered:
        found += _metric_cards(record)
    found += [promise_card(promise) for promise in made]
    if not record.settings.spends:
        found.append(page.card("ε", "none", "nothing that leaves a client has an ε", "bad"))
    if share:
        return [*found, page.card("Rounds", f"{record.settings.rounds}", "planned")]
    note = f"{len(record.aborted)} changed nothing" if record.aborted else ""
    found.append(page.card("Rounds", f"{len(record.rounds)} of {record.settings.rounds}", note))
    if record.rounds:
        of = [
            event.survivors / record.sampled[event.round] for event in record.rounds if record.sampled.get(event.round)
        ]
        mean = statistics.fmean(event.survivors for event in record.rounds)
        note = f"{percent(statistics.fmean(of))} of the sampled, on average" if of else "a round, on average"
        found.append(page.card("Survivors", short(mean, 3), note))
    rate = f"{short(record.seconds / len(record.rounds), 3)} s a round" if record.rounds else ""
    found.append(page.card("Time", duration(record.seconds), rate))
    return found


def _metric_cards(record: Rounds) -> list[Markup]:
    """The last values of accuracy and loss, or of the task's first two metrics."""
    names = list(dict.fromkeys(name for event in record.rounds for name in event.metrics))
    names.sort(key=lambda name: (name != "accuracy", name != "loss"))
    found = []
    for name in names[:2]:
        values = [value for event in record.rounds if (value := number(event.metrics.get(name))) is not None]
        if values:
            shown = metric(name, values[-1])
            best = f"at best {metric(name, max(values))}" if name == "accuracy" else ""
            found.append(page.card(name[:1].upper() + name[1:], shown, best or "after the last round"))
    return found


# --- the sections


def _learning(record: Rounds, drawn: Markup, share: bool, covered: frozenset[str]) -> Markup | None:
    if not record.rounds:
        return None if share else page.paragraph("No round was finished: nothing was learned yet.")
    if share and not covered & {"metrics", "update_norm"}:
        return None
    return join(drawn, page.folded("All rounds as a table", rounds_table(record, covered if share else None)))


def rounds_table(record: Rounds, covered: frozenset[str] | None) -> Markup:
    """Every figure of every round; only the covered ones if a set of them is given."""
    metrics = list(dict.fromkeys(name for event in record.rounds for name in event.metrics))
    scores = record.scores

    def shown(field: str) -> bool:
        return covered is None or field in covered

    columns: list[tuple[str, bool, list[str]]] = [("round", True, [str(event.round + 1) for event in record.rounds])]
    for name in metrics:
        columns.append(
            (
                name,
                shown("metrics"),
                [or_nothing(event.metrics[name]) if name in event.metrics else "" for event in record.rounds],
            )
        )
    columns += [
        ("training loss", shown("training_loss"), [or_nothing(event.training_loss) for event in record.rounds]),
        ("update norm", shown("update_norm"), [or_nothing(event.update_norm) for event in record.rounds]),
        ("score", shown("score"), [or_nothing(scores.get(event.round)) for event in record.rounds]),
        (f"ε of {spent_on(record)}", shown("epsilon"), [or_nothing(event.epsilon) for event in record.rounds]),
        (
            "ε of inference vectors",
            shown("evaluation_epsilon"),
            [or_nothing(event.evaluation_epsilon) for event in record.rounds],
        ),
        ("ε of both", shown("composed_epsilon"), [or_nothing(event.composed_epsilon) for event in record.rounds]),
        ("survivors", shown("survivors"), [str(event.survivors) for event in record.rounds]),
        ("refused", shown("refused"), [str(event.refused) for event in record.rounds]),
        ("seconds", shown("seconds"), [or_nothing(event.seconds) for event in record.rounds]),
    ]
    kept = [(name, cells) for name, allowed, cells in columns if allowed and any(cells)]
    rows = list(zip(*(cells for _, cells in kept), strict=True))
    return page.table([name for name, _ in kept], rows, numbers=True, label="All rounds")


def _score(record: Rounds, drawn: Markup, share: bool, covered: frozenset[str]) -> Markup | None:
    settings = record.settings
    if settings.unsupervised is None or (share and "score" not in covered):
        return None
    found = [page.paragraph(settings.vectors.scored(settings))]
    losses = loss(record, covered=covered if share else None)
    if record.scores and losses:
        found.append(page.paragraph(correlation_sentence(record, covered if share else None)))
    found.append(drawn)
    if not record.evaluations:
        found.append(page.paragraph("No round was evaluated."))
    missing = [(event.round, event.reason) for event in record.evaluations if event.score is None]
    if missing and not share:
        found += [element("h3", "Rounds that could not be evaluated"), _by_reason(missing)]
    return join(*found)


def _by_reason(events: list[tuple[int, str]]) -> Markup:
    """Rounds that failed, put together by why they did."""
    rounds: dict[str, list[int]] = {}
    for round, reason in events:
        rounds.setdefault(cut(reason), []).append(round)
    most = sorted(rounds.items(), key=lambda each: -len(each[1]))
    rows = [(reason, numbered(each)) for reason, each in most[:_MOST_REASONS]]
    if rest := most[_MOST_REASONS:]:
        rows.append((f"{len(rest)} other reasons: see run.log", numbered(sorted(r for _, each in rest for r in each))))
    return page.table(["why", "rounds"], rows)


def correlation_sentence(record: Rounds, covered: frozenset[str] | None) -> str:
    """How a run's score and loss go together."""
    losses = loss(record, covered=covered)
    if losses is None or (covered is not None and "score" not in covered):
        return "No loss may be set against the score here." if covered is not None else "There is no loss in this run."
    found = correlation(list(pairs(record, losses).values()))
    if found is None:
        return "Too few rounds, or figures that do not vary: no correlation of score and loss can be stated."
    return (
        f"Correlation of score and {losses.name}: Pearson {signed(found.pearson)}, Spearman {signed(found.spearman)} "
        f"(n = {found.pairs} models)."
    )


def _privacy(record: Rounds, made: list[Promise], drawn: Markup) -> Markup:
    found: list[Markup | None] = []
    if not record.settings.spends:
        found.append(page.paragraph(_no_epsilon(record.settings)))
    elif not made:
        found.append(page.paragraph("Nothing was released with an ε yet."))
    found += [sections.promised(promise) for promise in made]
    if made and not any(promise.unit == "client" for promise in made):
        found.append(
            page.paragraph("For a whole client nothing is promised: what all its records tell is not bounded.")
        )
    found += [drawn, sections.ledgers(record.ledgers)]
    return join(*found)


def _no_epsilon(settings: Settings) -> str:
    if settings.masked:  # without a promise, or it would not be asked
        return (
            "Single updates are hidden in the sum of all, and the sum has no ε: what it tells about a client is not "
            "bounded."
        )
    return "Nothing that leaves a client has an ε: what a run like this tells about a client is not bounded."


def _clients(record: Rounds, drawn: Markup) -> Markup:
    found = [drawn]
    if record.aborted:
        found.append(element("h3", "Rounds that changed nothing"))
        found.append(_by_reason([(event.round, event.reason) for event in record.aborted]))
    if record.blamed or record.disputed:
        found += [element("h3", "Clients that broke secure aggregation"), *_blamed(record), *_disputes(record)]
    found.append(element("h3", "Refused clients"))
    reasons = Counter(cut(event.reason) for event in record.refused).most_common()
    if not reasons:
        return join(*found, page.paragraph("None."))
    rows = [(str(count), reason) for reason, count in reasons[:_MOST_REASONS]]
    if rest := reasons[_MOST_REASONS:]:
        rows.append((str(sum(count for _, count in rest)), f"{len(rest)} other reasons: see run.log"))
    found.append(page.table(["times", "reason"], rows, label="Refused clients"))
    return join(*found)


def _blamed(record: Rounds) -> list[Markup]:
    """Who is proved to have lied."""
    if not record.blamed:
        return []
    shown = record.blamed[:_MOST_REASONS]
    rows = [
        (str(event.client), str(event.round + 1), "yes" if event.excluded else "no", cut(event.reason))
        for event in shown
    ]
    found = [page.table(["client", "round", "excluded", "what it did"], rows, label="Blamed clients")]
    if rest := len(record.blamed) - len(shown):
        found.append(page.paragraph(f"{rest} more: see run.log."))
    return found


def _disputes(record: Rounds) -> list[Markup]:
    """Between whom it cannot be told who lied."""
    if not record.disputed:
        return []
    complained = Counter(event.holder for event in record.disputed)
    peers: dict[int, set[int]] = {}
    for event in record.disputed:
        peers.setdefault(event.holder, set()).update(event.owners)
        for owner in event.owners:
            peers.setdefault(owner, set()).add(event.holder)
    most = sorted(peers, key=lambda client: (-len(peers[client]), client))[:_MOST_REASONS]
    rows = [(str(client), str(len(peers[client])), str(complained[client])) for client in most]
    said = (
        "Some clients said that the shares that others sealed for them are no good. One of each two lies, and nobody "
        "can tell which: nobody is excluded for it. Look first at the clients that are in dispute with many others."
    )
    return [
        page.paragraph(said),
        page.table(["client", "in dispute with", "rounds in which it complained"], rows, label="Disputes"),
    ]


def _costs(record: Rounds, drawn: Markup) -> Markup | None:
    if not record.rounds:
        return None
    return join(drawn, sections.stages([event.stages for event in record.rounds], "Stages of a round"))


def _settings(record: Rounds, share: bool) -> Markup:
    settings = record.settings
    noise = " Noise, masks and keys are drawn afresh." if settings.spends or settings.masked else ""
    fixes = f"The seed fixes the first model, splits, sampling and simulated faults.{noise}"
    notes = settings.notes() if share else list(record.notes)
    return sections.settings(settings, notes, fixes, record.environment, share)
