"""A training or a prediction on shares, played by the audit and recorded: what each party sent and received.

played(tables, labels, terms)           every party and the dealer in a thread
Transcript.opened(step, stage)          a value under its mask, as all parties with data learn it
Transcript.received(name)               all ring words that one of them receives
masked_views(transcript, ...)           the masked gradients, in the shape that attacks on gradients take
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.channel import Channel, Recorder, run_parties
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_logistic.attacks import two_party_transcript
from tacit.kinds.vertical_logistic.attacks.honest_steps import View
from tacit.kinds.vertical_logistic.protocol.encoding import RESIDUE_BITS, Columns
from tacit.kinds.vertical_logistic.shared import deals, low_bits, ring, streams
from tacit.kinds.vertical_logistic.shared.dealer import deal
from tacit.kinds.vertical_logistic.shared.masked_table import Given
from tacit.kinds.vertical_logistic.shared.messages import Deal, Opening, Seeds
from tacit.kinds.vertical_logistic.shared.prediction import Releases, deal_predictions, predict
from tacit.kinds.vertical_logistic.shared.scales import ARGUMENT, scales
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.shared.training import SharedContext, Trained, train
from tacit.kinds.vertical_logistic.two_party.prediction import predict as predict_between_two
from tacit.kinds.vertical_logistic.two_party.training import train as train_between_two
from tacit.randomness import seeded_rng

_PATIENCE = 120.0
_MOST = 2.0**62  # of a gradient's integer: a masked one may reach beyond
_TABLE = 1  # serial number of the deal whose masks hide the tables
SCORES, GRADIENT = 2, 4  # stages of a step
Tables = Mapping[str, Floats]
Work = Callable[[Mapping[str, Channel]], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Transcript:
    """All messages of one training, by party and by whom it exchanged them with; and each party's part."""

    terms: Terms
    columns: Mapping[str, int]
    logs: Mapping[str, Mapping[str, Recorder]]
    models: Mapping[str, Trained]

    def opened(self, step: int, stage: int, kind: type[Any] = np.uint64) -> Any:
        """The sum of all shares that were opened: what each party with data knows. Steps have one block here."""
        serial, first = _TABLE + 1 + step, self.terms.parties[0]
        others = [self.logs[first][name].seen for name in self.terms.parties[1:]]
        shares = [_words(log, serial, stage, kind) for log in (self.logs[first][self.terms.parties[1]].sent, *others)]
        return np.sum(shares, axis=0, dtype=kind)

    def sums(self) -> bytes:
        """All values that are opened under masks, but for the tables: the sums of the shares."""
        first = self.terms.parties[0]
        if not self.terms.dealer:  # nothing is opened to both
            return b""
        sent = [m for m in self.logs[first][self.terms.parties[1]].sent if isinstance(m, Opening) and m.serial > _TABLE]
        halves = self.terms.model == "logistic"
        return b"".join(
            self.opened(
                m.serial - _TABLE - 1, m.stage, np.uint32 if halves and m.stage == SCORES else np.uint64
            ).tobytes()
            for m in sent
        )

    def received(self, name: str) -> bytes:
        """All words under masks, and of the dealer, that a party receives."""
        if not self.terms.dealer:
            return b"".join(two_party_transcript.received(log.seen) for log in self.logs[name].values())
        found = [
            message.words
            for log in self.logs[name].values()
            for message in log.seen
            if isinstance(message, Opening | Deal)
        ]
        return b"".join(found)

    def table(self, victim: str, colluder: str) -> Floats:
        """What the dealer and one party with data read together: the table of another."""
        seeds = [m.seed for m in self.logs[self.terms.dealer][victim].sent if isinstance(m, Seeds)]
        sent = [m.words for m in self.logs[colluder][victim].seen if isinstance(m, Opening) and m.serial == _TABLE]
        cells = self.terms.rows * self.columns[victim]
        words = np.frombuffer(b"".join(sent), dtype=np.uint64)[:cells] + streams.stream(seeds[0], _TABLE, cells)
        return ring.decode(words, scales(self.terms).feature).reshape(self.terms.rows, -1)


def played(tables: Tables, labels: Floats, terms: Terms, seed: int = 0) -> Transcript:
    """A training of all parties, whose masks are drawn from `seed`: nothing of it is released."""

    def party(name: str) -> Work:
        given = Given(tables[name], labels if name == terms.active else None)
        if terms.dealer:
            return lambda channels: train(channels, given, terms, name)
        context = SharedContext(rng=seeded_rng(2 * seed + terms.parties.index(name)))
        return lambda channels: train_between_two(channels, given, terms, name, context)

    works = {name: party(name) for name in terms.parties}
    if terms.dealer:
        works[terms.dealer] = lambda channels: deal(channels, terms, seeded_rng(seed))
    logs, found = _recorded(works)
    columns = {name: tables[name].shape[1] for name in terms.parties}
    return Transcript(terms, columns, logs, {name: found[name] for name in terms.parties})


