"""Trees of random blocks whose holder misses one leaf, and the pseudo-random words that come of their leaves.

    request(receiver, holes, depth)                     the holder's message: which leaf of each tree it will miss
    answer(sender, message, count, depth)               the maker: its trees, their leaves, and its message
    finish(session, holes, depth, chosen, message)      the holder: its punctured trees and their leaves
    trees.leaves(part), punctured.leaves(part)          the leaves again, of a slice of the trees
    words(session, leaves, tweak)                       a word of each leaf; `punctured_words` at the holder
    word_sums(session, leaves, tweak)                   Σ W_k and Σ k·W_k over the leaves of each tree
    corrections(words, secrets), complete(words, holes, corrections)    one secret word of each tree as shares

A tree with 2^L leaves grows from the two random blocks of its first oblivious transfer: the children of a node x are
π₀(x) ⊕ x and π₁(x) ⊕ x. At each level the holder gets, by one transfer, the xor of all nodes on the side that its path
to the hole does not take; with the nodes that it has this gives the sibling of its path. Bit l of a leaf's number is
the side at level l, so leaves of one side lie together. A tree costs 16·L + 32·(L - 1) bytes and is used for any number
of words.

One secret v of the maker, at the holder's hole, for one word per tree: the maker sends C = v + Σ W_k, W_k the word of
leaf k. The holder's share of leaf k is W_k, and C - Σ of the others = W_hole + v at the hole; the maker's share is
-W_k. So both hold shares of a vector that is v at the hole and 0 elsewhere, and the maker does not learn where.

Guarantee: the maker learns nothing about the hole. To the holder the missing leaf and all words of it are
    pseudo-random, so C is too, if no tweak is used twice for a tree: also not after a restart (see `counter`).
Assumes: both parties follow the protocol; what `ot` and `fixed_key` assume. The holder's advantage is of the order of
    (p·q + p²)/2^128 for q evaluations of AES and p blocks that it lacks, in each tree one node a level and one word a
    tweak: with 2^20 trees and 2^10 tweaks 2^-58 against 2^40 evaluations, and 2^-18 against 2^80.
Source: Goldreich, Goldwasser, Micali 1986, the tree; puncturing by transfers: Boyle, Couteau, Gilboa, Ishai 2018 and
    Schoppmann, Gascón, Reichert, Raykova 2019; the hash of nodes: Guo, Katz, Wang, Yu 2020, section 7.2, the words 7.4.

Messages of a wrong length are refused before anything is computed. Make trees in blocks of `block(depth)`: each
function needs about 70 bytes for each leaf of a block. The trees themselves are 32 bytes (maker) and 16·L bytes
(holder) each; leaves can be kept (16 bytes each) or made again. The holder reads and writes arrays at places that
depend on its holes: another process on the same machine may learn about them from the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.crypto.counter import MOST as MOST_TWEAK
from tacit.crypto.fixed_key import Blocks, permutation
from tacit.crypto.ot import Receiver, Sender
from tacit.crypto.ot.extension import MOST, message_bytes
from tacit.crypto.ot.transfers import check_length
from tacit.crypto.ot.words import Bits, Words, add, cut, subtract, total, word_bytes

__all__ = [
    "PuncturedTrees",
    "Trees",
    "answer",
    "answer_bytes",
    "block",
    "complete",
    "corrections",
    "finish",
    "punctured_words",
    "request",
    "request_bytes",
    "word_sums",
    "words",
]

MOST_DEPTH = 16
_BLOCK_LEAVES = 1 << 17  # 2 MiB of leaves
_MOST_LEAVES = 1 << 22
_WORDS_AT_ONCE = 1 << 13
Holes = NDArray[np.int64]
_ALL = slice(None)


def block(depth: int) -> int:
    """How many trees to make at once."""
    _check_depth(depth)
    return max(1, _BLOCK_LEAVES >> depth)


def request_bytes(count: int, depth: int) -> int:
    """The length of the holder's message."""
    return message_bytes(count * depth)


def answer_bytes(count: int, depth: int) -> int:
    """The length of the maker's message."""
    return 32 * count * (depth - 1)


