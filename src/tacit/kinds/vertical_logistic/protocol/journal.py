"""What a party remembers of its last two steps, so that a step that was interrupted is repeated and shows nothing new.

A party may be killed at any moment, and any party may only claim that it was. Stored (synced) before it is sent:

    passive     its weights before the step, a digest of the residues, its masked gradient and the masks
    active      its weights before the step, a digest of the sum of scores, the encrypted residues; then a digest of
                each masked gradient, before any decryption is sent

All go back to the latest step that each of them has: they are at most one apart, because each answer needs that of the
step before. There, everything is received again and compared with the digest:

    Scores          computed again from the stored weights, under masks that are agreed anew: the sum is the same. The
                    step is part of the agreement, so that passives sent back to different steps show noise
    Residues        the same bytes, if the sum is the same: no further encryption of the same residues
    MaskedGradient  the same bytes, if the residues are the same. A stored mask is never used for anything else
    Decrypted       a function of the ciphertext: sent again if that is the same
    EpochOver       the same, if the sum of scores on the rows held out is the same

The active's secret offsets are part of its state (`model.Saved`), stored before the first step: residues that are
made anew have the same ones.

So an honest restart shows nobody anything that it had not seen. Where what is received differs, because a party lost
its journal, computes otherwise (another machine), or lies, the answer is a new one, with fresh masks and fresh
randomness, and counts as one more step for every row (`row_uses`, of which `checks.restarts` are reserved). A party
that claims restarts to get more equations runs out of these, and the run ends.

The journal is kept until all parties have said that they are done. It holds masks, and in the same folder
the active keeps its private key: files that only their owner may read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tacit.crypto.byte_strings import frame
from tacit.errors import PeerError
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.protocol.messages import Digest, Size
from tacit.kinds.vertical_logistic.protocol.model import Saved
from tacit.wire import Message, decode, encode

KEPT = 2  # steps: parties are at most one apart
_LIMIT = 1 << 32  # bytes of a record of this party's own


class Records(Protocol):
    """Where a journal is kept: files of the run, or memory."""

    def read(self) -> Mapping[str, bytes]:
        """All records, by name."""

    def write(self, name: str, data: bytes) -> None:
        """Replace a record. It survives a loss of power once this returns."""

    def remove(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class InMemory:
    """Records of a training that nobody resumes."""

    kept: dict[str, bytes] = field(default_factory=dict)

    def read(self) -> dict[str, bytes]:
        return dict(self.kept)

    def write(self, name: str, data: bytes) -> None:
        self.kept[name] = data

    def remove(self, name: str) -> None:
        self.kept.pop(name, None)


class Entry(Message, frozen=True, tag=78):
    """One step: where this party stood, what it received, and what it answered."""

    position: Size
    uses: Size  # steps that each row was part of, this one included
    seed: int  # of the order of the epoch's rows
    weights: bytes
    intercept: bytes
    scores: bytes  # at the active: of each row in this epoch, when it was last seen
    received: Digest
    answer: bytes
    masks: bytes  # at a passive: those of the answer


class Opened(Message, frozen=True, tag=79):
    """At the active: digests of the masked gradients that it decrypted in a step."""

    position: Size
    uses: Size
    answer: Digest  # to which they came
    received: dict[str, Digest]


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Where a party stands before a step."""

    position: int
    weights: Floats  # (columns, K)
    intercept: Floats  # (K,)
    scores: Floats = field(default_factory=lambda: np.empty((0, 1)))  # (rows, K)


@dataclass(frozen=True, slots=True)
class Course:
    """The steps of a training, counted through: those of an epoch, and then its evaluation."""

    steps: int
    seed_of: Callable[[int], int]  # of an epoch's order

    def position(self, epoch: int, step: int = 0) -> int:
        return epoch * (self.steps + 1) + step

    def epoch(self, position: int) -> int:
        return position // (self.steps + 1)

    def step(self, position: int) -> int:
        return position % (self.steps + 1)

    def follows(self, later: int, earlier: int) -> bool:
        """Whether no answer lies between two: a passive has none to the evaluation of an epoch."""
        return later - earlier == 1 or (later - earlier == 2 and self.step(later - 1) == self.steps)


