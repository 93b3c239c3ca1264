"""What the file of a horizontal federation says.

The keys are those of MindSpore Federated; those of a round may stand at the top level, and `encrypt` has the privacy
sections. `notes` lists values that are legal but outside that project's advice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, field_validator, model_validator

from tacit import sections
from tacit.kinds.horizontal.encrypt import Encrypt, Milliseconds
from tacit.kinds.horizontal.record_privacy import RecordPrivacy
from tacit.secagg.settings import Settings as SecureSettings
from tacit.secagg.settings import a_third, active_threshold
from tacit.sections import Added, Address, Count, Delta, Name, Positive, Probability, Section, Seed
from tacit.sections import Network as OwnNetwork

if TYPE_CHECKING:
    from tacit.kinds.horizontal.protections.contract import Protection, VectorProtection

Bad = Literal["shape", "nan", "dtype", "twice", "norm", "commitment", "share"]  # the last two under masks only
LARGEST_DELTA = 1e-5  # by default


class Round(Section):
    start_fl_job_threshold: Count | None = None  # clients sampled for a round; all by default
    start_fl_job_time_window: Milliseconds = 300_000  # to gather them, over a network
    update_model_ratio: Annotated[float, Field(gt=0, le=1)] = 0.5  # of the sampled that must update
    update_model_time_window: Milliseconds = 300_000
    update_model_grace: Milliseconds = 30_000  # for the other clients, once update_model_ratio have updated
    over_select: Annotated[float, Field(ge=1, le=3)] = 1.0  # clients invited for each of start_fl_job_threshold
    abandoned_rounds: Annotated[int, Field(ge=0, le=10_000, strict=True)] = 10  # begun and not finished, in a run that
    # was stopped: no client answers more than rounds + abandoned_rounds times, whatever the coordinator asks
    exclude: bool = True  # clients that are proved to have broken secure aggregation, from the rest of the run
    repeats: Annotated[int, Field(ge=0, le=10_000, strict=True)] = 2  # PW_ENCRYPT: uploads of a client in a run for a
    # model that it has uploaded for before, as after an aborted round
    least_difference: Annotated[int, Field(ge=2, strict=True)] | None = None  # under masks: a client opens no list of
    # survivors that differs from an earlier one by fewer clients, unless it is the same
    # DDP_ENCRYPT: rounds in which a client uploads, at most; the noise is sized for them, and not for all rounds
    participations: Annotated[Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None, Added("0.2.0")] = None
    # Bits of each number that clients are sent.
    down: Annotated[Annotated[int, Field(ge=8, le=16, strict=True)] | None, Added("0.2.0")] = None


class Unsupervised(Section):
    """How a model without labels is judged: by the clusters of the clients' inference results."""

    cluster_client_num: Count  # clients whose results are awaited
    vectors: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 8  # that each client sends in a round
    largest_score: Annotated[int, Field(ge=10, le=20_000, strict=True)] = 2000  # vectors that are scored, at most
    eval_type: Literal["SILHOUETTE_SCORE", "CALINSKI_HARABASZ_SCORE", "DAVIES_BOULDIN_SCORE"] = "SILHOUETTE_SCORE"


class Budget(Section):
    epsilon: Positive
    delta: Delta | None = None  # dp_delta by default


class Stop(Section):
    """When a run ends before its last round: a metric of the coordinator's own evaluation no longer improves."""

    metric: str  # that the task's evaluate() returns
    patience: Count  # evaluated rounds without an improvement after which the run ends
    minimum_improvement: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0  # a smaller one is none
    goal: Literal["max", "min"] | None = None  # min by default for a loss, an error or a perplexity, max for others

    @property
    def upwards(self) -> bool:
        """Whether more is better."""
        if self.goal is not None:
            return self.goal == "max"
        return not any(word in self.metric.lower() for word in ("loss", "error", "perplexity"))


class Training(Section):
    """What `fit` is told."""

    epochs: Count = 1
    batch: Count = 32
    learning_rate: Positive = 0.1
    proximal_mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0  # FedProx; 0 is FedAvg
    # Private SGD at each client: an epsilon for its records.
    privacy: Annotated[RecordPrivacy | None, Added("0.2.0")] = None


class ServerOptimizer(Section):
    """How the mean update becomes the next model."""

    kind: Literal["average", "momentum", "adam"] = "average"
    learning_rate: Positive = 1.0
    momentum: Probability = 0.9
    second_momentum: Probability = 0.99
    stability: Positive = 1e-3


