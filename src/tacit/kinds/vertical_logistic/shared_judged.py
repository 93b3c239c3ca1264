"""How good a model on shares is, as curves and tables: from counts of held-out rows in groups, as no score is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.events import Curve, Event, Tabled
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.protocol.model import Model
from tacit.kinds.vertical_logistic.shared.held_out_figures import Figures
from tacit.kinds.vertical_logistic.shared.histogram import LEAST, Histogram
from tacit.lockstep.evaluation import HELD_OUT, evaluated

SECTION = f"{HELD_OUT}, in groups of more than {LEAST}"
GROUPED = " Rows of a group count with its mean score, as no score of a row is open."
_DRAWN = 6  # classes in one chart; all are in the table
_CHANCE = [[0.0, 0.0], [1.0, 1.0]]


@dataclass(frozen=True, slots=True, eq=False)
class JudgedOnShares:
    """What the active knows at the end.

    Args:
        figures: of the rows held out, if any were made.
        numbers: the training labels of a linear regression, which has no histogram; none of classes.
    """

    figures: Figures | None
    numbers: Floats

    def edges(self, model: Model) -> Floats | None:
        """Between tenths of held-out scores, by their ranks; of a linear regression between tenths of its labels."""
        if model.target is not None:
            return np.asarray(np.quantile(self.numbers, np.arange(1, 10) / 10))
        histograms = () if self.figures is None else self.figures.histograms
        return histograms[0].quantiles(10) if len(histograms) == 1 else None

    def events(self, model: Model) -> list[Event]:
        """Curves and tables of groups; a linear regression has figures only."""
        histograms = () if self.figures is None else self.figures.histograms
        if len(histograms) > 1:
            return several(histograms, model.classes)
        return two(histograms[0], model.classes) if histograms else []


def two(histogram: Histogram, classes: Sequence[str]) -> list[Event]:
    """The curves of two classes."""
    scores, labels = histogram.rows()
    found = evaluated(scores[:, None], labels, classes, held_out=True, linear=False)
    return [
        replace(event, section=SECTION, caption=event.caption + GROUPED)
        for event in found
        if isinstance(event, Curve | Tabled)
    ]


def several(histograms: Sequence[Histogram], classes: Sequence[str]) -> list[Event]:
    """Each class against all others: a ROC, and how many rows it has. No row's class is decided, so none is counted."""
    counts = [int(each.positive.sum()) for each in histograms]
    rows = int((histograms[0].positive + histograms[0].negative).sum())
    drawn = sorted(sorted(range(len(classes)), key=lambda code: -counts[code])[:_DRAWN])
    lines = {f"class {classes[code]}": np.stack(histograms[code].roc(), axis=1).tolist() for code in drawn}
    some = "" if len(classes) <= _DRAWN else f", the {_DRAWN} most frequent of {len(classes)}"
    caption = f"Each class against all others{some}. The table of classes has the area under each curve, AUC.{GROUPED}"
    axes = ("false positive rate", "true positive rate")
    roc = Curve("ROC", *axes, [], caption, {"chance": _CHANCE, **lines}, section=SECTION)
    told: list[list[str | float]] = [
        [name, count, f"{count / rows:.1%}", each.figures()["auc"]]
        for name, count, each in zip(classes, counts, histograms, strict=True)
    ]
    words = (
        f"How many of the {rows:,} rows are of each class, and how well its score tells it from all others.{GROUPED}"
    )
    return [roc, Tabled("Class balance", words, ["class", "rows", "share", "AUC"], told, SECTION)]
