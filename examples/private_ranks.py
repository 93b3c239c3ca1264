"""Train one private model with several processes: `torchrun --nproc-per-node 2 examples/private_ranks.py`.

Each process computes the gradients of a part of every sample. All take the same noisy steps, so that the models are the
same to the last bit, and epsilon is that of one training.
"""

from datetime import timedelta

import torch
from sklearn.datasets import load_digits
from torch import distributed, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import tacit


def main(epochs: int = 10) -> None:
    distributed.init_process_group("gloo", timeout=timedelta(minutes=2))  # torchrun says who is who
    torch.manual_seed(0)  # all begin with the same weights
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    data = TensorDataset(x[:1500], y[:1500])  # the whole dataset, on each of them
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)

    plan = tacit.Plan(records=len(data), batch=250, epochs=epochs, epsilon=3, clip=0.5)
    model, optimizer, loader = plan.attach(model, optimizer, data, distributed=True)
    for _ in range(epochs):
        for inputs, labels in loader:
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()

    if distributed.get_rank() == 0:
        model.eval()
        right = (model(x[1500:]).argmax(1) == y[1500:]).float().mean()
        print(f"epsilon {optimizer.epsilon():.2f}, accuracy {right:.2f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
