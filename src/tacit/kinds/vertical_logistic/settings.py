"""What the file of a vertical logistic regression says."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tacit.lockstep.parties import TableParties
from tacit.sections import Address, Count, Name, Network, Positive, Probability, Section, Seed
from tacit.tables.labels import Wanted
from tacit.tables.settings import Data

Role = Literal["active", "passive", "dealer"]
LINEAR_RATE = 0.1
LEAST_COUNTED = 50  # rows of a group in which labels are counted
Bits = Literal[512, 1024, 2048, 3072, 4096]
_HIDING = 0.3  # spread of secret offsets, below which lattice reduction was seen to name labels
_AGREED = {"kind", "name", "model", "protocol", "helper", "shares", "train", "scale", "align", "seed"}


class Party(Section):
    role: Role
    address: Address | None = None  # over a network; `tacit run` needs none


class Training(Section):
    epochs: Annotated[int, Field(ge=1, le=100_000, strict=True)] = 10
    batch: Annotated[int, Field(ge=2, le=1 << 20, strict=True)] = 2048  # rows of a step, at most
    learning_rate: Positive = 1.0  # of a file that names none; 0.1 with model: linear
    schedule: Literal["constant", "inverse", "step", "cosine"] = "constant"
    decay: Positive = 0.5  # inverse: rate / (1 + decay * epoch); step: rate * decay every `decay_every` epochs
    decay_every: Count = 10
    l2: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0  # on all weights but the intercept
    batch_order: Literal["epoch", "permuted", "hashed"] = "epoch"
    class_weight: Literal["balanced"] | dict[str, Positive] | None = None  # by class; relative: the largest becomes 1,
    # so that the mean weight of a row lowers the learning rate
    test: Probability = 0.2  # of the rows, held out to measure the model on
    patience: Count | None = None  # epochs without a lower loss after which the active ends the training
    secret_spread: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 1.0  # logistic, masked: of the secret
    # number that the active adds to each training row's score in every step; 0: none

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        match self.schedule:
            case "constant":
                return self.learning_rate
            case "inverse":
                return self.learning_rate / (1 + self.decay * epoch)
            case "step":
                return float(self.learning_rate * self.decay ** (epoch // self.decay_every))
            case "cosine":  # half a wave, to 0 after the last epoch
                return self.learning_rate * (1 + math.cos(math.pi * epoch / self.epochs)) / 2


class Paillier(Section):
    bits: Bits = 3072
    workers: Annotated[int, Field(ge=1, le=64, strict=True)] = 1  # processes of each party


class Checks(Section):
    """What a party refuses: see `checks`. A check that is off is named by `plan` and the report."""

    decryption: bool = True  # passive: the active must prove that it decrypted what it was sent
    gradient_bound: bool = True  # passive
    few_rows: bool = True  # passive
    batch: bool = True  # active: more rows in a batch than any passive has features
    row_uses: Annotated[int, Field(ge=1, le=100_000, strict=True)] | None = None  # both: steps that one row may be part
    # of; by default as many as give a passive half as many equations as a batch has rows
    restarts: Annotated[int, Field(ge=0, le=1000, strict=True)] = 1  # both: of these, kept for steps that are repeated
    # after a restart with other content; those that are repeated as they were cost nothing


class Prediction(Section):
    """What `predict` tells about new rows. `budget` is each answering party's own."""

    release: Literal["exact", "points", "decile", "decision"] | None = None  # by default exact; on shares decile
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5  # probability from which the decision is the second class
    budget: Count | None = None  # rows that a passive answers with one model, over all predictions
    points: Annotated[float, Field(allow_inf_nan=False)] = 600.0  # of a score at these odds
    odds: Positive = 50.0  # of the first class to the second
    pdo: Positive = 20.0  # points that double the odds


class Shares(Section):
    """The protocol on shares: how exact it is, and what of the rows held out is opened to the active."""

    harmonics: Literal[30, 60] = 60  # of the sigmoid's series: an error of 6e-5, or 6e-3 at half the bytes
    figures: Literal["epoch", "end", "never"] | None = None  # by default at the end; of each epoch with patience


