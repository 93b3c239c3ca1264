"""What a reader of a report must not pass over."""

from __future__ import annotations

from tacit.kinds.horizontal.rounds_view import Rounds
from tacit.report import page
from tacit.report.figure import EPSILONS, Figure
from tacit.report.markup import Markup
from tacit.report.numbers import or_nothing
from tacit.report.page_sections import PRIVATE_SETTINGS


def notices(record: Rounds, cover: page.Cover, share: bool, left_out: list[Figure]) -> list[Markup]:
    """In the order in which they are to be read. `left_out`: figures that a page for sharing does not show."""
    found = []
    if record.settings.simulation.insecure_noise_seed is not None:
        found.append(
            page.notice(
                "bad",
                "ε = ∞: this run protects nothing",
                "simulation.insecure_noise_seed is set: anyone who knows the settings can compute the noise and the "
                "keys of this run, and remove them. Use it for tests and experiments only.",
            )
        )
    if share:
        found.append(_left_out(record, cover, left_out))
        return found
    if not record.rounds:
        found.append(page.notice("fair", "No round was finished", "There are no figures to show yet."))
    if record.budget_reached is not None:
        reached = record.budget_reached
        found.append(
            page.notice(
                "fair",
                "The privacy budget is spent",
                f"Round {reached.round + 1} was not begun: it would have brought the ε of {reached.of} to "
                f"{or_nothing(reached.epsilon)}, above the budget of {or_nothing(reached.budget)} at δ = "
                f"{or_nothing(reached.delta)}.",
            )
        )
    if record.finished is not None and record.finished.text:
        early = record.finished.status == "done"
        title = "The run ended early" if early else f"The run ended: {record.finished.status}"
        found.append(page.notice("plain" if early else "fair", title, record.finished.text))
    if record.resumed:
        times = "once" if record.resumed == 1 else f"{record.resumed} times"
        found.append(
            page.notice(
                "plain",
                f"The run was resumed {times}",
                "Rounds that were done again are shown as they came out the last time; what an abandoned one released "
                "is in the ledger. Times are those of the rounds.",
            )
        )
    return found


def _left_out(record: Rounds, cover: page.Cover, left_out: list[Figure]) -> Markup:
    titles = [figure.chart.title.lower() for figure in left_out if not figure.fields <= EPSILONS]
    others = ["who was refused and why", "counts of clients", "times", "how the run ended, in words"]
    if any(figure.fields <= EPSILONS for figure in left_out):
        others.append("how ε grew from round to round")
    return page.notice(
        "plain",
        "This page is for sharing",
        "Left out, because no ε covers it: "
        + "; ".join(dict.fromkeys([*titles, *others]))
        + ". These figures derive from private records or tell who took part, and anyone who has them may learn what ε "
        "does not bound.",
        f"Left out of the settings, because it may hold paths and addresses: {', '.join(PRIVATE_SETTINGS)}.",
        "ε itself is stated at the end of the run only: without it nothing here could be judged."
        if record.settings.spends
        else "Nothing in this run has an ε, so no figure of it is left.",
        *_hollow(cover),
    )


def _hollow(cover: page.Cover) -> list[str]:
    """A warning where something is shared under an epsilon that hides nothing."""
    names = {"metrics": "metrics", "update_norm": "size of the update", "score": "score"}
    found = [words for field, words in names.items() if field in cover.fields & cover.hollow]
    return [f"Think before you share: an ε that hides nothing covers {', '.join(found)}."] if found else []
