"""What the parties of an aggregation agree on before it starts, checked so that it can succeed and be safe.

`share_secrets_ratio`, `reconstruct_secrets_threshold` and `cipher_time_window` are the names of MindSpore Federated.
"""

from __future__ import annotations

import math
import operator
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import msgspec

from tacit.secagg.graph import Degree, degree

Mode = Literal["active", "semi_honest"]
Graph = Literal["auto", "complete", "sparse"]
_LARGE = 100  # from here on `auto` takes the sparse graph: below it, little is gained
_LARGEST_COMPLETE = 5000  # a client then needs some 0.5 GB for its shares
_ALIASES = {"share_client_ratio": "share_secrets_ratio"}


@dataclass(frozen=True, slots=True)
class Settings:
    """One aggregation of `clients` vectors of `columns` ring words.

    Args:
        clients: how many are invited.
        columns: ring words in a vector.
        modulus_bits: 32 or 64.
        mode: `active`: the server may cheat; complete graph, identities, a consistency check. `semi_honest`: it follows
            the protocol but looks at everything; large cohorts may use a sparse graph.
        graph: `auto` is sparse where mode and size allow it and no threshold is set.
        share_secrets_ratio: this part of the invited must take part in sharing, or the round ends.
        reconstruct_secrets_threshold: shares that open a secret, on the complete graph: more than half of the clients,
            more than two thirds with `collusion`. The least such number if None. On a sparse graph it is derived.
        cipher_time_window: milliseconds that each stage may take.
        collusion: whether clients may work together with the server. In active mode 2t - n - 1 of them gain nothing:
            with the least threshold that is none or one without `collusion`, and about a third with it.
        corrupt, drop: sparse graph only: the part of the invited that may be corrupt, and of those that came that may
            leave.
        minimum: nobody takes part in smaller sums. With c corrupt clients a sum hides its parts among minimum - c.
    """

    clients: int
    columns: int
    modulus_bits: int = 32
    mode: Mode = "active"
    graph: Graph = "auto"
    share_secrets_ratio: float = 0.8
    reconstruct_secrets_threshold: int | None = None
    cipher_time_window: int = 10_000
    collusion: bool = False
    corrupt: float = 0.05
    drop: float = 0.05
    minimum: int | None = None

    def __post_init__(self) -> None:
        _normalise(self)
        _check_ranges(self)
        if self.mode == "active" and self.graph == "sparse":
            raise ValueError("active mode needs the complete graph: take graph: complete, or mode: semi_honest")
        if self.graph == "sparse" and self.reconstruct_secrets_threshold is not None:
            raise ValueError(
                f"reconstruct_secrets_threshold is derived on a sparse graph, not set: leave out "
                f"{self.reconstruct_secrets_threshold}, or take graph: complete"
            )
        if self.graph == "sparse" and self._sparse(self.clients) is None:
            raise ValueError(
                f"{self.clients} clients, {self.corrupt:.0%} of them corrupt and {self.drop:.0%} leaving, are too few "
                "for a sparse graph: take graph: complete"
            )
        topology = self.topology(self.clients)
        if topology.complete and self.clients > _LARGEST_COMPLETE:
            raise ValueError(
                f"on the complete graph every client works for all {self.clients} others, and {_LARGEST_COMPLETE} are "
                "the most: take mode: semi_honest with graph: sparse, or smaller rounds"
            )
        if topology.complete:
            self._check_threshold(topology.threshold)
        if self.minimum is not None and self.minimum > self.sharing:
            raise ValueError(
                f"minimum is {self.minimum}, but a round goes on with {self.sharing} of {self.clients} clients: "
                "lower it or raise share_secrets_ratio"
            )

    @classmethod
    def of(cls, **keys: Any) -> Settings:
        """Settings from configuration keys, aliases included."""
        named: dict[str, Any] = {}
        known = {field.name for field in fields(cls)}
        for key, value in keys.items():
            name = _ALIASES.get(key, key)
            if name not in known:
                raise ValueError(f"{key!r} is no setting of secure aggregation: known are {', '.join(sorted(known))}")
            if name in named:
                raise ValueError(f"{name} is given twice, once as an alias: keep one")
            named[name] = value
        return cls(**named)

    @property
    def sharing(self) -> int:
        """How many must take part in sharing."""
        return math.ceil(self.share_secrets_ratio * self.clients - 1e-9)

    @property
    def word_bytes(self) -> int:
        return self.modulus_bits // 8

    def topology(self, n: int) -> Topology:
        """The graph over `n` clients that advertised."""
        worth_it = self.graph == "sparse" or (self.graph == "auto" and self.clients >= _LARGE)
        if self.mode == "semi_honest" and worth_it and self.reconstruct_secrets_threshold is None:
            sparse = self._sparse(n)
            if sparse is not None:
                return Topology(sparse.neighbours, sparse.threshold, max(n - self._gone(n), self.minimum or 0))
        threshold = self.reconstruct_secrets_threshold or self._least_threshold
        return Topology(None, threshold, max(threshold, self.minimum or 0))

    def _sparse(self, n: int) -> Degree | None:
        # The corrupt may all be among the n that came. At least one client is taken to be corrupt, and one to leave.
        bad = max(1, math.ceil(self.corrupt * self.clients - 1e-9))
        return degree(n, bad, self._gone(n)) if bad < n else None

    def _gone(self, n: int) -> int:
        return max(1, math.ceil(self.drop * n - 1e-9))

    @property
    def _least_threshold(self) -> int:
        return math.floor(self.clients * (2 / 3 if self.collusion else 1 / 2) + 1e-9) + 1

    def _check_threshold(self, threshold: int) -> None:
        if threshold < self._least_threshold:
            part = "two thirds" if self.collusion else "half"
            raise ValueError(
                f"reconstruct_secrets_threshold is {threshold}, {self.clients} clients need more than {part}: "
                f"{self._least_threshold} or more"
            )
        if self._least_threshold >= self.clients:
            raise ValueError(
                f"{self.clients} clients are too few: {self._least_threshold} shares would be needed, and one may drop"
            )
        if threshold >= self.sharing:
            raise ValueError(
                f"secrets need {threshold} shares to open, and a round goes on with {self.sharing} of {self.clients} "
                "clients sharing, which must be more: raise share_secrets_ratio or lower reconstruct_secrets_threshold"
            )

    def digest_input(self) -> bytes:
        """What both sides must agree on, for hashing."""
        return msgspec.msgpack.encode(sorted(asdict(self).items()))


