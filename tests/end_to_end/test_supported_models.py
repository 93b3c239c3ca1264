"""Every layer and model of the table in docs: clipped sums are those of a loop over records, at any memory."""

import warnings

import pytest
import torch

from tests.training.definition import check
from tests.training.supported import BEGIN, DOCS, END, Case, cases

CASES = cases()
LIBRARIES = ("transformers", "peft")


def case(number: int) -> Case:
    found = CASES[number]
    if found.missing is not None:
        pytest.skip(f"{found.name} needs the package {found.missing}: pip install 'tacit-learning[hf]'")
    return found


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.filterwarnings("ignore:Unsupported layer type:UserWarning")  # of peft, for the LayerNorm that it tunes
@pytest.mark.parametrize(
    ("number", "memory"),
    [
        pytest.param(
            number,
            memory,
            marks=[pytest.mark.slow] * (each.group in LIBRARIES and memory < 1 << 20),
            id=f"{each.group} {each.name}-{memory}",
        )
        for number, each in enumerate(CASES)
        for memory in (1 << 29, 1 << 10)
    ],
)
def test_clipped_sums_are_those_of_a_loop_over_records(number, memory):
    torch.manual_seed(0)
    found = case(number)
    model = found.make().train()
    check(model, *found.inputs(), dtypes=found.dtypes, memory=memory, reduction=["sum", "mean"][number % 2])


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_the_table_in_docs_is_the_one_that_is_tested():
    text = DOCS.read_text(encoding="utf-8")
    listed = text[text.index(BEGIN) : text.index(END)].splitlines()[3:]
    assert len(listed) == len(CASES)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line, found in zip(listed, CASES, strict=True):
            assert line.startswith(f"| {found.group} | {found.name} | ")
            if found.missing is None:
                assert line == found.row()
