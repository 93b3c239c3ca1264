"""What the file of a private training says."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from tacit import sections
from tacit.dp.schedules import Adaptation, ClipAdaptation, Decay
from tacit.sections import Added, Count, Delta, Name, Positive, Probability, Scale, Section, Seed
from tacit.training.plan import Clipping, Level, Plan


class Privacy(Section):
    """What the whole training may cost, or how much noise each step gets."""

    epsilon: Positive | None = None
    noise_multiplier: Positive | None = None  # noise over clipping norm
    delta: Delta = 1e-5
    tier: Literal["fast", "secure"] = "fast"
    sampling: Literal["poisson", "shuffled"] = "poisson"
    # Whom the promise is for: a record, or an owner with all its records.
    unit: Annotated[Level, Added("0.2.0")] = "record"
    # A column of records, or package.module:function.
    owner: Annotated[str | Annotated[int, Field(ge=0)] | None, Added("0.2.0")] = None
    records_per_owner: Annotated[Count | None, Added("0.2.0")] = None  # of an owner in a sample

    @model_validator(mode="after")
    def _owned(self) -> Privacy:
        owned = self.unit == "owner"
        if owned != (self.owner is not None) or owned != (self.records_per_owner is not None):
            raise ValueError("unit: owner goes with owner and records_per_owner: give all three, or none of them")
        return self

    @model_validator(mode="after")
    def _one(self) -> Privacy:
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise ValueError("give either epsilon, what the training may cost, or noise_multiplier")
        return self


class Noise(Section):
    kind: Literal["gaussian", "adaptive", "laplace"] = "gaussian"
    decay: Decay | None = None  # Time | Step | Exp, of adaptive noise
    rate: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _fits(self) -> Noise:
        if (self.kind == "adaptive") != (self.decay is not None):
            raise ValueError(f"kind is {self.kind}: adaptive noise needs a decay (Time, Step or Exp), other noise none")
        if self.decay is not None and self.rate == 0:
            raise ValueError(f"decay is {self.decay} with a rate of 0, so that nothing falls: give a rate")
        return self


class Clip(Section):
    kind: Annotated[Clipping, Added("0.2.0")] = "flat"  # flat | automatic | per_layer
    norm: Scale = 1.0
    adapt: Adaptation | None = None  # Linear | Geometric
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.5
    rate: Positive = 0.2
    count_noise: Positive = 0.05  # of the noisy count of unclipped records, as a part of the expected batch


class Train(Section):
    epochs: Count = 10
    batch: Count = 256  # expected, in records or owners: a sample is as large as chance makes it
    physical: Count | None = None  # records in memory at once
    truncate: Annotated[Count | None, Added("0.2.0")] = (
        None  # the size of all batches: larger samples are cut, which is paid for
    )
    optimizer: Literal["sgd", "adam", "adamw", "adam_bc"] = "sgd"
    learning_rate: Positive = 0.5
    momentum: Probability = 0.0  # of sgd


class Monitor(Section):
    """How the cost is watched while training goes."""

    method: Literal["pld", "rdp", "zcdp"] = "pld"
    budget: Positive | None = None  # epsilon, by this method, at which training stops; privacy.epsilon holds anyway
    every: Count | None = None  # steps between two looks at epsilon; an epoch by default


class Settings(sections.Settings):
    """A private training of one party."""

    kind: Literal["private_training"] = "private_training"
    name: Name = "training"
    task: str
    task_options: dict[str, Any] = Field(default_factory=dict)
    privacy: Privacy
    noise: Noise = Noise()
    clip: Clip = Clip()
    train: Train = Train()
    monitor: Monitor = Monitor()
    seed: Seed = 0

    @field_validator("task")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value or value.startswith(":") or value.endswith(":"):
            raise ValueError("must be the name of a built-in task, or package.module:function")
        return value

    def plan(self, records: int, owners: int | None = None) -> Plan:
        """The plan for so many records, of so many owners if these are the unit."""
        adapt = None
        if self.clip.adapt is not None:
            adapt = ClipAdaptation(self.clip.adapt, self.clip.quantile, self.clip.rate)
        return Plan(
            records=records,
            batch=self.train.batch,
            epochs=self.train.epochs,
            epsilon=self.privacy.epsilon,
            delta=self.privacy.delta,
            noise_multiplier=self.privacy.noise_multiplier,
            clip=self.clip.norm,
            adapt=adapt,
            count_noise=self.clip.count_noise,
            decay=self.noise.decay,
            rate=self.noise.rate,
            noise="laplace" if self.noise.kind == "laplace" else "gaussian",
            tier=self.privacy.tier,
            sampling=self.privacy.sampling,
            physical=self.train.physical,
            clipping=self.clip.kind,
            truncate=self.train.truncate,
            unit=self.privacy.unit,
            owners=owners,
            records_per_owner=self.privacy.records_per_owner,
        )

    def notes(self) -> list[str]:
        """Warnings about settings that are legal."""
        found = []
        if self.privacy.epsilon is not None and self.privacy.epsilon > 10:
            found.append(f"epsilon {self.privacy.epsilon:g} hides nothing: the promise is not worth its noise")
        if self.privacy.tier == "fast":
            found.append("tier fast: noise is continuous; an attacker who reads the last bits of floats is not covered")
        return found
