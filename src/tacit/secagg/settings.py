"""What the parties of an aggregation agree on before it starts, checked so that it can succeed and be safe.

`share_secrets_ratio`, `reconstruct_secrets_threshold` and `cipher_time_window` are the names of MindSpore Federated.
"""

from __future__ import annotations

import math
import operator
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import msgspec

from tacit.fixedpoint import FEWEST_BITS, MOST_BITS, WordType, word_type
from tacit.secagg.graph import Degree, degree
from tacit.secagg.packed_words import packed_bytes

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
        modulus_bits: of a ring word, 8 to 64: on the wire a vector takes as many for each column.
        mode: `active`: the server may cheat; complete graph, identities, a consistency check. `semi_honest`: it follows
            the protocol but looks at everything; large cohorts may use a sparse graph.
        graph: `auto` is sparse if mode and size allow it and no threshold is set.
        share_secrets_ratio: this part of the invited must take part in sharing, or the round ends.
        reconstruct_secrets_threshold: shares that open a secret, on the complete graph; see `least_threshold`, which is
            taken if None. On a sparse graph it is derived.
        cipher_time_window: milliseconds that each stage may take.
        colluders: clients that may work together with the server and still open nothing but the sum. If None: 1, or
            about a third of the invited with `collusion` (see `a_third`).
        corrupt, drop: sparse graph only: the part of the invited that may be corrupt (never fewer than `colluders`),
            and of those that came that may leave.
        minimum: nobody takes part in smaller sums. With c colluders a sum hides each vector among minimum - c, which
            must be 2 or more.
    """

    clients: int
    columns: int
    modulus_bits: int = 32
    mode: Mode = "active"
    graph: Graph = "auto"
    share_secrets_ratio: float = 0.8
    reconstruct_secrets_threshold: int | None = None
    cipher_time_window: int = 10_000
    colluders: int | None = None
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
                f"{self.clients} clients, {self._corrupt} of them corrupt and {self.drop:.0%} leaving, are too few for "
                "a sparse graph: take graph: complete"
            )
        self._check_survivors()
        topology = self.topology(self.clients)
        if topology.complete and self.clients > _LARGEST_COMPLETE:
            raise ValueError(
                f"on the complete graph every client works for all {self.clients} others, and {_LARGEST_COMPLETE} are "
                "the most: take mode: semi_honest with graph: sparse, or smaller rounds"
            )
        if topology.complete:
            self._check_threshold(topology.threshold)

    @classmethod
    def of(cls, **keys: Any) -> Settings:
        """Settings from configuration keys, aliases included."""
        named: dict[str, Any] = {}
        known = {field.name for field in fields(cls)}
        for key, value in keys.items():
            name = _ALIASES.get(key, key)
            if name not in known:
                raise ValueError(
                    f"{key!r} is not a setting of secure aggregation; known are {', '.join(sorted(known))}"
                )
            if name in named:
                raise ValueError(f"{name} is given twice, once as an alias: keep one")
            named[name] = value
        return cls(**named)

    @property
    def sharing(self) -> int:
        """How many must take part in sharing."""
        return math.ceil(self.share_secrets_ratio * self.clients - 1e-9)

    @property
    def tolerated(self) -> int:
        """The number of colluders that masks are made for."""
        if self.colluders is not None:
            return self.colluders
        return a_third(self.clients) if self.collusion else 1

    @property
    def word_type(self) -> WordType:
        """In which words are added up."""
        return word_type(self.modulus_bits)

    @property
    def vector_bytes(self) -> int:
        """Of a masked vector on the wire."""
        return packed_bytes(self.columns, self.modulus_bits)

    def topology(self, n: int) -> Topology:
        """The graph over `n` clients that advertised: all who hold shares are among them."""
        minimum = max(self.minimum or 0, self.tolerated + 2)
        worth_it = self.graph == "sparse" or (self.graph == "auto" and self.clients >= _LARGE)
        if self.mode == "semi_honest" and worth_it and self.reconstruct_secrets_threshold is None:
            sparse = self._sparse(n)
            if sparse is not None:
                return Topology(sparse.neighbours, sparse.threshold, max(n - self._gone(n), minimum))
        threshold = self.reconstruct_secrets_threshold or self.least_threshold(n)
        return Topology(None, threshold, max(threshold, minimum))

    def least_threshold(self, n: int) -> int:
        """The least safe threshold t on the complete graph of `n` clients, c of whom may collude.

        Guarantee: in active mode 2t > n + c. To open one vector, a server needs t shares of the owner's seed and t of
        its masking key, and t signatures for the list of survivors that asks for either. An honest client signs one
        list and reveals one kind; c colluders give both: n - c + 2c in all, fewer than 2t. In semi-honest mode the
        server asks for one kind only: t > c keeps the other closed, and t > n/2 as in the paper.
        Source: Bonawitz et al. 2017, section 6.2: active adversaries, the server among them.
        """
        if self.mode == "active":
            return active_threshold(n, self.tolerated)
        return max(n // 2, self.tolerated) + 1

    def _sparse(self, n: int) -> Degree | None:
        bad = self._corrupt
        return degree(n, bad, self._gone(n)) if bad < n else None

    @property
    def _corrupt(self) -> int:
        """On a sparse graph. All of them may be among those that came."""
        return max(1, math.ceil(self.corrupt * self.clients - 1e-9), self.tolerated)

    def _gone(self, n: int) -> int:
        return max(1, math.ceil(self.drop * n - 1e-9))

    def _check_survivors(self) -> None:
        """Every sum must hold two vectors or more that no colluder knows."""
        least = self.tolerated + 2
        if least > self.sharing:
            raise ValueError(
                f"{self.clients} clients are too few for {self.tolerated} colluders: a sum needs two others, so "
                f"{least} clients, and a round proceeds with {self.sharing}: lower colluders, or raise "
                "share_secrets_ratio or the number of clients"
            )
        if self.minimum is not None and not least <= self.minimum <= self.sharing:
            raise ValueError(
                f"minimum is {self.minimum}, but a round proceeds with {self.sharing} of {self.clients} clients, and "
                f"{self.tolerated} colluders ask for {least} or more in a sum: take {least} to {self.sharing}"
            )

    def _check_threshold(self, threshold: int) -> None:
        """For a round in which all come. It then holds for every smaller one: the least threshold falls with n."""
        least, colluders = self.least_threshold(self.clients), self.tolerated
        if threshold < least:
            half = f"half of {self.clients} + {colluders}" if self.mode == "active" else f"half, and than {colluders}"
            raise ValueError(
                f"reconstruct_secrets_threshold is {threshold}, {self.clients} clients need more than {half} "
                f"(colluders: {colluders}): set {least} or more, or leave it out"
            )
        # A threshold that was set leaves room for a client to go. The derived one is the least that is safe.
        if threshold > self.sharing - (self.reconstruct_secrets_threshold is not None):
            raise ValueError(
                f"secrets need {threshold} shares to open (colluders: {colluders}), and a round proceeds with "
                f"{self.sharing} of {self.clients} clients sharing, which is too few: raise share_secrets_ratio, or "
                f"lower {'colluders' if threshold == least else 'reconstruct_secrets_threshold'}"
            )

    def digest_input(self) -> bytes:
        """What both sides must agree on, for hashing."""
        return msgspec.msgpack.encode(sorted((asdict(self) | {"colluders": self.tolerated}).items()))


def active_threshold(clients: int, colluders: int) -> int:
    """The least t of which any two sets among the clients have more than the colluders in common: 2t > n + c."""
    return (clients + colluders) // 2 + 1


def a_third(clients: int) -> int:
    """The colluders that t = floor(2n/3) + 1 bears in active mode: 2t - n - 1, about a third of n."""
    return 2 * (2 * clients // 3 + 1) - clients - 1


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
_INTEGERS_OR_NONE = ("reconstruct_secrets_threshold", "minimum", "colluders")
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
    require(FEWEST_BITS <= settings.modulus_bits <= MOST_BITS, "modulus_bits", f"{FEWEST_BITS} to {MOST_BITS}")
    require(settings.mode in ("active", "semi_honest"), "mode", "active or semi_honest")
    require(settings.graph in ("auto", "complete", "sparse"), "graph", "auto, complete or sparse")
    require(0 < settings.share_secrets_ratio <= 1, "share_secrets_ratio", "in (0, 1]")
    require(settings.cipher_time_window > 0, "cipher_time_window", "above 0 milliseconds")
    require(0 <= settings.corrupt < 1, "corrupt", "in [0, 1)")
    require(0 <= settings.drop < 1, "drop", "in [0, 1)")
    threshold, minimum = settings.reconstruct_secrets_threshold, settings.minimum
    require(threshold is None or threshold >= 1, "reconstruct_secrets_threshold", "at least 1")
    require(minimum is None or minimum >= 2, "minimum", "at least 2")
    require(settings.colluders is None or settings.colluders >= 0, "colluders", "at least 0")
