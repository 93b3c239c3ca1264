"""What accounting takes: the epsilon of a training whose noise falls through sixty levels.

- By RDP, without what earlier calls left in the cache, against dp_accounting's accountant with the same orders.
- By PLD, against dp_accounting's accountant with losses rounded to 10^-4.
"""

from __future__ import annotations

import dp_accounting
from dp_accounting import pld, rdp

from bench.measure import CPU, Options, Row, Side, interleave, time_row
from tacit.dp import pricing
from tacit.dp.accounting import Ledger
from tacit.dp.release import GaussianEvent

LEVELS, STEPS, PROBABILITY, DELTA = 60, 234, 256 / 60_000, 1e-5
SECONDS = 3.0  # for sixty levels by RDP


def _event(level: int) -> GaussianEvent:
    return GaussianEvent(1.1 - 0.005 * level, "record", "add-remove", PROBABILITY)


def _ledger(levels: int) -> Ledger:
    ledger = Ledger("record", "add-remove")
    for level in range(levels):
        ledger.spend(_event(level), STEPS)
    return ledger


def by_rdp(levels: int) -> float:
    pricing.epsilon_of.cache_clear()
    pricing._rdp_of_one.cache_clear()
    return _ledger(levels).epsilon(DELTA, "rdp")


def by_dp_accounting(levels: int) -> float:
    accountant = rdp.RdpAccountant(pricing._orders())
    for level in range(levels):
        noise = dp_accounting.GaussianDpEvent(_event(level).noise_multiplier)
        step = dp_accounting.PoissonSampledDpEvent(PROBABILITY, noise)
        accountant.compose(dp_accounting.SelfComposedDpEvent(step, STEPS))
    return float(accountant.get_epsilon(DELTA))


def by_pld(levels: int) -> float:
    pricing.epsilon_of.cache_clear()
    pricing._composed.cache_clear()
    return _ledger(levels).epsilon(DELTA)


def by_their_pld(levels: int) -> float:
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
    for level in range(levels):
        noise = dp_accounting.GaussianDpEvent(_event(level).noise_multiplier)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(PROBABILITY, noise), STEPS)
    return float(accountant.get_epsilon(DELTA))


def run(options: Options) -> list[Row]:
    levels = 10 if options.quick else LEVELS
    ours, theirs = by_rdp(levels), by_dp_accounting(levels)
    if abs(ours / theirs - 1) > 1e-6:
        raise RuntimeError(f"epsilon is {ours}, by dp_accounting {theirs}")
    pair = interleave(
        Side(lambda: by_rdp(levels)), Side(lambda: by_dp_accounting(levels)), options.budget.share(2), clock=CPU
    )
    floor = SECONDS * levels / LEVELS
    rows = [time_row(f"{levels} noise levels of {STEPS} steps, RDP", pair, floor=floor, judged="ours")]
    few = 2 if options.quick else 10
    ours, theirs = by_pld(few), by_their_pld(few)
    if not 0.999 < ours / theirs < 1.001:
        raise RuntimeError(f"epsilon by PLD is {ours}, by dp_accounting {theirs}")
    pair = interleave(
        Side(lambda: by_pld(few)), Side(lambda: by_their_pld(few)), options.budget.share(1), rounds=3, clock=CPU
    )
    return [*rows, time_row(f"{few} noise levels of {STEPS} steps, PLD", pair)]
