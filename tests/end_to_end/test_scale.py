"""Five hundred clients at once over loopback: `tacit join` in three processes, on two processors.

In semi-honest mode, whose graph is sparse. In active mode every client checks two signatures of every other and agrees
on two keys with it: half a million signatures for 500 clients, which real clients check on machines of their own and
this test would check on one: 75 s a round were measured on two processors. So there it has 100.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import yaml

from tests.subprocesses import HANGS, free_port, launch

pytestmark = pytest.mark.slow

TASK = """
import numpy as np
from tacit.kinds.horizontal.task import Fitted

class Numbers:
    def model(self):
        return {"weights": np.zeros(1000)}
    def fit(self, client, model, work):
        return Fitted({"weights": model["weights"] + client / 1000}, client + 1)

def make_task(clients, seed):
    return Numbers()
"""


@dataclass
class Joined:
    """A process of `tacit join`, and the most memory that it had, in MB."""

    process: subprocess.Popen[str]
    memory: float = 0.0

    def look(self) -> bool:
        """Whether it still runs."""
        status = Path(f"/proc/{self.process.pid}/status")
        try:
            lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        except OSError:
            lines = []
        self.memory = max([self.memory, *(int(line.split()[1]) / 1000 for line in lines)])
        return self.process.poll() is None


@contextmanager
def joined(folder: Path, settings: dict[str, object], clients: int) -> Iterator[list[Joined]]:
    """The coordinator and two sites with half of the clients each."""
    (folder / "numbers_task.py").write_text(TASK)
    file = folder / "shared.yaml"
    file.write_text(yaml.safe_dump(settings))
    half = clients // 2
    parties = {
        "coordinator": ["--party", "coordinator"],
        "one": ["--party", "client", "--id", f"0-{half - 1}"],
        "other": ["--party", "client", "--id", f"{half}-{clients - 1}"],
    }
    found = []
    try:
        for name, who in parties.items():
            command = [sys.executable, "-m", "tacit", "join", str(file), *who, "--insecure", "--quiet"]
            with (folder / f"{name}.out").open("w") as out:
                process = launch(
                    [*command, "--runs", str(folder / name)], stdout=out, stderr=subprocess.STDOUT, text=True
                )
            found.append(Joined(process))
        yield found
    finally:
        for each in found:
            each.process.kill()
            each.process.wait()


@pytest.mark.parametrize(("mode", "clients"), [("semi_honest", 500), ("active", 100)])
def test_many_clients_complete_a_masked_round(mode: str, clients: int, tmp_path: Path) -> None:
    masks = {"mode": mode, "graph": "sparse" if mode == "semi_honest" else "auto", "cipher_time_window": 600_000}
    settings = {
        "kind": "horizontal",
        "name": "many",
        "task": "numbers_task:make_task",
        "rounds": 1,
        "clients": clients,
        "encrypt": {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": masks},
        "network": {"coordinator": f"127.0.0.1:{free_port()}"},
        "round": {"start_fl_job_time_window": 600_000, "update_model_time_window": 600_000},
    }
    start = time.monotonic()
    with joined(tmp_path, settings, clients) as parties:
        while sum(party.look() for party in parties):  # all are looked at
            time.sleep(0.1)
            assert time.monotonic() - start < 3 * HANGS, "it hangs"
    seconds = time.monotonic() - start
    said = "\n".join((tmp_path / f"{name}.out").read_text() for name in ("coordinator", "one", "other"))
    assert [party.process.returncode for party in parties] == [0, 0, 0], said
    assert "Traceback" not in said, said
    (run,) = (tmp_path / "coordinator").iterdir()
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    (finished,) = (event for event in events if event["event"] == "RoundFinished")
    assert (finished["survivors"], finished["refused"]) == (clients, 0)
    weights = np.arange(1, clients + 1)
    expected = float((weights * (weights - 1)).sum() / weights.sum() / 1000)
    np.testing.assert_allclose(
        safetensors.numpy.load_file(run / "model.safetensors")["weights"], np.full(1000, expected), atol=1e-6
    )
    stages = {name: round(taken, 2) for name, taken in finished["stages"].items()}
    print(f"{mode}, {clients} clients: round {finished['seconds']:.1f} s of {seconds:.1f} s in all; {stages}; ")
    print(f"peak memory of coordinator and two sites: {', '.join(f'{party.memory:.0f} MB' for party in parties)}")
    assert max(party.memory for party in parties) < 1000
