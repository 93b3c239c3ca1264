from __future__ import annotations

import numpy as np
import pytest

from tacit.config.source import ConfigError
from tacit.events import Kept as Sunk
from tacit.kinds.horizontal.coordinator import Phase
from tacit.kinds.horizontal.kept_arrays import KeptArrays, kept_by
from tacit.kinds.horizontal.settings import Training
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Fitted, FitWork
from tests.kinds.horizontal.federations import settings_for

MODEL = {"weights": np.zeros(2)}
WORK = FitWork(0, Training(), (0, 0))


def counting(client, model, work):
    """Keeps how often the client trained."""
    before = 0 if work.kept is None else work.kept["times"]
    return Fitted(model, 1, None, {"times": np.asarray(before + 1)})


def trained(kept: KeptArrays, client: int, times: int) -> None:
    for _ in range(times):
        kept.around(counting)(client, MODEL, WORK)


def times(kept: KeptArrays, client: int) -> int:
    found = kept.of(client)
    return 0 if found is None else int(found["times"])


def test_each_client_is_handed_what_it_kept_in_memory_or_in_a_folder(tmp_path):
    for kept in (KeptArrays(), KeptArrays(tmp_path)):
        trained(kept, 1, 2)
        trained(kept, 12, 1)
        assert [times(kept, client) for client in (1, 2, 12)] == [2, 0, 1]
        kept.store(1)
        trained(kept, 1, 1)
        assert times(kept, 1) == 3


def test_what_was_stored_is_there_after_a_restart_and_what_was_not_is_gone(tmp_path):
    kept = KeptArrays(tmp_path)
    trained(kept, 0, 1)
    trained(kept, 1, 1)
    kept.store(4, client=0)
    again = KeptArrays(tmp_path)
    assert [times(again, client) for client in (0, 1)] == [1, 0]
    assert int(kept_by(tmp_path, 0)["times"]) == 1
    assert kept_by(tmp_path, 1) == {}


def test_a_run_that_resumes_at_an_earlier_round_takes_what_belongs_to_it(tmp_path):
    kept = KeptArrays(tmp_path)
    for number in range(1, 6):
        trained(kept, 0, 1)
        kept.store(number)
    assert len(list((tmp_path / "local").iterdir())) == 2
    again = KeptArrays(tmp_path)
    again.restore(4)
    assert times(again, 0) == 4
    again.restore(3)
    assert times(again, 0) == 0


def test_a_fit_that_keeps_nothing_new_leaves_what_was_kept(tmp_path):
    kept = KeptArrays(tmp_path)
    trained(kept, 0, 1)
    kept.around(lambda client, model, work: Fitted(model, 1))(0, MODEL, WORK)
    assert times(kept, 0) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_training_that_diverged_leaves_what_was_kept_before(value):
    kept = KeptArrays()
    trained(kept, 0, 2)
    kept.around(lambda client, model, work: Fitted(model, 1, None, {"times": np.asarray(value)}))(0, MODEL, WORK)
    assert times(kept, 0) == 2


def test_a_damaged_file_is_named_with_the_remedy(tmp_path):
    kept = KeptArrays(tmp_path)
    trained(kept, 0, 1)
    kept.store(1)
    (path,) = (tmp_path / "local").iterdir()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"client-0-1\.safetensors: .*checksum does not fit: remove it"):
        kept.of(0)


class Counting:
    """Each client keeps how often it trained, and the model adds it up."""

    keeps = True

    def model(self):
        return MODEL

    def fit(self, client, model, work):
        fitted = counting(client, model, work)
        return Fitted({"weights": model["weights"] + fitted.kept["times"]}, 1, None, fitted.kept)


def test_a_run_that_is_killed_between_its_two_stores_comes_to_the_same(tmp_path):
    settings = settings_for(clients=3, rounds=4)
    whole = MemoryEngine(settings, Counting(), Sunk())
    whole.run()
    stored = []

    def killed(coordinator):
        if coordinator.round == 2 and coordinator.phase is Phase.BETWEEN:
            raise KeyboardInterrupt  # what clients kept is stored, the round is not
        stored.append((coordinator.state(), {name: array.copy() for name, array in coordinator.model.items()}))

    with pytest.raises(KeyboardInterrupt):
        MemoryEngine(settings, Counting(), Sunk(), folder=tmp_path).run(killed)
    assert int(kept_by(tmp_path, 0)["times"]) == 2
    resumed = MemoryEngine(settings, Counting(), Sunk(), folder=tmp_path)
    resumed.restore(*stored[-1])
    assert resumed.coordinator.round == 1
    resumed.run()
    np.testing.assert_array_equal(resumed.coordinator.model["weights"], whole.coordinator.model["weights"])
    assert [int(kept_by(tmp_path, client)["times"]) for client in range(3)] == [4, 4, 4]
