"""The test for sparse groups tells one bit for each group to the passive, and nothing to the active."""

import secrets
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp

from tacit.crypto.curve import Scalar, multiply
from tacit.crypto.paillier import Ciphertexts, Workers
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol import sparsity
from tacit.kinds.vertical_logistic.protocol.label_count_messages import HiddenCounts, Matches
from tacit.randomness import secure_rng, seeded_rng
from tests.kinds.vertical_logistic.parties import key

KEY = key()
LABEL = b"a test"


def hidden(counts, sizes):
    return sparsity.hide(KEY.public, KEY.encrypt(counts), sizes, LABEL, Workers(), None)


def found(counts, sizes):
    blinding, message = hidden(counts, sizes)
    answer = sparsity.compare(KEY, message, len(counts), LABEL, Workers(), secure_rng())
    return sparsity.sparse(blinding, answer)


@pytest.mark.parametrize("rows", [10, 11, 50])
def test_the_bit_is_exactly_whether_a_class_has_fewer_than_five_rows(rows):
    counts = list(range(rows + 1))
    assert found(counts, [rows] * len(counts)) == [min(count, rows - count) < 5 for count in counts]


def test_counts_that_no_labels_make_are_not_sparse():
    """An active that encrypts other numbers than labels gains no bit by it."""
    assert found([-1, 51, 1 << 100, -(1 << 200)], [50] * 4) == [False] * 4


def test_a_group_that_cannot_have_five_of_either_class_is_refused():
    with pytest.raises(ValueError, match="a group has 9 rows"):
        hidden([3], [9])


def decrypted(counts, sizes):
    """What the active sees of one message: masked counts as numbers, and points."""
    _, message = hidden(counts, sizes)
    values = KEY.decrypt_unsigned(Ciphertexts.from_bytes(KEY.public, message.ciphertexts, len(counts)))
    points = [message.few[start : start + 32] for start in range(0, len(message.few), 32)]
    return values, points


def test_what_the_active_decrypts_is_uniform_for_very_different_tables():
    bins, views = 16, []
    for counts, size in (([0] * 400, 10), ([40_000] * 400, 100_000)):
        values, _ = decrypted(counts, [size] * 400)
        views.append([value / KEY.public.n for value in values])
        seen = np.histogram(views[-1], bins=bins, range=(0, 1))[0]
        assert chisquare(seen).pvalue > 1e-4
        lowest = Counter(value % bins for value in values)
        assert chisquare([lowest[place] for place in range(bins)]).pvalue > 1e-4
    assert ks_2samp(*views).pvalue > 1e-4


def test_without_masks_the_same_look_at_the_numbers_shows_the_counts(monkeypatch):
    """The positive control of the test above."""
    monkeypatch.setattr(type(KEY.public), "uniform", lambda self, count: [0] * count)
    values, _ = decrypted([0] * 400, [10] * 400)
    assert chisquare(np.histogram([value / KEY.public.n for value in values], bins=16, range=(0, 1))[0]).pvalue < 1e-9


def test_points_are_spread_alike_for_very_different_tables_and_none_comes_twice():
    views = []
    for counts, size in (([0] * 60, 10), ([40_000] * 60, 100_000)):
        _, points = decrypted(counts, [size] * 60)
        assert len(set(points)) == 60 * sparsity.NUMBERS
        views.append([int.from_bytes(point, "little") / 2**255 for point in points])
        assert chisquare(np.histogram(views[-1], bins=10, range=(0, 1))[0]).pvalue > 1e-4
    assert ks_2samp(*views).pvalue > 1e-4


def test_an_active_that_knows_count_and_mask_recognises_no_point():
    """It could test guesses of group sizes if the points had no secret."""
    blinding, message = hidden([7], [50])
    values = KEY.decrypt_unsigned(Ciphertexts.from_bytes(KEY.public, message.ciphertexts, 1))
    mask = values[0] - 7
    bare = b"".join(sparsity._point(KEY.public, LABEL, 0, mask + number) for number in sparsity.few(50))
    assert message.few != bare
    assert not set(sparsity._points(message.few)) & set(sparsity._points(bare))
    assert message.few == multiply(blinding.secret, bare)  # with the secret it would


def test_the_passive_cannot_tell_which_of_the_ten_numbers_it_was():
    """The place of the match is the same for every count: uniform."""
    places = {count: Counter() for count in (0, 4, 50)}
    rng = seeded_rng(5)
    for count, seen in places.items():
        blinding, message = hidden([count] * 150, [50] * 150)
        answer = sparsity.compare(KEY, message, 150, LABEL, Workers(), rng)
        numbers = sparsity._points(answer.few)
        for group, point in enumerate(sparsity._points(multiply(blinding.secret, answer.counts))):
            seen[numbers[group * 10 : group * 10 + 10].index(point)] += 1
        assert chisquare([seen[place] for place in range(10)]).pvalue > 1e-4


def test_a_test_of_another_round_does_not_match():
    blinding, message = hidden([0], [50])
    answer = sparsity.compare(KEY, message, 1, b"another test", Workers(), secure_rng())
    assert sparsity.sparse(blinding, answer) == [False]


def test_wrong_lengths_and_points_are_the_peers_fault():
    blinding, message = hidden([3, 7], [50, 50])
    answer = sparsity.compare(KEY, message, 2, LABEL, Workers(), secure_rng())
    wrong = [
        HiddenCounts(message.ciphertexts[1:], message.few),
        HiddenCounts(message.ciphertexts, message.few[32:]),
        HiddenCounts(message.ciphertexts, message.few[:-32] + bytes(32)),
        HiddenCounts(bytes(len(message.ciphertexts)), message.few),
    ]
    for each in wrong:
        with pytest.raises(PeerError):
            sparsity.compare(KEY, each, 2, LABEL, Workers(), secure_rng())
    for each in (Matches(answer.counts[32:], answer.few), Matches(answer.counts, answer.few + bytes(32))):
        with pytest.raises(PeerError):
            sparsity.sparse(blinding, each)
    with pytest.raises(PeerError):
        sparsity.sparse(blinding, Matches(bytes(64), answer.few))


def test_random_points_are_never_a_match():
    blinding, _ = hidden([3], [50])
    points = multiply(Scalar.generate(), sparsity._point(KEY.public, LABEL, 0, secrets.randbelow(KEY.public.n)) * 11)
    assert sparsity.sparse(blinding, Matches(points[:32], points[32:])) == [False]
