"""The section `encrypt` of a horizontal file: which protections, and the keys of each.

The keys of MindSpore Federated as they are, nested (`encrypt.dp_encrypt.dp_eps`) or flat (`encrypt.dp_eps`). What a
protection does, and what is said of it, is in `protections`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from tacit.secagg.quantised import FEWEST_LEVEL_BITS, MOST_LEVEL_BITS
from tacit.sections import Added, Count, Delta, Positive, Probability, Scale, Section

Milliseconds = Annotated[int, Field(ge=1, strict=True)]


class LocalDP(Section):
    dp_eps: Positive = 50.0  # of each upload
    dp_delta: Delta | None = None  # min(1e-5, 1 / clients) by default
    dp_norm_clip: Scale = 1.0
    adaptive: bool = False  # clip to a multiple of the last released update's norm, never growing
    adaptive_factor: Positive = 2.0


def _bits(value: Any) -> Any:
    whole = type(value) is int and FEWEST_LEVEL_BITS <= value <= MOST_LEVEL_BITS
    if not whole and value is not None and value != "exact":
        raise ValueError(f"must be a whole number from {FEWEST_LEVEL_BITS} to {MOST_LEVEL_BITS}, or exact")
    return value


class PairwiseMasks(Section):
    share_secrets_ratio: Annotated[float, Field(gt=0, le=1)] = Field(default=0.8, alias="share_client_ratio")
    reconstruct_secrets_threshold: Count | None = None
    cipher_time_window: Milliseconds = 10_000
    # Of all clients, how many may work with the coordinator: masks and noise are made for the same number. If None,
    # corrupt of n_min, and at least 1: each client knows its own update and noise, and is sent the model.
    colluders: Count | None = None
    collusion: bool = False  # colluders: about a third of those that are sampled, unless a number is given
    mode: Literal["active", "semi_honest"] | None = None  # active over a network, semi_honest in one process
    graph: Literal["auto", "complete", "sparse"] = "auto"
    corrupt: Probability = 0.05
    drop: Probability = 0.3
    bound: Positive = 16.0  # no number of an update is larger
    fraction_bits: Annotated[int, Field(ge=1, le=40)] = 24
    largest_weight: Count = 100_000
    # Of each number of an update, rounded at random; masks then have bits + log2(clients) bits. exact: not rounded, and
    # in as many bits as the sums need. None: in 32 or 64, as in earlier releases.
    bits: Annotated[
        Annotated[int, Field(ge=FEWEST_LEVEL_BITS, le=MOST_LEVEL_BITS, strict=True)] | Literal["exact"] | None,
        BeforeValidator(_bits),  # one message, not one for each type that it may have
        Added("0.2.0"),
    ] = None
    clip: Annotated[Positive | None, Added("0.2.0")] = (
        None  # with bits, under PW_ENCRYPT: larger numbers of an update are clipped to it
    )


class DistributedDP(Section):
    """Noise shares inside the masks of `pw_encrypt`: the sum of all updates is (ddp_eps, ddp_delta)-DP."""

    ddp_eps: Positive | None = None  # of the whole run, against anyone who sees the sums; the budget's, or 8
    ddp_delta: Delta | None = None  # the budget's, or min(1e-5, 1 / clients)
    ddp_norm_clip: Scale = 1.0
    n_min: Annotated[int, Field(ge=2, strict=True)] | None = None  # smaller sums are not opened; those needed if None

    @model_validator(mode="before")
    @classmethod
    def _moved(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "colluders" not in data:
            return data
        if data["colluders"] is not None:  # None is what earlier runs stored
            raise ValueError("colluders holds for masks and noise alike, and belongs to pw_encrypt: move it there")
        return {key: value for key, value in data.items() if key != "colluders"}


class LaplaceEval(Section):
    laplace_eval_eps: Annotated[float, Field(ge=1e-6, le=1e9)]  # of each vector of inference results

    def notes(self) -> list[str]:
        """Said of what is written, used or not."""
        if self.laplace_eval_eps <= 10:
            return []
        return [
            f"laplace_eval_eps {self.laplace_eval_eps:g} for each vector hides nothing: "
            "who sees a vector is all but certain of what it was"
        ]


class _Registered:
    """The name of a protection: one that comes with Tacit or with an installed package."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        from tacit.kinds.horizontal import protections

        return {"enum": protections.names(), "type": "string"}


class Encrypt(Section):
    encrypt_type: Annotated[str, _Registered] = Field(default="NOT_ENCRYPT", alias="encrypt_train_type")
    dp_encrypt: LocalDP = LocalDP()
    pw_encrypt: PairwiseMasks = PairwiseMasks()
    ddp_encrypt: DistributedDP = DistributedDP()
    privacy_eval_type: Literal["NOT_ENCRYPT", "LAPLACE"] = "NOT_ENCRYPT"
    laplace_eval: LaplaceEval | None = None
    # Of a protection from outside.
    options: Annotated[dict[str, Any], Added("0.2.0")] = Field(default_factory=dict, validate_default=True)

    flat: ClassVar = {
        "dp_encrypt": LocalDP,
        "pw_encrypt": PairwiseMasks,
        "ddp_encrypt": DistributedDP,
        "laplace_eval": LaplaceEval,
    }

    @field_validator("encrypt_type")
    @classmethod
    def _known(cls, value: str) -> str:
        from tacit.kinds.horizontal import protections

        if protections.is_known(value):
            return value
        *others, last = (repr(name) for name in protections.names())
        expected = f"{', '.join(others)} or {last}"
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})

    @field_validator("options")
    @classmethod
    def _of_protection(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """With the protection's own defaults filled in, so that a stored run keeps them."""
        from tacit.kinds.horizontal import protections

        chosen = info.data.get("encrypt_type")  # missing if it is wrong itself: the user is told that
        return protections.options_of(chosen, value) if chosen is not None else value

    @model_validator(mode="after")
    def _fits(self) -> Encrypt:
        if self.privacy_eval_type == "LAPLACE" and self.laplace_eval is None:
            raise ValueError("privacy_eval_type is LAPLACE, which needs an epsilon: add laplace_eval_eps")
        return self
