"""deploy/monitoring: every metric that an alert or a panel names is one that this version has, with the labels it names."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.documents.pages import metrics
from slackwater.controllers.notifications.alerts import ALERTS as ALL_ALERTS
from slackwater.controllers.notifications.alerts import SAMPLED
from slackwater.model.reasons import Reason

MONITORING = Path(__file__).parents[3] / "deploy" / "monitoring"
ALERTS = yaml.safe_load((MONITORING / "alerts.yaml").read_text("utf-8"))
GRAFANA = json.loads((MONITORING / "grafana.json").read_text("utf-8"))
#: Of every metric that is scraped.
_SCRAPED = {"instance", "job", "namespace", "le"}


def _known() -> dict[str, set[str]]:
    """The labels of each name that can be queried, from the generated list."""
    found: dict[str, set[str]] = {}
    for line in metrics().splitlines()[2:]:
        name, kind, labels, _ = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:5])
        names = [f"{name.strip('`')}{end}" for end in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))]
        found |= dict.fromkeys(names, set(re.findall(r"`(\w+)`", labels)) | _SCRAPED)
    return found


KNOWN = _known()


def _rules() -> Iterator[dict[str, Any]]:
    for group in ALERTS["groups"]:
        yield from group["rules"]


def _expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in _rules())
    yield from (target["expr"] for panel in GRAFANA["panels"] for target in panel.get("targets", ()))


@pytest.mark.parametrize("expression", sorted(set(_expressions())))
def test_an_expression_names_metrics_and_labels_that_there_are(expression: str) -> None:
    assert expression.count("(") == expression.count(")")
    named = re.findall(r"\b((?:slackwater|cluster_autoscaler)_\w+)(?:\{([^}]*)\})?", expression)
    assert named or "process_" in expression
    for name, selector in named:
        assert name in KNOWN, name
        assert {*re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', selector)} <= KNOWN[name], expression
    grouped = {label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in labels.split(",")}
    labels = set.union(*(KNOWN[name] for name, _ in named)) if named else _SCRAPED
    assert grouped <= labels, expression


def test_the_leader_samples_metrics_that_there_are_under_labels_that_they_have() -> None:
    assert KNOWN.keys() >= SAMPLED
    for alert in ALL_ALERTS:
        assert {name for name in alert.reads if name not in alert.expression} == set(), alert.name


def test_an_alert_says_what_is_wrong_and_where_to_look() -> None:
    rules = list(_rules())
    assert len({rule["alert"] for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}


def test_every_alert_points_to_its_runbook_and_every_runbook_has_its_alert() -> None:
    page = (MONITORING.parents[1] / "docs" / "runbooks.md").read_text("utf-8")
    alerts = [rule["alert"] for rule in _rules()]
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == alerts
    assert [rule["annotations"]["runbook_url"] for rule in _rules()] == [f"docs/runbooks.md#{name.lower()}" for name in alerts]


def test_runbooks_name_metrics_that_there_are() -> None:
    page = (MONITORING.parents[1] / "docs" / "runbooks.md").read_text("utf-8")
    named = set(re.findall(r"\b(?:slackwater|cluster_autoscaler)_\w+", page))
    assert len(named) > 8
    assert named <= KNOWN.keys() | {name.removesuffix("_bucket") for name in KNOWN}


def test_the_words_of_an_alert_name_labels_that_their_expression_keeps() -> None:
    for rule in _rules():
        words = " ".join(rule["annotations"].values())
        for label in re.findall(r"\$labels\.(\w+)", words):
            by = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
            assert not by or label in re.split(r",\s*", by[-1]), rule["alert"]


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in GRAFANA["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in GRAFANA["panels"]}) == len(GRAFANA["panels"])


def test_the_panel_of_refusals_leaves_out_the_label_ok() -> None:
    [panel] = [panel for panel in GRAFANA["panels"] if panel["title"] == "Why filter refuses nodes"]
    assert f'reason!="{Reason.OK.label}"' in panel["targets"][0]["expr"]


def test_a_panel_about_the_cluster_asks_the_leader_alone() -> None:
    """tests/alerts asks Prometheus; this one needs no promtool. A standby counts binds and reports nodes, too."""
    asked = 0
    for panel in GRAFANA["panels"]:
        if panel["title"] == "The service":  # what follows is about each process
            break
        for expression in (target["expr"] for target in panel.get("targets", ()) if panel["title"] != "Synced"):
            selectors = re.findall(r"\b(?:slackwater|cluster_autoscaler)_\w+\{[^}]*\}", expression)
            assert expression.count(" and on (instance) slackwater_leader == 1") == len(selectors) > 0, expression
            asked += 1
    assert asked > 30


def test_an_alert_about_the_cluster_asks_the_leader_alone() -> None:
    of_a_replica = {"SlackwaterNotSynced", "SlackwaterNoLeader", "SlackwaterEventSourceSilent"}
    assert {
        rule["alert"] for rule in _rules() if "and on (instance) slackwater_leader == 1" not in rule["expr"]
    } == of_a_replica
