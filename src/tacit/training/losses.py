"""Losses with one value for each record, so that their mean over a batch keeps records apart."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def record_loss(logits: Tensor, labels: Tensor, *, ignore_index: int = -100, weight: Tensor | None = None) -> Tensor:
    """The cross entropy of each record: the mean over its own labels that are not ignored, 0 if there are none.

        record_loss(model(x), y, ignore_index=-100).mean().backward()

    Args:
        logits: [records, ..., classes].
        labels: [records, ...], class numbers or `ignore_index`.
        weight: of each class. It multiplies the loss of a label; nothing is divided by the weights of a batch, as
            `torch.nn.functional.cross_entropy` does, because then a record would change the loss of all others.
    """
    if labels.dim() < 1 or logits.shape[:-1] != labels.shape:
        swapped = logits.dim() > 2 and logits.shape[:1] + logits.shape[2:] == labels.shape
        remedy = "give logits.movedim(1, -1)" if swapped else "the last dimension of logits is that of classes"
        raise ValueError(f"logits of shape {tuple(logits.shape)} do not fit labels of {tuple(labels.shape)}: {remedy}")
    each = F.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), weight, ignore_index=ignore_index, reduction="none"
    ).view(len(labels), -1)  # fmt: skip
    counted = (labels != ignore_index).view(len(labels), -1).sum(1)
    return each.sum(1) / counted.clamp(min=1)
