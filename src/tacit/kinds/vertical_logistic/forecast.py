"""What a vertical logistic regression will cost and reveal, before any training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.kinds.vertical_logistic import boundary
from tacit.kinds.vertical_logistic.label_counts_words import label_count_costs, label_count_warnings
from tacit.kinds.vertical_logistic.protocol import batches, encoding
from tacit.kinds.vertical_logistic.protocol.checks import MEANINGFUL, fitting_train, row_uses
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared_forecast import shared_forecast
from tacit.report.forecast import Forecast, in_sentences


def forecast(
    settings: Settings,
    rows: int | None = None,
    features: Mapping[str, int] | None = None,
    outputs: int = 1,
    groups: Mapping[str, tuple[int, int]] | None = None,
    categories: Mapping[str, int] | None = None,
) -> Forecast:
    """The plan.

    Args:
        rows: those in common, if they are known.
        features: those of each party whose table is known.
        outputs: of the model: one for each class where there are more than two.
        groups: of each passive that needs counts of labels, in how many columns how many groups.
        categories: of each party how many of its features are indicators of a category or a bin.
    """
    features = features or {}
    if settings.shared:
        return shared_forecast(settings, rows, features, outputs, groups or {})
    train = settings.train
    kept = None if rows is None else len(batches.hold_out(rows, train.test, settings.seed)[0])
    title = (
        f"{settings.name}: {settings.active} with labels and {', '.join(settings.passives)}, {train.epochs} epochs in "
        f"batches of {train.batch}, Paillier of {settings.paillier.bits} bits"
    )
    figures: dict[str, Any] = {"epochs": train.epochs, "bits": settings.paillier.bits, "parties": len(settings.parties)}
    costs = _costs(settings, rows, kept, features, outputs, figures)
    warnings = _warnings(settings, kept, features) + _category_warnings(settings, categories or {})
    for name, (columns, count) in (groups or {}).items():
        if kept is not None:
            costs += label_count_costs(settings.active, name, kept, columns, count, settings.paillier.bits)
            warnings += label_count_warnings(settings.active, name, kept, columns, count)
    return in_sentences(
        title,
        {
            "Who sees what": tuple(boundary.sentences(settings)),
            "What is not protected": tuple(boundary.unprotected(settings)),
            "What it costs": tuple(costs),
            "Warnings": (*warnings, *settings.notes()),
        },
        figures,
    )


def step_bytes(settings: Settings, batch: int, features: int, outputs: int = 1) -> dict[str, int]:
    """Bytes of one step between the active and a passive, by message."""
    width = settings.paillier.bits // 4
    packed = encoding.ciphertexts(features, batch, settings.paillier.bits, outputs)
    return {
        "Scores": 8 * batch * outputs,
        "Residues": width * batch * outputs,
        "MaskedGradient": width * packed,
        "Decrypted": width * packed,
    }


def _costs(
    settings: Settings,
    rows: int | None,
    kept: int | None,
    features: Mapping[str, int],
    outputs: int,
    figures: dict[str, Any],
) -> list[str]:
    batch = settings.train.batch if kept is None else batches.largest(kept, settings.train.batch)
    found = []
    for name in settings.passives:
        if name not in features:
            continue
        sizes = step_bytes(settings, batch, features[name], outputs)
        figures[f"bytes of a step with {name}"] = sum(sizes.values())
        found.append(
            f"A step between {settings.active} and {name} takes {sum(sizes.values()):,} bytes: "
            + ", ".join(f"{message} {size:,}" for message, size in sizes.items())
            + "."
        )
        packed = encoding.ciphertexts(features[name], batch, settings.paillier.bits, outputs)
        found.append(
            f"In each step {name} raises {batch * outputs} ciphertexts to {features[name]} powers of "
            f"{encoding.FEATURE_BITS} bits each, and re-randomises and verifies {packed}."
        )
    found.append(f"In each step {settings.active} encrypts {batch * outputs} residues.")
    if kept is not None and rows is not None:
        steps = batches.steps(kept, settings.train.batch)
        figures |= {"rows": rows, "training rows": kept, "steps of an epoch": steps}
        found.append(f"An epoch has {steps} steps over {kept} of {rows} rows; {rows - kept} are held out.")
        if all(name in features for name in settings.passives):
            whole = 8 * (rows - kept) * outputs * len(settings.passives) + sum(
                steps * sum(step_bytes(settings, batch, features[name], outputs).values()) for name in settings.passives
            )
            figures["bytes of an epoch"] = whole
            found.append(
                f"An epoch takes about {whole:,} bytes over all parties, the run {whole * settings.train.epochs:,}."
            )
    return found


def _warnings(settings: Settings, kept: int | None, features: Mapping[str, int]) -> list[str]:
    train = settings.train
    smallest = train.batch if kept is None else batches.smallest(kept, train.batch)
    found = []
    for name in settings.passives:
        count = features.get(name)
        if count is None:
            continue
        if count == 0:
            found.append(f"{name} has no features: leave it out of the parties.")
            continue
        fitting = None if kept is None else fitting_train(kept, count, settings)
        if count >= smallest:
            verdict = f"{settings.active} will refuse to begin" if settings.checks.batch else "checks.batch is off"
            found.append(
                f"{name} has {count} features and batches have {smallest} rows: it could compute the labels from its "
                f"gradients; {verdict}; take {fitting or f'train.batch above {count}'}."
            )
        elif train.epochs + settings.checks.restarts > (allowed := row_uses(count, smallest)):
            verdict = f"{settings.active} will refuse to begin" if settings.checks.row_uses is None else "it may"
            found.append(
                f"Over {train.epochs} epochs {name} sees {count * train.epochs} numbers about batches of {smallest} "
                f"rows: it could compute labels from them; {verdict}; take "
                + (fitting or f"a larger train.batch or at most {max(0, allowed - settings.checks.restarts)} epochs")
                + "."
            )
        if count < MEANINGFUL:
            found.append(
                f"{name} has {count} features, below {MEANINGFUL}: it cannot tell residues that single out one row."
            )
    return found


def _category_warnings(settings: Settings, categories: Mapping[str, int]) -> list[str]:
    """Larger batches do not help here: a sum over a category is about that category alone."""
    found = []
    for name in settings.passives:
        if count := categories.get(name, 0):
            exact = "to within a few" if settings.secret_spread else "exactly"
            found.append(
                f"{name} has {count} columns of categories or bins: from one gradient it learns {exact} how many rows "
                f"of each have a label, and a larger train.batch does not help; equal scores show {settings.active} "
                f"which people of {name} are alike. Raise rare to merge small categories, or take protocol: shared."
            )
    return found
