"""Integer noise against OpenDP: discrete Gaussian and discrete Laplace, one core, secure randomness on both sides.

The floors are absolute rates; the ratio to OpenDP is shown beside them.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from bench.measure import CPU, Options, Row, Side, interleave, rate_row
from tacit.dp import noise
from tacit.randomness import secure_rng

GAUSSIAN_SIGMAS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
LAPLACE_SCALES = (1.0, 100.0, 10_000.0, 2.0**30)
SKELLAM_VARIANCES = (100.0, 1e6)


def run(options: Options) -> list[Row]:
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64"))
    count = 1 << 20 if options.quick else 1 << 23
    peer_count = 5_000 if options.quick else 50_000
    zeros = [0] * peer_count
    rng = secure_rng()
    rows: list[Row] = []
    left = len(GAUSSIAN_SIGMAS) + len(LAPLACE_SCALES) + len(SKELLAM_VARIANCES)

    def add(name: str, ours: Callable[[], Any], peer: Callable[[Any], Any] | None, floor: float, target: float) -> None:
        side = Side(lambda: peer(zeros), work=peer_count) if peer else None
        pair = interleave(Side(ours, work=count), side, options.budget.share(left - len(rows)), clock=CPU)
        rows.append(rate_row(name, pair, unit="samples", floor=floor, target=target, judged="ours"))

    for sigma in GAUSSIAN_SIGMAS:
        peer = opendp.m.make_gaussian(space, opendp.l2_distance(T=float), scale=sigma)
        add(
            f"discrete Gaussian, sigma {sigma:g}",
            lambda sigma=sigma: noise.discrete_gaussian(sigma, count, rng),  # type: ignore[misc]
            peer,
            floor=10e6,
            target=56e6,
        )
    for scale in LAPLACE_SCALES:
        peer = opendp.m.make_laplace(space, opendp.l1_distance(T="i64"), scale=scale)
        rate = 1 / Fraction(scale)
        add(
            f"discrete Laplace, scale {scale:g}",
            lambda rate=rate: noise.discrete_laplace(rate, count, rng),  # type: ignore[misc]
            peer,
            floor=3e6,
            target=10e6,
        )
    for variance in SKELLAM_VARIANCES:
        draw = lambda variance=variance: noise.skellam(variance, count, rng)  # type: ignore[misc] # noqa: E731
        add(f"Skellam, variance {variance:g}", draw, None, floor=10e6, target=50e6)
    return rows