class Journal:
    """A party's last steps. `uses` counts in how many of them each row was, at most; `allowed` bounds that."""

    def __init__(self, records: Records, course: Course, saved: Saved) -> None:
        self._records = records
        self._course = course
        self._entries: dict[int, Entry] = {}
        self._opened: dict[int, Opened] = {}
        self.allowed = 0
        stored = records.read()
        self._names = {name for name in stored if name.startswith(("step-", "opened-"))}  # others are kept by others
        entries = [decode(data, Entry, _LIMIT) for name, data in stored.items() if name.startswith("step-")]
        opened = [decode(data, Opened, _LIMIT) for name, data in stored.items() if name.startswith("opened-")]
        for entry in sorted(entries, key=lambda entry: entry.position):
            before = max((kept.uses for kept in self._entries.values()), default=0)
            if entry.uses >= before and entry.seed == course.seed_of(course.epoch(entry.position)):
                self._entries[entry.position] = entry  # others are of a history, or an order, that was given up
        self._entries = self._unbroken()
        for record in opened:
            if record.position in self._entries and record.answer == _digest(self._entries[record.position].answer):
                self._opened[record.position] = record
        self.uses = max([saved.begun, *(entry.uses for entry in entries), *(record.uses for record in opened)])
        known = {saved.now.epoch, saved.before.epoch}
        steps = [p for p in self._entries if course.epoch(p) in known and course.step(p) < course.steps]
        self.positions = tuple(sorted({*steps, *map(course.position, known)}))

    def _unbroken(self) -> dict[int, Entry]:
        """The last entries without a gap: kills while old ones are removed may leave one, and an answer that is missing
        between two others would be given anew without being counted."""
        found: dict[int, Entry] = {}
        for position in sorted(self._entries, reverse=True):
            if found and not self._course.follows(min(found), position):
                break
            found[position] = self._entries[position]
        return dict(sorted(found.items()))

    def point(self, position: int, saved: Saved) -> Point:
        """Where this party stood before the step at `position`; `saved` is at its epoch."""
        entry = self._entries.get(position)
        if entry is None:
            return Point(position, saved.now.weights.copy(), saved.now.intercept.copy())
        weights, intercept, scores = (
            np.frombuffer(data, dtype="<f8").copy() for data in (entry.weights, entry.intercept, entry.scores)
        )
        shape, outputs = saved.now.weights.shape, saved.outputs
        if weights.size != saved.now.weights.size or intercept.size != outputs or scores.size % outputs:
            raise ValueError("the journal holds steps of a model with other columns or classes: start all parties anew")
        return Point(position, weights.reshape(shape), intercept, scores.reshape(-1, outputs))

    def reply(self, point: Point, received: bytes, make: Callable[[], tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """The answer of a step and its masks: as it was given before to the same, or else a new one, which is stored.

        Guarantee: masks that were drawn for one input are never used for another; a new answer where there was one
            before counts as a use of all rows, and so does the first of an epoch.
        """
        kept = self._entries.get(point.position)
        if kept is not None and kept.received == received:
            return kept.answer, kept.masks
        uses = self.uses + (kept is not None or self._course.step(point.position) == 0)
        self._check(uses)
        answer, masks = make()
        entry = Entry(
            point.position,
            uses,
            self._course.seed_of(self._course.epoch(point.position)),
            point.weights.astype("<f8").tobytes(),
            point.intercept.astype("<f8").tobytes(),
            point.scores.astype("<f8").tobytes(),
            received,
            answer,
            masks,
        )
        self._write(f"step-{entry.position}", entry)
        self.uses = uses
        self._entries[entry.position] = entry
        self._forget(entry.position)
        return answer, masks

    def open(self, position: int, received: Mapping[str, bytes]) -> None:
        """Store what is about to be decrypted, by whose it is. Other ciphertexts than before count as a use."""
        entry = self._entries[position]
        kept = self._opened.get(position)
        known = kept.received if kept is not None else {}
        if received == known:
            return
        uses = self.uses + any(known.get(name, digest) != digest for name, digest in received.items())
        self._check(uses)
        record = Opened(position, uses, _digest(entry.answer), {**known, **received})
        self._write(f"opened-{position}", record)
        self.uses = uses
        self._opened[position] = record

    def _write(self, name: str, record: Entry | Opened) -> None:
        self._records.write(name, encode(record))
        self._names.add(name)

    def _check(self, uses: int) -> None:
        if uses > self.allowed:
            raise PeerError(
                f"steps were repeated with other content too often: each row would be part of {uses} steps, "
                f"{self.allowed} are allowed: find out who was restarted and lost or changed its part; a training that "
                "is started anew shows the passives as many gradients again"
            )

    def _forget(self, position: int) -> None:
        """Drop what is older than the last steps, and what came after an answer that was given anew."""
        kept = [known for known in sorted(self._entries) if known <= position][-KEPT:]
        for old in [known for known in self._entries if known not in kept]:
            del self._entries[old]
        self._opened = {p: record for p, record in self._opened.items() if p in kept and p != position}
        place = {name: int(name.rpartition("-")[2]) for name in self._names}
        for name in sorted((name for name in place if place[name] not in kept), key=place.__getitem__):  # oldest first
            self._records.remove(name)
            self._names.remove(name)


def digest_of(position: int, rows: Rows, *parts: bytes) -> bytes:
    """Of what came in for the step at `position` over these rows."""
    return _digest(position.to_bytes(8, "big"), np.ascontiguousarray(rows, dtype="<i8").tobytes(), *parts)


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(frame(b"tacit vertical journal", *parts)).digest()
