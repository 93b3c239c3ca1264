"""What the file of boosted trees between companies says."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tacit.kinds.vertical_trees.protocol.boosting import Terms
from tacit.kinds.vertical_trees.protocol.growth import Options
from tacit.kinds.vertical_trees.protocol.splits import Rules
from tacit.lockstep.parties import TableParties
from tacit.sections import Address, Count, Name, Network, Positive, Probability, Section, Seed
from tacit.tables import settings as tables
from tacit.tables.labels import Wanted

Role = Literal["active", "passive"]
Objective = Literal["binary", "softmax", "squared", "poisson"]
SIGNS = {"rising": 1, "falling": -1, None: 0}
_Share = Annotated[float, Field(gt=0, le=1)]
_ROWS_A_BIN = 8  # in the smallest node, below which its sums were seen to tell the rows of bins
_FILLED = ("mean", "median")


class Party(Section):
    role: Role
    address: Address | None = None  # over a network; `tacit run` needs none


class Column(tables.Column):
    """What becomes of a column of a table for trees."""

    missing_apart: ClassVar[bool] = True
    monotone: Literal["rising", "falling"] | None = (
        None  # of numbers, not with softmax: predictions may only rise, or fall, with it
    )

    @model_validator(mode="after")
    def _for_trees(self) -> Column:
        if self.use == "woe":
            raise ValueError(
                "use: woe is for regressions: trees split categories as they are, take one_hot or leave it"
            )
        if self.missing in _FILLED:
            raise ValueError(f"missing: {self.missing} is for regressions: trees have a bin for missing values")
        if self.monotone is not None and self.use in ("one_hot", "drop"):
            raise ValueError(f"monotone is for numbers, and use is {self.use}: leave out one of them")
        return self

    def unfit(self, *, number: bool) -> str:
        if self.monotone is None or number:
            return ""
        return "monotone is for numbers, and it holds categories: leave out monotone"


class Data(tables.Data):
    """Where a party's table lies, and what its columns are for."""

    columns: tuple[str, ...] | dict[str, Column] | None = None  # type: ignore[assignment]  # frozen: only read

    @model_validator(mode="after")
    def _for_trees(self) -> Data:
        if self.missing in _FILLED:
            raise ValueError(f"missing: {self.missing} is for regressions: trees have a bin for missing values")
        if self.label_counts:
            raise ValueError("label_counts are for weight of evidence, which trees do not have: leave it out")
        return self

    def column(self, name: str) -> Column:
        given = super().column(name)
        return given if isinstance(given, Column) else Column.model_validate(given.model_dump())

    def sign(self, name: str) -> int:
        """The monotone constraint of a column: 1, -1, or 0 without one."""
        given = self.columns.get(name) if isinstance(self.columns, dict) else None
        return SIGNS[given.monotone] if given is not None else 0

    @property
    def monotone(self) -> list[str]:
        """The columns with a monotone constraint."""
        given = self.columns if isinstance(self.columns, dict) else {}
        return [name for name in given if self.sign(name)]


class Training(Section):
    trees: Annotated[int, Field(ge=1, le=10_000, strict=True)] = (
        100  # rounds: with softmax, each has one for each class
    )
    objective: Objective = "binary"  # two classes; softmax: several; squared: a number; poisson: a count
    depth: Annotated[int, Field(ge=1, le=12, strict=True)] = 5
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.1
    bins: Annotated[int, Field(ge=3, le=256, strict=True)] = 9  # of a column at most, one of them for missing values;
    # what protects a passive's columns: the active learns the bin of a cell, and no more of it
    l2: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0  # on the values of leaves
    min_child_weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0  # sum of hessians of either side
    min_gain: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0  # of a split
    rows: _Share = 1.0  # of the training rows, drawn anew for each tree
    features: _Share = 1.0  # of all parties' features, drawn anew for each tree
    class_weight: Literal["balanced"] | dict[str, Positive] | None = None  # by class; those not named have 1
    test: Probability = 0.2  # of the rows, held out to measure the model on
    patience: Count | None = None  # rounds without a lower loss on held-out rows after which training ends


