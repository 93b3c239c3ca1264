"""Results of benchmarks that are kept."""

import json

from bench import __main__ as cli
from bench.measure import Result, Row
from bench.stored import load, store, versions


def test_a_result_is_stored_with_what_it_was_measured_on(tmp_path):
    row = Row("step", 1.0, 3.0, "s", "lower", floor=2.0)
    path = store(Result("noise", (row,)), tmp_path, with_data=True, load=0.26)
    kept = load(path)
    assert path.name == "noise.json"
    assert kept["command"] == "python -m bench noise --data DIR"
    assert kept["packages"]["numpy"]
    assert kept["load"] == 0.3
    assert kept["rows"] == [json.loads(json.dumps(kept["rows"][0]))]
    assert (kept["rows"][0]["ratio"], kept["rows"][0]["verdict"]) == (3.0, "above floor")


def test_packages_that_are_not_installed_are_left_out():
    assert versions(["numpy", "no-such-package-at-all"]).keys() == {"numpy"}


def test_a_quick_run_is_not_stored(tmp_path, capsys):
    assert cli.main(["noise", "--quick", "--store", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "A quick run measures small inputs: leave out --quick, or --store.\n"
    assert cli.main(["noise", "--store", str(tmp_path / "none")]) == 2
