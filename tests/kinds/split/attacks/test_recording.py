"""What the recorder gives an attacker is what crossed the cut, record by record."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tacit.kinds.split.attacks.recording import at_most, record_cut, withhold
from tacit.kinds.split.tasks.load import make_part
from tests.kinds.split.attacks.split_scenes import settings_u, settings_v


def parts_of(settings, records=150):
    return at_most({name: make_part(settings, name) for name in settings.parties}, records)


def test_each_row_is_that_of_its_record():
    settings = settings_v()
    parts = parts_of(settings)
    first, top = (copy.deepcopy(parts[name]) for name in ("east", "lead"))
    recording = record_cut(settings, parts)
    seen = recording.view("lead", "east").activations()
    assert seen.shape == (3, 150, 64)
    batch = recording.view("lead", "east").schedule.order(0)[:64]
    sent = first.network(torch.from_numpy(first.train.features[batch])).detach().requires_grad_()
    np.testing.assert_allclose(seen[0, batch], sent.detach().numpy(), atol=1e-5)
    top.loss(top.network(sent), torch.from_numpy(top.train.labels[batch])).backward()
    gradients = recording.view("east", "lead").gradients()
    assert gradients.shape == seen.shape
    np.testing.assert_allclose(gradients[0, batch], 64 * sent.grad.numpy(), atol=1e-5)
    with torch.no_grad():
        trained = parts["east"].network.eval()(torch.from_numpy(parts["east"].test.features)).numpy()
    np.testing.assert_allclose(recording.view("lead", "east").evaluated(), trained, atol=1e-5)


def test_every_evaluation_is_told_from_training():
    settings = settings_v(evaluate=1, embedding_dp={"eps": 3.0})
    recording = record_cut(settings, parts_of(settings))
    view = recording.view("lead", "east")
    assert set(np.unique(view.activations())) == set(np.unique(view.evaluated())) == {-1, 1}
    assert len(view.evaluated()) == len(recording.parts["east"].test)


def test_the_cloud_sees_rows_of_the_embedding():
    settings = settings_u()
    parts = parts_of(settings, 64)
    table = parts["office"].embedding.weight.detach().clone().numpy()
    view = record_cut(settings, parts).view("cloud", "office")
    batch = view.schedule.order(0)[:32]
    np.testing.assert_array_equal(view.activations()[0, batch], table[parts["office"].train.features[batch]])
    assert view.gradients().shape == (2, 64, 16, 16)


def test_withheld_records_are_of_nobody_else():
    settings = settings_v(followers=("east", "west"))
    parts = {name: make_part(settings, name) for name in settings.parties}
    kept, public = withhold(settings, parts, 0.25)
    for name in ("east", "west"):
        rows = np.concatenate([kept[name].train.features, public[name].features]).reshape(len(parts[name].train), -1)
        whole = parts[name].train.features.reshape(len(rows), -1)
        assert np.array_equal(rows[np.lexsort(rows.T)], whole[np.lexsort(whole.T)])
    assert len(public["lead"].labels) == len(public["east"]) == len(parts["lead"].train) // 4


def test_a_training_without_a_whole_epoch_is_refused():
    settings = settings_v(train={"epochs": 1, "batch": 64, "steps": 1})
    view = record_cut(settings, parts_of(settings)).view("lead", "east")
    with pytest.raises(ValueError, match="train for longer"):
        view.activations()
