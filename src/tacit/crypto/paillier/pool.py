"""Paillier on several processes: gmpy2 holds the interpreter's lock while it multiplies, so threads would not help."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from types import TracebackType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.paillier import multiexp
from tacit.crypto.paillier.ciphertexts import Ciphertexts
from tacit.crypto.paillier.private import PrivateKey
from tacit.crypto.paillier.public import PublicKey
from tacit.crypto.processes import Pool

Part = TypeVar("Part")


class Workers:
    """Runs batches on `workers` processes; with one, in this process. They end with this process, or by `close`.

    Private keys go to the processes through pipes and stay in their memory until they end. Processes start at first
    use.
    """

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise ValueError(f"workers must be 1 or more, got {workers}")
        self.workers = workers
        self._pool: Pool | None = None
        self._closed = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def encrypt(self, key: PublicKey | PrivateKey, values: Sequence[int]) -> Ciphertexts:
        """`key.encrypt(values)`."""
        if self.workers == 1 or len(values) < 2:
            return key.encrypt(values)
        public = key if isinstance(key, PublicKey) else key.public
        integers = public.checked(values)
        parts = _parts(len(integers), self.workers)
        return self._joined(public, _encrypt, [(_numbers(key), integers[part]) for part in parts])

    def decrypt(self, key: PrivateKey, vector: Ciphertexts) -> list[int]:
        """`key.decrypt(vector)`."""
        return [key.public.signed(value) for value in self.decrypt_unsigned(key, vector)]

    def decrypt_unsigned(self, key: PrivateKey, vector: Ciphertexts) -> list[int]:
        """`key.decrypt_unsigned(vector)`."""
        key.public.check_own(vector)
        if self.workers == 1 or len(vector) < 2:
            return key.decrypt_unsigned(vector)
        parts = _parts(len(vector), self.workers)
        found = self._map(_decrypt, [(_numbers(key), vector[part].to_bytes()) for part in parts])
        return [value for values in found for value in values]

    def multiply(
        self, key: PublicKey, matrix: NDArray[np.int64], vector: Ciphertexts, *, bound: int = 2**64
    ) -> Ciphertexts:
        """`key.multiply(matrix, vector, bound=bound)`, the rows of the matrix shared out."""
        if self.workers == 1 or len(matrix) < 2:
            return key.multiply(matrix, vector, bound=bound)
        key.check_product(matrix, vector, bound)
        data = vector.to_bytes()
        parts = np.array_split(matrix, min(self.workers, len(matrix)))
        return self._joined(key, _multiply, [(_numbers(key), part, data) for part in parts])

    def sums(self, key: PublicKey, groups: NDArray[np.int64], count: int, vector: Ciphertexts) -> Ciphertexts:
        """`key.sums(groups, count, vector)`, the vector shared out."""
        if self.workers == 1 or len(vector) < 2:
            return key.sums(groups, count, vector)
        key.check_groups(groups, count, vector)
        parts = _parts(len(vector), self.workers)
        found = self._map(_sums, [(_numbers(key), groups[:, part], count, vector[part].to_bytes()) for part in parts])
        return reduce(key.add, (Ciphertexts(key, key.split(data)) for data in found))

    def rerandomize(self, key: PublicKey, vector: Ciphertexts) -> Ciphertexts:
        """`key.rerandomize(vector)`."""
        key.check_own(vector)
        if self.workers == 1 or len(vector) < 2:
            return key.rerandomize(vector)
        parts = _parts(len(vector), self.workers)
        return self._joined(key, _rerandomize, [(_numbers(key), vector[part].to_bytes()) for part in parts])

    def close(self) -> None:
        """End the processes. Nothing runs on more than one process afterwards."""
        self._closed = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _joined(self, key: PublicKey, call: Callable[..., bytes], arguments: list[tuple[object, ...]]) -> Ciphertexts:
        return Ciphertexts(key, key.split(b"".join(self._map(call, arguments))))

    def _map(self, call: Callable[..., Part], arguments: list[tuple[object, ...]]) -> list[Part]:
        if self._closed:
            raise ValueError("these workers are closed: make new ones")
        if self._pool is None:
            self._pool = Pool(self.workers, _start)
        futures = [self._pool.submit(call, *each) for each in arguments]
        return [future.result() for future in futures]


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and closes the pool


def _numbers(key: PublicKey | PrivateKey) -> tuple[int, ...]:
    """What makes the key in another process; not the key itself, whose tables are large."""
    return (key.n,) if isinstance(key, PublicKey) else (key.p, key.q)


@lru_cache(maxsize=4)
def _public(n: int) -> PublicKey:
    return PublicKey(n)


@lru_cache(maxsize=4)
def _private(p: int, q: int) -> PrivateKey:
    return PrivateKey(p, q)


# What runs in the processes. Ciphertexts travel as bytes, which is faster than as integers.


def _encrypt(numbers: tuple[int, ...], values: Sequence[int]) -> bytes:
    key = _public(*numbers) if len(numbers) == 1 else _private(*numbers)
    return key.encrypt(values).to_bytes()


def _decrypt(numbers: tuple[int, int], data: bytes) -> list[int]:
    key = _private(*numbers)
    return key.decrypt_unsigned(Ciphertexts(key.public, key.public.split(data)))


def _multiply(numbers: tuple[int], matrix: NDArray[np.int64], data: bytes) -> bytes:
    key = _public(*numbers)
    return Ciphertexts(key, tuple(multiexp.powers(matrix, key.split(data), key.modulus))).to_bytes()


def _sums(numbers: tuple[int], groups: NDArray[np.int64], count: int, data: bytes) -> bytes:
    key = _public(*numbers)
    return key.sums(groups, count, Ciphertexts(key, key.split(data))).to_bytes()


def _rerandomize(numbers: tuple[int], data: bytes) -> bytes:
    key = _public(*numbers)
    return key.rerandomize(Ciphertexts(key, key.split(data))).to_bytes()


def _parts(length: int, count: int) -> list[slice]:
    size = -(-length // count)
    return [slice(start, start + size) for start in range(0, length, size)]
