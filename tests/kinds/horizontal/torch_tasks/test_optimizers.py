from __future__ import annotations

import pytest
import torch

from tacit.kinds.horizontal.torch_tasks.optimizers import _NAMED, check_optimizer, make_optimizer


def parameter():
    return torch.nn.Parameter(torch.ones(3))


@pytest.mark.parametrize("name", sorted(_NAMED))
def test_every_named_optimizer_has_the_learning_rate_and_moves(name):
    tensor = parameter()
    made = make_optimizer(name, {}, [tensor], 0.25)
    assert [group["lr"] for group in made.param_groups] == [0.25]
    tensor.grad = torch.ones(3)
    made.step()
    assert (tensor < 1).all()


def test_momentum_is_sgd_with_momentum_unless_options_say_more():
    assert make_optimizer("momentum", {}, [parameter()], 0.1).param_groups[0]["momentum"] == 0.9
    assert make_optimizer("momentum", {"momentum": 0.5}, [parameter()], 0.1).param_groups[0]["momentum"] == 0.5
    assert make_optimizer("sgd", {}, [parameter()], 0.1).param_groups[0]["momentum"] == 0


def test_a_class_of_torch_is_a_function_that_makes_one():
    made = make_optimizer(torch.optim.ASGD, {"alpha": 0.5}, [parameter()], 0.1)
    assert isinstance(made, torch.optim.ASGD)


def test_unknown_names_and_options_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="'adm', which is not known: did you mean adam"):
        check_optimizer("adm")
    with pytest.raises(ValueError, match="sgd does not take these"):
        make_optimizer("sgd", {"beta": 1}, [parameter()], 0.1)
