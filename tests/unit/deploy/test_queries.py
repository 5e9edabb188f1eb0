"""The dashboard and the alerts ask for metrics and labels that exist, and the manual explains all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from tests.support.exposed import families, samples

#: Labels that Prometheus adds to each target.
_OF_TARGETS = {"job", "instance"}
_SELECTOR = re.compile(r"\b(hive_ingest_\w+)(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")


@pytest.fixture
def dashboard(deploy: Path) -> dict[str, Any]:
    found = json.loads((deploy / "grafana" / "hive-ingest.json").read_text("utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.fixture
def rules(deploy: Path) -> list[dict[str, Any]]:
    groups = yaml.safe_load((deploy / "prometheus" / "alerts.yml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def assert_answerable(query: str, known: dict[str, set[str]]) -> None:
    """Each metric exists, with the labels that the query names, and brackets are closed."""
    assert [query.count(each) for each in "([{"] == [query.count(each) for each in ")]}"], query
    found = _SELECTOR.findall(query)
    assert found, query
    for name, selector in found:
        assert name in known, f"{name} in {query}"
        labels = set(re.findall(r"(\w+)\s*=~?", selector))
        assert labels <= known[name] | _OF_TARGETS, query
    grouped = {label.strip() for text in _GROUPING.findall(query) for label in text.split(",")}
    assert grouped <= set.union(_OF_TARGETS, *(known[name] for name, _ in found)), query


def test_every_panel_asks_for_metrics_and_labels_that_exist(
    dashboard: dict[str, Any], exposed: CollectorRegistry
) -> None:
    known = samples(exposed)
    assert len(queries(dashboard)) > 30
    for query in queries(dashboard):
        assert_answerable(query, known)
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            assert_answerable(variable["definition"], known)


def test_the_panels_of_the_dashboard_have_their_own_ids_and_places(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    for panel in panels:
        assert panel["title"]
        assert panel["type"] in ("row", "timeseries", "stat")


def test_every_metric_that_can_be_drawn_is_on_the_dashboard(
    dashboard: dict[str, Any], exposed: CollectorRegistry
) -> None:
    text = "\n".join(queries(dashboard))
    # The first only names the version; the others are drawn by table, which costs less.
    left_out = {"hive_ingest_info", "hive_ingest_partition_deltas", "hive_ingest_deltas"}
    left_out |= {"hive_ingest_compacted_file_bytes_total", "hive_ingest_kafka_bad_messages_total"}
    missing = {name for name in families(exposed) if name not in text}
    assert missing == left_out


def test_every_alert_asks_for_metrics_that_exist_and_says_what_it_means(
    rules: list[dict[str, Any]], exposed: CollectorRegistry
) -> None:
    known = samples(exposed)
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert_answerable(rule["expr"], known)
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert re.fullmatch(r"\d+m", rule.get("for", "0m"))
    names = [rule["alert"] for rule in rules]
    assert len(set(names)) == len(names) > 10


def test_an_alert_shows_only_labels_that_its_query_returns(rules: list[dict[str, Any]]) -> None:
    for rule in rules:
        shown = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        kept = re.match(r"(?:sum|max) by \(([^)]*)\)", rule["expr"])
        if kept is not None:
            assert shown <= {label.strip() for label in kept[1].split(",")}, rule["alert"]


# -- the manual --------------------------------------------------------------------------------------


@pytest.fixture
def manual(deploy: Path) -> str:
    return (deploy.parent / "docs" / "operations.md").read_text("utf-8")


def test_the_manual_explains_every_metric_with_its_type_and_labels(manual: str, exposed: CollectorRegistry) -> None:
    rows = re.findall(r"^\| `(hive_ingest_\w+)` \| (\w+) \|([^|]*)\|", manual, re.MULTILINE)
    known = samples(exposed)
    expected = {}
    for name, kind in families(exposed).items():
        labels = known[name] if name in known else known[f"{name}_count"]
        expected[name] = (kind, labels)
    assert {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows} == expected


def test_the_manual_says_what_to_do_at_each_alert(manual: str, rules: list[dict[str, Any]]) -> None:
    assert re.findall(r"^\| `(HiveIngest\w+)` \| [^|]+ \| [^|]+ \|$", manual, re.MULTILINE) == [
        rule["alert"] for rule in rules
    ]