@dataclass(frozen=True, slots=True)
class Trees:
    """The maker's trees: the two nodes of the first level of each."""

    session: bytes
    depth: int
    seeds: Blocks = field(repr=False)  # (2, trees, 2)

    def __len__(self) -> int:
        return int(self.seeds.shape[1])

    def leaves(self, part: slice = _ALL) -> Blocks:
        """The leaves of some trees, as an array of shape (leaves, trees, 2)."""
        growth = _Growth(self.session)
        nodes = np.ascontiguousarray(self.seeds[:, part])
        for _ in range(1, self.depth):
            nodes = growth.children(nodes)
        return nodes


@dataclass(frozen=True, slots=True)
class PuncturedTrees:
    """The holder's trees: for each level the sibling of the path to the hole."""

    session: bytes
    holes: Holes = field(repr=False)
    siblings: Blocks = field(repr=False)  # (depth, trees, 2)

    def __len__(self) -> int:
        return len(self.holes)

    @property
    def depth(self) -> int:
        return int(self.siblings.shape[0])

    def leaves(self, part: slice = _ALL) -> Blocks:
        """The leaves of some trees, as an array of shape (leaves, trees, 2); the missing ones are zero."""
        growth, holes = _Growth(self.session), self.holes[part]
        nodes = np.zeros((1, len(holes), 2), dtype=np.uint64)
        for level, sibling in enumerate(self.siblings[:, part]):
            nodes = growth.children(nodes) if level else np.zeros((2, len(holes), 2), dtype=np.uint64)
            _set_path(nodes, holes, level, sibling)
        return nodes


def request(receiver: Receiver, holes: ArrayLike, depth: int) -> tuple[bytes, Blocks]:
    """The holder's message, and the chosen blocks that `finish` takes."""
    numbers = _checked_holes(holes, depth)
    sides = numbers[:, None] >> np.arange(depth) & 1
    message, chosen = receiver.extend((1 - sides).reshape(-1))
    return message, chosen.reshape(len(numbers), depth, 2)


def answer(sender: Sender, message: bytes, count: int, depth: int) -> tuple[Trees, Blocks, bytes]:
    """The maker's trees, their leaves, and its message."""
    _check_size(count, depth)
    zeros, ones = sender.extend(message, count * depth)
    keys = np.stack([zeros, ones]).reshape(2, count, depth, 2)
    growth = _Growth(sender.session)
    nodes = np.ascontiguousarray(keys[:, :, 0])
    trees = Trees(sender.session, depth, nodes)
    hidden = np.empty((depth - 1, 2, count, 2), dtype=np.uint64)
    for level in range(1, depth):
        nodes = growth.children(nodes)
        np.bitwise_xor(_sums(nodes), keys[:, :, level], out=hidden[level - 1])
    return trees, nodes, hidden.tobytes()


def finish(
    session: bytes, holes: ArrayLike, depth: int, chosen: Blocks, message: bytes
) -> tuple[PuncturedTrees, Blocks]:
    """The holder's punctured trees, and their leaves (see `PuncturedTrees.leaves`)."""
    numbers = _checked_holes(holes, depth)
    count = len(numbers)
    check_length(message, answer_bytes(count, depth), f"the sums of {count} trees of depth {depth}")
    hidden = np.frombuffer(message, dtype="<u8").reshape(depth - 1, 2, count, 2)
    growth, rows = _Growth(session), np.arange(count)
    siblings = np.ascontiguousarray(chosen.transpose(1, 0, 2))
    nodes = np.zeros((2, count, 2), dtype=np.uint64)
    _set_path(nodes, numbers, 0, siblings[0])
    for level in range(1, depth):
        nodes = growth.children(nodes)
        _set_path(nodes, numbers, level, None)
        side = 1 - (numbers >> level & 1)
        siblings[level] ^= hidden[level - 1, side, rows] ^ _sums(nodes)[side, rows]
        _set_path(nodes, numbers, level, siblings[level])
    return PuncturedTrees(session, numbers, siblings), nodes


