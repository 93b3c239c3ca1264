"""Attacks on the recorded transcript of a training on shares, of a file's own tables.

    shared_attacks(settings, features, labels, scope)      the steps of an audit

Each attack that reads the masked protocol is given what a party receives on shares in its place. *Off* is the masked
protocol, without secret offsets, on the same rows: the control that the attack works. All steps take all rows, which is
best for the attacker, and labels are drawn by lot, so that only the messages tell them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import oblivious
from tacit.audit.attacks import wire as network
from tacit.audit.attacks.membership import curve_score
from tacit.audit.finding import Cost, Finding, Score
from tacit.audit.intervals import mean_score
from tacit.audit.scope import Scope
from tacit.audit.steps import Attacks, Step
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.attacks import residues, shared_transcript
from tacit.kinds.vertical_logistic.attacks.category_counts import counted, exact_counts, indicators
from tacit.kinds.vertical_logistic.attacks.category_scores import equal_people, precision
from tacit.kinds.vertical_logistic.attacks.first_batch import guess_labels, named
from tacit.kinds.vertical_logistic.attacks.honest_steps import Training, View, views
from tacit.kinds.vertical_logistic.attacks.shared_releases import audit_prediction
from tacit.kinds.vertical_logistic.attacks.shared_transcript import Transcript, masked_scores, masked_views, played
from tacit.kinds.vertical_logistic.attacks.uniform_words import audit_words
from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.protocol.encoding import Columns
from tacit.kinds.vertical_logistic.protocol.model import Scaler
from tacit.kinds.vertical_logistic.protocol.objective import Objective
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared import messages
from tacit.kinds.vertical_logistic.shared.dealer import deal
from tacit.kinds.vertical_logistic.shared.masked_table import Given
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.shared.training import train
from tacit.kinds.vertical_logistic.shared_party import protection, terms_of
from tacit.kinds.vertical_logistic.two_party import messages as two_party_messages
from tacit.kinds.vertical_logistic.two_party.training import train as train_between_two

_LATTICE = 60  # rows, at most
_ROWS_A_COLUMN = 3  # of a lattice that labels follow from
_ROWS_SOLVED = 4  # to a column, where least squares is shown at its best
_FEWEST = 40  # rows
_STEPS = 8  # that the transcript has at most


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Scaled tables of the rows that are attacked, labels by lot, and the training that is recorded."""

    settings: Settings
    tables: Mapping[str, Floats]
    labels: Floats
    terms: Terms
    seed: int

    @property
    def victim(self) -> str:
        return self.settings.passives[0]

    @property
    def seen(self) -> str:
        """What a party receives, in words."""
        if self.terms.dealer:
            return "all openings under masks, and its own shares of them"
        return "all words that it is sent for the digits of its cells, and its own shares"

    @property
    def own(self) -> Columns:
        return Columns.encode(self.tables[self.victim])

    @property
    def others(self) -> Floats:
        return np.hstack([table for name, table in self.tables.items() if name != self.victim])

    def rows(self, count: int) -> Case:
        """The first rows only, in one step."""
        tables = {name: table[:count] for name, table in self.tables.items()}
        terms = replace(self.terms, rows=count, batch=count, rates=self.terms.rates[:1], order_seeds=(0,))
        return Case(self.settings, tables, self.labels[:count], terms, self.seed)

    def seen_masked(self) -> list[View]:
        """What the first passive would see in the masked protocol."""
        epochs = len(self.terms.rates)
        training = Training(self.terms.rows, epochs, self.terms.rates[0], self.terms.l2)
        return views(self.own, self.others, self.labels.astype(np.int64), training)

    def record(self) -> Transcript:
        """A training on shares."""
        return played(self.tables, self.labels, self.terms, self.seed)


