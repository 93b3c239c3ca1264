"""The release boundary of a private training: one party, from which only the trained model goes out.

releases(settings)      what leaves the party; nothing but what its user hands on
sentences(settings)     the same for people: who sees what
unprotected(settings)   what stays open by nature
covered(settings)       which figures of a run an epsilon covers
"""

from __future__ import annotations

from tacit.boundary import Boundary, Release
from tacit.kinds.private_training.settings import Settings


def releases(settings: Settings) -> tuple[Release, ...]:
    """What may leave the party: the model, under its epsilon."""
    noise = "Laplace" if settings.noise.kind == "laplace" else "Gaussian"
    protection = f"clipped gradients with {noise} noise, tier {settings.privacy.tier}"
    return (
        Release(
            "model.safetensors", "all", "the weights after an epoch", protection, "party", "anyone who is given it"
        ),
        Release("report-share.html", "metrics", "figures on public data", protection, "party", "anyone who reads it"),
    )


def sentences(settings: Settings) -> tuple[str, ...]:
    """Who sees what."""
    whom = "a single record" if settings.privacy.unit == "record" else "a single owner, with all its records,"
    return (
        "Training stays with one party: nothing is sent.",
        f"Anyone who gets the model, or every model stored after an epoch, learns about {whom} no more than the "
        "epsilon allows. It counts on secret samples: it does not hold against a party that chose or saw them.",
        "This party sees its own losses while it trains: they are not covered by epsilon, and stay here.",
    )


def unprotected(settings: Settings) -> tuple[str, ...]:
    """What stays open."""
    found = [
        "The loss on private records, how many of them were clipped, how long steps took: epsilon covers none of it.",
        "Trying several settings on the same records and keeping the best one costs more than this ledger says.",
        "Records that belong to one person are protected one by one, not together."
        if settings.privacy.unit == "record"
        else "An owner under two ids is two owners, each of them protected by itself; so is a group of owners.",
        "The epsilon assumes that the loss and the model keep records apart, and that nothing but trained weights is "
        "written into the model. Both are checked at the first step and at secret later ones; a mistake that shows in "
        "none of these is not noticed.",
    ]
    if settings.privacy.tier == "fast":
        found.append(
            "Tier fast: noise and sums are floating-point numbers, whose last bits are not covered by the proof; tier "
            "secure adds whole numbers and is."
        )
    return tuple(found)


def covered(settings: Settings) -> frozenset[str]:
    """The model is covered, and so is what is measured of it on public data."""
    return frozenset({"metrics"})


def of(settings: Settings) -> Boundary:
    """All of it."""
    return Boundary(
        tuple(releases(settings)), tuple(sentences(settings)), tuple(unprotected(settings)), covered(settings)
    )
