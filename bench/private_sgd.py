"""Private SGD against plain SGD and Opacus: time and memory of a step, and MNIST at epsilon 3.

Timed is a step as a user runs it, on two threads: taking the batch, forward, backward, clipping, noise, the optimizer.
All contenders run in turn in one process on the same records, each taking them by index, so that the size of a sample
is not a part of the ratio: Tacit's is drawn, but holds all records. Memory is the peak that six steps add in a
process of their own.
Models of transformers and peft (extra `hf`) and `nn.LSTM` are timed too, but for `--quick`: by the processor time of
one thread. Opacus does not take all of them.
With `--data DIR`, where DIR holds mnist_by_writer.npz, a small network is also trained on MNIST from end to end.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from bench.measure import CPU, WALL, Budget, Options, Row

# Model: (floor, target) of the time of a private step over that of a plain one; None where none was asked for.
MODELS: dict[str, tuple[float, float] | None] = {
    "CNN": (1.2, 1.1),
    "MLP": (1.35, 1.2),
    "GPT": (1.15, 1.08),
    "ResNet": (1.45, 1.3),
    "strided CNN": None,
    "HF GPT-2": (1.3, 1.15),
    "HF BERT": None,
    "nn.LSTM": (2.5, 2.0),
    "LoRA of HF Llama": (1.05, 1.0),
}
# The same of peak memory.
MEMORY: dict[str, tuple[float, float]] = {
    "CNN": (1.25, 1.1),
    "MLP": (1.6, 1.25),
    "GPT": (1.25, 1.1),
    "ResNet": (1.5, 1.25),
    "HF GPT-2": (1.7, 1.25),
    "HF BERT": (1.8, 1.25),
}
FASTER_THAN_OPACUS = {"LoRA of HF Llama": 1.0}  # all others by 1.5
THREADS = 2
EPSILON, DELTA, ACCURACY, SECONDS = 3.0, 1e-5, 0.95, 120.0


def run(options: Options) -> list[Row]:
    import opacus  # noqa: F401  # a peer: if it is missing, the user is told the extra

    rows = []
    names = list(MODELS)[:3] if options.quick else list(MODELS)
    timing = options.budget.share(1 if options.quick else 2)
    for left, name in enumerate(names):
        rows += speed(name, timing.share(len(names) - left))
    if not options.quick:
        for name in MEMORY:
            rows += memory(name)
    if options.data is not None:
        rows += mnist(options.data / "mnist_by_writer.npz", quick=options.quick)
    return rows


def speed(name: str, budget: Budget) -> list[Row]:
    import torch

    from bench.private_models import OF_LIBRARIES, SIDES, Step, step_of

    clock = CPU if name in OF_LIBRARIES else WALL
    torch.set_num_threads(1 if name in OF_LIBRARIES else THREADS)
    steps: dict[str, Step] = {}
    for side in SIDES:
        try:
            steps[side] = step_of(side, name)
            for _ in range(4):
                steps[side]()  # Tacit's first batch is shown again in three parts: they are none of those measured
        except Exception:
            if name not in OF_LIBRARIES or side in ("plain", "tacit"):
                raise
            steps.pop(side, None)  # what Opacus does not take it refuses in many ways
    seconds: dict[str, list[float]] = {side: [] for side in steps}
    longest, rounds = 0.0, 0
    while rounds < 1 or (rounds < 60 and budget.remaining() > longest):
        start = WALL()
        for side in steps if rounds % 2 else reversed(steps):
            steps[side]()  # what the contender before left in the caches is not this one's fault
            before = clock()
            steps[side]()
            seconds[side].append(clock() - before)
        longest, rounds = max(longest, WALL() - start), rounds + 1
    plain, ours = seconds["plain"], seconds["tacit"]
    over = statistics.median(b / a for a, b in zip(plain, ours, strict=True))
    floor, target = MODELS[name] or (None, None)
    rows = [Row(f"{name}: private over plain", over, None, "times", "lower", floor, target, "ours")]
    for side in SIDES[2:]:
        if side not in steps:
            refused = f"{name}: a step; not offered by {side.capitalize()}"
            rows.append(Row(refused, statistics.median(ours), None, "s", "lower"))
            continue
        over = statistics.median(b / a for a, b in zip(plain, seconds[side], strict=True))
        rows.append(
            Row(
                f"{name}: a step, {side} ({over:.2f} times plain)",
                statistics.median(ours),
                statistics.median(seconds[side]),
                "s",
                "lower",
                floor=FASTER_THAN_OPACUS.get(name, 1.5) if floor is not None else None,
            )
        )
    return rows


def memory(name: str) -> list[Row]:
    from bench.private_models import OF_LIBRARIES, SIDES

    def peak(side: str) -> float:
        command = [sys.executable, "-m", "bench.private_models", side, name]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])  # noqa: S603

    peaks = {}
    for side in SIDES:
        try:
            peaks[side] = peak(side)
        except subprocess.CalledProcessError:
            if name not in OF_LIBRARIES or side in ("plain", "tacit"):
                raise
    floor, target = MEMORY[name]
    over = peaks["tacit"] / peaks["plain"]
    return [Row(f"{name}: peak memory, private over plain", over, None, "times", "lower", floor, target, "ours")] + [
        Row(f"{name}: peak memory, {side}", peaks["tacit"], peaks[side], "B", "lower")
        for side in peaks
        if side != "tacit"
    ]


def mnist(path: Path, *, quick: bool) -> list[Row]:
    """Test accuracy after a training at epsilon 3, and how long it took with the calibration of its noise.

    A network with tanh, whose activations stay bounded, and a small clipping norm. Source: Papernot et al. 2021.
    """
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.utils.data import TensorDataset

    from tacit.training import Plan

    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in ("x", "y", "x_test", "y_test")}

    def images(name: str) -> torch.Tensor:
        return torch.from_numpy(arrays[name].reshape(-1, 1, 28, 28).astype(np.float32) / np.float32(255)).sub_(0.13)

    x, test_x = images("x") / 0.31, images("x_test") / 0.31
    y, test_y = (torch.from_numpy(arrays[name].astype(np.int64)) for name in ("y", "y_test"))
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.Tanh(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.Tanh(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip
    start = time.perf_counter()
    epochs = 2 if quick else 5
    plan = Plan(
        records=len(x), batch=1024, epochs=epochs, epsilon=EPSILON, delta=DELTA, clip=0.1, physical=512
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=4.0, momentum=0.9)
    model, private, loader = plan.attach(model, optimizer, TensorDataset(x, y))
    for _ in range(epochs):
        for inputs, labels in loader:
            F.cross_entropy(model(inputs), labels).backward()
            private.step()
    seconds = time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        right = sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(test_x.split(1000), test_y.split(1000)))  # noqa: B905
    spent = f"epsilon {private.epsilon():.2f}, delta {DELTA:g}"
    return [
        Row(f"MNIST, {spent}", right / len(test_y), None, "accuracy", "higher", ACCURACY, judged="ours"),
        Row(f"MNIST, {epochs} epochs", seconds, None, "s", "lower", SECONDS, judged="ours"),
    ]