def case_of(settings: Settings, features: Mapping[str, Floats], rows: NDArray[np.int64], seed: int) -> Case:
    """The file's tables as they are trained on, with two classes by lot."""
    tables = {name: features[name][rows] for name in settings.owners}
    if settings.scale:
        tables = {name: Scaler.fit(table).apply(table) for name, table in tables.items()}
    labels = np.random.default_rng([seed, 83]).permutation(len(rows)) % 2
    width = sum(table.shape[1] for table in tables.values())
    epochs = min(_STEPS, settings.train.epochs + 1)
    terms = Terms(
        settings.owners,
        settings.dealer or "",
        settings.active,
        len(rows),
        (min(settings.train.learning_rate, 1 / (1 + width) if settings.model == "linear" else np.inf),) * epochs,
        tuple(range(epochs)),
        batch=len(rows),
        l2=settings.train.l2,
        model=settings.model,
        harmonics=settings.shares.harmonics,
        held_out=0.0,
        figures="never",
    )
    return Case(settings, tables, labels.astype(np.float64), terms, seed)


def shared_attacks(settings: Settings, features: Mapping[str, Floats], labels: NDArray[Any], scope: Scope) -> Attacks:
    """Each attack on rows of the file's own tables."""
    if len(labels) < _FEWEST:
        raise ValueError(f"the parties have {len(labels)} rows in common, an audit needs {_FEWEST} or more")
    order = np.random.default_rng([scope.seed, 43]).permutation(len(labels))
    case = case_of(settings, features, np.sort(order[: scope.pick(200, 1000)]), scope.seed)
    small = case.rows(min(case.terms.rows, _LATTICE, max(20, _ROWS_A_COLUMN * case.own.integers.shape[1])))
    solved = case_of(settings, features, np.sort(order[: _ROWS_SOLVED * case.own.integers.shape[1]]), scope.seed)
    transcript = case.record()
    steps = [
        Step("words that parties receive", lambda: [audit_words(transcript, case.tables)]),
        Step("labels by least squares", lambda: [audit_gradients(solved)]),
        Step("scores", lambda: [audit_scores(case, transcript)]),
        Step("predictions", lambda: [audit_prediction(settings, case.tables, transcript)]),
        Step("the wire", lambda: [_wire(small)]),
        Step("cost in utility", lambda: cost(settings, features, labels, epochs=scope.pick(20, 200))),
    ]
    if settings.dealer is not None:
        steps.insert(3, Step("the dealer and one party", lambda: [audit_dealer(case, transcript)]))
    left_out = ["a party that does not follow the protocol", "the alignment of ids", "figures of held-out rows"]
    if settings.model == "logistic":
        steps.insert(1, Step("labels by lattices", lambda: [audit_lattice(small)]))
    else:
        left_out.append("labels by lattices and counts: they are for classes")
    if settings.model == "logistic" and indicators(case.own.integers)[1].any():
        steps.insert(3, Step("positives of each category", lambda: [audit_counts(case, transcript)]))
    else:
        left_out.append(
            "positives of categories: the first passive has no column of two values, or there are no classes"
        )
    if len(np.unique(case.tables[case.victim], axis=0)) < case.terms.rows:
        steps.insert(4, Step("equal people", lambda: [audit_equal(case, transcript)]))
    else:
        left_out.append("equal people by equal scores: no two rows of the first passive are equal")
    words = f"{protection(settings)}; {len(settings.owners)} parties with data"
    return Attacks(words, steps, (), left_out)


# --- labels, for a passive


def audit_lattice(case: Case) -> Finding:
    """Labels of one step by lattice reduction."""
    labels = case.labels.astype(np.int64)
    seen = case.seen_masked()[:1], masked_views(case.record(), case.victim, case.own)[:1]
    order = [labels[np.sort(each[0].rows)] for each in seen]
    off, on = (named(guess_labels(case.own, each), truth) for each, truth in zip(seen, order, strict=True))
    return Finding(
        attack="labels of the first batch by lattice reduction",
        adversary="passive, honest but curious",
        sees=f"{case.seen}; the gradient's in place of its gradient, {case.own.integers.shape[1]} numbers",
        protection=protection(case.settings),
        off=off,
        on=on,
    )


