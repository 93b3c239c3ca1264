"""Private training on torch: the gradient of each record clipped exactly, at close to the speed of ordinary training.

`engine` records one backward pass and adds clipped gradients; `layers` and `attention` say how each kind of layer is
recorded; `parts` are the recorded gradients; `margins` bound what rounding can hide; `checks` refuse unfit models.
Needs the extra `torch`.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ValueError("private training needs torch: pip install 'tacit[torch]'") from error

from tacit.training.checks import refuse_unfit
from tacit.training.engine import Engine

__all__ = ["Engine", "refuse_unfit"]
