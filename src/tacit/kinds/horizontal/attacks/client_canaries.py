"""Canaries in what a client of a horizontal file sends: the client's own code, and the model that the file trains.

An attacker would choose updates that are easiest to recognise. Here the client's training returns such an update, in
one tensor of the model or in all of them, and far longer than the clipping norm. Everything after the training is the
client's own: clipping, noise from the operating system, encoding. Noise that leaves out a tensor, or a part of one,
shows, and so do tensors that are clipped one by one.

    audit_uploads       under local DP: the upload itself
    audit_sums          under distributed DP: the sum of as many vectors as the noise is sized for, less the colluders'
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.audit.attacks.mechanisms import Effort, Pair, curve_of_gaussian, judged
from tacit.audit.finding import Finding
from tacit.audit.separation import columns_of
from tacit.audit.tradeoff import Curve, claim_curve
from tacit.dp.accounting import Ledger
from tacit.dp.claim import Claim
from tacit.kinds.horizontal.masked import inside_of
from tacit.kinds.horizontal.messages import Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections import one_of, price_of
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork
from tacit.kinds.horizontal.vector import Flat, Layout

Places = NDArray[np.int64]
_PAIRS = 256  # neighbouring pairs of numbers of a tensor that hold its canary
_TOO_LONG = 100.0  # times the clipping norm
_ROTATION = b"an audit's rotation, which is public"
_ALL = "all tensors together"
_NOT_TESTED = ("updates that are in some of the tensors",)


class AskedClient:
    """A client of the file, and its task: training returns what it is told."""

    def __init__(self, settings: Settings, layout: Layout) -> None:
        self._layout = layout
        self._model = np.zeros(layout.size, dtype=layout.dtype)
        self._update = self._model
        self.client = Prepared.of(settings, self).client(0, random=lambda number: None)
        self._new = self.client.state()

    def model(self) -> Arrays:
        return self._layout.unflatten(self._model)

    def fit(self, identity: int, model: Arrays, work: FitWork) -> Fitted:
        return Fitted(self._layout.unflatten(self._update.copy()), 1)

    def upload(self, update: Flat) -> Flat:
        """What a new client uploads in its first round."""
        self.client.restore(self._new)
        self._update = update
        answers = self.client.receive(Work(0, self._model), 0.0)
        return next(answer.vector for answer in answers if isinstance(answer, Update))


def tensors(layout: Layout, rng: Generator) -> Iterator[tuple[str, Places, NDArray[np.float64]]]:
    """Of each tensor its name, places in the flat model that hold a canary, and the canary's signs there. Then of all
    of them together, if there are several: a few places of each."""
    start, everywhere = 0, []
    for name, shape in zip(layout.names, layout.shapes, strict=True):
        size = math.prod(shape)
        if size:
            pairs = np.unique(np.linspace(0, max(0, size - 2), min(_PAIRS, max(1, size // 2))).astype(np.int64))
            places = np.unique(np.concatenate([pairs, np.minimum(pairs + 1, size - 1)]))
            everywhere.append(start + places)
            yield name, start + places, rng.choice([-1.0, 1.0], len(places))
        start += size
    if len(everywhere) > 1:
        few = max(1, 2 * _PAIRS // len(everywhere))
        together = np.concatenate([places[:: -(-len(places) // few)] for places in everywhere])
        yield _ALL, together, rng.choice([-1.0, 1.0], len(together))


def _counted(names: Sequence[str]) -> str:
    count = sum(name != _ALL for name in names)
    return f"{count} tensor" + "s" * (count != 1)


def _canary(layout: Layout, places: Places, signs: NDArray[np.float64], norm: float) -> Flat:
    canary = np.zeros(layout.size, dtype=layout.dtype)
    canary[places] = signs * (norm / math.sqrt(len(places)))
    return canary


def audit_uploads(
    settings: Settings, layout: Layout, rng: Generator, effort: Effort, *, clip: float, gaussian: bool = True
) -> Finding:
    """Audit uploads that are clipped to `clip`: a canary against its opposite, in each tensor.

    The samples of `effort` are for all of them. `gaussian`: their noise is, so that the whole curve is known.
    """
    claim = settings.updates.claim(settings)
    if claim is None:
        raise ValueError(f"{settings.updates.name} claims nothing of an upload: take {one_of('promises')}")
    asked = AskedClient(settings, layout)
    found = list(tensors(layout, rng))
    each = max(40, effort.each // len(found))
    pairs: list[Pair] = []
    for _, places, signs in found:
        canary = _canary(layout, places, signs, _TOO_LONG * clip)
        rows = [
            np.stack([asked.upload(update)[places].astype(np.float64) for _ in range(each)])
            for update in (-canary, canary)
        ]
        pairs.append(columns_of(rows[0], rows[1], signs))
    names = [name for name, _, _ in found]
    return judged(
        f"distinguish two updates in one tensor of the model, or in all ({_counted(names)})",
        claim,
        curve_of_gaussian(claim) if gaussian else claim_curve(claim.epsilon, claim.delta),
        pairs,
        effort,
        gaussian=gaussian,
        names=names,
        not_tested=_NOT_TESTED,
    )


def audit_sums(settings: Settings, layout: Layout, rng: Generator, effort: Effort, *, clip: float) -> Finding:
    """Audit opened sums of updates that are clipped to `clip`: a canary in each tensor against nothing."""
    updates = settings.updates
    stated, least = updates.claim(settings), updates.minimum(settings)
    sums = price_of(updates, settings, layout.size).central
    if stated is None or least is None or not sums:
        raise ValueError(f"{updates.name} has no noise in its sums: take {one_of('sized_for_rounds')}")
    inside, fewest = inside_of(settings, layout.size), least
    honest = fewest - settings.colluders
    nothing = np.zeros(layout.size, dtype=layout.dtype)

    def opened(update: Flat, places: Places, count: int) -> NDArray[np.float64]:
        found = []
        for _ in range(count):
            words = inside.encode(update, 1, _ROTATION, None)
            for _ in range(honest - 1):
                words += inside.encode(nothing, 1, _ROTATION, None)  # the ring wraps, as it does in a round
            found.append(inside.decode(words, fewest, _ROTATION)[places] * fewest)
        return np.asarray(found, dtype=np.float64)

    found = list(tensors(layout, rng))
    each = max(40, effort.each // len(found))
    pairs: list[Pair] = []
    for _, places, signs in found:
        canary = _canary(layout, places, signs, _TOO_LONG * clip)
        pairs.append(columns_of(opened(nothing, places, each), opened(canary, places, each), signs))
    ledger, delta = Ledger("client", "zero-out"), stated.delta
    for cost in sums:
        ledger.spend(cost.event, cost.count)
    claim = Claim(ledger.epsilon(delta, "rdp"), delta, "client", "zero-out")
    names = [name for name, _, _ in found]
    return judged(
        f"distinguish an update in one tensor of the model, or in all, from nothing, in a sum ({_counted(names)})",
        claim,
        Curve.of(ledger, "rdp"),
        pairs,
        effort,
        names=names,
        not_tested=_NOT_TESTED,
    )
