"""Documentation that is generated is up to date, what is written by hand names what the code has, and links lead somewhere."""

import re
from pathlib import Path
from random import Random
from typing import Any, cast

import httpx
import pytest

from deploy.documents.pages import FILES, MarksMissing, main, metrics, reasons, renewed, settings
from slackwater.adapters.kube.client import KubeClient
from slackwater.app import wiring
from slackwater.app.settings import Settings, schema
from slackwater.app.settings.autoscaling import Autoscaler
from slackwater.app.settings.serving import Report
from slackwater.controllers.notifications.settings import Notifications, Webhook
from slackwater.model.effects import Activate, Announce, Bind, Nominate, ReadPod
from slackwater.model.reasons import Reason
from tests.support.layers import LAYERS

PAGES = sorted([*Path("docs").rglob("*.md"), *Path().glob("*.md"), Path("service/README.md"), Path("protocol/README.md")])
RENEW = "run `make docs`"
FOLDERS = (Path("docs"), Path("deploy"), Path("deploy/chart"), Path("deploy/chart/files"))


def rows(table: str) -> list[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


# --- generated parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_the_generated_parts_are_up_to_date(name: str) -> None:
    path = next(path for folder in FOLDERS if (path := folder / name).exists())
    assert renewed(name, path.read_text()) == path.read_text(), f"{path} is out of date: {RENEW}"


def test_only_what_is_between_the_marks_is_renewed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "reasons.md"
    page.write_text("before\n<!-- generated: reasons -->\nold\n<!-- end -->\nafter\n<!-- end -->\n")
    (tmp_path / "other.md").write_text("mine")
    assert main([str(tmp_path)]) == 0
    assert page.read_text() == f"before\n<!-- generated: reasons -->\n{reasons()}<!-- end -->\nafter\n<!-- end -->\n"
    assert capsys.readouterr().out == f"{page}\n"


@pytest.mark.parametrize("text", ["", "<!-- generated: reasons -->\n", "<!-- generated: metrics -->\n<!-- end -->\n"])
def test_a_page_without_its_marks_is_refused_and_left_alone(text: str, tmp_path: Path) -> None:
    page = tmp_path / "reasons.md"
    page.write_text(text)
    with pytest.raises(MarksMissing, match="reasons"):
        renewed("reasons.md", text)
    assert main([str(tmp_path)]) == 1
    assert page.read_text() == text


def test_a_folder_without_pages_is_an_error(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 1


#: As much as can be switched on.
EVERYTHING = Settings(
    autoscaler=Autoscaler(enabled=True),
    report=Report(enabled=True),
    notifications=Notifications(webhook=Webhook(url_file="/url", allowed_hosts=("localhost",))),
)


# --- metrics --------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_every_metric_that_the_service_exposes_is_documented_with_its_meaning() -> None:
    service = wiring.Service(EVERYTHING, cast("KubeClient", None), Random(0))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=service.ops), base_url="http://ops") as http:
        exposed = (await http.get("/metrics")).text
    helps = dict(re.findall(r"^# HELP ((?:slackwater|cluster_autoscaler)_\w+) (.+)$", exposed, re.MULTILINE))
    documented = {name.strip("`"): meaning for name, _, _, meaning in rows(metrics())}
    assert documented == helps


@pytest.mark.anyio
async def test_the_documented_labels_are_those_of_the_series() -> None:
    service = wiring.Service(EVERYTHING, cast("KubeClient", None), Random(0))
    service.dispatcher.stats.calls["Bind", "done"] = 1
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=service.ops), base_url="http://ops") as http:
        exposed = (await http.get("/metrics")).text
    labels = {name: re.findall(r"`(\w+)`", cell) for name, _, cell, _ in rows(metrics())}
    seen = dict(re.findall(r"^(slackwater_\w+?)(?:_bucket|_sum|_count)?\{(.*?)\} ", exposed, re.MULTILINE))
    assert "slackwater_api_calls_total" in seen
    for name, pairs in seen.items():
        assert set(re.findall(r'(\w+)="', pairs)) - {"le"} == set(labels[f"`{name}`"]), name


def test_the_words_of_the_metrics_labels_are_explained() -> None:
    text = Path("docs/operations.md").read_text()
    for effect in (Bind, Activate, Nominate, ReadPod, Announce):
        assert f"`{effect.__name__}`" in text
    for label in {label for _, _, cell, _ in rows(metrics()) for label in re.findall(r"`(\w+)`", cell)}:
        assert re.search(rf"^- .*`{label}` is|\. `{label}` (is|says)", text, re.MULTILINE), label


# --- reasons --------------------------------------------------------------------------------------------------------------


def test_every_reason_has_advice_once() -> None:
    """Two pieces of advice for one reason may contradict each other."""
    advice = Path("docs/reasons.md").read_text().partition("## What to do")[2]
    heads = re.findall(r"(?:^- |[.:;] )((?:`\w+`,?\s+(?:and )?)*`\w+`):", advice, re.MULTILINE)
    given = [label for head in heads for label in re.findall(r"`(\w+)`", head)]
    assert sorted(given) == sorted(reason.label for reason in Reason)


def test_the_table_of_reasons_has_every_reason_in_order() -> None:
    assert [int(number) for number, *_ in rows(reasons())] == [int(reason) for reason in Reason]
    assert [label.strip("`") for _, label, *_ in rows(reasons())] == [reason.label for reason in Reason]


# --- settings -------------------------------------------------------------------------------------------------------------


def keys(part: dict[str, Any], definitions: dict[str, Any]) -> int:
    """How many keys a schema has, each as often as its section stands somewhere; sections themselves are none."""
    found = 0
    for value in part["properties"].values():
        options = (value, value.get("items", {}), *value.get("anyOf", ()))
        target = next((option["$ref"] for option in options if "$ref" in option), None)
        found += "$ref" not in value
        found += keys(definitions[target.rpartition("/")[2]], definitions) if target else 0
    return found


def test_every_key_of_the_file_is_in_the_tables() -> None:
    whole = schema()
    assert sum(len(rows(part)) for part in settings().split("### ")) == keys(whole, whole["$defs"])


def test_a_row_says_default_values_and_when_a_change_takes_effect() -> None:
    extender = next(part for part in settings().split("### ") if part.startswith("`extender`\n"))
    described = {row[0]: row[1:4] for row in rows(extender)}
    assert described["`weight`"] == ["`1`", ">= 1, <= 100", "restart; kube-scheduler's file too"]
    assert described["`holdTimeout`"] == ['`"10s"`', "", "at once"]


# --- pages ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_the_pages_name_modules_that_exist() -> None:
    text = Path("docs/ARCHITECTURE.md").read_text()
    named = set(re.findall(rf"`((?:{LAYERS})/[\w/.]*)`", text))
    assert len(named) > 20
    assert [name for name in named if not (Path("service/src/slackwater") / name).exists()] == []


def test_every_trap_is_listed_once_and_has_its_test() -> None:
    listed = re.findall(r"^\| T(\d+) \|", Path("docs/extender.md").read_text(), re.MULTILINE)
    tested = set(re.findall(r"def test_t(\d+)_", Path("tests/unit/adapters/http/test_extender_traps.py").read_text()))
    assert listed == [str(number) for number in range(1, 18)]
    assert tested == set(listed)