class Privacy(Section):
    """What the active learns of the passives' columns, and a passive of the labels."""

    bits: Annotated[int, Field(ge=2, le=16, strict=True)] = 8  # of each gradient and hessian in an opened sum
    least: Annotated[int, Field(ge=1, strict=True)] = 64  # rows of a node whose sums are opened
    partition: Literal["shown", "hidden"] = (
        "hidden"  # shown: passives see the rows of nodes, and so rank rows by label;
    )
    # a tree then takes a word for each cell, and not one for each cell and opened node: 2^(depth - 1) times fewer


class Prediction(Section):
    """What `predict` tells about new rows. `budget` is each answering party's own."""

    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5  # probability from which the decision is the second class
    budget: Count | None = None  # rows that a passive answers with one model, over all predictions


class Settings(TableParties):
    """Boosted trees of one party with labels and others with more features of the same rows."""

    kind: Literal["vertical_trees"] = "vertical_trees"
    name: Name = "trees"
    parties: dict[Name, Party]
    data: dict[str, Data] = Field(default_factory=dict)  # over a network in each party's own file
    task: str | None = None  # built-in data instead: cancer
    task_options: dict[str, Any] = Field(default_factory=dict)
    align: bool = True
    train: Training = Training()
    privacy: Privacy = Privacy()
    predict: Prediction = Prediction()
    network: Network = Network()
    seed: Seed = 0  # of the rows held out, of rows and features of each tree, and of the rounding

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        roles = [party.role for party in self.parties.values()]
        if roles.count("active") != 1:
            raise ValueError(
                f"parties: {roles.count('active')} of them are active, exactly one must be: the one that has the labels"
            )
        if "passive" not in roles:
            raise ValueError("parties: there is no passive one: name at least one party with other features")
        if self.task is not None and self.data:
            raise ValueError("task and data are both given: leave out one of them")
        if self.task is None and self.task_options:
            raise ValueError("task_options without a task: leave them out")
        for name, data in self.data.items():
            if name not in self.parties:
                raise ValueError(f"data: {name} is none of the parties {', '.join(self.parties)}")
            if data.label is not None and self.parties[name].role != "active":
                raise ValueError(f"data: {name} is passive and has no label: leave out label, or make it the active")
        if self.train.class_weight is not None and not self.classes:
            raise ValueError(f"train.class_weight is for classes: leave it out with objective: {self.train.objective}")
        if self.train.patience is not None and not self.train.test:
            raise ValueError("train.patience needs held-out rows: set train.test above 0")
        return self

    @property
    def order(self) -> tuple[str, ...]:
        """The active, then the passives: as trees number the parties."""
        return (self.active, *self.passives)

    @property
    def classes(self) -> bool:
        """Whether labels are classes."""
        return self.train.objective in ("binary", "softmax")

    @property
    def hidden(self) -> bool:
        """Whether the rows of nodes are hidden from passives."""
        return self.privacy.partition == "hidden"

    @property
    def terms(self) -> Terms:
        """How the trees are made."""
        train, privacy = self.train, self.privacy
        rules = Rules(train.l2, train.min_child_weight, train.min_gain)
        growth = Options(train.depth, rules, privacy.bits, privacy.least, train.rows, train.features)
        return Terms(train.trees, train.learning_rate, train.patience or 0, self.seed, growth)

    def label_kind(self, name: str) -> Wanted | None:
        """What the labels of a party are, if it has some."""
        if name != self.active:
            return None
        return "classes" if self.classes else "number"

    def notes(self) -> list[str]:
        """Warnings about settings that are legal."""
        least, bins = self.privacy.least, self.train.bins
        found = []
        if least < _ROWS_A_BIN * (bins - 1):
            found.append(
                f"privacy.least is {least} and train.bins {bins}: in a node of {least} rows a bin has about "
                f"{least / (bins - 1):.2g}, and its sums tell {self.active} which rows these are; take "
                f"{_ROWS_A_BIN * (bins - 1)} or more, or fewer bins"
            )
        if not self.hidden:
            found.append(
                f"privacy.partition is shown: each passive can rank the rows by their labels nearly as well as the "
                f"model; take hidden, the default, unless the passives may know as much of {self.active}'s labels"
            )
        return found
