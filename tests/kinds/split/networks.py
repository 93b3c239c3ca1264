"""Small networks in parts and in one piece, and trainings of both, for the tests of split learning."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

from tacit.channel import run_parties
from tacit.kinds.split.common_terms import schedule_of
from tacit.kinds.split.follower import follower
from tacit.kinds.split.leader import leader
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Bottom, Ends, Rows, Top, Trunk
from tacit.lockstep.context import Context
from tests.subprocesses import HANGS

RECORDS, TEST = 70, 30
PARTIES_V = {"lead": {"role": "leader"}, "east": {"role": "follower"}, "west": {"role": "follower"}}
PARTIES_U = {"office": {"role": "leader"}, "cloud": {"role": "follower"}}


class Joined(nn.Module):
    """Takes the cuts side by side."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 12), nn.Tanh(), nn.Linear(12, classes))

    def forward(self, *cuts):
        return self.layers(torch.cat(cuts, dim=1))


def settings_v(**changes):
    data = {
        "topology": "V",
        "task": "test",
        "parties": PARTIES_V,
        "train": {"epochs": 5, "batch": 8, "learning_rate": 0.05, "optimizer": "adam"},
        "seed": 3,
    }
    return Settings.model_validate({**data, **changes})


def settings_u(**changes):
    return settings_v(topology="U", parties=PARTIES_U, **changes)


def accuracy(scores, labels):
    return {"accuracy": float((scores.argmax(1) == labels).mean())}


def parts_v(leader_features=True, seed=0, weights_seed=0):
    torch.manual_seed(weights_seed)
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((RECORDS + TEST, 9)).astype(np.float32)
    labels = (features @ rng.standard_normal((9, 3))).argmax(1)
    east, west, own = features[:, :4], features[:, 4:7], features[:, 7:]

    def rows(columns=None, with_labels=False):
        def part(where):
            return Rows(None if columns is None else columns[where], labels[where] if with_labels else None)

        return {"train": part(slice(0, RECORDS)), "test": part(slice(RECORDS, None))}

    own_bottom = nn.Linear(2, 4) if leader_features else None
    top = Top(
        Joined(11 + 4 * leader_features, 3),
        {"east": (6,), "west": (5,)},
        **rows(own if leader_features else None, True),
        loss=nn.functional.cross_entropy,
        metrics=accuracy,
        bottom=own_bottom,
        classes=3,
    )
    return {
        "lead": top,
        "east": Bottom(nn.Sequential(nn.Linear(4, 6), nn.ReLU()), (6,), **rows(east)),
        "west": Bottom(nn.Linear(3, 5), (5,), **rows(west)),
    }


def parts_u(seed=0, weights_seed=0):
    torch.manual_seed(weights_seed)
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 11, (RECORDS + TEST, 6))
    labels = (tokens + 1) % 11

    def loss(scores, wanted):
        return nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())

    embedding, head = nn.Embedding(11, 8), nn.Linear(8, 11)
    ends = Ends(
        embedding,
        head,
        (6, 8),
        (6, 8),
        Rows(tokens[:RECORDS], labels[:RECORDS]),
        loss,
        Rows(tokens[RECORDS:], labels[RECORDS:]),
        classes=11,
        unit="tokens",
        units=6,
    )
    trunk = Trunk(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)), (6, 8), (6, 8))
    return {"office": ends, "cloud": trunk}


def functions(settings, parts, contexts=None, wrap=lambda name, channels: channels):
    """Each party as a function of its channels."""
    contexts = contexts or {}

    def party(name):
        context = contexts.get(name, Context())
        if name == settings.leader:
            return lambda channels: leader(wrap(name, channels), settings, parts[name], context)
        return lambda channels: follower(wrap(name, channels), settings, name, parts[name], context)

    return {name: party(name) for name in settings.parties}


def train(settings, parts, **options):
    """All parties in memory: their outcomes."""
    return run_parties(functions(settings, parts, **options), patience=HANGS)


def whole_v(settings, parts, steps):
    """The same network in one piece, trained by an ordinary loop: the oracle."""
    lead, east, west = (copy.deepcopy(parts[name]) for name in ("lead", "east", "west"))
    pieces = nn.ModuleDict({"lead": lead.network, "east": east.network, "west": west.network})
    if lead.bottom is not None:
        pieces["bottom"] = lead.bottom

    def loss(batch):
        cuts = [part.network(torch.from_numpy(part.train.features[batch])) for part in (east, west)]
        if lead.bottom is not None:
            cuts.append(lead.bottom(torch.from_numpy(lead.train.features[batch])))
        return lead.loss(lead.network(*cuts), torch.from_numpy(lead.train.labels[batch]))

    _loop(settings, pieces, loss, steps)
    found = {
        "lead": _named(network=pieces["lead"]),
        "east": _named(network=pieces["east"]),
        "west": _named(network=pieces["west"]),
    }
    if lead.bottom is not None:
        found["lead"] |= _named(bottom=pieces["bottom"])
    return found


def whole_u(settings, parts, steps):
    office, cloud = (copy.deepcopy(parts[name]) for name in ("office", "cloud"))
    pieces = nn.ModuleDict({"embedding": office.embedding, "trunk": cloud.network, "head": office.head})

    def loss(batch):
        hidden = pieces["trunk"](pieces["embedding"](torch.from_numpy(office.train.features[batch])))
        return office.loss(pieces["head"](hidden), torch.from_numpy(office.train.labels[batch]))

    _loop(settings, pieces, loss, steps)
    return {
        "office": _named(embedding=pieces["embedding"], head=pieces["head"]),
        "cloud": _named(network=pieces["trunk"]),
    }


def _loop(settings, pieces, loss, steps):
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[settings.train.optimizer]
    optimizer = kind(pieces.parameters(), lr=settings.train.learning_rate)
    for step, batch in schedule_of(settings, RECORDS).from_step(0):
        if step == steps:
            break
        optimizer.zero_grad()
        loss(batch).backward()
        optimizer.step()


def _named(**networks):
    return {
        f"{name}.{key}": tensor.detach().numpy()
        for name, network in networks.items()
        for key, tensor in network.state_dict().items()
    }


def weights(outcome):
    return {k: v for k, v in outcome.state.arrays.items() if not k.startswith(("optimizer.", "extra."))}


def assert_close(found, expected, tolerance=1e-5):
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=tolerance, err_msg=name)