def words(session: bytes, leaves: Blocks, tweak: int, bits: Bits = 64) -> Words:
    """A word of each leaf, as an array of shape (trees, leaves), with a last axis of 2 for 128 bits.

    A tweak comes from `Counter.take`, of which both parties take the same, and is used for one secret of a tree.
    """
    _check_tweak(tweak)
    made, count = leaves.shape[:2]
    found = np.empty((count, made) if word_bytes(bits) == 8 else (count, made, 2), dtype=np.uint64)
    keyed = permutation(session, "words of leaves").keyed
    step = max(1, _WORDS_AT_ONCE // made)
    for start in range(0, count, step):
        part = slice(start, start + step)
        found[part] = cut(keyed(leaves[:, part], tweak), bits).swapaxes(0, 1)
    return found


def punctured_words(session: bytes, leaves: Blocks, holes: Holes, tweak: int, bits: Bits = 64) -> Words:
    """The holder's words of each leaf, as `words`, with zeros at the holes."""
    found = words(session, leaves, tweak, bits)
    found[np.arange(len(holes)), holes] = 0
    return found


def corrections(made: Words, secrets: Words, bits: Bits = 64) -> Words:
    """The maker's word for each tree: its secret plus the words of all leaves."""
    return add(total(made, bits), secrets, bits)


def complete(held: Words, holes: Holes, sent: Words, bits: Bits = 64) -> Words:
    """The holder's shares: its words, and at each hole what the maker sent minus the other words."""
    shares = held.copy()
    shares[np.arange(len(holes)), holes] = subtract(sent, total(held, bits), bits)
    return shares


def word_sums(
    session: bytes, leaves: Blocks, tweak: int, bits: Bits = 64, holes: Holes | None = None
) -> tuple[Words, Words]:
    """Σ W_k and Σ k·W_k over the leaves k of each tree, at the holder without its hole; as `words`, in less memory."""
    _check_tweak(tweak)
    keyed = permutation(session, "words of leaves").keyed
    shape = (leaves.shape[1],) if word_bytes(bits) == 8 else (leaves.shape[1], 2)
    sums, weighted = np.zeros(shape, dtype=np.uint64), np.zeros(shape, dtype=np.uint64)
    for leaf in reversed(range(len(leaves))):
        found = cut(keyed(leaves[leaf], tweak), bits)
        if holes is not None:
            found[holes == leaf] = 0
        sums = add(sums, found, bits)
        if leaf:
            weighted = add(weighted, sums, bits)  # W_k is in the sums of leaf k down to leaf 1
    return sums, weighted


class _Growth:
    """Children of nodes, in arrays of shape (nodes, trees, 2): all left ones, then all right ones."""

    def __init__(self, session: bytes) -> None:
        self._left = permutation(session, "left children")
        self._right = permutation(session, "right children")

    def children(self, nodes: Blocks) -> Blocks:
        return np.concatenate([self._left.compress(nodes), self._right.compress(nodes)])


def _sums(nodes: Blocks) -> Blocks:
    """The xor of all left nodes and of all right nodes."""
    sums: Blocks = np.bitwise_xor.reduce(nodes.reshape(2, len(nodes) // 2, *nodes.shape[1:]), axis=1)
    return sums


def _set_path(nodes: Blocks, holes: Holes, level: int, sibling: Blocks | None) -> None:
    """Put the sibling (or zero) next to the path at this level, and zero on the path."""
    half, rows = 1 << level, np.arange(len(holes))
    path, side = holes & (half - 1), holes >> level & 1
    nodes[path + side * half, rows] = 0
    nodes[path + (1 - side) * half, rows] = 0 if sibling is None else sibling


def _checked_holes(holes: ArrayLike, depth: int) -> Holes:
    numbers = np.asarray(holes)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(f"holes are one list of numbers, got {numbers.ndim} dimensions of {numbers.dtype}")
    _check_size(len(numbers), depth)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < 1 << depth:
        raise ValueError(f"holes of trees of depth {depth} are numbers below {1 << depth}")
    return numbers.astype(np.int64)


def _check_depth(depth: int) -> None:
    if not 1 <= depth <= MOST_DEPTH:
        raise ValueError(f"trees have a depth of 1 to {MOST_DEPTH}, got {depth}")


def _check_tweak(tweak: int) -> None:
    if not 0 <= tweak < MOST_TWEAK:
        raise ValueError(f"a tweak is a number from 0 to below 2^63, got {tweak}")


def _check_size(count: int, depth: int) -> None:
    _check_depth(depth)
    if count < 0 or count * depth > MOST or count << depth > _MOST_LEAVES:
        raise ValueError(f"{count} trees of depth {depth} at once: make them in blocks of {block(depth)}")
