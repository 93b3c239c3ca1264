"""The mistakes that a new user makes: each is answered by a sentence that says what to do, and exit code 2."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.commands import invoke

FLEET = "kind: horizontal\ntask: digits\nrounds: 2\nclients: 10\n"
PRIVATE = "kind: private_training\ntask: digits\n"
PARTIES = "kind: vertical_logistic\nparties:\n  bank: {role: active}\n  shop: {role: passive}\n"
SMALL = "paillier: {bits: 512}\ntrain: {epochs: 1}\n"


def tables(bank: str = "bank.csv", shop: str = "shop.csv", label: str = "y") -> str:
    """The file of two parties with these tables."""
    return f"{PARTIES}data:\n  bank: {{path: {bank}, label: {label}}}\n  shop: {{path: {shop}}}\n{SMALL}"


# What the user has in file.yaml, what is typed, and the sentence that answers.
MISTAKES = {
    "a command is misspelled": (FLEET, "rum file.yaml", "tacit rum is not a command: did you mean tacit run?"),
    "an option is misspelled": (
        FLEET,
        "run file.yaml --resum runs/x",
        "tacit run: no such option --resum, did you mean --resume: `tacit run --help` shows how to call it",
    ),
    "an option is missing": (
        FLEET,
        "predict file.yaml",
        "tacit predict: missing option '--run': `tacit predict --help` shows how to call it",
    ),
    "an option has no value": (
        FLEET,
        "run file.yaml --resume",
        "tacit run: option '--resume' requires an argument: `tacit run --help` shows how to call it",
    ),
    "the file is missing": (
        FLEET,
        "run other.yaml",
        "other.yaml: there is no such file; `tacit init` writes one to start from",
    ),
    "a folder is given": (FLEET, "plan .", ".: it is a folder: give the file in it, such as fleet.yaml"),
    "tabs indent the file": (
        "kind: horizontal\ntrain:\n\tepochs: 1\n",
        "run file.yaml",
        "file.yaml:3: it is not YAML that can be read: found character '\\t' that cannot start any token: indent with "
        "spaces, not with tabs",
    ),
    "the kind is missing": (
        "task: digits\n",
        "run file.yaml",
        "file.yaml: kind is missing: give horizontal or private_training or vertical_logistic or vertical_trees or "
        "split",
    ),
    "the kind is misspelled": (
        FLEET.replace("horizontal", "horizontol"),
        "run file.yaml",
        "file.yaml:1: kind is 'horizontol', which does not exist: did you mean horizontal?",
    ),
    "a key is misspelled": (
        FLEET + "encript: {}\n",
        "run file.yaml",
        "file.yaml:5: encript is not a known key: did you mean encrypt?",
    ),
    "a value is of another type": (
        FLEET,
        "run file.yaml --set rounds=ten",
        "--set rounds=ten: rounds is 'ten': give a whole number of at least 1",
    ),
    "a protection is misspelled": (
        FLEET,
        "run file.yaml --set encrypt.encrypt_type=PW",
        "--set encrypt.encrypt_type=PW: encrypt.encrypt_type is 'PW': give NOT_ENCRYPT, DP_ENCRYPT, PW_ENCRYPT or "
        "DDP_ENCRYPT",
    ),
    "--set has no value": (
        FLEET,
        "run file.yaml --set rounds",
        "--set rounds: write it as key=value, for example rounds=5 or encrypt.dp_eps=8",
    ),
    "the task is misspelled": (
        FLEET.replace("task: digits", "task: digit"),
        "run file.yaml",
        "task 'digit' is not known: take one of digits, digits_unsupervised, mnist_by_writer, or "
        "package.module:function",
    ),
    "the function of a task is missing": (
        FLEET.replace("task: digits", "task: my_task_without_maker:make"),
        "run file.yaml",
        "task 'my_task_without_maker:make': the module my_task_without_maker has no function make: define it there, or "
        "name another",
    ),
    "there are too few clients for masks": (
        FLEET.replace("clients: 10", "clients: 2"),
        "run file.yaml --set encrypt.encrypt_type=PW_ENCRYPT",
        "file.yaml:4: PW_ENCRYPT needs 3 clients in a round, got 2: give more clients, or another encrypt_type",
    ),
    "a budget has nothing to limit": (
        FLEET,
        "run file.yaml --set budget.epsilon=5",
        "--set budget.epsilon=5: a budget needs a protection with an epsilon, and NOT_ENCRYPT has none: leave out "
        "budget, or take encrypt_type: DP_ENCRYPT or DDP_ENCRYPT",
    ),
    "an epsilon is negative": (
        PRIVATE + "privacy: {epsilon: -3}\n",
        "run file.yaml",
        "file.yaml:3: privacy.epsilon is -3: give a number above 0",
    ),
    "epsilon and noise are both given": (
        PRIVATE + "privacy: {epsilon: 3, noise_multiplier: 1}\n",
        "run file.yaml",
        "file.yaml:3: give either epsilon, what the training may cost, or noise_multiplier",
    ),
    "two parties have the labels": (
        PARTIES.replace("passive", "active") + "task: cancer\n",
        "run file.yaml",
        "file.yaml:2: parties: 2 of them are active, exactly one must be: the one that has the labels",
    ),
    "a table is missing": (
        tables(bank="nowhere.csv"),
        "run file.yaml",
        "nowhere.csv: there is no such file: correct the path, which starts from the current folder",
    ),
    "a table is a spreadsheet": (
        tables(bank="bank.xlsx"),
        "run file.yaml",
        "bank.xlsx: spreadsheets are not read: save the sheet as CSV UTF-8 or as Parquet",
    ),
    "a column is missing": (
        tables(label="target"),
        "run file.yaml",
        "bank.csv: there is no column 'target': it has id, y, income",
    ),
    "ids are repeated": (
        tables(shop="repeated.csv"),
        "run file.yaml",
        "repeated.csv, lines 3, 5 and 7, column 'id': 30 rows have the id of an earlier row with other cells ('c0', "
        "'c1', 'c2', …): keep one, or set ids: {dedupe: first}",
    ),
    "the tables have no ids in common": (
        tables(shop="others.csv"),
        "run file.yaml",
        "the parties have no ids in common: check that all use the same ids, written alike",
    ),
    "the run to resume is missing": (
        FLEET,
        "run --resume runs/none",
        "runs/none: there is no such folder: give the folder of a run, such as runs/<time>-<name>",
    ),
    "a party of another name joins": (
        FLEET + "network: {coordinator: '127.0.0.1:1'}\n",
        "join file.yaml --party bank --insecure",
        "--party is 'bank': give coordinator, or client with --id",
    ),
    "three parties have no dealer and name no protocol": (
        PARTIES + "  post: {role: passive}\n",
        "run file.yaml",
        "file.yaml:2: parties: none of bank, shop, post is a dealer, and protocol shared without one is for two "
        "parties: name a neutral party that has no data with the role dealer, or take protocol: masked",
    ),
    "two parties ask for a dealer and name none": (
        PARTIES + "helper: dealer\n",
        "run file.yaml --set protocol=shared",
        "file.yaml:2: parties: none of bank, shop is a dealer, and helper is dealer: name a neutral party that has no "
        "data with the role dealer, or take helper: none, which is for two parties",
    ),
    "a column is too large for shares": (
        tables(shop="large.csv") + "scale: false\n",
        "run file.yaml --set shares.figures=never",
        "shop, feature 'spend': the mean of its 48 largest absolute values is 1e+06, above 85.3333: standardise it "
        "(scale: true) or clip it",
    ),
    "too few rows are held out for figures": (
        tables(),
        "run file.yaml --set train.test=0.02",
        "a class has 0 of the 1 held-out rows, and figures of fewer than 10 tell of single rows: hold out more rows "
        "(train.test), or set shares.figures: never",
    ),
    "the coordinator has no address": (
        FLEET,
        "join file.yaml --party coordinator",
        "the file does not say where the coordinator is: add network: {coordinator: HOST:PORT}",
    ),
}


@pytest.fixture(autouse=True)
def files(here):
    rng = random.Random(1)
    number = rng.random

    def write(name: str, header: str, row) -> None:
        Path(name).write_text("\n".join([header, *(row(index) for index in range(60))]) + "\n")

    write("bank.csv", "id,y,income", lambda index: f"c{index},{index % 2},{number():.3f}")
    write("shop.csv", "id,spend", lambda index: f"c{index},{number():.3f}")
    write("others.csv", "id,spend", lambda index: f"X{index},{number():.3f}")
    write("large.csv", "id,spend", lambda index: f"c{index},{10**6 + index}")
    write("repeated.csv", "id,spend", lambda index: f"c{index // 2},{number():.3f}")
    Path("bank.xlsx").write_bytes(b"PK\x03\x04")
    Path("my_task_without_maker.py").write_text("x = 1\n")
    yield
    sys.modules.pop("my_task_without_maker", None)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_by_a_sentence_with_its_remedy(mistake):
    text, typed, sentence = MISTAKES[mistake]
    Path("file.yaml").write_text(text)
    done = invoke(*typed.split())
    assert done.exit_code == 2, done.output
    assert done.stderr.splitlines()[-1] == sentence
    assert "Traceback" not in done.output
    assert "Usage:" not in done.stderr


def test_there_are_twenty_or_more_of_them():
    assert len(MISTAKES) >= 20
