"""A federation's file: what loads, and what an error says. A file is named as the user named it, with line and key."""

import math
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.config.load import resolved, write_starter
from tacit.config.source import ConfigError
from tacit.kind import find, names
from tacit.kinds.horizontal.settings import Settings
from tacit.runs.load import load
from tests.inside import inside

KINDS_IN_WORDS = " or ".join(names())
REQUIRED = "kind: horizontal\ntask: digits\nrounds: 3\nclients: 2000\n"  # four lines: what follows begins on line 5
NEEDED = {"kind": "horizontal", "task": "digits", "rounds": 3, "clients": 100}


@pytest.fixture
def written(here):
    """Writes fleet.yaml with the required keys and more, and returns its name."""

    def write(text: str, required: str = REQUIRED) -> str:
        Path("fleet.yaml").write_text(required + textwrap.dedent(text))
        return "fleet.yaml"

    return write


def message(source, overrides=()) -> str:
    with pytest.raises(ConfigError) as caught:
        load(source, overrides)
    return str(caught.value)


# --- what loads


def test_the_fragments_of_the_seed_load_as_they_are(written):
    settings: Any = load(
        written("""\
        encrypt:
            privacy_eval_type: LAPLACE
            laplace_eval:
                laplace_eval_eps: 230260
        unsupervised:
          cluster_client_num: 1000
          eval_type: SILHOUETTE_SCORE
        """)
    )
    assert settings.encrypt.privacy_eval_type == "LAPLACE"
    assert settings.encrypt.laplace_eval.laplace_eval_eps == 230260
    assert (settings.unsupervised.cluster_client_num, settings.unsupervised.eval_type) == (1000, "SILHOUETTE_SCORE")
    assert any("hides nothing" in note for note in settings.notes())
    assert not any("hides nothing" in note for note in load(NEEDED).notes())


def test_every_key_of_the_seeds_may_be_flat(written):
    flat: Any = load(
        written("""\
        encrypt:
          encrypt_train_type: DP_ENCRYPT
          dp_eps: 60
          dp_delta: 1e-3
          dp_norm_clip: 0.5
          share_client_ratio: 0.9
          reconstruct_secrets_threshold: 1500
          cipher_time_window: 5000
          laplace_eval_eps: 9
        start_fl_job_threshold: 1800
        start_fl_job_time_window: 7000
        update_model_ratio: 0.7
        update_model_time_window: 8000
        server_num: 4
        """)
    )
    nested: Any = load(
        {
            **NEEDED,
            "clients": 2000,
            "server_num": 4,
            "encrypt": {
                "encrypt_type": "DP_ENCRYPT",
                "dp_encrypt": {"dp_eps": 60, "dp_delta": 0.001, "dp_norm_clip": 0.5},
                "pw_encrypt": {
                    "share_secrets_ratio": 0.9,
                    "reconstruct_secrets_threshold": 1500,
                    "cipher_time_window": 5000,
                },
                "laplace_eval": {"laplace_eval_eps": 9},
            },
            "round": {
                "start_fl_job_threshold": 1800,
                "start_fl_job_time_window": 7000,
                "update_model_ratio": 0.7,
                "update_model_time_window": 8000,
            },
        }
    )
    assert flat == nested
    assert flat.encrypt.dp_encrypt.dp_delta == 0.001


def test_the_models_take_flat_keys_by_themselves():
    given = {"update_model_ratio": 0.7, "encrypt": {"dp_eps": 5, "laplace_eval": None, "laplace_eval_eps": 9}}
    settings = Settings(task="digits", rounds=1, clients=5, **given)
    assert settings.round.update_model_ratio == 0.7
    assert settings.encrypt.dp_encrypt.dp_eps == 5
    assert settings.encrypt.laplace_eval.laplace_eval_eps == 9


@pytest.mark.parametrize("text", ["1e-5", "1E-5", "1.0e-5", "0.00001"])
def test_a_number_without_a_dot_is_a_number(written, text):
    settings: Any = load(written(f"task_options: {{rate: {text}}}\n"))
    assert settings.task_options == {"rate": 1e-5}


@pytest.mark.parametrize("kind", names())
def test_a_starter_loads_and_writes_once(tmp_path, kind):
    path = tmp_path / "start.yaml"
    write_starter(find(kind).starter(), path)
    assert load(path).kind == kind
    assert path.read_text() == find(kind).starter()
    path.write_text("mine")
    with pytest.raises(ConfigError, match="exists: choose another name, or overwrite it with --force"):
        write_starter(find(kind).starter(), path)
    assert path.read_text() == "mine"
    write_starter(find(kind).starter(), path, overwrite=True)
    assert path.read_text() == find(kind).starter()