def predicted(tables: Tables, models: Mapping[str, Trained], releases: Releases) -> tuple[Any, dict[str, bytes]]:
    """What a prediction releases to the active, and all masked words that each party receives."""

    def party(name: str) -> Work:
        model = models[name]
        part = predict if releases.dealer else predict_between_two
        return lambda channels: part(channels, tables[name], model.weights, model.intercept, releases, name)

    works = {name: party(name) for name in releases.parties}
    if releases.dealer:
        works[releases.dealer] = lambda channels: deal_predictions(channels, releases, seeded_rng(0))
    logs, found = _recorded(works)
    received = {
        name: b"".join(m.words for log in logs[name].values() for m in log.seen if isinstance(m, Opening | Deal))
        for name in releases.parties
    }
    return found[releases.active], received


def masked_views(transcript: Transcript, name: str, own: Columns) -> list[View]:
    """The gradients as they are opened, under masks, of a party's own columns, taken for its gradients."""
    terms, chosen = transcript.terms, scales(transcript.terms)
    if not terms.dealer:
        return _received_views(transcript, name, own)
    before = sum(transcript.columns[each] for each in terms.parties[: terms.parties.index(name)])
    place = slice(before, before + transcript.columns[name])
    found = []
    for step in deals.steps(terms, chosen, 0):
        words = transcript.opened(step.number, GRADIENT)[place] - np.uint64(low_bits.OFFSET)
        values = ring.decode(words, chosen.feature + chosen.residue) / step.scale.factor
        integers = np.rint(np.clip(np.ldexp(values, RESIDUE_BITS - own.exponents), -_MOST, _MOST)).astype(np.int64)
        rows = step.blocks[0].rows
        found.append(View(rows, integers, np.zeros(len(rows))))
    return found


def _received_views(transcript: Transcript, name: str, own: Columns) -> list[View]:
    """Without a dealer: words that the party was sent for its gradients, taken for them."""
    terms = transcript.terms
    values = two_party_transcript.received_gradients(_seen_by(transcript, name), terms, transcript.columns[name])
    found = []
    for number, batch in terms.schedule.from_step(0):
        scaled = np.ldexp(values[number], RESIDUE_BITS - own.exponents)
        integers = np.rint(np.clip(scaled, -_MOST, _MOST)).astype(np.int64)
        rows = terms.split[0][batch]
        found.append(View(rows, integers, np.zeros(len(rows))))
    return found


def _seen_by(transcript: Transcript, name: str) -> Any:
    (log,) = transcript.logs[name].values()
    return log.seen


def masked_scores(transcript: Transcript) -> Floats:
    """The scores as they are opened, under masks, (rows, steps), in the order of the table."""
    terms = transcript.terms
    found = np.empty((terms.rows, terms.schedule.total))
    if not terms.dealer:
        log, columns = _seen_by(transcript, terms.active), transcript.columns[terms.active]
        scores = two_party_transcript.received_scores(log, terms, columns)
        for number, batch in terms.schedule.from_step(0):
            found[terms.split[0][batch], number] = scores[:, number]
        return found
    for step in deals.steps(terms, scales(terms), 0):
        if terms.model == "linear":
            words = transcript.opened(step.number, SCORES).view(np.int64).astype(np.float64)
            values = np.ldexp(words, -scales(terms).score)
        else:
            values = np.ldexp(transcript.opened(step.number, SCORES, np.uint32).view(np.int32) * 1.0, -ARGUMENT)
        found[step.blocks[0].rows, step.number] = values
    return found


def _recorded(works: Mapping[str, Work]) -> tuple[dict[str, dict[str, Recorder]], dict[str, Any]]:
    logs: dict[str, dict[str, Recorder]] = {}

    def recording(name: str, work: Work) -> Work:
        def live(channels: Mapping[str, Channel]) -> Any:
            logs[name] = {other: Recorder(channel) for other, channel in channels.items()}
            return work(dict(logs[name]))

        return live

    return logs, run_parties({name: recording(name, work) for name, work in works.items()}, patience=_PATIENCE)


def _words(log: Any, serial: int, stage: int, kind: type[Any]) -> Ints:
    (found,) = [m.words for m in log if isinstance(m, Opening) and (m.serial, m.stage) == (serial, stage)]
    return np.frombuffer(found, dtype=kind)
