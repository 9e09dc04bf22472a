"""The dashboard for Grafana and the alert rules ask for metrics that the server has."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from chimbuko.pserver.prometheus import PrometheusCollector
from tests.places import ROOT

FOLDER = ROOT / "pserver" / "grafana"


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Each series by name, with its labels."""
    found = {}
    for family in PrometheusCollector().collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = set(getattr(family, "_labelnames", ()))
    return found


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    return content


def assert_answered(expression: str, known: dict[str, set[str]]) -> None:
    for name in re.findall(r"chimbuko_\w+", expression):
        assert name in known, expression
    labels = {label for name in re.findall(r"chimbuko_\w+", expression) for label in known[name]}
    asked = re.findall(r"by \(([^)]*)\)|\{(\w+)=", expression)
    for text in filter(None, (part for pair in asked for part in pair)):
        assert set(re.split(r",\s*", text)) <= labels, expression
    assert expression.count("(") == expression.count(")")


def test_each_panel_asks_for_metrics_that_there_are(
    dashboard: dict[str, Any], known: dict[str, set[str]]
) -> None:
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(asked) > len(dashboard["panels"]) > 10
    for expression in asked:
        assert_answered(expression, known)
    (programs,) = (one for one in dashboard["templating"]["list"] if one["type"] == "query")
    assert_answered(programs["query"].removeprefix("label_values"), known)


def test_panels_do_not_overlap(dashboard: dict[str, Any]) -> None:
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
    for one, other in combinations(places, 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert is_beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_each_alert_asks_for_metrics_that_there_are(known: dict[str, set[str]]) -> None:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"]) >= 5
    for rule in group["rules"]:
        assert_answered(rule["expr"], known)
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
