"""Box and Muller's transformation compiled by numba (extra `fast`): one pass over the words of a block, without torch.

    kernel = box_muller()      # None where numba is missing
    tails = kernel(radius_words, angle_words, first, second, deviation)

Compiled once and kept on disk by numba, beside this file or in NUMBA_CACHE_DIR. If that cannot be written or read (a
full disk, a file that was cut off) it is compiled in each process.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

_SIGNATURE = "int64(int64[::1], int32[::1], float32[::1], float32[::1], float32)"
_LEAST = 2.0**-128
_HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of √½ as a float64
_FRACTION = 0xFFFFFFFFFFFFF
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first without its last bits
_HALF_TURN = np.float32(math.pi * 2.0**-31)
FAR = 2 * 43 * math.log(2)  # of a squared radius, from which on 64 bits are few: u below 2^-43

# (radius words, angle words, cosines, sines, deviation) -> how many radii are in the tail
Kernel = Callable[[Any, Any, Any, Any, Any], int]


def transform(radius_words: Any, angle_words: Any, first: Any, second: Any, deviation: Any) -> Any:
    """Pairs of normal numbers: r cos a in `first` and r sin a in `second`, which may be the shorter one by one.

    Guarantee: r² = −ln(u² + 2^-128) from 64-bit words u 2^63, within a few units of the last place of float64, and a
        from a word's exact fraction of a turn, so that each number is off by at most 5e-7 of its pair's radius. Where
        the value returned is not 0, that many radii are above √FAR and need more bits than they have.
    Source: Sun's fdlibm, `e_log.c`, for the logarithm (off by less than one unit of the last place); minimax
        polynomials of Cephes, `sinf.c` and `cosf.c`, on an eighth of a turn.
    """
    one, half = np.float32(1), np.float32(-0.5)
    tails: Any = 0
    for i in range(len(second)):
        u = float(radius_words[i]) * 2.0**-63
        bits = np.float64(u * u + _LEAST).view(np.int64) - _HALF_ROOT
        power = float(bits >> 52)
        f = np.int64((bits & _FRACTION) + _HALF_ROOT).view(np.float64) - 1.0  # from √½ − 1 to √2 − 1, exact
        s = f / (2.0 + f)
        z = s * s
        rest = z * (0.6666666666666735130 + z * (0.3999999999940941908 + z * (0.2857142874366239149 + z * (
            0.2222219843214978396 + z * (0.1818357216161805012 + z * (0.1531383769920937332 + z * 0.1479819860511658591)
        )))))  # fmt: skip
        square = 0.5 * f * f
        squared_radius = f - (square - (s * (square + rest) + power * _LN2_LOW))
        squared_radius = -(power * _LN2_HIGH + squared_radius)
        tails += squared_radius > FAR
        radius = np.float32(math.sqrt(np.float32(squared_radius))) * deviation
        word = angle_words[i]
        quarter = (word + np.int32(1 << 29)) >> np.int32(30)  # an overflow of 32 bits comes out right: −2 for 2
        t = np.float32(np.int32(word - (quarter << np.int32(30)))) * _HALF_TURN
        t2 = t * t
        cosine = one + t2 * (half + t2 * (
            np.float32(4.166664568e-2) + t2 * (np.float32(-1.388731625e-3) + t2 * np.float32(2.443315711e-5))
        ))  # fmt: skip
        sine = t + t * t2 * (
            np.float32(-1.6666654611e-1) + t2 * (np.float32(8.3321608736e-3) + t2 * np.float32(-1.9515295891e-4))
        )
        across, along = (sine, cosine) if quarter & 1 else (cosine, sine)
        first[i] = (-across if (quarter + 1) & 2 else across) * radius
        second[i] = (-along if quarter & 2 else along) * radius
    return tails


@functools.cache
def box_muller() -> Kernel | None:
    """`transform` in machine code, which lets other threads run; None without numba, or if numba is not to compile."""
    try:
        import numba
    except ImportError:
        return None
    if numba.config.DISABLE_JIT:
        return None
    # Products may be fused with sums; nothing else of what float arithmetic promises is given up.
    options = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        made = numba.njit(_SIGNATURE, cache=True, **options)(transform)
    except Exception:  # of the place where it is kept, by any of the libraries that read and write it
        made = numba.njit(_SIGNATURE, **options)(transform)
    kernel: Kernel = made
    return kernel
