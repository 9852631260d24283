"""What Prometheus itself makes of deploy/monitoring: each alert fires when it should, in the right words, and not before.

Each case is a little time line for `promtool test rules`: series with a sample a minute, when the alert must be quiet, and when
it must be there with which labels. Its words are those of the rule with the labels put in.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.alerts.program import ask
from tests.alerts.stories import AT, STORIES, Story, reported_by

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
CHART = MONITORING.parent / "chart" / "files" / "alerts.yaml"
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]}


def words(story: Story) -> dict[str, str]:
    """What the alert says, with the labels and the value put in."""

    def put(found: re.Match[str]) -> str:
        return story.value if found[1] == "$value" else story.labels[found[1].removeprefix("$labels.")]

    return {name: re.sub(r"{{ (.*?) }}", put, text) for name, text in RULES[story.alert]["annotations"].items()}


def _there(story: Story) -> dict[str, Any]:
    return {"exp_labels": {**story.labels, **RULES[story.alert]["labels"]}, "exp_annotations": words(story)}


def _replicas(story: Story, *, standby: bool) -> dict[str, str]:
    """The story's series on the leader, and on a standby the same, as it follows the same cluster."""
    if any(series.startswith("slackwater_leader{") for series in story.series):
        return dict(story.series)
    found = {**story.series, **reported_by("slackwater_leader", "1x200")}
    if standby:
        here, there = json.dumps(AT["instance"]), json.dumps("standby:10298")
        found |= {series.replace(here, there): values for series, values in story.series.items()}
        found |= {series.replace(here, there): "0x200" for series in reported_by("slackwater_leader", "")}
    return found


def as_test(story: Story, *, standby: bool = False) -> dict[str, Any]:
    wanted: list[tuple[int, list[Any]]] = [(minute, []) for minute in story.quiet]
    wanted += [(minute, [_there(story)]) for minute in story.loud]
    return {
        "name": f"{story.alert}: {story.what}",
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in _replicas(story, standby=standby).items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": story.alert, "exp_alerts": alerts} for minute, alerts in sorted(wanted)
        ],
    }


@pytest.mark.parametrize("file", [ALERTS, CHART], ids=["deploy/monitoring", "deploy/chart"])
def test_prometheus_reads_the_rules(promtool: Path, file: Path) -> None:
    code, said = ask(promtool, "check", "rules", "--lint=all", "--lint-fatal", str(file))
    assert (code, f"SUCCESS: {len(RULES)} rules found" in said) == (0, True), said


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.alert}: {story.what}")
def test_an_alert_is_there_when_it_should_be_and_not_before(promtool: Path, story: Story, tmp_path: Path) -> None:
    file = tmp_path / "test.yaml"
    body = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [as_test(story)]}
    file.write_text(yaml.safe_dump(body), "utf-8")
    code, said = ask(promtool, "test", "rules", str(file))
    assert code == 0, said


#: What is wrong with one replica, not with the cluster.
OF_A_REPLICA = {"SlackwaterNotSynced", "SlackwaterEventSourceSilent"}


@pytest.mark.parametrize(
    "story", [each for each in STORIES if each.alert not in OF_A_REPLICA and each.loud], ids=lambda each: each.alert
)
def test_two_replicas_have_one_alert_that_of_the_leader(promtool: Path, story: Story, tmp_path: Path) -> None:
    file = tmp_path / "test.yaml"
    body = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [as_test(story, standby=True)]}
    file.write_text(yaml.safe_dump(body), "utf-8")
    code, said = ask(promtool, "test", "rules", str(file))
    assert code == 0, said


def _panels() -> Iterator[tuple[str, str]]:
    """The title and each expression of the panels about the cluster; those of the row `The service` are about each process."""
    for panel in json.loads((MONITORING / "grafana.json").read_text("utf-8"))["panels"]:
        if panel["title"] == "The service":
            return
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


def _series_of(expression: str) -> dict[str, str]:
    """A series for each metric that the expression reads, with labels that it selects: of a leader, and of a standby with
    other values."""
    found: dict[str, str] = {}
    grouped = {label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", expression) for label in labels.split(",")}
    for metric, selector in re.findall(r"\b((?:slackwater|cluster_autoscaler)_\w+)(?:\{([^}]*)\})?", expression):
        asked = re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', selector)
        labels = {label: value.partition("|")[0] if sign != "!=" else "other" for label, sign, value in asked}
        labels = {**{label: "0.5" if label == "le" else "x" for label in grouped if metric != "slackwater_leader"}, **labels}
        for instance, values in (("leader:1", "1+7x60"), ("standby:1", "2+5x60")):
            for more in ({"le": "+Inf"}, {}) if "le" in labels else ({},):
                inside = {**labels, **more, "instance": instance}
                series = f"{metric}{{{','.join(f'{name}={json.dumps(value)}' for name, value in inside.items())}}}"
                found[series] = "3+20x60" if more else values
    found |= {'slackwater_leader{instance="leader:1"}': "1x60", 'slackwater_leader{instance="standby:1"}': "0x60"}
    return found


@pytest.mark.parametrize(("title", "expression"), sorted({each for each in _panels() if each[0] != "Synced"}))
def test_a_panel_shows_with_two_replicas_what_it_shows_of_the_leader(
    promtool: Path, title: str, expression: str, tmp_path: Path
) -> None:
    every, leader = expression.replace("$instance", ".*"), expression.replace("$instance", "leader:1")
    questions = {"differs": f"({every}) != ({leader})", "is empty": f"absent({every})", "lacks": f"({every}) unless ({leader})"}
    test = {
        "name": title,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in _series_of(every).items()],
        "promql_expr_test": [{"expr": asked, "eval_time": "30m", "exp_samples": []} for asked in questions.values()],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}), "utf-8")
    code, said = ask(promtool, "test", "rules", str(file))
    assert code == 0, said


def test_every_alert_has_an_input_series() -> None:
    assert {story.alert for story in STORIES if story.loud and story.quiet} == RULES.keys()


def test_a_rule_that_says_something_else_fails(promtool: Path, tmp_path: Path) -> None:
    """These tests can fail: the threshold of one rule is moved."""
    rules, file = tmp_path / "alerts.yaml", tmp_path / "test.yaml"
    rules.write_text(ALERTS.read_text("utf-8").replace("> 0.05\n", "> 5\n"), "utf-8")
    slow = next(story for story in STORIES if story.alert == "SlackwaterFilterSlow" and story.loud)
    body = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [as_test(slow)]}
    file.write_text(yaml.safe_dump(body), "utf-8")
    code, said = ask(promtool, "test", "rules", str(file))
    assert code == 1
    assert "SlackwaterFilterSlow" in said
