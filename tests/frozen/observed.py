"""What users see now, as plain data. What makes each repeat is said beside it."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import safetensors.numpy
import yaml
from click.testing import CliRunner

import tacit
from tacit.cli import main
from tests.frozen.inner import fingerprint, frames_of, load, resolved, shared_bytes

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
STOPPED = HERE / "stopped"
STORED_BY = "0.1.0"  # the version that made the runs in stopped/
KINDS = ("horizontal", "private_training", "split", "vertical_logistic")
Arrays = dict[str, np.ndarray]

# Noise and keys of federations and split networks come from this seed.
SEEDED = {"simulation.insecure_noise_seed": 1}
SMALL_FEDERATION = {"rounds": 2, "clients": 16, "round.start_fl_job_threshold": 16, **SEEDED}
PROTECTIONS: dict[str, dict[str, Any]] = {
    "NOT_ENCRYPT": {},
    "DP_ENCRYPT": {"encrypt.dp_eps": 50, "encrypt.adaptive": True},
    "PW_ENCRYPT": {},
    "DDP_ENCRYPT": {"encrypt.ddp_eps": 50},
}
# Of several hospitals: the alignment draws the order of the rows, and is left out. The key's size changes no number.
SMALL_VERTICAL = {
    "align": False,
    "train.epochs": 2,
    "train.secret_spread": 0,
    "paillier.bits": 512,
    "paillier.workers": 1,
}
SMALL_SPLIT = {"train.epochs": 3, "task_options": {"width": 4, "hidden": 4}}
SMALL_TEXT = {
    "task_options": {"path": str(HERE / "text.txt"), "vocabulary": 40, "layers": 1, "width": 16, "cut": 16}
    | {"sequence": 8, "test": 0.1},
    "train.steps": 4,
    "train.optimizer": "sgd",  # Adam makes as much of a gradient that is only rounding as of any other
    **SEEDED,
}
# Its samples change sides by rounding: what the next rounds make of it differs between processors.
SMALL_UNSUPERVISED = {**SMALL_FEDERATION, "rounds": 1, "train.epochs": 1, "unsupervised.cluster_client_num": 10}

# Each run: a file of examples/ and what is changed in it.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"digits {name}": ("digits", {**SMALL_FEDERATION, "encrypt.encrypt_type": name, **keys})
        for name, keys in PROTECTIONS.items()
    },
    "digits_unsupervised": ("digits_unsupervised", SMALL_UNSUPERVISED),
    "digits_unsupervised LAPLACE": (
        "digits_unsupervised",
        {
            **SMALL_UNSUPERVISED,
            "encrypt.privacy_eval_type": "LAPLACE",
            "encrypt.laplace_eval.laplace_eval_eps": 20,
        },
    ),
    "private_digits": ("private_digits", {"train.epochs": 1}),
    "split_cancer": ("split_cancer", {"train.epochs": 2, **SEEDED}),
    "split_text": ("split_text", SMALL_TEXT),
    "vertical_cancer": ("vertical_cancer", SMALL_VERTICAL),
    "vertical_cancer three": ("vertical_cancer", {**SMALL_VERTICAL, "parties.registry.role": "passive"}),
}
# The examples as they stand, but for what makes them repeat. Rounding grows with every step.
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "whole digits": ("digits", SEEDED),
    "whole private_digits": ("private_digits", {}),
    "whole split_cancer": ("split_cancer", SEEDED),
    "whole vertical_cancer": ("vertical_cancer", {"align": False, "train.secret_spread": 0}),
}
# The runs that are killed in the middle, in stopped/, and resumed.
TO_BE_STOPPED: dict[str, tuple[str, dict[str, Any]]] = {
    "horizontal": ("digits", {**SMALL_FEDERATION, "rounds": 3, "encrypt.encrypt_type": "PW_ENCRYPT"}),
    "private_training": (
        "private_digits",
        {"train.epochs": 3, "privacy.epsilon": None, "privacy.noise_multiplier": 1.1, "train.optimizer": "adam"},
    ),
    "split": ("split_cancer", {**SMALL_SPLIT, **SEEDED}),
    "split-plain": ("split_cancer", {**SMALL_SPLIT, "embedding_dp": None, "label_dp": None}),
    "vertical_logistic": (
        "vertical_cancer",
        {
            **SMALL_VERTICAL,
            "task": "tests.frozen.fewer_patients:make_parts",
            "train.epochs": 3,
            "train.batch": 32,
            "train.test": 0.1,
            "checks.row_uses": 100,
        },
    ),
}
NEVER_STOPPED = ("horizontal", "split-plain", "vertical_logistic")  # the others draw new noise when they are resumed
_TIMES = frozenset({"time", "seconds", "stages", "speed", "salt", "chain"})  # and what is drawn, or follows from them
_DRAWN = frozenset({"session"})  # fresh for each run
_LONG, _LAST = 10, 4  # events: of a long run only the last are stored
_TOLD = ("horizontal", "split")  # whose pages are stored as text too
_KEPT = 120  # numbers of an array that are stored, at most


@contextmanager
def repeating() -> Iterator[None]:
    """Have the operating system give the same bytes whenever it is asked for as many: secret generators repeat.

    For private training, which has no seed of its noise. Whatever order generators are made in, each is the same.
    """
    with mock.patch("os.urandom", lambda count: hashlib.shake_256(b"frozen").digest(count)):
        yield


def overrides(changed: Mapping[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in changed.items()]


def example(name: str) -> Path:
    return EXAMPLES / f"{name}.yaml"


# --- runs


def run_of(name: str, folder: Path) -> Any:
    """Run one of RUNS, WHOLE or TO_BE_STOPPED in `folder`."""
    file, changed = {**RUNS, **WHOLE, **TO_BE_STOPPED}[name]
    with repeating():
        return tacit.run(example(file), overrides=overrides(changed), runs=folder)


def seen_of(outcome: Any) -> tuple[dict[str, Any], Arrays]:
    """Of a finished run: how it ended, its events, its ledger, and the models of all parties."""
    told, notes = [], []
    for line in (outcome.directory / "events.jsonl").read_text().splitlines():
        event = {key: value for key, value in json.loads(line).items() if key not in _TIMES}
        match event["event"]:
            case "Stepped":
                continue  # told at least once a second
            case "Noted":
                notes.append(event["text"])  # of several parties: whose comes first is a matter of chance
            case _:
                told.append(event)
    ledger = json.loads(json.dumps(outcome.ledger))
    ledger["ledgers"].sort(key=json.dumps)  # likewise
    shown = told[-_LAST:] if len(told) > _LONG else told
    seen = {"status": outcome.status, "events": shown, "notes": sorted(notes), "ledger": ledger}
    return seen, models_in(outcome.directory)


def models_in(folder: Path) -> Arrays:
    """The models that a run left, each array under the path of its file."""
    found = {}
    for file in sorted(folder.rglob("model.safetensors")):
        party = file.parent.relative_to(folder).as_posix()
        for name, array in sorted(safetensors.numpy.load_file(file).items()):
            if name not in _DRAWN:
                found[f"{party}/{name}"] = array
    return found


def digest(arrays: Arrays) -> str:
    """Of names, types, shapes and bytes."""
    found = hashlib.sha256()
    for name, array in arrays.items():
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def some(arrays: Arrays) -> Arrays:
    """Of each array as many numbers as are stored, from all parts of it."""
    return {
        name: np.ascontiguousarray(array.reshape(-1)[:: max(1, -(-array.size // _KEPT))])
        for name, array in arrays.items()
    }


def shapes(arrays: Arrays) -> dict[str, str]:
    return {name: f"{array.dtype} {list(array.shape)}" for name, array in arrays.items()}


def resumed_of(name: str, folder: Path) -> Any:
    """Resume a copy of a stopped run."""
    copy = folder / name
    shutil.copytree(STOPPED / name, copy)
    with repeating():
        return tacit.run(resume=copy)


# --- what needs no training


def frames() -> dict[str, list[str]]:
    """Of one round under each protection, and of one that asks for inference vectors: who, what, length, digest."""
    base = {"kind": "horizontal", "task": "tests.frozen.exact_task:make_task", "rounds": 1, "clients": 5}
    base |= {"simulation": {"insecure_noise_seed": 1, "dropout": 0.2}}
    masks = {"mode": "semi_honest"}
    encrypts: dict[str, dict[str, Any]] = {
        "NOT_ENCRYPT": {},
        "DP_ENCRYPT": {"dp_eps": 50},
        "PW_ENCRYPT": {"pw_encrypt": masks},
        "DDP_ENCRYPT": {"ddp_eps": 50, "pw_encrypt": masks},
    }
    cases = {name: {**base, "encrypt": {"encrypt_type": name, **keys}} for name, keys in encrypts.items()}
    judged = {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": 20}
    cases["LAPLACE"] = {**base, "encrypt": judged, "unsupervised": {"cluster_client_num": 3, "vectors": 2}}
    found = {}
    for name, data in cases.items():
        found[name] = [
            f"{way} {what} {len(frame)} {hashlib.sha256(frame).hexdigest()[:16]}"
            for way, what, frame in frames_of(data)
        ]
    return found


_LATER = ("vertical_two_parties", "vertical_trees")  # examples that are newer than what is frozen


def files() -> dict[str, tuple[str, list[str]]]:
    """Every file that users start from, and the same under each protection."""
    found: dict[str, tuple[str, list[str]]] = {
        path.stem: (str(path), []) for path in sorted(EXAMPLES.glob("*.yaml")) if path.stem not in _LATER
    }
    for name, keys in PROTECTIONS.items():
        found[f"digits {name}"] = (str(example("digits")), overrides({"encrypt.encrypt_type": name, **keys}))
    return found


def starters() -> dict[str, str]:
    """What `tacit init` writes."""
    found = {}
    with TemporaryDirectory() as folder:
        for kind in KINDS:
            file = Path(folder) / f"{kind}.yaml"
            done = CliRunner().invoke(main, ["init", kind, str(file)])
            assert done.exit_code == 0, done.output
            found[kind] = file.read_text()
    return found


def agreements() -> dict[str, Any]:
    """Of each file: config.yaml, the fingerprint of what a resumed run must not change, and what parties compare."""
    found = {}
    loaded = {name: load(path, changed) for name, (path, changed) in files().items()}
    loaded |= {f"starter {kind}": load(yaml.safe_load(text)) for kind, text in starters().items()}
    for name, settings in loaded.items():
        shared = shared_bytes(settings)
        found[name] = {
            "config.yaml": resolved(settings).splitlines(),
            "fingerprint": fingerprint(settings),
            "shared": None if shared is None else hashlib.sha256(shared).hexdigest(),
        }
    found["starters"] = {kind: hashlib.sha256(text.encode()).hexdigest() for kind, text in starters().items()}
    return found


def plans() -> dict[str, Any]:
    """`tacit plan --json` of each file."""
    found = {}
    for name, (path, changed) in files().items():
        if name == "split_text":
            changed = overrides(SMALL_TEXT)  # its own text comes with Python, and changes with it
        given = [part for each in changed for part in ("--set", each)]
        done = CliRunner().invoke(main, ["plan", path, "--json", *given])
        assert done.exit_code == 0, done.output
        found[name] = json.loads(done.stdout)
    return found


def pages(folder: Path) -> dict[str, Any]:
    """`tacit report` of the stopped runs, whole and to be shared: digests of the page and its plots, and the text."""
    found = {}
    for name in TO_BE_STOPPED:
        for share in ([], ["--share"]):
            page = folder / f"{name}{''.join(share)}.html"
            done = CliRunner().invoke(main, ["report", str(STOPPED / name), "--output", str(page), *share])
            assert done.exit_code == 0, done.output
            text = page.read_text().replace(str(STOPPED), "stopped")
            text = text.replace(f"Made by tacit {tacit.__version__}.", "Made by tacit VERSION.")
            text = text.replace(f">{STORED_BY}<", ">VERSION<")  # in the table of the environment
            plots = sorted(page.with_name(f"{page.stem}-plots").glob("*.svg"))
            found[page.stem] = {
                "page": hashlib.sha256(text.encode()).hexdigest(),
                "plots": {plot.name: hashlib.sha256(plot.read_bytes()).hexdigest() for plot in plots},
                **({"text": _readable(text)} if name in _TOLD and not share else {}),
            }
    return found


def _readable(page: str) -> list[str]:
    """The words of a page, to show what changed."""
    bare = re.sub(r"<(style|script|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    lines = (" ".join(html.unescape(re.sub(r"<[^>]*>", " ", line)).split()) for line in bare.splitlines())
    return [line for line in lines if line]


OBSERVED: dict[str, Callable[..., Any]] = {"frames": frames, "agreements": agreements, "plans": plans, "pages": pages}