@dataclass(frozen=True, slots=True)
class Topology:
    """A graph, its threshold, and the fewest survivors with which it is safe."""

    neighbours: int | None  # None: the complete graph
    threshold: int
    minimum: int

    @property
    def complete(self) -> bool:
        return self.neighbours is None


_INTEGERS = ("clients", "columns", "modulus_bits", "cipher_time_window")
_INTEGERS_OR_NONE = ("reconstruct_secrets_threshold", "minimum")
_FLOATS = ("share_secrets_ratio", "corrupt", "drop")


def _normalise(settings: Settings) -> None:
    """One type for each field, so that equal settings have equal digests."""
    for name in (*_INTEGERS, *_INTEGERS_OR_NONE, *_FLOATS):
        value = getattr(settings, name)
        if value is None and name in _INTEGERS_OR_NONE:
            continue
        kind, what = (float, "a number") if name in _FLOATS else (operator.index, "a whole number")
        if isinstance(value, bool | str):
            raise ValueError(f"{name} must be {what}, got {value!r}")
        try:
            object.__setattr__(settings, name, kind(value))
        except TypeError:
            raise ValueError(f"{name} must be {what}, got {value!r}") from None
    if not isinstance(settings.collusion, bool):
        raise ValueError(f"collusion must be true or false, got {settings.collusion!r}")


def _check_ranges(settings: Settings) -> None:
    def require(holds: bool, name: str, bound: str) -> None:
        if not holds:
            raise ValueError(f"{name} must be {bound}, got {getattr(settings, name)!r}")

    require(3 <= settings.clients < 2**31, "clients", "at least 3: with two, each learns the other's vector")
    require(1 <= settings.columns < 2**40, "columns", "at least 1")
    require(settings.modulus_bits in (32, 64), "modulus_bits", "32 or 64")
    require(settings.mode in ("active", "semi_honest"), "mode", "active or semi_honest")
    require(settings.graph in ("auto", "complete", "sparse"), "graph", "auto, complete or sparse")
    require(0 < settings.share_secrets_ratio <= 1, "share_secrets_ratio", "in (0, 1]")
    require(settings.cipher_time_window > 0, "cipher_time_window", "above 0 milliseconds")
    require(0 <= settings.corrupt < 1, "corrupt", "in [0, 1)")
    require(0 <= settings.drop < 1, "drop", "in [0, 1)")
    threshold, minimum = settings.reconstruct_secrets_threshold, settings.minimum
    require(threshold is None or threshold >= 1, "reconstruct_secrets_threshold", "at least 1")
    require(minimum is None or minimum >= 2, "minimum", "at least 2")