def test_the_starter_is_a_federation_of_100_under_masks(tmp_path):
    write_starter(find("horizontal").starter(), tmp_path / "start.yaml")
    settings: Any = load(tmp_path / "start.yaml")
    assert (settings.task, settings.clients, settings.encrypt.encrypt_type) == ("digits", 100, "PW_ENCRYPT")


# --- overrides


@pytest.mark.parametrize("key", ["encrypt.dp_eps", "encrypt.dp_encrypt.dp_eps"])
@pytest.mark.parametrize("text", ["encrypt: {dp_eps: 60}", "encrypt: {dp_encrypt: {dp_eps: 60}}", "seed: 1"])
def test_an_override_wins_however_either_is_spelled(written, key, text):
    assert inside(load(written(text), [f"{key}=8"])).encrypt.dp_encrypt.dp_eps == 8


def test_the_last_override_wins_and_others_stay(written):
    settings: Any = load(
        written("task_options: {a: 1, b: {c: 2}}\nbudget: {epsilon: 5}\nencrypt: {encrypt_type: DP_ENCRYPT}"),
        ["rounds=5", "rounds=6", "task_options.b.d=[1, 2]", "budget.delta=1e-6", "simulation.bad={nan: 2}"],
    )
    assert settings.rounds == 6
    assert settings.task_options == {"a": 1, "b": {"c": 2, "d": [1, 2]}}
    assert (settings.budget.epsilon, settings.budget.delta) == (5, 1e-6)
    assert settings.simulation.bad == {"nan": 2}


def test_an_override_can_take_a_section_away(written):
    settings: Any = load(written("budget: {epsilon: 5}\nencrypt: {encrypt_type: DP_ENCRYPT}"), ["budget="])
    assert settings.budget is None


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("rounds=0", "--set rounds=0: rounds is 0: give a whole number of at least 1"),
        ("encrypt.dp_eps=-8", "--set encrypt.dp_eps=-8: encrypt.dp_eps is -8: give a number above 0"),
        ("rouds=5", "--set rouds=5: rouds is not a known key: did you mean rounds?"),
        ("rounds", "--set rounds: write it as key=value, for example rounds=5 or encrypt.dp_eps=8"),
        ("=5", "--set =5: write it as key=value, for example rounds=5 or encrypt.dp_eps=8"),
        ("encrypt..dp_eps=5", "--set encrypt..dp_eps=5: write it as key=value"),
        ("rounds=[", "--set rounds=[: it is not YAML that can be read"),
        ("task_options={a: 1, a: 2}", "--set task_options={a: 1, a: 2}: a was given on line 1 already"),
        ("kind=horizonal", "--set kind=horizonal: kind is 'horizonal', which does not exist: did you mean horizontal?"),
    ],
)
def test_an_error_names_the_override(written, override, expected):
    assert message(written(""), [override]).startswith(expected)


