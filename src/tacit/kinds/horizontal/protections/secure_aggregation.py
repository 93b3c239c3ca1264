"""Masks alone: the coordinator learns the sum of all updates, exactly, and no single one."""

from __future__ import annotations

from tacit.boundary import Release
from tacit.kinds.horizontal.protections.contract import Inside, Price, Protection
from tacit.kinds.horizontal.settings import Settings


class SecureAggregation(Protection):
    name = "PW_ENCRYPT"
    label = "secure aggregation"
    summary = "PW_ENCRYPT: masks, so that only the sum is seen"
    section = "pw_encrypt"
    protects = True
    promises = False
    masked = True
    weighted = True
    hides_failure = False
    inversions = (("imprint", "sum"), ("closed form", "sum"), ("closed form", "upload"))

    def unprotected(self, settings: Settings) -> list[str]:
        """No epsilon, and what sums over nearly the same clients tell a coordinator that chooses whom it leaves out."""
        again = settings.round.repeats
        found = [
            "No epsilon: what the sum of all updates, and so the model, tells about a client is not bounded.",
            "Two sums over nearly the same clients differ by the updates and sample counts of the few that are in one "
            "of them alone. A client uploads for a model that it has uploaded for before at most "
            f"{again} times in a run (round.repeats): each repeat may cost one such difference.",
            "A coordinator that moves the model a little each round still learns from differences: two rounds may tell "
            "it the update of one client, nearly exactly. Only noise (DDP_ENCRYPT) answers that.",
        ]
        least = settings.round.least_difference
        if least is not None:
            found.append(
                f"Clients that do not work with the coordinator refuse to open two sums whose survivors differ by 1 to "
                f"{least - 1} clients (round.least_difference: {least}). Several sums that differ by more can still be "
                "solved for one client."
            )
        return found

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        how = "masked: the coordinator learns only the sum over the survivors; what the sum tells is not hidden"
        return (Release("Masked", "words", "the update times the number of samples, and that number", how),)

    def noise(self, settings: Settings, size: int) -> list[str]:
        step = 2.0**-settings.encrypt.pw_encrypt.fraction_bits
        return [f"Updates carry no noise: sums are exact but for rounding each number to {step:.2g}."]

    def mechanism(self, settings: Settings, size: int) -> Inside:
        from tacit.kinds.horizontal.protection import masked_sum

        return masked_sum(settings, size)  # type: ignore[return-value]


PROTECTION = SecureAggregation()
