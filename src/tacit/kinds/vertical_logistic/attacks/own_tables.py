"""A vertical regression on a file's own tables, played by the audit: honestly, with a party that cheats, and recorded.

    Deal(settings, features, labels, key)       the tables that all parties hold together
    Deal.play(settings, ...)                    every party in a thread; what each raised, and what the active saw
    audit_forgeries, audit_steering             an active that cheats, with the passives' checks off and on
    audit_scores                                an active that looks at w·x
    audit_gradients                             a passive that looks at its gradients
    audit_oracle                                a passive that has residues decrypted
    cost                                        the model compared with one of all features in one place

The passive that is attacked, or attacks, is the first of the file. Keys are short where their length changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks.membership import curve_score
from tacit.audit.bounds import clopper_pearson
from tacit.audit.finding import Cost, Finding, Score
from tacit.audit.intervals import mean_score
from tacit.channel import Channel, Party, Recorder, run_parties
from tacit.crypto.paillier import PrivateKey
from tacit.kinds.vertical_logistic.attacks import residues
from tacit.kinds.vertical_logistic.protocol import batches, encoding, logistic_masked, secret_offsets
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.messages import Scores
from tacit.kinds.vertical_logistic.protocol.model import Scaler
from tacit.kinds.vertical_logistic.protocol.objective import Objective
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.randomness import seeded_rng

_CONFIDENCE = 0.95
_UNIT = 2.0**-32  # of scores on the wire
_READ = 5  # columns that a steering active reads
_POSITIONAL = "residues that carry rows digit by digit"
_EQUATIONS = 4  # for each row, at most, where least squares is shown at its best
OPEN = {"decryption": False, "gradient_bound": False, "few_rows": False}
Features = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What came of a deal."""

    errors: Mapping[str, BaseException]
    seen: Mapping[str, Recorder]  # by the active, of each passive

    outputs: int = 1

    def scores(self) -> list[NDArray[np.float64]]:
        """The sum of the passives' scores in each of their messages, (rows, K), as the active reads it: masks cancel in
        it."""
        words = [[m.words for m in each.seen if isinstance(m, Scores)] for each in self.seen.values()]
        together = [np.sum([np.frombuffer(one, "<i8") for one in every], axis=0) for every in zip(*words, strict=False)]
        return [(total * _UNIT).reshape(-1, self.outputs) for total in together]


@dataclass(frozen=True, slots=True, eq=False)
class Deal:
    """The tables of all parties, in the same order, and a key for the active."""

    settings: Settings
    features: Features
    labels: NDArray[Any]  # codes of classes, or numbers
    key: PrivateKey
    classes: tuple[str, ...] = ()  # their names; by default the codes
    seed: int = 0  # of the active's secret offsets, which an audit repeats

    @property
    def victim(self) -> str:
        return self.settings.passives[0]

    @property
    def rows(self) -> int:
        return len(self.labels)

    @property
    def linear(self) -> bool:
        return self.settings.model == "linear"

    @property
    def outputs(self) -> int:
        count = 2 if self.linear else len(self.classes) or len(np.unique(self.labels))
        return count if count > 2 else 1

    def changed(self, *, checks: Mapping[str, Any] | None = None, **train: Any) -> Settings:
        """The file's settings for these rows, with a short key, nothing held out, and no limit on the number of steps
        unless it is what is audited."""
        data = self.settings.model_dump()
        data["train"] |= {"test": 0.0, "patience": None, "epochs": 1, **train}
        data["train"]["batch"] = min(data["train"]["batch"], self.rows)
        data["paillier"] = {"bits": self.key.public.bits, "workers": 1}
        data["checks"] |= {"row_uses": 100_000, "batch": False, **(checks or {})}
        return Settings.model_validate(data)

    def parties(self, settings: Settings) -> dict[str, Party[Any]]:
        """Everybody, honest."""
        passives = {name: partial(self._passive, settings, name) for name in settings.passives}
        return {settings.active: partial(self._active, settings), **passives}

    def _passive(self, settings: Settings, name: str, channels: Mapping[str, Channel]) -> Any:
        return logistic_masked.passive(channels, self.features[name], settings, name)

    def _active(self, settings: Settings, channels: Mapping[str, Channel]) -> Any:
        own = self.features[settings.active]
        context = PaillierContext(key=self.key, classes=self.classes, rng=seeded_rng(self.seed))
        return logistic_masked.active(channels, own, self.labels, settings, context)

    def play(
        self,
        settings: Settings,
        *,
        forge: residues.Forge | None = None,
        thief: Callable[[Mapping[str, Channel]], None] | None = None,
    ) -> Played:
        """Run all parties: the active changes what it sends by `forge`, the first passive is `thief`."""
        errors: dict[str, BaseException] = {}
        logs: dict[str, Recorder] = {}

        def active(channels: Mapping[str, Channel]) -> None:
            logs.update((name, Recorder(channels[name])) for name in settings.passives)
            own: dict[str, Channel] = dict(logs)
            self._active(settings, residues.forged(own, forge) if forge is not None else own)

        parties = self.parties(settings) | {settings.active: active}
        if thief is not None:
            parties[self.victim] = thief
        try:
            run_parties({name: _caught(name, party, errors) for name, party in parties.items()}, patience=60.0)
        except Exception:  # a party that refused to continue; its message is in `errors`
            if not errors:
                raise
        return Played(errors, logs, self.outputs)