class Settings(TableParties):
    """A regression of one party with labels and others with more features of the same rows."""

    kind: Literal["vertical_logistic"] = "vertical_logistic"
    name: Name = "deal"
    model: Literal["logistic", "linear"] = "logistic"
    protocol: Literal["masked", "shared"] = "shared"
    helper: Literal["dealer", "none"] | None = None  # of the protocol on shares; none: two parties and nobody else,
    # by default if there are two and no dealer
    parties: dict[Name, Party]
    data: dict[str, Data] = Field(default_factory=dict)  # over a network in each party's own file
    task: str | None = None  # built-in data instead: cancer
    task_options: dict[str, Any] = Field(default_factory=dict)
    align: bool = True
    train: Training = Training()
    scale: bool = True  # each party standardises its own features
    paillier: Paillier = Paillier()
    shares: Shares = Shares()
    checks: Checks = Checks()
    predict: Prediction = Prediction()
    network: Network = Network()
    seed: Seed = 0  # of the rows held out, and of the orders permuted and hashed

    @model_validator(mode="before")
    @classmethod
    def _slower_if_linear(cls, data: Any) -> Any:
        """A linear regression diverges at the rate that suits classes: a file that names none gets a lower one."""
        if not isinstance(data, dict) or data.get("model") != "linear":
            return data
        train = data.get("train", {})
        if not isinstance(train, dict) or "learning_rate" in train:
            return data
        return {**data, "train": {**train, "learning_rate": LINEAR_RATE}}

    @model_validator(mode="before")
    @classmethod
    def _by_helper(cls, data: Any) -> Any:
        """Two parties on shares that have no dealer have no helper."""
        parties = data.get("parties") if isinstance(data, dict) else None
        if not isinstance(parties, dict) or data.get("protocol", "shared") != "shared":
            return data
        roles = [
            party.get("role") if isinstance(party, dict) else getattr(party, "role", None) for party in parties.values()
        ]
        alone = len(roles) == 2 and "dealer" not in roles and data.get("helper") is None
        return {**data, "helper": "none"} if alone else data

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        roles = [party.role for party in self.parties.values()]
        if roles.count("active") != 1:
            raise ValueError(
                f"parties: {roles.count('active')} of them are active, exactly one must be: the one that has the labels"
            )
        if "passive" not in roles:
            raise ValueError("parties: there is no passive one: name at least one party with other features")
        self._check_helper(roles.count("dealer"))
        if self.task is not None and self.data:
            raise ValueError("task and data are both given: leave out one of them")
        if self.task is None and self.task_options:
            raise ValueError("task_options without a task: leave them out")
        for name, data in self.data.items():
            if name not in self.parties:
                raise ValueError(f"data: {name} is none of the parties {', '.join(self.parties)}")
            if self.parties[name].role == "dealer":
                raise ValueError(f"data: {name} is the dealer, which has none: leave them out")
            if data.label is not None and self.parties[name].role != "active":
                raise ValueError(f"data: {name} is passive and has no label: leave out label, or make it the active")
            if data.label_counts and self.parties[name].role != "active":
                raise ValueError(f"data: {name} is passive and has no labels to count: leave out label_counts")
        self._check_evidence()
        if self.train.schedule == "step" and self.train.decay > 1:
            raise ValueError(f"train.decay is {self.train.decay:g}: with schedule: step it must be at most 1")
        if self.model == "linear" and self.train.class_weight is not None:
            raise ValueError("train.class_weight is for classes: leave it out with model: linear")
        if self.checks.row_uses is not None and self.train.epochs + self.checks.restarts > self.checks.row_uses:
            raise ValueError(
                f"train.epochs is {self.train.epochs} and checks.restarts {self.checks.restarts}, and checks.row_uses "
                f"lets a row be part of {self.checks.row_uses} steps, one in each epoch: lower the first or raise the "
                "last"
            )
        return self

    def _check_evidence(self) -> None:
        """A passive's weight of evidence needs counts that the active allows, in groups that are not small."""
        for name in self.passives:
            data = self.data.get(name)
            if data is None or not data.weighs_evidence:
                continue
            if self.active in self.data and not self.data[self.active].label_counts:
                raise ValueError(
                    f"data: {name} has a column with use: woe, which needs counts of the labels of {self.active}: set "
                    f"data.{self.active}.label_counts: true if {name} may have them, or take bin or one_hot"
                )
            columns = data.columns if isinstance(data.columns, dict) else {}
            for column, given in columns.items():
                if given.use == "woe" and given.least < LEAST_COUNTED:
                    raise ValueError(
                        f"data: {name}: least of {column} is {given.least}: labels are counted in groups of "
                        f"{LEAST_COUNTED} rows or more"
                    )

    def _check_helper(self, dealers: int) -> None:
        """The protocol on shares has one dealer, or two parties and nobody else; that under masks has neither."""
        if self.protocol == "masked":
            if dealers or self.helper is not None:
                raise ValueError(
                    "protocol is masked, which has no dealer and no helper: leave them out, or take shared"
                )
            return
        if self.helper == "none" and dealers:
            raise ValueError(f"helper is none, and {self.dealer} is a dealer: leave out one of them")
        if not dealers and len(self.parties) == 2 and self.helper == "dealer":
            raise ValueError(
                f"parties: none of {', '.join(self.parties)} is a dealer, and helper is dealer: name a neutral party "
                "that has no data with the role dealer, or take helper: none, which is for two parties"
            )
        if not dealers and len(self.parties) != 2:
            raise ValueError(
                f"parties: none of {', '.join(self.parties)} is a dealer, and protocol shared without one is for two "
                "parties: name a neutral party that has no data with the role dealer, or take protocol: masked"
            )
        if dealers > 1:
            raise ValueError(f"parties: {dealers} of them are dealers, protocol shared has one")
        if self.train.patience is not None and (self.shares.figures not in (None, "epoch") or not self.train.test):
            raise ValueError(
                "train.patience needs figures of each epoch: set shares.figures: epoch and train.test above 0"
            )
        if self.predict.release == "decile" and self.model == "logistic" and self.figures == "never":
            raise ValueError(
                "predict.release is decile, and no figures are made of held-out rows, whose tenths they are: set "
                "train.test and shares.figures, or another release"
            )

    @property
    def shared(self) -> bool:
        """Whether everything is computed on shares."""
        return self.protocol == "shared"

    @property
    def dealer(self) -> str | None:
        return next((name for name, party in self.parties.items() if party.role == "dealer"), None)

    def brings_data(self, name: str) -> bool:
        return self.parties[name].role != "dealer"

    def label_kind(self, name: str) -> Wanted | None:
        """What the labels of a party are, if it has some."""
        if name != self.active:
            return None
        return "number" if self.model == "linear" else "classes"

    @property
    def release(self) -> Literal["exact", "points", "decile", "decision"]:
        """What a prediction tells of each row: on shares, exact scores only if the file says so."""
        if self.predict.release is not None:
            return self.predict.release
        if not self.shared:
            return "exact"
        return "decile" if self.model == "linear" or self.figures != "never" else "decision"

    @property
    def figures(self) -> Literal["epoch", "end", "never"]:
        """When figures of held-out rows are made on shares."""
        if not self.train.test:
            return "never"
        return self.shares.figures or ("epoch" if self.train.patience is not None else "end")

    @property
    def counts_whole_model(self) -> bool:
        return True

    @property
    def counted(self) -> tuple[str, ...]:
        """The passives that may be given counts of labels: those with a column of weight of evidence, and those whose
        tables this file does not name."""
        if self.task is not None:
            return ()
        if self.active in self.data and not self.data[self.active].label_counts:
            return ()
        return tuple(name for name in self.passives if name not in self.data or self.data[name].weighs_evidence)

    @property
    def summed(self) -> bool:
        """Whether the active learns only the sum of the passives' scores."""
        return len(self.passives) > 1

    @property
    def secret_spread(self) -> float:
        """Of the offsets that the active adds to scores: only logistic regression under masks has them."""
        return 0.0 if self.shared or self.model == "linear" else self.train.secret_spread

    def agreed(self) -> bytes:
        """A digest of what all parties must have in common: not where data lie, nor what each checks for itself."""
        common = self.model_dump(mode="json", include=_AGREED)
        common["roles"] = {name: party.role for name, party in sorted(self.parties.items())}
        common["bits"] = self.paillier.bits
        return hashlib.sha256(json.dumps(common, sort_keys=True).encode()).digest()

    def notes(self) -> list[str]:
        """Warnings about settings that are legal."""
        found = []
        if self.paillier.bits < 2048 and (not self.shared or self.counted):
            found.append(f"paillier.bits {self.paillier.bits} can be factored: for tests only, take 2048 or more")
        if self.shared:
            return found
        if not self.summed:
            found.append(
                f"one passive: {self.active} sees the score w·x of {self.passives[0]} for every row, in every epoch"
            )
        if self.model == "logistic" and self.secret_spread < _HIDING:
            found.append(
                f"train.secret_spread is {self.secret_spread:g}: lattice reduction can name every label of a batch "
                f"from one gradient of a passive; take {_HIDING:g} or more, 1 by default"
            )
        off = [name for name in ("decryption", "gradient_bound", "few_rows", "batch") if not getattr(self.checks, name)]
        if off:
            found.append(f"checks that are off: {', '.join(off)}")
        return found
