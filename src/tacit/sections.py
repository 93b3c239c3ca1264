"""What the settings of every kind are made of: frozen sections of a file, and the numbers in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, strict=True)]  # strict: true is no number
Scale = Annotated[float, Field(ge=1e-12, le=1e12)]  # of norms
Delta = Annotated[float, Field(ge=1e-100, lt=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$")]
Seed = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Added:
    """Marks a key that files of earlier releases do not have, as in `Annotated[int | None, Added("0.3.0")]`.

    Its default is what was done before it existed. A key with that value is left out of all that is stored, hashed or
    compared: so runs of earlier releases are resumed, and neighbouring releases agree on a file. Any other value is a
    difference, if the other release does not know the key; so is the default itself where it `changes` what is done.
    """

    since: str
    changes: bool = False


class Section(BaseModel):
    """A part of the file: unknown keys are an error, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    flat: ClassVar[dict[str, type[Section]]] = {}  # parts whose keys may also stand here, one level up

    @model_validator(mode="before")
    @classmethod
    def _nest(cls, data: Any) -> Any:
        """Put flat keys into their sections."""
        if not isinstance(data, dict):
            return data
        nested = dict(data)
        for section, model in cls.flat.items():
            names = {key for name, info in model.model_fields.items() for key in (name, info.alias or name)}
            moved = {key: nested.pop(key) for key in names & nested.keys()}
            inner = nested.get(section)
            if moved and (inner is None or isinstance(inner, dict)):
                nested[section] = {**(inner or {}), **moved}
        return nested

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the keys whose values change nothing, which earlier releases do not know (`Added`)."""
        data: dict[str, Any] = handler(self)
        for name, info in type(self).model_fields.items():
            for mark in info.metadata:
                if isinstance(mark, Added) and not mark.changes and getattr(self, name) == _default(info):
                    data.pop(name, None)
        return data


def _default(info: FieldInfo) -> Any:
    return info.get_default(call_default_factory=True, validated_data={})


class Settings(Section):
    """What the file of any kind says. Only these two fields: more would reorder every stored file."""

    kind: str
    name: str

    @property
    def insecure(self) -> bool:
        """Whether noise, masks or keys are fixed, so that nothing is protected."""
        return False

    @property
    def counts_whole_model(self) -> bool:
        """Whether each of several parties tells how many parameters all have together, and not only itself."""
        return False

    def notes(self) -> list[str]:
        """Warnings, before it runs."""
        return []


def _address(value: str) -> str:
    """HOST:PORT, with a host in brackets if it has colons of its own."""
    host, _, port = value.rpartition(":")
    plain = (host.startswith("[") and host.endswith("]")) or (":" not in host and "/" not in host and " " not in host)
    if not host or not plain or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ValueError("must be HOST:PORT, with a port from 1 to 65535")
    return value


Address = Annotated[str, AfterValidator(_address)]


def _patience(value: Any) -> float | str:
    seconds = type(value) in (int, float) and 0 < value <= 1e9  # Python's locks cannot wait for 1e10
    if not seconds and value != "forever":
        raise ValueError("must be seconds above 0 and at most 1e9, or forever")
    return "forever" if value == "forever" else float(value)


class Network(Section):
    """How a party treats its network. It is the party's own: never compared, and free to change when a run resumes."""

    patience: Annotated[float | Literal["forever"], PlainValidator(_patience)] = (
        3600.0  # seconds to wait for a party that is away; then exit code 5
    )
    lost_after: Positive = 15.0  # seconds after which a party whose connection broke does not hold up the others
    connections: Count | None = None  # to the party that listens, in all; by default as many as its parties need
    unauthenticated: Count = 64  # connections of one address that have not shown a certificate yet
    handshake: Positive = 10.0  # seconds to show it
    least_rate: Count = 16_384  # bytes a second of a message that is under way; slower ones lose their connection
    memory: Annotated[int, Field(ge=1 << 20, strict=True)] = 1 << 30  # bytes for messages that are under way

    @property
    def waits(self) -> float:
        """The patience in seconds; infinite for `forever`."""
        return math.inf if self.patience == "forever" else float(self.patience)

    def adjusted(self, own: Network | None) -> Network:
        """With the values that a party's local file gives."""
        return (
            self if own is None else self.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
        )


def flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of nested settings with its key, as in `encrypt.dp_encrypt.dp_eps`."""
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def meeting_party(lead: str, addresses: Mapping[str, str | None]) -> str:
    """Whom the others connect to: the lead if it has an address, or else the first party that has one."""
    if addresses[lead] is not None:
        return lead
    return next((name for name, address in addresses.items() if address is not None), lead)
