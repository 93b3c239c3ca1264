"""The files for Prometheus and Grafana: every metric and label that they name is there."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tacit.events import ClientBlamed, EpochFinished, PortWatched, TrainingStarted
from tacit.net.vitals import Figures
from tests.operations import promql, promtool
from tests.operations.test_overview import at_work
from tests.operations.views import BEGUN, view


def pages() -> list[str]:
    """Of a coordinator and of a party in epochs, with all that may happen to them."""
    of_rounds = view(
        *BEGUN,
        ClientBlamed(1, 7, "a reason", True),
        PortWatched(5, 2, {"address": 7}, 3, 1, ""),
        expiries=lambda: {"party": 1.0},
    )
    of_epochs = view(TrainingStarted("t", "split", 2, 3, 1, "p", 1), EpochFinished(0, 1.0, stages={"encrypt": 0.5}))
    with at_work(of_rounds.vitals, Figures(5, 4)):
        return [of_rounds.page(), of_epochs.page()]


def test_every_metric_and_label_that_they_name_is_there():
    assert promql.missing(pages()) == []


def test_every_metric_but_a_few_is_on_the_dashboard_or_in_an_alert():
    """What is counted for nobody to look at is a mistake too."""
    known = {name for page in pages() for name, _ in promtool.samples(page)}
    shown = {name for expression in promql.expressions().values() for name in promql.named(expression)}
    shown |= {name.rpartition("_")[0] for name in shown if name.endswith(("_bucket", "_sum", "_count"))}
    left = {name for name in known - shown if not name.endswith(("_bucket", "_sum", "_count"))}
    assert left == {
        "tacit_delta",
        "tacit_client_bytes_up",
        "tacit_client_bytes_down",
        "tacit_epoch_received_bytes",
        "tacit_epoch_sent_bytes",
        "tacit_epochs_finished_total",
        "process_virtual_memory_bytes",
    }


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("tacit_a > 3", {"tacit_a": set()}),
        (
            'sum by (job, reason) (increase(tacit_a_total{of=~"x|y"}[1h])) > 3',
            {"tacit_a_total": {"of", "job", "reason"}},
        ),
        ('time() - (tacit_a or tacit_b{c!="}"}) < 30 * 86400', {"tacit_a": set(), "tacit_b": {"c"}}),
        ("tacit_a < on (job) group_left () (0.1 * tacit_b)", {"tacit_a": set(), "tacit_b": set()}),
    ],
)
def test_the_rough_reading_of_expressions(expression, found):
    assert promql.named(expression) == found


def test_a_wrong_name_or_label_would_be_noticed(monkeypatch):
    wrong = {"A": "tacit_round_seconds > 1", "B": 'tacit_state{status="x"}', "C": "sum by (reason) (tacit_survivors)"}
    monkeypatch.setattr(promql, "expressions", lambda: wrong)
    assert promql.missing(pages()) == [
        "A: no metric tacit_round_seconds",
        "B: tacit_state has no label status",
        "C: tacit_survivors has no label reason",
    ]


def test_states_and_other_values_that_they_name_are_there():
    from tacit.operations.standing import STATES

    for expression in promql.expressions().values():
        for value in re.findall(r'state=~?"([^"]*)"', expression):
            assert set(value.split("|")) <= set(STATES)


def test_the_alerts_are_what_operators_were_promised():
    groups = yaml.safe_load((promql.MONITORING / "alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)
    names = {rule["alert"] for rule in rules}
    assert len(names) == len(rules)
    assert names >= {
        "TacitRunStalled",
        "TacitRoundsAborted",
        "TacitRefusals",
        "TacitBudgetNearlySpent",
        "TacitCertificateExpires",
        "TacitNoClients",
    }


def test_the_dashboard_asks_no_other_host_for_anything():
    text = (promql.MONITORING / "grafana-dashboard.json").read_text()
    assert not re.search(r"https?:|//|<|\.png|\.js\b", text)
    dashboard = json.loads(text)
    assert {panel["type"] for panel in dashboard["panels"]} <= {"stat", "timeseries"}  # Grafana's own
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in dashboard["panels"])
    sources = {panel["datasource"]["uid"] for panel in dashboard["panels"]}
    assert sources == {"${datasource}"}


def test_the_documentation_names_every_metric_with_its_labels():
    text = (promql.MONITORING.parents[1] / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| (`(?:tacit|process)_.*?) \| (.*?) \|", text, re.MULTILINE)
    documented = {
        name: set(re.findall(r"`(\w+)`", labels)) for names, labels in rows for name in re.findall(r"`(\w+)`", names)
    }
    found: dict[str, set[str]] = {}
    for page in pages():
        for family in promtool.families(page).values():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found.setdefault(name, set()).update(key for each in family.samples for key in each.labels)
    assert documented.keys() == found.keys()
    for name, labels in found.items():
        assert labels - {"le"} <= documented[name], name
