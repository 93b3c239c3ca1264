"""Whether words that a party receives are uniform, by their bytes.

guessed_bytes(words)    how often the commonest byte of each place comes up again
p_value(words)          of a χ² test of all places' bytes
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from tacit.audit.bounds import clopper_pearson
from tacit.audit.finding import Score

_CONFIDENCE = 0.9999
LEAST = 1e-9  # below this p-value words are called not uniform
_PLACES = 8  # bytes of a word; two words of 32 bits count as one


def guessed_bytes(words: bytes) -> Score:
    """The commonest byte of each place in the first half of the words, as a guess of the other half."""
    places = _places(words)
    half = len(places) // 2
    common = np.array([np.bincount(column, minlength=256).argmax() for column in places[:half].T])
    right, trials = int((places[half:] == common).sum()), places[half:].size
    low, high = clopper_pearson(right, trials, _CONFIDENCE)
    return Score("bytes of words guessed right", right / max(1, trials), low, high, _CONFIDENCE, 1 / 256, trials)


def p_value(words: bytes) -> float:
    """That uniform words are as uneven as these, by the bytes of each place."""
    places = _places(words)
    expected = len(places) / 256
    counts = np.stack([np.bincount(column, minlength=256) for column in places.T])
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(chi2.sf(statistic, counts.shape[0] * 255))


def _places(words: bytes) -> NDArray[np.uint8]:
    whole = len(words) // _PLACES * _PLACES
    return np.frombuffer(words[:whole], dtype=np.uint8).reshape(-1, _PLACES)
