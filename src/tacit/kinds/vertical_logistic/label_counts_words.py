"""Counts of labels in words: what leaves a party, who sees what, what stays open, and what it costs.

label_count_releases(asked)                     for the boundary, field by field; `asked`: whether a passive has a woe
label_count_sentences(active, passives)         who sees what
label_counts_open(active, passives)             what stays open by nature
label_count_bytes, label_count_seconds          of one passive
label_count_costs(...)                          both, in sentences for the plan
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.boundary import CLEAR, Release
from tacit.crypto.curve import POINT_BYTES
from tacit.kinds.vertical_logistic.protocol import decryption_proof
from tacit.kinds.vertical_logistic.protocol.label_count_terms import LEAST, SHARE, told_bits
from tacit.kinds.vertical_logistic.protocol.label_counts import slot_bits
from tacit.kinds.vertical_logistic.protocol.sparsity import FEWEST, NUMBERS

_A, _P = "active", "passive"
_PAILLIER = "encrypted with Paillier: only the active could decrypt"
_UNIFORM = "under a mask that is uniform modulo n, encrypted and re-randomised"
_POINTS = "blinded by the sender's secret (Diffie-Hellman): random points to the receiver, but for"
# Seconds of one core of about 3 GHz by bits of the key, rounded up: `PrivateKey.encrypt` of a label, a product
# modulo n², `PublicKey.rerandomize` and `PrivateKey.decrypt_unsigned` of a ciphertext.
_SECONDS = {
    2048: (2.5e-4, 4e-6, 9e-3, 2.5e-3),
    3072: (6e-4, 8e-6, 2.8e-2, 7.5e-3),
    4096: (1.2e-3, 1.2e-5, 4.5e-2, 1.6e-2),
}


def label_count_releases(*, asked: bool = True) -> tuple[Release, ...]:
    """What leaves a party; without `asked` only that no passive asks."""
    found = (
        Release("CountRequest", "groups", "how many groups it has for counts of labels, 0 for none", CLEAR, _P, _A),
        Release("CountRequest", "columns", "of how many columns", CLEAR, _P, _A),
        Release("CountRequest", "rows", "the number of training rows", CLEAR, _P, _A),
        Release("CountRequest", "least", "how many rows each group has at least", CLEAR, _P, _A),
        Release("CountRequest", "binning", "a digest of all groups", "salted: no guess can be tested with it", _P, _A),
    )
    if not asked:
        return found
    return (
        *found,
        Release("CountsBegin", "refused", "why there are no counts of labels, if it refuses", CLEAR, _A, _P),
        Release("CountsBegin", "key", "a public Paillier key", CLEAR, _A, _P),
        Release("CountsBegin", "certificate", "a proof that the key is sound", CLEAR, _A, _P),
        Release("EncryptedLabels", "ciphertexts", "the label of each training row", _PAILLIER, _A, _P),
        Release("HiddenCounts", "ciphertexts", "the count of labels of each group", _UNIFORM, _P, _A),
        Release("HiddenCounts", "few", "the masked counts that would be too few", f"{_POINTS} nobody", _P, _A),
        Release("Matches", "counts", "the masked count of each group", f"{_POINTS} those that are too few", _A, _P),
        Release(
            "Matches", "few", "the passive's points, shuffled within a group", f"{_POINTS} one that matches", _A, _P
        ),
        Release("MaskedCounts", "ciphertexts", "the counts of labels of the final groups", _UNIFORM, _P, _A),
        Release(
            "Decrypted",
            "values",
            "the counts of labels of a passive's final groups, to that passive",
            "under a mask that only that one knows",
            _A,
            _P,
        ),
        Release("Decrypted", "roots", "the randomness of that passive's ciphertext, as proof", CLEAR, _A, _P),
    )


def label_count_sentences(active: str, passives: Sequence[str]) -> list[str]:
    """Who sees what, if these passives ask for counts."""
    if not passives:
        return []
    names = ", ".join(passives)
    each = f"Each of {names}" if len(passives) > 1 else names
    return [
        f"{each} sees how many labels of {active} are positive in each group of its own woe columns, over the training "
        f"rows. A group has {LEAST} rows or more, and {FEWEST} of either class.",
        f"{each} also sees which of its groups had fewer than {FEWEST} rows of a class before they were merged, but "
        "not how many nor of which class.",
        f"{active} sees of how many columns and groups these are, and how often groups were merged; it decrypts only "
        "numbers that are uniform modulo n.",
    ]


def label_counts_open(active: str, passives: Sequence[str]) -> list[str]:
    """What stays open."""
    if not passives:
        return []
    return [
        f"Counts of labels are exact and have no epsilon: a passive ranks the labels of {active} by them as well as a "
        "model of its own woe columns would, and counts of many columns together may tell single labels for certain. "
        "The audit measures both.",
        f"A passive that cheats can have {active} decrypt other sums than counts of its groups, and so read labels.",
        "Another training with other groups, or over other rows, gives other counts; their differences tell more than "
        "either.",
        f"If {active} cheats and encrypts labels of its choice, it chooses what weight of evidence makes of the "
        "passive's groups.",
    ]


def label_count_bytes(rows: int, columns: int, groups: int, bits: int, *, tests: int = 2) -> dict[str, int]:
    """Bytes between the active and one passive by message, for so many training rows and groups of all columns."""
    width = bits // 4
    packed = -(-groups // ((bits - 1) // slot_bits(rows)))
    return {
        "CountsBegin": bits // 8 * (1 + decryption_proof.CHALLENGES),
        "EncryptedLabels": width * rows,
        "HiddenCounts": tests * groups * (width + NUMBERS * POINT_BYTES),
        "Matches": tests * groups * (1 + NUMBERS) * POINT_BYTES,
        "MaskedCounts": width * packed,
        "Decrypted": width * packed,
    }


def label_count_seconds(rows: int, columns: int, groups: int, bits: int, *, tests: int = 2) -> tuple[float, float]:
    """Seconds of one core at the active and at one passive, roughly."""
    encrypt, multiply, randomise, decrypt = _SECONDS[min(_SECONDS, key=lambda known: abs(known - bits))]
    return encrypt * rows + tests * decrypt * groups, multiply * rows * columns + tests * randomise * groups


def label_count_costs(
    active: str, passive: str, rows: int, columns: int, groups: int, bits: int, *, tests: int = 2
) -> list[str]:
    """What one passive's counts cost, before the training."""
    whole = sum(label_count_bytes(rows, columns, groups, bits, tests=tests).values())
    own, theirs = label_count_seconds(rows, columns, groups, bits, tests=tests)
    return [
        f"Before the training {active} encrypts {rows:,} labels for {passive}, which counts them in {groups} groups of "
        f"{columns} woe columns: about {whole:,} bytes, {_about(own)} of one core at {active} and {_about(theirs)} at "
        f"{passive} if groups are merged {tests - 1} time{'s' * (tests != 2)}."
    ]


def label_count_warnings(active: str, passive: str, rows: int, columns: int, groups: int) -> list[str]:
    """What a plan should warn of."""
    told = told_bits(rows, columns, groups)
    if told <= SHARE * rows:
        return []
    return [
        f"The counts of {groups} groups of {columns} woe columns of {passive} tell up to {told:,.0f} bits about "
        f"{rows:,} labels, and {active} allows {SHARE:g} for each: it will refuse; take fewer woe columns or bins."
    ]


def _about(seconds: float) -> str:
    return f"{seconds / 60:.2g} minutes" if seconds >= 120 else f"{max(1, round(seconds))} s"