class Simulation(Section):
    """Faults and seeds for `tacit run`; a real federation has its own."""

    dropout: Probability = 0.0  # of the sampled, in each round
    lateness: Probability = 0.0  # answers after the window
    bad: dict[Bad, Count] = Field(default_factory=dict)  # how many clients misbehave, and how
    workers: Annotated[int, Field(ge=0, le=64)] = 0  # processes for training; 0: in this one
    insecure_noise_seed: Annotated[int, Field(ge=0)] | None = None  # fixes noise and keys: epsilon is infinite


class Engine(Section):
    """Where `tacit run` computes; the results are the same."""

    kind: Literal["memory", "ray"] = "memory"
    address: str = "local"  # of a Ray cluster: local (one is started here), auto (the one of this machine), HOST:PORT
    workers: Annotated[int, Field(ge=1, le=4096, strict=True)] = 2  # processes on Ray, one core each

    @field_validator("address")
    @classmethod
    def _somewhere(cls, value: str) -> str:
        if value not in ("local", "auto"):
            try:
                TypeAdapter(Address).validate_python(value)
            except ValueError:
                raise ValueError(f"must be local, auto or HOST:PORT, got {value!r}") from None
        return value


class Network(OwnNetwork):
    """Where the coordinator listens, once parties live on different machines; `tacit run` needs no address."""

    coordinator: Address | None = None