# --- errors in the file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("encrypt:\n  dp_epsilon: 8", "fleet.yaml:6: encrypt.dp_epsilon is not a known key: did you mean dp_eps?"),
        ("rounds_: 8", "fleet.yaml:5: rounds_ is not a known key: did you mean rounds?"),
        ("dropout: 0.1", "fleet.yaml:5: dropout is not a known key: did you mean simulation.dropout?"),
        ("simulation: {bad: {nans: 1}}", "fleet.yaml:5: simulation.bad.nans is not a known key: did you mean nan?"),
        (
            "budget: {q: 1, epsilon: 1}",
            "fleet.yaml:5: budget.q is not a known key: known here are epsilon, delta",
        ),
        (
            "encrypt:\n  dp_delta: 2",
            "fleet.yaml:6: encrypt.dp_delta is 2: give a number of at least 1e-100 and below 1",
        ),
        (
            "encrypt:\n  dp_encrypt:\n    dp_eps: 0",
            "fleet.yaml:7: encrypt.dp_encrypt.dp_eps is 0: give a number above 0",
        ),
        ("encrypt: {dp_eps: .inf}", "fleet.yaml:5: encrypt.dp_eps is inf: give a finite number above 0"),
        (
            "\n\nupdate_model_ratio: 1.5",
            "fleet.yaml:7: update_model_ratio is 1.5: give a number above 0 and at most 1",
        ),
        ("server_num: 65", "fleet.yaml:5: server_num is 65: give a whole number of at least 1 and at most 64"),
        ("seed: 1.5", "fleet.yaml:5: seed is 1.5: give a whole number of at least 0"),
        (
            "encrypt: {encrypt_train_type: DP}",
            "fleet.yaml:5: encrypt.encrypt_train_type is 'DP': give NOT_ENCRYPT, DP_ENCRYPT, PW_ENCRYPT or DDP_ENCRYPT",
        ),
        ("encrypt: {collusion: 7}", "fleet.yaml:5: encrypt.collusion is 7: give true or false"),
        (
            "encrypt:\n  ddp_encrypt:\n    ddp_eps: 4\n    colluders: 2",
            "fleet.yaml:8: colluders holds for masks and noise alike, and belongs to pw_encrypt: move it there",
        ),
        (
            "encrypt: {encrypt_type: PW_ENCRYPT, colluders: 0}",
            "fleet.yaml:5: encrypt.colluders is 0: give a whole number of at least 1",
        ),
        (
            "encrypt:\n  encrypt_type: DDP_ENCRYPT\n  pw_encrypt:\n    mode: active\n    colluders: 1800",
            "fleet.yaml:9: n_min is 1802 and colluders is 1800: n_min must be at least colluders + 2, and at most",
        ),
        ("name: [a]", "fleet.yaml:5: name is a list: give text that matches"),
        ("name: ../up", "fleet.yaml:5: name is '../up': give text that matches"),
        (
            "budget: 5",
            "fleet.yaml:5: budget is 5: give a section with the keys epsilon, delta",
        ),
        (
            "train:",
            "fleet.yaml:5: train is empty: give a section with the keys epochs, batch, learning_rate, proximal_mu",
        ),
        ("task_options: 5", "fleet.yaml:5: task_options is 5: give a section of keys and values"),
        ("budget:\n  delta: 0.1", "fleet.yaml:5: budget.epsilon is missing: give a number above 0"),
        (
            "start_fl_job_threshold: 3000",
            "fleet.yaml:5: start_fl_job_threshold is 3000, but there are 2000 clients: lower it",
        ),
        ("encrypt: {privacy_eval_type: LAPLACE}", "fleet.yaml:5: privacy_eval_type is LAPLACE, which needs an epsilon"),
        ("3: 4", "fleet.yaml:5: 3 is not a known key"),
    ],
)
def test_an_error_gives_place_value_and_what_is_expected(written, text, expected):
    found = message(written(text))
    assert found.startswith(expected)
    assert "\n" not in found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("soon", "'soon'"),
        ("-1", "-1"),
        ("0", "0"),
        (".nan", "nan"),
        (".inf", "inf"),
        ("true", "true"),
        ("", "empty"),
        ("[600]", "a list"),
        ("{seconds: 600}", "a section"),
        ("1e10", "10000000000.0"),
        ("9" * 400, "9" * 57 + "..."),
    ],
)
def test_a_wrong_patience_is_named_with_what_is_allowed(written, text, shown):
    words = f"network.patience is {shown}: it must be seconds above 0 and at most 1e9, or forever"
    assert message(written(f"network:\n  patience: {text}\n")) == f"fleet.yaml:6: {words}"


@pytest.mark.parametrize(("text", "waits"), [("600", 600), ("0.5", 0.5), ("1e9", 1e9), ("forever", math.inf)])
def test_a_patience_is_in_seconds_or_forever(written, text, waits):
    assert inside(load(written(f"network: {{patience: {text}}}\n"))).network.waits == waits


def test_every_error_has_a_line_of_its_own(written):
    found = message(written("seed: -1\nsimulation:\n  workers: 65\n  dropot: 0.1\n"), ["rounds=0"])
    assert sorted(found.splitlines()) == [
        "--set rounds=0: rounds is 0: give a whole number of at least 1",
        "fleet.yaml:5: seed is -1: give a whole number of at least 0",
        "fleet.yaml:7: simulation.workers is 65: give a whole number of at least 0 and at most 64",
        "fleet.yaml:8: simulation.dropot is not a known key: did you mean dropout?",
    ]


def test_what_is_missing_is_named(written):
    found = message(written("", required="kind: horizontal\ntask: digits\n")).splitlines()
    assert found[0] == "fleet.yaml: rounds is missing: give a whole number of at least 1"
    assert found[1].startswith("fleet.yaml: clients is missing")
    assert message(written("", required="task: digits\n")) == f"fleet.yaml: kind is missing: give {KINDS_IN_WORDS}"


def test_a_key_that_is_given_twice_is_an_error(written):
    assert message(written("rounds: 4")) == "fleet.yaml:5: rounds was given on line 3 already: keep one of them"
    assert "fleet.yaml:5: task_options.a.b was given" in message(written("task_options: {a: [{b: 1, b: 2}]}"))


