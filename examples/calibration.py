"""How much noise for how much privacy: the three questions that come before any private run.

Run it: python examples/calibration.py
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from tacit.dp import calibration, mechanisms
from tacit.dp.accounting import Budget, Ledger, reading
from tacit.dp.release import GaussianEvent
from tacit.errors import BudgetError

DELTA = 1e-5
console = Console(width=110, highlight=False)


def what_an_epsilon_means() -> None:
    table = Table(title="What an epsilon means for an attacker who guesses whether you took part")
    for heading in ("epsilon", "belief after a 50% prior", "true positives at 1% false ones"):
        table.add_column(heading, justify="right")
    for epsilon in (0.1, 1.0, 3.0, 8.0, 230_260.0):
        found = reading(epsilon)
        table.add_row(f"{epsilon:g}", f"{found.posterior:.2%}", f"{found.true_positives_at_1_percent:.2%}")
    console.print(table)


def noise_for_one_upload() -> None:
    """A client's update, clipped to norm 1: two such updates are up to 2 apart."""
    table = Table(title=f"Gaussian noise on one upload clipped to norm 1 (delta {DELTA:g}, replace-one: sensitivity 2)")
    for heading in ("epsilon", "sigma", "error of a mean over 1000 clients"):
        table.add_column(heading, justify="right")
    for epsilon in (1.0, 8.0, 50.0):
        multiplier = calibration.gaussian_sigma(epsilon, DELTA)
        uploads = mechanisms.gaussian(np.zeros((1000, 20)), sensitivity=2.0, noise_multiplier=multiplier)
        error = float(np.abs(uploads.value.mean(axis=0)).mean())
        table.add_row(f"{epsilon:g}", f"{2 * multiplier:.3f}", f"{error:.4f}")
    console.print(table)


def noise_for_a_training() -> None:
    """Ten epochs of private SGD over 60,000 records in Poisson batches of 256."""
    q = 256 / 60_000
    steps = round(10 / q)
    table = Table(title=f"Noise multiplier for {steps} steps on 256 of 60,000 records (delta {DELTA:g})")
    for heading in ("epsilon wanted", "noise multiplier", "epsilon by PLD", "by RDP"):
        table.add_column(heading, justify="right")
    for epsilon in (1.0, 3.0, 8.0):
        with console.status(f"calibrating epsilon {epsilon:g}"):
            multiplier = calibration.noise_multiplier(epsilon, DELTA, steps=steps, sampling_probability=q)
        ledger = Ledger("record", "add-remove")
        ledger.spend(GaussianEvent(multiplier, "record", "add-remove", q), steps)
        by_pld, by_rdp = ledger.epsilon(DELTA), ledger.epsilon(DELTA, "rdp")
        table.add_row(f"{epsilon:g}", f"{multiplier:.4f}", f"{by_pld:.4f}", f"{by_rdp:.4f}")
    console.print(table)


def a_budget_that_holds() -> None:
    ledger = Ledger("client", "replace-one", Budget(epsilon=8.0, delta=DELTA))
    rounds = 0
    try:
        while True:
            upload = mechanisms.gaussian(np.zeros(100), sensitivity=2.0, noise_multiplier=2.0)
            ledger.release(upload)
            rounds += 1
    except BudgetError as refusal:
        console.print(f"A budget of epsilon 8 took {rounds} uploads at noise multiplier 2, then: {refusal}.")


if __name__ == "__main__":
    what_an_epsilon_means()
    noise_for_one_upload()
    noise_for_a_training()
    a_budget_that_holds()