def audit_gradients(case: Case) -> Finding:
    """Labels by least squares on the gradients of all steps."""
    transcript = case.record()
    scores = []
    for seen in (case.seen_masked(), masked_views(transcript, case.victim, case.own)):
        steps = [
            residues.Step(each.rows, case.own.gradient(each.gradient.tolist())[:, None], np.empty((0, 1)))
            for each in seen
        ]
        guessed = residues.infer_labels(case.own.values, steps)
        scores.append(replace(curve_score(guessed.T, case.labels[None] > 0.5), metric="AUC of the labels"))
    return Finding(
        attack="labels by least squares on gradients",
        adversary="passive, honest but curious",
        sees=f"{case.seen}; the gradient's in {case.terms.schedule.total} steps",
        protection=protection(case.settings),
        off=scores[0],
        on=scores[1],
    )


def audit_counts(case: Case, transcript: Transcript) -> Finding:
    """Positives of each category in one gradient over all rows."""
    labels, rate = case.labels.astype(np.int64), float(case.labels.mean())
    _, members = indicators(case.own.integers)
    truth = members.T @ labels
    blind = float((np.rint(members.sum(axis=0) * rate) == truth).mean())
    scores = []
    for seen in (case.seen_masked(), masked_views(transcript, case.victim, case.own)):
        counts, _ = counted(case.own, seen[0], rate)
        scores.append(exact_counts(counts, truth, blind))
    return Finding(
        attack="positives of each category, counted in one gradient over all rows",
        adversary="passive, honest but curious",
        sees=f"{case.seen}; {members.shape[1]} of its columns are indicators",
        protection=protection(case.settings),
        off=scores[0],
        on=scores[1],
    )


# --- rows, for the active