class Settings(sections.Settings):
    """A horizontal federation."""

    kind: Literal["horizontal"] = "horizontal"
    name: Name = "federation"
    task: str
    task_options: dict[str, Any] = Field(default_factory=dict)
    rounds: Count
    clients: Annotated[int, Field(ge=1, le=10_000_000)]
    round: Round = Round()
    encrypt: Encrypt = Field(default_factory=Encrypt)  # not made here: it asks for protections, which import this
    unsupervised: Unsupervised | None = None
    budget: Budget | None = None
    stop: Annotated[Stop | None, Added("0.2.0")] = None
    train: Training = Training()
    server: ServerOptimizer = ServerOptimizer()
    network: Network = Network()
    simulation: Simulation = Simulation()
    engine: Engine = Engine()
    server_num: Annotated[int, Field(ge=1, le=64)] = 1  # column shards of secure aggregation
    share_model: bool = True  # whether clients keep the last model that they were sent
    seed: Seed = 0

    flat: ClassVar = {"round": Round}

    @field_validator("task")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value or value.startswith(":") or value.endswith(":"):
            raise ValueError("must be the name of a built-in task, or package.module:function")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Settings:
        from tacit.kinds.horizontal import protections

        if self.wanted > self.clients:
            raise ValueError(f"start_fl_job_threshold is {self.wanted}, but there are {self.clients} clients: lower it")
        if self.round.over_select > 1 and self.wanted == self.clients:
            raise ValueError(
                f"over_select is {self.round.over_select:g}, but every client is invited already: set "
                "start_fl_job_threshold below the number of clients"
            )
        if self.masked and self.sampled < 3:
            raise ValueError(
                f"{self.encrypt.encrypt_type} needs 3 clients in a round, got {self.sampled}: give more clients, or "
                "another encrypt_type"
            )
        self.updates.check(self)
        protections.check_offered(self.updates, self)
        if self.masked:
            secure = self.secure(columns=1, modulus_bits=64)  # refuses what is unsafe or out of reach
            if self.round.least_difference is not None and not secure.topology(secure.clients).complete:
                raise ValueError(
                    f"least_difference is {self.round.least_difference}, and on a sparse graph a client knows only its "
                    "neighbours among the survivors: take graph: complete, or leave it out"
                )
        elif self.round.least_difference is not None:
            raise ValueError(
                f"least_difference is {self.round.least_difference}, and without masks there is no list of survivors: "
                f"leave it out, or take encrypt_type: {protections.one_of('masked')}"
            )
        self._check_participations()
        self.vectors.check(self)
        if self.unsupervised is not None and self.unsupervised.cluster_client_num > self.sampled:
            raise ValueError(
                f"cluster_client_num is {self.unsupervised.cluster_client_num}, but a round has {self.sampled} "
                "clients: lower it"
            )
        if (bad := sum(self.simulation.bad.values())) > self.clients:
            raise ValueError(f"simulation.bad names {bad} clients, but there are {self.clients} clients: name fewer")
        if self.train.privacy is not None and self.unsupervised is not None:
            raise ValueError(
                "train.privacy does not cover inference vectors, which are made of single records: leave out "
                "unsupervised"
            )
        if self.budget is not None and not (self.updates.promises or self.vectors.promises):
            raise ValueError(
                f"a budget needs a protection with an epsilon, and {self.encrypt.encrypt_type} has none: "
                f"leave out budget, or take encrypt_type: {protections.one_of('promises')}"
            )
        return self

    def _check_participations(self) -> None:
        from tacit.kinds.horizontal import protections

        most = self.round.participations
        if most is None:
            return
        if not (self.updates.masked and self.updates.sized_for_rounds):
            raise ValueError(
                f"participations is {most}, and {self.encrypt.encrypt_type} has no noise that is sized for the sums "
                f"that a client is in: leave it out, or take encrypt_type: {protections.one_of('sized_for_rounds')}"
            )
        if self.sampled == self.clients:
            raise ValueError(
                f"participations is {most}, but every client is in each round: set start_fl_job_threshold below the "
                "number of clients, or leave it out"
            )
        if self.clients * most < self.rounds * self.needed:
            least = -(-self.rounds * self.needed // self.clients)
            raise ValueError(
                f"participations is {most}, so that {self.clients} clients upload {self.clients * most} times at most, "
                f"and {self.rounds} rounds need {self.rounds * self.needed} updates: set it to {least} or more, or "
                "take fewer rounds"
            )

    def secure(self, columns: int, modulus_bits: int) -> SecureSettings:
        """The secure aggregation of one round."""
        masks = self.encrypt.pw_encrypt
        return SecureSettings(
            clients=self.sampled,
            columns=columns,
            modulus_bits=modulus_bits,
            mode=self.mode,
            graph=masks.graph,
            share_secrets_ratio=self.sharing / self.sampled
            if self.sampled > self.wanted
            else masks.share_secrets_ratio,
            reconstruct_secrets_threshold=self._threshold,
            cipher_time_window=masks.cipher_time_window,
            colluders=self.colluders,
            corrupt=masks.corrupt,
            drop=masks.drop,
            minimum=self.updates.minimum(self),
        )

    @property
    def _threshold(self) -> int | None:
        """Clients that must agree on a list of survivors; None if each round derives it from those that came.

        Guarantee: with `least_difference` m in active mode, some honest client is asked for both of two lists that
        differ by fewer than m clients, and refuses one. The two are lists of at most u = sampled + (m - 1) // 2 clients
        together, and t > (u + c) / 2 sign each: more than c sign both.
        """
        given, m = self.encrypt.pw_encrypt.reconstruct_secrets_threshold, self.round.least_difference
        if m is None or self.mode != "active":
            return given
        least = active_threshold(min(self.clients, self.sampled + (m - 1) // 2), self.colluders)
        if given is None and least == active_threshold(self.sharing, self.colluders):
            return None  # every round derives as much
        if least >= self.sharing:
            raise ValueError(
                f"least_difference is {m}, for which {least} clients must agree on each list of survivors, and a round "
                f"proceeds with {self.sharing} of {self.sampled}, one of whom may leave: raise share_secrets_ratio, or "
                "take a smaller least_difference"
            )
        return max(given or 0, least)

    @property
    def wanted(self) -> int:
        """Clients that a round is meant for."""
        return self.round.start_fl_job_threshold or self.clients

    @property
    def sampled(self) -> int:
        """Clients that are sent the model in each round: with `over_select`, more than are wanted."""
        return min(self.clients, _part(self.round.over_select, self.wanted))

    @property
    def needed(self) -> int:
        """Updates without which a round changes nothing."""
        return _part(self.round.update_model_ratio, self.wanted)

    @property
    def answers(self) -> int:
        """The most that a client answers, whatever it is asked."""
        return self.rounds + self.round.abandoned_rounds

    @property
    def most_sums(self) -> int:
        """Opened sums that one client may be in, for which noise is sized: one a round, unless clients take part less
        often. See `bounded_participation`."""
        return min(self.rounds, self.round.participations or self.rounds)

    @property
    def least(self) -> int:
        """Clients without whom there is no point in opening a round."""
        return max(self.needed, self.sharing) if self.masked else self.needed

    @property
    def updates(self) -> Protection:
        """The protection of updates."""
        from tacit.kinds.horizontal import protections

        return protections.find(self.encrypt.encrypt_type)

    @property
    def vectors(self) -> VectorProtection:
        """The protection of inference vectors."""
        from tacit.kinds.horizontal import protections

        return protections.find_vectors(self.encrypt.privacy_eval_type)

    @property
    def masked(self) -> bool:
        """Whether updates leave a client only inside a secure aggregation."""
        return self.updates.masked

    @property
    def unpaid_sums(self) -> bool:
        """Whether sums are opened that no epsilon covers: then uploads for the same model are counted. With an epsilon
        a repeat is paid for in the ledger like any other answer."""
        return self.updates.masked and not self.updates.promises

    @property
    def mode(self) -> Literal["active", "semi_honest"]:
        """Whether masks hold against a coordinator that cheats."""
        return self.encrypt.pw_encrypt.mode or "semi_honest"

    @property
    def signs(self) -> bool:
        """Whether clients sign the keys of each round, and know each other's signing keys."""
        return self.masked and self.mode == "active"

    def networked(self) -> Settings:
        """The same over a network, where the coordinator may cheat unless the file says that it is trusted."""
        data = self.model_dump()
        data["encrypt"]["pw_encrypt"]["mode"] = self.encrypt.pw_encrypt.mode or "active"
        return Settings.model_validate(data)

    @property
    def spends(self) -> bool:
        """Whether anything that leaves a client has an epsilon."""
        return self.updates.promises or self.vectors.promises or self.train.privacy is not None

    @property
    def insecure(self) -> bool:
        """Whether anyone can compute noise and keys."""
        return self.simulation.insecure_noise_seed is not None

    @property
    def sharing(self) -> int:
        """Clients that must take part in sharing secrets, or a masked round ends."""
        return _part(self.encrypt.pw_encrypt.share_secrets_ratio, self.wanted)

    @property
    def colluders(self) -> int:
        """Clients that may work with the coordinator, for which masks and noise are made."""
        masks = self.encrypt.pw_encrypt
        if masks.colluders is not None:
            return masks.colluders
        if masks.collusion:
            return a_third(self.sampled)
        expected = self.encrypt.ddp_encrypt.n_min or min(self.needed, self.sharing)
        return max(1, int(masks.corrupt * expected))

    @property
    def delta(self) -> float:
        """Of each upload under local DP."""
        return self.encrypt.dp_encrypt.dp_delta or self.usual_delta

    @property
    def usual_delta(self) -> float:
        """Unless the file says otherwise. At 1 / clients alone, a few clients would have a delta that hides little."""
        return min(LARGEST_DELTA, 1 / self.clients)

    def notes(self) -> list[str]:
        """Warnings about settings that are legal."""
        found = [*self.updates.notes(self)]
        if self.encrypt.laplace_eval is not None:
            found += self.encrypt.laplace_eval.notes()
        found += self.vectors.notes(self)
        if self.masked:
            topology = self.secure(columns=1, modulus_bits=64).topology(self.sampled)
            if topology.complete and topology.minimum >= self.sharing:
                found.append(
                    f"a round needs {topology.minimum} clients to the end (colluders: {self.colluders}), and continues "
                    f"when {self.sharing} of {self.sampled} shared their secrets: then none of them may leave"
                )
        if self.stop is not None:
            found.append(
                f"the run may end before its {self.rounds} rounds: when {self.stop.metric} of the coordinator's "
                f"evaluation has not improved in {self.stop.patience} of them. Rounds that are left out cost nothing"
            )
        unseen = self.simulation.bad.keys() & {"nan", "dtype", "norm"}
        if self.masked and unseen:
            found.append(
                f"simulation.bad: {', '.join(sorted(unseen))} cannot be told apart under masks, and are not made"
            )
        if not self.masked and (unmade := self.simulation.bad.keys() & {"commitment", "share"}):
            found.append(f"simulation.bad: {', '.join(sorted(unmade))} belong to secure aggregation, and are not made")
        if self.simulation.insecure_noise_seed is not None:
            found.append("insecure_noise_seed: anyone can compute noise and keys, epsilon is infinite")
        return found


def _part(ratio: float, of: int) -> int:
    """The least whole number of at least `ratio * of`, a rounding error aside, and at least 1."""
    return max(1, math.ceil(ratio * of - 1e-9))
