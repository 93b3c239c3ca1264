"""An oblivious key-value store: a table that answers some keys with chosen values and shows nobody which keys.

    places(words, count)            where the keys of a store for `count` of them are looked up
    encode(places, values, rng)     the slots of a store in which each key finds its value
    decode(places, slots)           what each key finds: its value, or for other keys the sum of five slots

A key has five places, one in each fifth of the table, and finds there five slots whose XOR is its value. The slots are
set by peeling: a key that is alone in one of its places gets its slot there last. Slots that no key needs are random.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.randomness import random_words

PLACES = 5
_PER_KEY = 1.6  # peeling needs more than 1/0.7018 slots a key
_SPARE = 1 << 15
Words = NDArray[np.uint64]
Places = NDArray[np.int64]


def slot_count(count: int) -> int:
    """Slots of a store for `count` keys, divisible into fifths."""
    return PLACES * -(-(int(count * _PER_KEY) + _SPARE) // PLACES)


def places(words: NDArray[np.uint32], count: int) -> Places:
    """The five slots of each key in a store for `count` keys, from five random words a key."""
    fifth = slot_count(count) // PLACES
    within = (words.astype(np.int64) * fifth) >> 32
    return within + np.arange(PLACES, dtype=np.int64) * fifth


def encode(places: Places, values: Words, rng: Generator) -> Words:
    """The slots, as many 64-bit words wide as the values, of a store in which the key of each row finds its value.

    Guarantee: if the values are uniform for a reader, so are all slots, whatever the keys: the equations are
        independent (they were peeled) and free slots are random. Peeling fails with probability below 2^-40: two keys
        share all places with 5^5·n²/2·slots^5, largest at n = 2^15 · 5/12, and larger obstacles are rarer.
    Assumes: places are random and the keys distinct.
    Source: Garimella, Pinkas, Rosulek, Trieu, Yanai 2021 (stores from sparse systems); Molloy 2005 (the threshold).
    """
    count = len(places)
    slots = random_words(rng, slot_count(count) * values.shape[1]).reshape(-1, values.shape[1])
    for keys, columns in reversed(_peel(places, len(slots))):
        own = places[keys, columns]
        slots[own] = 0
        slots[own] = values[keys] ^ decode(places[keys], slots)
    return slots


def decode(places: Places, slots: Words) -> Words:
    """The XOR of the slots at each key's places."""
    found = slots[places[:, 0]]
    for column in range(1, PLACES):
        found ^= slots[places[:, column]]
    return found


def _peel(places: Places, slots: int) -> list[tuple[Places, Places]]:
    """Rounds of (keys, the column of a place where each was alone) until none is left. Within a round no key has
    another's place."""
    used = np.bincount(places.ravel(), minlength=slots)
    keys_there = np.zeros(slots, dtype=np.int64)  # XOR of the keys at a slot: where one is left, that key
    everyone = np.arange(len(places), dtype=np.int64)
    for column in range(PLACES):
        np.bitwise_xor.at(keys_there, places[:, column], everyone)
    rounds: list[tuple[Places, Places]] = []
    left, candidates = len(places), np.arange(slots, dtype=np.int64)
    while left:
        alone = candidates[used[candidates] == 1]
        keys, first = np.unique(keys_there[alone], return_index=True)
        if not len(keys):
            raise RuntimeError("these keys cannot be stored, by a chance below 2^-40, unless one came twice: run again")
        columns = np.argmax(places[keys] == alone[first][:, None], axis=1)
        rounds.append((keys, columns))
        left -= len(keys)
        for column in range(PLACES):
            np.subtract.at(used, places[keys, column], 1)
            np.bitwise_xor.at(keys_there, places[keys, column], keys)
        candidates = places[keys].ravel()
    return rounds
