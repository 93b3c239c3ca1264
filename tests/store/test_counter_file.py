"""The counter on disk: no number is used twice, whatever is killed, damaged or missing."""

import random
import sys
import textwrap

import pytest

from tacit.store.counter_file import new_counter, open_counter
from tacit.store.files import Damaged, copy_of
from tests.subprocesses import HANGS, kill, launch

# Takes numbers and says which it uses, one line each, until it is killed. It is killed between the two as well.
PARTY = textwrap.dedent(
    """
    import os, sys
    from pathlib import Path
    from tacit.store.counter_file import open_counter
    counter = open_counter(Path(sys.argv[1]), reserve=int(sys.argv[2]))
    os.write(1, b"ready\\n")
    while True:
        taken = counter.take(3)
        os.write(1, b"taken\\n")
        for number in taken:
            os.write(1, f"use {number}\\n".encode())
    """
)


@pytest.mark.parametrize("reserve", [1, 8])
def test_no_number_is_used_twice_by_a_party_that_is_killed_between_taking_and_using(tmp_path, reserve):
    path = tmp_path / "tweaks.json"
    new_counter(path)
    draw, used = random.Random(reserve), []
    for _ in range(8):
        party = launch([sys.executable, "-c", PARTY, str(path), str(reserve)], stdout=-1)
        lines = [party.stdout.readline() for _ in range(draw.randrange(1, 25))]
        kill(party)  # right behind a line: often `taken`, before any number was used
        lines += party.stdout.read().splitlines(keepends=True)
        party.stdout.close()
        used += [int(line.split()[1]) for line in lines if line.startswith(b"use ") and line.endswith(b"\n")]
    assert used == sorted(set(used))
    assert open_counter(path).next > used[-1]


def test_a_party_that_is_killed_right_after_taking_never_uses_these_numbers(tmp_path):
    path = tmp_path / "tweaks.json"
    new_counter(path)
    code = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from tacit.store.counter_file import open_counter
        os.write(1, f"{open_counter(Path(sys.argv[1]), reserve=1).take(5)[0]}".encode())
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    for expected in (0, 5, 10):
        party = launch([sys.executable, "-c", code, str(path)], stdout=-1)
        assert int(party.communicate(timeout=HANGS)[0]) == expected
        assert party.returncode == -9
    assert open_counter(path).next == 15


def test_numbers_are_on_disk_in_both_files_before_they_are_given_out(tmp_path):
    path = tmp_path / "tweaks.json"
    counter = new_counter(path, reserve=1)
    for _ in range(3):
        stop = counter.take(4).stop
        for there in (path, copy_of(path)):
            there.rename(tmp_path / "aside")
            assert open_counter(path).next == stop
            (tmp_path / "aside").rename(there)


def test_a_damaged_file_is_replaced_by_its_copy_and_the_other_way_round(tmp_path):
    path = tmp_path / "tweaks.json"
    new_counter(path, reserve=1).take(7)
    for there in (path, copy_of(path)):
        whole = there.read_bytes()
        there.write_bytes(whole.replace(b"7", b"1"))  # the checksum notices
        assert open_counter(path).next == 7
        there.write_bytes(whole)


def test_a_counter_that_cannot_be_read_is_not_begun_anew(tmp_path):
    path = tmp_path / "tweaks.json"
    with pytest.raises(Damaged, match="missing or damaged"):
        open_counter(path)
    new_counter(path)
    with pytest.raises(ValueError, match="this counter exists"):
        new_counter(path)
    for there in (path, copy_of(path)):
        there.write_bytes(b"{}")
    with pytest.raises(Damaged, match="missing or damaged"):
        open_counter(path)
