"""Log odds as points of a scorecard, and back.

`points` at odds of `odds` good ones to one bad one, and `pdo` more whenever these odds double:
points = offset - factor · log odds of the bad class, with factor = pdo / ln 2 and offset = points - factor · ln odds.
Source: Siddiqi, Credit Risk Scorecards, 2006, chapter 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.fixedpoint import Floats


@dataclass(frozen=True, slots=True)
class Points:
    """A scale of points. `slope`: points for 1 of the log odds of the second class."""

    offset: float
    slope: float

    @classmethod
    def of(cls, points: float, odds: float, pdo: float, *, good: int = 0) -> Points:
        """The scale of a file or a command. `good`: the number of the class that has more points, 0 or 1."""
        if not (math.isfinite(points) and 0 < odds < math.inf and 0 < pdo < math.inf):
            raise ValueError(
                f"points {points:g}, odds {odds:g} and pdo {pdo:g}: give finite numbers, odds and pdo above 0"
            )
        factor = pdo / math.log(2)
        return cls(points - factor * math.log(odds), factor if good else -factor)

    def points(self, log_odds: Floats) -> Floats:
        """Of the log odds of the second class."""
        return self.offset + self.slope * log_odds

    def log_odds(self, points: Floats) -> Floats:
        """Of the second class."""
        return (points - self.offset) / self.slope