def _caught(name: str, party: Party[Any], errors: dict[str, BaseException]) -> Callable[[Mapping[str, Channel]], None]:
    def live(channels: Mapping[str, Channel]) -> None:
        try:
            party(channels)
        except Exception as error:
            errors[name] = error
            raise

    return live


# --- an active that cheats


def audit_forgeries(deal: Deal, *, trials: int, seed: int) -> list[Finding]:
    """Residues that single out rows, or are too large: does the passive answer, and so tell what they made of it?"""
    rng = np.random.default_rng([seed, 37])
    batch = min(deal.settings.train.batch, deal.rows // 2)
    chosen = [tuple(int(row) for row in rng.choice(batch - 1, 3, replace=False)) for _ in range(trials)]
    forgeries: dict[str, list[residues.Forge]] = {
        "residues that single out one row": [residues.one_hot(deal.key, rows[:1], deal.outputs) for rows in chosen],
        "residues that single out three rows": [residues.one_hot(deal.key, rows, deal.outputs) for rows in chosen],
        "residues 16 times too large": [residues.scaled(deal.key, 16)] * trials,
        _POSITIONAL: [residues.positional(deal.key)] * trials,
    }
    found = []
    for name, forges in forgeries.items():
        always = name == _POSITIONAL  # sums that overrun their slot end a run whatever the file says
        off = None if always else _answered(deal, deal.changed(checks=OPEN, batch=batch), forges)
        on = _answered(deal, deal.changed(checks=_of_file(deal), batch=batch), forges)
        checks = "that sums keep to their slots, which is always on" if always else _named_checks(deal.settings)
        found.append(
            Finding(
                attack=name,
                adversary="active that cheats",
                sees="the passive's next scores, which follow from the forged gradient",
                protection=f"the passive's checks: {checks}",
                off=off,
                on=on,
                not_tested=(
                    "residues spread over more rows than three, a little: they pass, and tell scores as an honest run",
                ),
            )
        )
    return found


def _of_file(deal: Deal) -> dict[str, bool]:
    return {name: getattr(deal.settings.checks, name) for name in OPEN}


def _named_checks(settings: Settings) -> str:
    on = [name for name in OPEN if getattr(settings.checks, name)]
    return ", ".join(on) or "all off"


def _answered(deal: Deal, settings: Settings, forges: list[residues.Forge]) -> Score:
    """The part of attempts after which the passive sent another score."""
    through = 0
    for forge in forges:
        played = deal.play(settings, forge=forge)
        diverged = isinstance(played.errors.get(settings.active), ValueError)  # which one that cheats does not mind
        through += len(played.scores()) > 1 and (diverged or deal.victim not in played.errors)
    low, high = clopper_pearson(through, len(forges), _CONFIDENCE)
    metric = "attempts that the passive answered"
    return Score(metric, through / len(forges), low, high, _CONFIDENCE, 0.0, len(forges))


def audit_steering(deal: Deal) -> Finding:
    """Answers that set the passive's weights one by one, so that its scores are its columns. For one passive."""
    scores = [_columns_read(deal, checks) for checks in (OPEN, _of_file(deal))]
    return Finding(
        attack="answers that steer the passive's weights, so that its scores are its columns",
        adversary="active that cheats",
        sees="the passive's scores",
        protection=f"the passive's checks: {_named_checks(deal.settings)}",
        off=scores[0],
        on=scores[1],
        not_tested=("an active that steers by honest residues of made-up labels",),
    )


def _columns_read(deal: Deal, checks: dict[str, bool]) -> Score:
    own = deal.features[deal.victim]
    read = min(_READ, own.shape[1])
    settings = deal.changed(checks=checks, epochs=read + 1, batch=deal.rows, learning_rate=1.0, l2=0.0)
    settings = settings.model_copy(update={"scale": True})
    truth = encoding.Columns.encode(Scaler.fit(own).apply(own))
    one, bits = 1 << encoding.RESIDUE_BITS + 10, encoding.slot_bits(deal.rows)

    def wanted(step: int) -> list[int]:  # a unit vector, less the one before, in the gradient of the first output
        return [one * ((column == step) - (column == step - 1)) for column in range(own.shape[1])]

    played = deal.play(settings, forge=residues.steered(deal.key, wanted, bits))
    weights = [-np.ldexp(float(one), int(truth.exponents[j]) - encoding.RESIDUE_BITS) / deal.rows for j in range(read)]
    guesses = np.zeros((deal.rows, read))  # the mean, where nothing was read
    sent = [scores[:, 0] for scores in played.scores()[1 : read + 1]]
    for epoch, column in enumerate(residues.columns_from_steering(sent, weights[: len(sent)])):
        order = batches.schedule(deal.rows, settings).batches(epoch + 1)[0]
        guesses[order, epoch] = column
    return _distance(guesses, truth.values[:, :read])


def _distance(guesses: NDArray[np.float64], truth: NDArray[np.float64]) -> Score:
    errors = np.abs(guesses - truth).mean(axis=1)
    baseline = float(np.abs(truth - truth.mean(axis=0)).mean())
    metric = "error of the passive's columns, in standard deviations"
    return mean_score(metric, errors, baseline, smaller_is_worse=True)


# --- an active that looks


def audit_scores(deal: Deal) -> Finding:
    """Rows of one passive out of scores over the epochs, by linear algebra, for an active that knows some of its rows:
    as many as all passives have columns, and two more."""
    columns = sum(deal.features[name].shape[1] for name in deal.settings.passives)
    known = min(deal.rows // 2, columns + 2)
    alone = {deal.settings.active: deal.features[deal.settings.active], deal.victim: deal.features[deal.victim]}
    single = deal.settings.model_dump()
    single["parties"] = {name: single["parties"][name] for name in alone}
    single |= {"data": {}, "task": None, "task_options": {}}
    bare = replace(deal, settings=Settings.model_validate(single), features=alone)
    off = _rows_read(bare, known)
    return Finding(
        attack="rows by linear algebra on the scores w·x of all epochs",
        adversary="active, honest but curious",
        sees=f"the passives' scores in each epoch; knows {known} of the passive's rows",
        protection=f"scores summed over {len(deal.settings.passives)} passives" if deal.settings.summed else "none",
        off=off,
        on=_rows_read(deal, known) if deal.settings.summed else None,
    )


def _rows_read(deal: Deal, known: int) -> Score:
    """The active sees all scores of an epoch made with the same weights: there is one batch."""
    own = deal.features[deal.victim]
    together = sum(deal.features[name].shape[1] for name in deal.settings.passives)
    epochs = min(together + 2, deal.settings.train.epochs)
    settings = deal.changed(checks=OPEN, epochs=epochs + 1, batch=deal.rows)
    played = deal.play(settings)
    if played.errors:
        raise next(iter(played.errors.values()))
    columns = []
    for epoch, scores in enumerate(played.scores()[: epochs + 1]):
        column = np.empty((deal.rows, deal.outputs))
        column[batches.schedule(deal.rows, settings).batches(epoch)[0]] = scores
        columns.append(column)
    truth = Scaler.fit(own).apply(own) if settings.scale else own
    guesses = residues.rows_from_scores(np.hstack(columns[1:]), range(known), truth[:known], together)
    return _distance(guesses[known:], truth[known:])


# --- a passive


def audit_gradients(deal: Deal, *, seed: int) -> Finding:
    """Labels by least squares on the gradients that a passive sees. The labels are dealt out anew, so that nothing but
    the gradients tells them; training is that of the file, to which the protocol is equal. Of several classes each is
    guessed by the gradients of its own output; of numbers, which ones are above the mean."""
    own = deal.features[deal.victim]
    others = np.hstack([deal.features[name] for name in deal.settings.parties if name != deal.victim])
    labels = _by_lot(deal, seed)
    hits = labels[None] > labels.mean() if deal.linear else labels[None] == np.unique(labels)[-deal.outputs :, None]
    train = deal.settings.train
    small = max(2, own.shape[1] // 2)
    brief = max(1, min(train.epochs, _EQUATIONS * small // own.shape[1]))
    slow = min(train.learning_rate, 1 / (1 + own.shape[1] + others.shape[1])) if deal.linear else train.learning_rate
    scores = []
    offsets = secret_offsets.draw(deal.rows, np.arange(deal.rows), deal.outputs, deal.settings, seeded_rng(seed))
    for batch, epochs, rate, added in (
        (small, brief, slow, None),
        (min(train.batch, deal.rows), train.epochs, train.learning_rate, offsets),
    ):
        settings = deal.changed(batch=batch, epochs=epochs, learning_rate=rate)  # a linear model diverges sooner
        steps = residues.gradients_seen(own, others, labels, settings, deal.classes, added)
        guessed = residues.infer_labels(Scaler.fit(own).apply(own) if settings.scale else own, steps)
        score = curve_score(guessed.T, hits)
        scores.append(replace(score, metric="AUC of labels above the mean" if deal.linear else "AUC of the labels"))
    return Finding(
        attack="labels by least squares on a passive's gradients",
        adversary="passive, honest but curious",
        sees=f"its own gradient of each step, {own.shape[1] * deal.outputs} numbers",
        protection=f"batches of {min(train.batch, deal.rows)} rows in place of {small}, {train.epochs} epochs"
        + (f", secret offsets of spread {spread:g}" if (spread := deal.settings.secret_spread) else ""),
        off=scores[0],
        on=scores[1],
        not_tested=("labels that the passive's own features predict: its part of the model tells those by itself",),
    )


def _by_lot(deal: Deal, seed: int) -> NDArray[Any]:
    """The file's own labels on other rows: as rare as they are, for rare ones are told sooner."""
    return np.random.default_rng([seed, 41]).permutation(deal.labels)


def audit_oracle(deal: Deal) -> Finding:
    """A passive that sends residues back to be decrypted, in place of its gradient. Nothing stops it. In the first step
    the residues of a row are below 0 in the output of its class, and where a number is above the mean."""
    stolen: dict[int, list[float]] = {}
    settings = deal.changed(batch=deal.rows)

    def thief(channels: Mapping[str, Channel]) -> None:
        stolen.update(residues.oracle_passive(channels, deal.features[deal.victim], settings, deal.victim))

    deal.play(settings, thief=thief)
    above = deal.labels > deal.labels.mean() if deal.linear else deal.labels
    _, truth = np.unique(above, return_inverse=True)
    often = int(np.bincount(truth).argmax())  # the guess for rows that were not read
    guessed = [_class_of(stolen[row], deal.outputs, often) if row in stolen else often for row in range(deal.rows)]
    right = int((np.array(guessed) == truth).sum())
    low, high = clopper_pearson(right, deal.rows, _CONFIDENCE)
    what = "labels told to be above the mean or not" if deal.linear else "labels named right"
    metric = f"{what} after one epoch, {len(stolen)} of {deal.rows} read"
    baseline = float((truth == often).mean())
    return Finding(
        attack="labels, by having residues decrypted in place of a gradient",
        adversary="passive that cheats",
        sees="what the active decrypts for it",
        protection=f"none; a key of {deal.key.public.bits} bits",
        off=Score(metric, right / deal.rows, low, high, _CONFIDENCE, baseline, deal.rows),
        not_tested=("the same in every epoch: each reads as many labels again",),
    )


def _class_of(residues_read: list[float], outputs: int, often: int) -> int:
    """The class whose residue is below 0, as far as the outputs of a row were read."""
    if outputs == 1:
        return int(residues_read[0] < 0)
    below = [output for output, value in enumerate(residues_read) if value < 0]
    return below[0] if below else often


# --- what it costs


def cost(deal: Deal, *, epochs: int) -> list[Cost]:
    """Compare the file's model after at most so many epochs with the same regression on all features in one
    place and without secret offsets."""
    train = deal.settings.train
    epochs = min(epochs, train.epochs)
    settings = deal.changed(checks=_of_file(deal), epochs=epochs, test=train.test, batch=train.batch)
    training, held_out = batches.hold_out(deal.rows, train.test, settings.seed)
    judged = held_out if len(held_out) else training
    models = run_parties(deal.parties(settings))
    scores = np.sum([model.score(deal.features[name][judged]) for name, model in models.items()], axis=0)
    scalers = {name: model.scaler for name, model in models.items()}
    x = np.hstack([scalers[name].apply(table) for name, table in deal.features.items()])
    weights, intercept = residues.plain_training(x[training], deal.labels[training], settings, classes=deal.classes)
    objective = Objective.of(deal.labels, training, settings, classes=deal.classes)
    off, on = (objective.measure(each, judged) for each in (x[judged] @ weights + intercept, scores))
    rows = "held-out rows" if len(held_out) else "training rows"
    after = f"after {epochs} epoch" + "s" * (epochs > 1)
    return [Cost(f"{name} on {len(judged)} {rows} {after}", off[name], on[name]) for name in off]