def audit_scores(case: Case, transcript: Transcript) -> Finding:
    """Rows of the first passive by linear algebra on scores, for an active that knows some of them."""
    truth, width = case.own.values, case.tables[case.settings.active].shape[1]
    known = min(case.terms.rows // 2, truth.shape[1] + width + 3)
    scores = np.stack([each.own_scores for each in case.seen_masked()[1:]], axis=1)
    off = residues.rows_from_scores(scores, range(known), truth[:known])
    own = case.tables[case.settings.active]
    on = _rows_from_sums(masked_scores(transcript), own, truth[:known])
    without = _rows_from_sums(np.zeros((len(own), 0)), own, truth[:known])  # what its own columns tell by themselves
    baseline = min(_distance(each[known:], truth[known:]).value for each in (without, truth * 0 + truth.mean(axis=0)))
    found = [replace(_distance(each[known:], truth[known:]), baseline=baseline) for each in (off, on)]
    return Finding(
        attack="rows by linear algebra on the scores w·x of all steps",
        adversary="active, honest but curious",
        sees=f"{case.seen}; the scores' in {case.terms.schedule.total} steps; knows {known} rows of the passive",
        protection=protection(case.settings),
        off=found[0],
        on=found[1],
    )


def _rows_from_sums(scores: Floats, own: Floats, known: Floats) -> Floats:
    """Rows of a passive from scores of all parties' columns, (rows, steps), by an active that knows its own columns and
    the first few rows of the passive: they are linear in both, but for what the other passives add."""
    fixed = np.hstack([own, np.ones((len(own), 1))])
    left = scores - fixed @ np.linalg.lstsq(fixed, scores, rcond=None)[0]
    u, s, _ = np.linalg.svd(left, full_matrices=False)
    rank = min(known.shape[1], int(np.sum(s > 1e-6 * s.max(initial=0.0))))
    design = np.hstack([fixed, u[:, :rank]])
    solution, *_ = np.linalg.lstsq(design[: len(known)], known, rcond=None)
    return np.asarray(design @ solution)


def audit_equal(case: Case, transcript: Transcript) -> Finding:
    """Rows with equal scores, taken for people with equal attributes."""
    truth = np.unique(case.tables[case.victim], axis=0, return_inverse=True)[1].reshape(-1)
    one, other = np.triu_indices(len(truth), 1)
    equal = truth[one] == truth[other]
    found = []
    for scores in (case.seen_masked()[1].own_scores, masked_scores(transcript)[:, 1]):
        people = equal_people(scores)
        same = people[one] == people[other]
        right = mean_score("pairs of equal people that are found", same[equal].astype(np.float64), float(equal.mean()))
        found.append((right, precision(same, equal)))
    return Finding(
        attack="people with equal attributes, by equal scores",
        adversary="active, honest but curious",
        sees=f"{case.seen}; the scores' in one step",
        protection=protection(case.settings),
        off=found[0][0],
        on=found[1][0],
        also=((found[0][1], found[1][1]),),
    )


def audit_dealer(case: Case, transcript: Transcript) -> Finding:
    """The dealer and the active together: the control that the transcript holds the tables."""
    truth = case.tables[case.victim]
    return Finding(
        attack="tables, by the masks that the dealer knows",
        adversary="dealer together with the active",
        sees="the tables under masks, and the dealer's seeds",
        protection="none: the dealer must collude with no party that has data",
        off=_distance(transcript.table(case.victim, case.settings.active), truth),
    )


def _distance(guesses: Floats, truth: Floats) -> Score:
    errors = np.abs(np.clip(guesses, -1e6, 1e6) - truth).mean(axis=1)
    baseline = float(np.abs(truth - truth.mean(axis=0)).mean())
    metric = "error of the passive's columns, in standard deviations"
    return mean_score(metric, errors, baseline, smaller_is_worse=True)


# --- the network, and what it costs


def _wire(case: Case) -> Finding:
    """One step over loopback, tapped."""
    terms = case.terms

    def party(name: str) -> Any:
        given = Given(case.tables[name], case.labels if name == terms.active else None)
        part = train if terms.dealer else train_between_two
        return lambda channels: part(channels, given, terms, name)

    parties = {name: party(name) for name in terms.parties}
    if terms.dealer:
        parties[terms.dealer] = lambda channels: deal(channels, terms)
    off, on = (network.tap_parties(case.settings.hub, parties, secure=secure) for secure in (False, True))
    return network.audit_reading(off, on, network.union_of(messages, two_party_messages, oblivious))


def cost(settings: Settings, features: Mapping[str, Floats], labels: NDArray[Any], *, epochs: int) -> list[Cost]:
    """Compare the model after at most so many epochs with the same steps on all features in one place."""
    epochs, rows = min(epochs, settings.train.epochs), len(labels)
    settings = settings.model_copy(update={"train": settings.train.model_copy(update={"epochs": epochs})})
    training, held_out = batches.hold_out(rows, settings.train.test, settings.seed)
    judged = held_out if len(held_out) else training
    objective = Objective.of(labels, training, settings)
    scaled = {
        name: (Scaler.fit(features[name][training]) if settings.scale else Scaler.identity(features[name].shape[1]))
        .apply(features[name])
        for name in settings.owners
    }  # fmt: skip
    terms = replace(terms_of(settings, rows, objective.outputs), figures="never", patience=None, weighted=False)
    plain = settings.model_copy(update={"train": settings.train.model_copy(update={"class_weight": None})})
    models = shared_transcript.played(scaled, objective.targets, terms).models
    parts = [scaled[name][judged] @ model.weights for name, model in models.items()]
    scores = np.sum(parts, axis=0) + np.asarray(models[settings.active].intercept)
    x = np.hstack([scaled[name] for name in settings.owners])
    weights, intercept = residues.plain_training(x[training], labels[training], plain)
    off, on = (objective.measure(each, judged) for each in (x[judged] @ weights + intercept, scores))
    after = f"on {len(judged)} {'held-out' if len(held_out) else 'training'} rows after {epochs} epochs"
    return [Cost(f"{name} {after}", off[name], on[name]) for name in off]
