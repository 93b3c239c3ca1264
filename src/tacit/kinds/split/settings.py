"""The settings of a split training: the parties, where the network is cut, and what protects what crosses the cut."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tacit.kinds.split.embedding_dp import EmbeddingDP
from tacit.kinds.split.label_dp import LabelDP
from tacit.kinds.split.party_tables import TASK, check_options
from tacit.lockstep.parties import Parties
from tacit.sections import Address, Count, Delta, Name, Network, Positive, Scale, Section, Seed

Epsilon = Annotated[float, Field(ge=0, le=1e100, allow_inf_nan=False)]
Role = Literal["leader", "follower"]
Topology = Literal["V", "U"]


class Party(Section):
    role: Role
    address: Address | None = None  # over a network, of the party that the others connect to


class EmbeddingProtection(Section):
    eps: Epsilon | None = None  # None: bits without noise
    domain: Literal["one_hot"] | None = None


class LabelProtection(Section):
    eps: Epsilon


class Gradients(Section):
    """What the leader sends back. `noised`: clipped and noised for each record, at `epsilon` for the whole training."""

    protection: Literal["none", "noised"] = "none"
    clip: Scale = 1.0  # norm of one record's gradient
    noise_multiplier: Positive | None = None  # noise over 2 * clip
    epsilon: Positive | None = None  # for the whole training
    delta: Delta = 1e-5
    bits: Literal[32, 8] = 32

    @model_validator(mode="after")
    def _one_level(self) -> Gradients:
        given = [name for name in ("noise_multiplier", "epsilon") if getattr(self, name) is not None]
        if self.protection == "noised" and len(given) != 1:
            raise ValueError("gradients: noised takes noise_multiplier or epsilon, and one of them only")
        if self.protection == "none" and given:
            raise ValueError(f"gradients: {given[0]} has no effect with protection: none; write protection: noised")
        return self


class Train(Section):
    epochs: Count = 1
    batch: Count = 32
    learning_rate: Positive = 0.001
    optimizer: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,40}$")] = "adam"  # of torch.optim, in any case
    optimizer_options: dict[str, Any] = Field(default_factory=dict)
    steps: Count | None = None  # at most so many in all
    save: Count | None = None  # steps between two saves, in addition to those at the ends of epochs


class Budget(Section):
    """The most that one record may cost a party: an epoch that would exceed it is not begun."""

    epsilon: Positive
    delta: Delta = 1e-5


class Simulation(Section):
    insecure_noise_seed: Seed | None = None  # for tests and experiments: every epsilon is infinite


class Settings(Parties):
    kind: Literal["split"] = "split"
    name: Name = "split"
    topology: Topology
    task: str
    task_options: dict[str, Any] = Field(default_factory=dict)
    parties: dict[Name, Party]
    embedding_dp: EmbeddingProtection | None = None
    label_dp: LabelProtection | None = None
    gradients: Gradients = Gradients()
    train: Train = Train()
    budget: Budget | None = None
    align: bool = False
    evaluate: Count = 1  # epochs between two evaluations; one is always at the end
    lines: Count = 10  # steps between two lines
    seed: Seed = 0
    network: Network = Network()
    simulation: Simulation = Simulation()

    @model_validator(mode="after")
    def _check(self) -> Settings:
        leaders = [name for name, party in self.parties.items() if party.role == "leader"]
        if len(leaders) != 1:
            raise ValueError(f"parties: one leader is needed, got {', '.join(leaders) or 'none'}")
        if not self.followers:
            raise ValueError(f"parties: {leaders[0]} is alone, one or more followers are needed")
        if self.topology == "U" and len(self.followers) > 1:
            raise ValueError(f"topology U has one follower, got {', '.join(self.followers)}: leave out some, or take V")
        if self.topology == "U" and self.align:
            raise ValueError("align: in topology U the leader holds all records, there is nothing to align")
        if self.task == TASK:
            if self.topology == "U":
                raise ValueError("task table has features at the followers and labels at the leader: take topology V")
            check_options(self.task_options, {name: party.role for name, party in self.parties.items()})
        if self.budget is not None and not self.spends:
            raise ValueError(
                "a budget needs a protection of records: embedding_dp with eps, or gradients.protection: noised"
            )
        return self

    @property
    def leader(self) -> str:
        return next(name for name, party in self.parties.items() if party.role == "leader")

    @property
    def lead(self) -> str:
        return self.leader

    @property
    def insecure(self) -> bool:
        """Whether the noise follows from a seed in the file."""
        return self.simulation.insecure_noise_seed is not None

    @property
    def followers(self) -> tuple[str, ...]:
        """In the order of the file, which is also that of the cuts in the leader's network."""
        return tuple(name for name, party in self.parties.items() if party.role == "follower")

    @property
    def embedding(self) -> EmbeddingDP | None:
        """What activations pass before they leave the party whose records they are of."""
        return None if self.embedding_dp is None else EmbeddingDP(self.embedding_dp.eps, self.embedding_dp.domain)

    @property
    def label(self) -> LabelDP | None:
        return None if self.label_dp is None else LabelDP(self.label_dp.eps)

    @property
    def spends(self) -> bool:
        """Whether anything of a record that crosses the cut has an epsilon."""
        embedding = self.embedding_dp is not None and self.embedding_dp.eps is not None
        return embedding or self.gradients.protection == "noised"

    def notes(self) -> list[str]:
        """Warnings about settings that are legal."""
        found = []
        if self.embedding_dp is None:
            found.append("no embedding_dp: activations cross the cut as they are")
        elif self.embedding_dp.eps is None:
            found.append("embedding_dp without eps quantizes only: it promises nothing")
        if self.gradients.protection == "none" and self.label_dp is None:
            found.append("gradients cross back in float and labels are not randomized: gradients can reveal labels")
        if self.task == TASK and not self.align:
            found.append("no align: the tables of all parties must have the same people in the same order")
        if self.simulation.insecure_noise_seed is not None:
            found.append("insecure_noise_seed: anyone can compute the noise, epsilon is infinite")
        return found