@pytest.mark.parametrize(
    ("text", "key", "other"),
    [
        ("encrypt: {dp_eps: 60, dp_encrypt: {dp_eps: 50}}", "encrypt.dp_encrypt.dp_eps", "encrypt.dp_eps"),
        (
            "encrypt: {encrypt_type: DP_ENCRYPT, encrypt_train_type: DP_ENCRYPT}",
            "encrypt.encrypt_train_type",
            "encrypt.encrypt_type",
        ),
        ("update_model_ratio: 1\nround: {update_model_ratio: 0.5}", "round.update_model_ratio", "update_model_ratio"),
    ],
)
def test_two_spellings_of_one_key_are_an_error(written, text, key, other):
    found = message(written(text))
    assert found.startswith("fleet.yaml:")
    assert found.endswith(f"{key} is the same key as {other}: keep one of them")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "fleet.yaml: the file is empty; `tacit init` writes one"),
        ("- a\n- b", "fleet.yaml: the file holds no keys"),
        ("kind: horizontal\nrounds: : 5", "fleet.yaml:2: it is not YAML that can be read"),
        ("a: &x 5\nb: *x", "fleet.yaml:2: it is not YAML that can be read: aliases are not taken: write the value out"),
        ("a: !!python/object:os.system {}", "fleet.yaml:1: it is not YAML that can be read"),
        ("a: 2020-13-45", "fleet.yaml: it is not YAML that can be read: month must be in 1..12"),
        ("a: \x01", "fleet.yaml: it is not YAML that can be read"),
        ("[" * 2000, "fleet.yaml: it is not YAML that can be read: it is nested too deeply"),
        ("a: 1\n---\nb: 2", "fleet.yaml:2: it is not YAML that can be read"),
    ],
)
def test_what_is_no_federation_at_all(written, text, expected):
    found = message(written(text, required=""))
    assert found.startswith(expected)
    assert "\n" not in found


def test_files_that_cannot_be_read(here):
    assert message("none.yaml") == "none.yaml: there is no such file; `tacit init` writes one to start from"
    assert message(here) == f"{here}: it is a folder: give the file in it, such as {here / 'fleet.yaml'}"
    Path("latin.yaml").write_bytes("name: é".encode("latin-1"))
    assert message("latin.yaml") == "latin.yaml: it is not text in UTF-8: save it as such"


def test_a_dict_has_neither_file_nor_line():
    assert message({**NEEDED, "rounds": 0}) == "rounds is 0: give a whole number of at least 1"
    assert message({**NEEDED, "encrypt": {"dp_epsilon": 1}}).startswith("encrypt.dp_epsilon is not a known key: did")
    assert message({}) == f"kind is missing: give {KINDS_IN_WORDS}"


def test_a_dict_is_left_as_it_was():
    options = {"a": {"b": 1}}
    load({**NEEDED, "task_options": options}, ["task_options.a.b=2"])
    assert options == {"a": {"b": 1}}


@given(
    st.dictionaries(
        st.sampled_from(["rounds", "encrypt", "round", "train", "name", "x", "budget", "simulation", "task_options"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(
                    st.sampled_from(["dp_eps", "pw_encrypt", "bad", "epsilon", "y", "nan"]), inner, max_size=3
                )
            ),
        ),
    )
)
def test_whatever_stands_in_a_dict_it_loads_or_is_explained(data):
    found = ""
    try:
        load({**NEEDED, **data})
    except ConfigError as error:
        found = str(error)
    assert all(line and "Input should" not in line for line in found.splitlines())


# --- what is stored


@given(
    name=st.sampled_from(["a", "1e5", "1", "true", "null", "1_0", "0x1", "a.b-c_d"]),
    options=st.dictionaries(
        st.text(min_size=1, max_size=5), st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
    ),
    delta=st.floats(1e-12, 0.5),
    seed=st.none() | st.integers(0, 9),
)
def test_what_is_resolved_loads_as_the_same_settings(tmp_path_factory, name, options, delta, seed):
    settings: Any = load(
        {
            **NEEDED,
            "name": name,
            "task_options": options,
            "encrypt": {"encrypt_type": "DP_ENCRYPT", "dp_delta": delta},
            "budget": {"epsilon": 3},
            "simulation": {"insecure_noise_seed": seed},
        }
    )
    path = tmp_path_factory.mktemp("resolved") / "config.yaml"
    path.write_text(resolved(settings), encoding="utf-8")
    assert load(path) == settings


def test_defaults_and_seeds_are_written_out():
    text = resolved(load({**NEEDED, "simulation": {"insecure_noise_seed": 4}, "task_options": {"data": object()}}))
    for expected in ("update_model_ratio: 0.5", "dp_eps: 50.0", "seed: 0", "insecure_noise_seed: 4", "data: <object>"):
        assert expected in text


def test_an_unsafe_threshold_is_found_in_the_file(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "kind: horizontal\ntask: digits\nrounds: 2\nclients: 100\n"
        "encrypt:\n  encrypt_type: PW_ENCRYPT\n  reconstruct_secrets_threshold: 20\n"
    )
    with pytest.raises(
        ConfigError, match=r"fleet\.yaml:7: .*reconstruct_secrets_threshold is 20, 100 clients need more"
    ):
        load(path)
