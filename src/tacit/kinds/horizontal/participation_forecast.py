"""What a cap on participations does to a run, before it: how many clients reach it, and whether rounds lack clients."""

from __future__ import annotations

import math

from tacit.kinds.horizontal.bounded_participation import expected_samples
from tacit.kinds.horizontal.settings import Settings

MOST_DRAWS = 10**7  # of the sampling, to know who is asked how often


def chance_beyond_cap(settings: Settings) -> float:
    """That a client would be sampled more often than the cap allows, if each round samples uniformly without it."""
    most = settings.round.participations
    if most is None:
        return 0.0
    from scipy.stats import binom  # 0.4 s, for federations with a cap only

    return float(binom.sf(most, settings.rounds, settings.sampled / settings.clients))


def never_lacks(settings: Settings) -> bool:
    """Whether each round finds as many clients below the cap as it samples, no matter which ones were sampled before.

    Before the last round of rounds + abandoned_rounds, all others have uploaded at most `sampled` times each, and each
    client at the cap took N of these uploads.
    """
    most = settings.round.participations
    if most is None:
        return True
    return (settings.answers - 1) * settings.sampled // most <= settings.clients - settings.sampled


def advised_cap(settings: Settings) -> int | None:
    """The least cap that on average less than one client reaches before the last round; None if it saves nothing."""
    if settings.round.participations is not None or settings.sampled == settings.clients:
        return None
    part = settings.sampled / settings.clients
    from scipy.stats import binom

    most = int(binom.isf(1 / settings.clients, settings.rounds, part))
    allowed = settings.model_copy(update={"round": settings.round.model_copy(update={"participations": most})})
    return most if 1 <= most < settings.rounds and never_lacks(allowed) else None


def cap_in_words(settings: Settings) -> list[str]:
    """Who reaches the cap, for the plan; what one would save, if the file has none."""
    most, clients, sampled = settings.round.participations, settings.clients, settings.sampled
    if most is None:
        advised = advised_cap(settings) if settings.updates.masked and settings.updates.sized_for_rounds else None
        if advised is None:
            return []
        return [
            f"It is sized for {settings.rounds} sums, because a coordinator could ask one client in every round. With "
            f"round.participations: {advised} each client would take part {advised} times at most, which uniform "
            f"sampling hardly exceeds, and the noise would be about {math.sqrt(advised / settings.rounds):.2f} times "
            "as large."
        ]
    chance = chance_beyond_cap(settings)
    reach = clients * chance
    found = (
        f"Sampled uniformly, a client takes part in {settings.rounds * sampled / clients:.3g} of {settings.rounds} "
        f"rounds on average. The chance that it would be sampled more than {most} times is {chance:.2g}, which is "
        f"{f'{reach:.2g}' if reach < 10 else f'{reach:.0f}'} of {clients} clients: others are sampled in their place."
    )
    if never_lacks(settings):
        at_cap = (settings.answers - 1) * sampled // most
        found += (
            f" No round lacks clients for that: at most {at_cap} of {clients} can be at the cap before the last one, "
            f"with all {settings.round.abandoned_rounds} abandoned rounds."
        )
    return [found]


def lacking_clients(settings: Settings) -> list[str]:
    """Warnings: a cap that changes nothing, or leaves rounds without clients."""
    most, sampled = settings.round.participations, settings.sampled
    if most is None:
        return []
    if most >= settings.rounds:
        return [f"round.participations {most}: there are {settings.rounds} rounds, so that it changes nothing."]
    if never_lacks(settings):
        return []
    enough = -(-settings.answers * sampled // (settings.clients - sampled))
    remedy = f"raise it, {enough} is enough in any case." if enough < settings.rounds else "raise it, or leave it out."
    if settings.clients * settings.rounds > MOST_DRAWS:
        return [f"round.participations {most}: late rounds may lack clients that are below it: {remedy}"]
    sizes = [len(each) for each in expected_samples(settings)]
    if len(sizes) < settings.rounds:
        return [
            f"round.participations {most}: after {len(sizes)} of {settings.rounds} rounds fewer than {settings.least} "
            f"clients are below it, and the run ends there: {remedy}"
        ]
    if smaller := sum(size < sampled for size in sizes):
        return [
            f"round.participations {most}: {smaller} of {settings.rounds} rounds have fewer than {sampled} clients, "
            f"and one has {min(sizes)}, because the others are at the cap: {remedy}"
        ]
    return []
