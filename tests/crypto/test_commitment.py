"""A commitment opens to one value in one context."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.commitment import check, commit
from tacit.errors import PeerError

VALUES = st.binary(min_size=32, max_size=40)


def test_commitment_is_sha256_of_the_parts_behind_their_lengths():
    value, context = bytes(range(32)), b"session"
    length = [n.to_bytes(8, "big") for n in (18, 7, 32)]
    expected = hashlib.sha256(length[0] + b"tacit commitment 1" + length[1] + context + length[2] + value).digest()
    assert commit(value, context) == expected


@given(VALUES, st.binary(max_size=20))
def test_the_committed_value_is_accepted(value, context):
    check(commit(value, context), value, context)


@given(VALUES, VALUES, st.binary(max_size=9), st.binary(max_size=9))
def test_another_value_or_context_is_refused(value, other, context, elsewhere):
    for opened, where in [(other, context), (value, elsewhere), (context + value, b"")]:
        if (opened, where) != (value, context):
            with pytest.raises(PeerError):
                check(commit(value, context), opened, where)


@pytest.mark.parametrize("commitment", [b"", bytes(31), bytes(32), bytes(33)])
def test_a_malformed_commitment_is_refused(commitment):
    with pytest.raises(PeerError):
        check(commitment, bytes(32), b"")


def test_a_value_that_could_be_guessed_is_not_committed_to_nor_accepted():
    with pytest.raises(ValueError, match="31 bytes could be guessed"):
        commit(bytes(31), b"")
    with pytest.raises(PeerError):
        check(bytes(32), bytes(31), b"")
