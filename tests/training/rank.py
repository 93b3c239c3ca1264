"""What ranks do: `python -m tests.training.rank WORLD PORT FOLDER SCENARIO...` is rank 0 and forks the others.

The scenarios run one after the other on all ranks. Their results, or their errors, are in FOLDER/RANK.json.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, distributed, nn
from torch.utils.data import Dataset, TensorDataset

from tacit.dp.schedules import ClipAdaptation
from tacit.randomness import seeded_rng
from tacit.training import Monitor, Plan
from tacit.training.attach import attach
from tacit.training.noise import Gaussian
from tests.training.trainings import Silent, data, flat, model, plan, train

KEY = bytes(range(16))
OWNERS = [index % 13 for index in range(40)]
# A plan of each kind, with the options of `attach` besides.
PLANS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "poisson": ({}, {}),
    "unchecked": ({}, {"check": False}),
    "hardly anyone": ({"batch": 1, "epochs": 1}, {}),
    "pieces": ({"batch": 20, "physical": 4}, {}),
    "shuffled": ({"sampling": "shuffled"}, {}),
    "truncated": ({"batch": 4, "truncate": 25, "delta": 1e-2}, {}),
    "adaptive norm": ({"adapt": ClipAdaptation("Geometric", 0.5, 0.2), "count_noise": 0.3}, {}),
    "falling noise": ({"decay": "Exp", "rate": 0.05}, {}),
    "by layer": ({"clipping": "per_layer"}, {}),
    "secure": ({"tier": "secure"}, {}),
    "laplace": ({"noise": "laplace"}, {}),
    "owners": ({"unit": "owner", "owners": 13, "records_per_owner": 2, "batch": 5}, {"owners": OWNERS}),
}


class Whole:
    """The noise of a key, for the part of a vector of `size` numbers that begins at `start`."""

    def __init__(self, size: int, start: int = 0) -> None:
        self._noise, self._size, self._start = Gaussian(size, torch.float64, key=KEY), size, start

    def normal(self, flat: Tensor, deviation: float) -> None:
        whole = torch.empty(self._size, dtype=flat.dtype)
        self._noise.normal(whole, deviation)
        flat.copy_(whole[self._start : self._start + len(flat)])


def trained(name: str, rank: int | None = None, world: int = 1) -> dict[str, Any]:
    """A training with fixed noise and samples: of a rank, or in one process."""
    changed, options = PLANS[name]
    module, given = model(), plan(**changed)
    size = flat(module).numel()
    source = Whole(size, (rank or 0) * size // world)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.5)
    module, private, loader = attach(
        given, module, optimizer, data(), source=source, rng=seeded_rng(7), distributed=rank is not None, **options
    )
    batches = []

    def loss(out: Tensor, labels: Tensor) -> Tensor:
        if not private.checking:
            batches.append(len(labels))
        return F.cross_entropy(out, labels)

    train(module, private, loader, given.epochs, loss)
    return {
        "weights": flat(module).tolist(),  # JSON keeps the last bit
        "clip": private.clip_norm,
        "unclipped": private.unclipped,
        "epsilon": private.epsilon(),
        "steps": private.steps,
        "batches": batches,
    }


def of_a_plan(name: str) -> Callable[[int, int], Any]:
    return lambda rank, world: trained(name, rank, world)


def attached(rank: int, given: Plan | None = None, module: nn.Module | None = None, **options: Any) -> Any:
    module = module or model()
    optimizer = torch.optim.SGD(module.parameters(), lr=options.pop("lr", 0.1))
    return attach(given or plan(), module, optimizer, options.pop("data", data()), distributed=True, **options)


def from_the_system(rank: int, world: int) -> Any:
    """Keys of the operating system: the same samples and noise on all ranks, and others each time."""
    found = []
    for _ in range(2):
        module, private, loader = attached(rank)
        train(module, private, loader, 2)
        found.append(flat(module).tolist())
    return found


class Numbers(nn.Module):
    """Many parameters whose gradients are exactly what a record holds."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.row = nn.Linear(size, 1, bias=False, dtype=torch.float64)
        nn.init.zeros_(self.row.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.row(x)


def moved(records: Tensor, **options: Any) -> Tensor:
    """What one step with all records adds to the weights, at a learning rate of the batch."""
    module = Numbers(records.shape[1])
    given = Plan(
        records=len(records), batch=len(records), epochs=1, noise_multiplier=options.pop("sigma", 1.0), clip=2.0
    )
    optimizer = torch.optim.SGD(module.parameters(), lr=float(len(records)))
    module, private, loader = attach(
        given, module, optimizer, TensorDataset(records), distributed=True, check=False, **options
    )
    for (x,) in loader:
        module(x).mean().backward()
        private.step()
    return module.row.weight.detach().flatten()


def noise(rank: int, world: int) -> Any:
    """Records without a gradient: what moves the weights is noise. In units of sigma times C."""
    found = moved(torch.zeros(4, 40_000, dtype=torch.float64), sigma=3.0) / (3.0 * 2.0)
    first, second = found.split(20_000)
    return [float(each.mean()) for each in (first.square(), second.square(), first * second, found)]


def one_record(rank: int, world: int) -> Any:
    """How far a record on rank 1 with an enormous gradient moves the sum."""
    torch.manual_seed(3)
    records = torch.randn(6, 50, dtype=torch.float64)
    other = records.clone()
    other[3] = 1e9 * torch.randn(50, dtype=torch.float64)  # records 1, 3 and 5 are of rank 1
    absent = records.clone()
    absent[3] = 0
    sums = [moved(each, source=Silent()) for each in (records, other, absent)]
    return [float((sums[1] - sums[2]).norm()), float((sums[0] - sums[2]).norm())]


def resumed(rank: int, world: int) -> Any:
    """Rank 0 stores a state, and all continue from it; the file holds all that there is."""
    module, private, loader = attached(rank)
    train(module, private, loader, 1)
    state = [private.state_dict(), module.state_dict()] if rank == 0 else []
    path = Path(sys.argv[3]) / "state.pt"
    if rank == 0:
        torch.save(state, path)
    distributed.barrier()
    own, weights = torch.load(path, weights_only=True)
    fresh = model()
    fresh.load_state_dict(weights)
    module, again, loader = attached(rank, module=fresh)
    again.load_state_dict(own)
    train(module, again, loader, 1)
    return [again.steps, again.epsilon(), again.epsilon() == plan().epsilon_after(8), flat(module).tolist()]


def not_all_resumed(rank: int, world: int) -> Any:
    module, private, loader = attached(rank, plan(epochs=3))
    train(module, private, loader, 1)
    private.engine.detach()
    module, again, loader = attached(rank, plan(epochs=3), module=module)
    if rank == 0:
        again.restore(private.state())
    train(module, again, loader, 1)


def scheduled_by_batch(rank: int, world: int) -> Any:
    module, private, loader = attached(rank, plan(batch=1, epochs=10))
    schedule = torch.optim.lr_scheduler.ExponentialLR(private, 0.9)
    for _ in range(10):
        for x, y in loader:
            F.cross_entropy(module(x), y).backward()
            private.step()
            if not private.checking:
                schedule.step()


def scheduled_by_step(rank: int, world: int) -> Any:
    module, private, loader = attached(rank, plan(batch=1, epochs=1))
    schedule = torch.optim.lr_scheduler.ExponentialLR(private, 0.9)
    private.register_step_post_hook(lambda *_: schedule.step())
    train(module, private, loader, 1)
    return [flat(module).tolist(), private.param_groups[0]["lr"]]


def not_finite(rank: int, world: int) -> Any:
    """One rank's gradients overflow: the others hear of it, and the next training works."""
    module, private, loader = attached(rank, check=False)
    before = flat(module)
    try:
        for x, y in loader:
            loss = F.cross_entropy(module(x), y)
            (loss * (1 if rank == 0 else float("inf"))).backward()
            private.step()
    except Exception as error:
        return [type(error).__name__, str(error), torch.equal(before, flat(module)), private.steps, private.abandoned]


def moved_by_hand(rank: int, world: int) -> Any:
    module, private, loader = attached(rank)
    private.register_step_post_hook(lambda *_: module[0].bias.data.add_(rank * 1e-16))
    train(module, private, loader, 1)


def not_together(rank: int, world: int) -> Any:
    module, private, loader = attached(rank, check=False)
    for x, y in loader if rank == 0 else []:
        F.cross_entropy(module(x), y).backward()
        private.step()
    attached(rank)


def without_the_word(rank: int, world: int) -> Any:
    plan().attach(module := model(), torch.optim.SGD(module.parameters(), 0.1), data())


def wrapped(rank: int, world: int) -> Any:
    attached(rank, module=nn.parallel.DistributedDataParallel(model()))


def killed(rank: int, world: int) -> Any:
    """Rank 1 is killed within an epoch."""
    module, private, loader = attached(rank, plan(epochs=50), check=False)
    try:
        for x, y in loader:
            if rank == 1 and private.steps == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            before = flat(module)
            F.cross_entropy(module(x), y).backward()
            private.step()
    except Exception as error:
        return [type(error).__name__, str(error), torch.equal(before, flat(module)), private.steps]


def silent(rank: int, world: int) -> Any:
    """Rank 1 stays away without ending."""
    module, private, loader = attached(rank, check=False)
    try:
        for x, y in loader:
            if rank == 1:
                signal.pause()
            F.cross_entropy(module(x), y).backward()
            private.step()
    except Exception as error:
        return [type(error).__name__, str(error), private.steps]


def differing(**changed: Any) -> Callable[[int, int], Any]:
    """An attach of which rank 1 gives something else."""

    def run(rank: int, world: int) -> Any:
        attached(rank, **{name: make() for name, make in changed.items()} if rank else {})

    return run


def other_owners(rank: int, world: int) -> Any:
    attached(rank, plan(**PLANS["owners"][0]), owners=sorted(OWNERS) if rank else OWNERS)


class Changing(Dataset):
    """Records that are another each time they are read: by the default generators, or by one of their own."""

    def __init__(self, own: bool) -> None:
        self._rows, self._own = data(), own
        self._rng = np.random.default_rng()

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        x, y = self._rows[index]
        noise = self._rng.normal() if self._own else torch.randn(()).item() + np.random.normal() + random.random()  # noqa: NPY002
        return {"x": [(x + noise).numpy()], "y": int(y), "name": f"record {index}"}


def changing(rank: int, world: int) -> Any:
    """Random changes of records do not make ranks differ, and take nothing from the generators of the loop."""
    found = []
    for own in (False, True):
        module = model()
        torch.manual_seed(rank)
        before = torch.get_rng_state()
        attached(rank, module=module, data=Changing(own))
        found.append(torch.equal(before, torch.get_rng_state()))
    return found


def _other_weights() -> nn.Module:
    module = model()
    module[0].bias.data[0] += 1e-15
    return module


SCENARIOS: dict[str, Callable[[int, int], Any]] = {
    **{name: of_a_plan(name) for name in PLANS},
    **{
        each.__name__: each
        for each in (
            from_the_system, noise, one_record, resumed, not_all_resumed, scheduled_by_batch, scheduled_by_step,
            not_finite, changing, moved_by_hand, not_together, without_the_word, wrapped, killed, silent,
        )
    },
    "another plan": differing(given=lambda: plan(clip=0.25)),
    "more records": differing(given=lambda: plan(records=41), data=lambda: data(41)),
    "fewer data": differing(data=lambda: data(39)),
    "another order": differing(data=lambda: TensorDataset(*(each.flip(0) for each in data().tensors))),
    "another model": differing(module=lambda: nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)).double()),
    "other weights": differing(module=_other_weights),
    "another rate": differing(lr=lambda: 0.2),
    "a budget": differing(monitors=lambda: [Monitor(plan(), budget=1.0)]),
    "other owners": other_owners,
}  # fmt: skip


def run(rank: int, world: int, port: str, folder: Path, names: list[str]) -> None:
    timeout = timedelta(seconds=float(os.environ.get("RANK_TIMEOUT", "250")))
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world, timeout=timeout
    )
    found = {}
    for name in names:
        try:
            found[name] = SCENARIOS[name](rank, world)
        except Exception as error:
            found[name] = {"error": type(error).__name__, "message": str(error)}
        (folder / f"{rank}.json").write_text(json.dumps(found))


def main() -> None:
    torch.set_num_threads(1)  # and so there are no other threads to fork
    world, port, folder, *names = sys.argv[1:]
    children = []
    for rank in range(1, int(world)):
        if (child := os.fork()) == 0:
            run(rank, int(world), port, Path(folder), names)
            os._exit(0)
        children.append(child)
    run(0, int(world), port, Path(folder), names)
    for child in children:
        if "silent" in names:  # one of them waits forever; others end by themselves, with all of their results written
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    (Path(folder) / "done").touch()


if __name__ == "__main__":
    main()
