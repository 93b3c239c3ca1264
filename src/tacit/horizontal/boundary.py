"""The release boundary: everything that leaves a client of a horizontal federation, and how it is protected.

A test records the messages of runs and compares them with this list.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.horizontal.settings import EncryptType


@dataclass(frozen=True, slots=True)
class Release:
    """One thing that leaves a client, to the coordinator."""

    message: str
    field: str
    what: str
    protection: str


_ROUND = "a number that the coordinator chose"
_MASK_MESSAGES = (
    Release("Advertise", "sender", "who takes part", "in the clear"),
    Release("Advertise", "sealing_key", "a public key, fresh for each round", "in the clear"),
    Release("Advertise", "masking_key", "a public key, fresh for each round", "in the clear"),
    Release("Advertise", "signature", "a signature on the keys", "in the clear"),
    Release("Shares", "session", "a digest that all parties know", "in the clear"),
    Release("Shares", "sender", "who takes part", "in the clear"),
    Release("Shares", "commitment", "a hash of a random seed", "in the clear"),
    Release("Shares", "sealed", "shares of the round's secrets", "sealed for other clients (AES-GCM)"),
    Release("Masked", "session", "a digest that all parties know", "in the clear"),
    Release("Masked", "sender", "who takes part", "in the clear"),
    Release(
        "Masked",
        "words",
        "the update times the number of samples, and that number",
        "masked: the coordinator learns only the sum over the survivors; what the sum tells is not hidden",
    ),
    Release("Agreed", "session", "a digest that all parties know", "in the clear"),
    Release("Agreed", "sender", "who takes part", "in the clear"),
    Release("Agreed", "signature", "a signature on the list of survivors", "in the clear"),
    Release("Reveal", "session", "a digest that all parties know", "in the clear"),
    Release("Reveal", "sender", "who takes part", "in the clear"),
    Release("Reveal", "ids", "whose shares these are", "in the clear"),
    Release("Reveal", "shares", "shares that open the masks left in the sum", "in the clear"),
    Release("Abort", "reason", "why a client leaves", "in the clear; no private values"),
)

RELEASES: dict[EncryptType, tuple[Release, ...]] = {
    "NOT_ENCRYPT": (
        Release("Update", "round", _ROUND, "in the clear"),
        Release("Update", "sender", "who takes part", "in the clear"),
        Release("Update", "vector", "the trained model", "in the clear"),
        Release("Update", "samples", "the number of samples", "in the clear"),
        Release("Update", "loss", "the training loss", "in the clear"),
    ),
    "DP_ENCRYPT": (
        Release("Update", "round", _ROUND, "in the clear"),
        Release("Update", "sender", "who takes part", "in the clear"),
        Release("Update", "vector", "the update", "clipped, with Gaussian noise: (dp_eps, dp_delta) for each upload"),
    ),
    "PW_ENCRYPT": _MASK_MESSAGES,
}
