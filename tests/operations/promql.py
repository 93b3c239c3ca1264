"""What expressions of PromQL name, roughly: metrics, each with the labels that they are asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
ADDED = {"job", "instance"}  # labels that Prometheus adds
OWN = {"up"}  # metrics of Prometheus itself
_WORDS = {"and", "or", "unless", "on", "by", "without", "ignoring", "group_left", "group_right", "bool", "offset"}
_GROUPS = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTED = re.compile(r"\b([a-zA-Z_:]\w*)\b(?!\s*\()\s*(\{[^}]*\})?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def expressions() -> dict[str, str]:
    """Every expression of the alerts and the dashboard, by where it stands."""
    alerts = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    found = {rule["alert"]: rule["expr"] for group in alerts["groups"] for rule in group["rules"]}
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            found[f"{panel['title']} {target['refId']}"] = target["expr"]
    return found


def named(expression: str) -> dict[str, set[str]]:
    """The metrics of an expression, and the labels that it takes from any of them."""
    expression = _STRING.sub('""', expression)
    everywhere = {label.strip() for group in _GROUPS.findall(expression) for label in group.split(",")} - {"", "le"}
    rest = re.sub(r"\[[^\]]*\]", "", _GROUPS.sub("", expression))
    found: dict[str, set[str]] = {}
    for name, braces in _SELECTED.findall(rest):
        if name not in _WORDS:
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", braces))
            found.setdefault(name, set()).update(labels, everywhere if "by" in expression else set())
    return found


def missing(pages: list[str]) -> list[str]:
    """What the files name and no page of a run has: metrics, or labels of them."""
    from tests.operations import promtool

    labels: dict[str, set[str]] = {}
    for page in pages:
        for name, found in promtool.samples(page):
            labels.setdefault(name, set()).update(key for key, _ in found)
    wrong = []
    for where, expression in expressions().items():
        for metric, asked in named(expression).items():
            if metric in OWN:
                continue
            if metric not in labels:
                wrong.append(f"{where}: no metric {metric}")
            elif beyond := asked - ADDED - labels[metric]:
                wrong.append(f"{where}: {metric} has no label {', '.join(sorted(beyond))}")
    return wrong
