"""`slackwater history` against a listener: the table, JSON, and what is wrong with the arguments; and the endpoint itself."""

import json
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from slackwater.cli.main import main
from slackwater.controllers.history.policy import HistoryPolicy
from slackwater.controllers.history.state import History, past_of
from slackwater.model.history import HistoryAction, HistoryEntry, PastOfObject, Remembered
from tests.support.answers import json_of
from tests.support.http_answers import answering
from tests.support.ops import Ready, ops_app

NOW_MS = 1_700_000_100_000
LOW = HistoryEntry(
    at_ms=1_700_000_000_000,
    action=HistoryAction.PREEMPTED,
    pod="shop/low",
    uid="12345678",
    node="n1",
    other="shop/high",
)


def a_history(*entries: HistoryEntry) -> History:
    history = History(HistoryPolicy())
    for entry in entries:
        history.add(entry)
    return history


async def get(path: str, history: History) -> tuple[int, Any]:
    """The answer of the ops listener of a service that has not listed everything yet."""

    async def what_happened(what: Remembered, namespace: str, name: str, since: float | None) -> PastOfObject:
        since_ms = None if since is None else NOW_MS - round(since * 1000)
        return past_of(history, what, f"{namespace}/{name}" if namespace else name, since_ms=since_ms)

    app: Any = ops_app(readiness=Ready("pods"), what_happened=what_happened)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://ops") as http:
        answer = await http.get(path)
    return answer.status_code, answer.json()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "count"),
    [("pods/shop/low", 1), ("pods/shop/high", 1), ("nodes/n1", 1), ("pods/shop/nobody", 0), ("pods/shop/low?since=99s", 0)],
)
async def test_the_endpoint_answers_before_everything_is_listed(path: str, count: int) -> None:
    status, answer = await get(f"/history/{path}", a_history(LOW))
    assert status == 200
    assert len(answer["entries"]) == count
    assert answer["reaches"] == {"acts": None, "waits": None}


@pytest.mark.anyio
@pytest.mark.parametrize("since", ["yesterday", "-5m", "5"])
async def test_a_bad_duration_is_refused_with_what_is_wanted(since: str) -> None:
    status, answer = await get(f"/history/pods/shop/low?since={since}", a_history(LOW))
    assert status == 400
    assert "since: duration" in answer["detail"]


def test_the_table_says_when_who_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps(json_of(past_of(a_history(LOW), "pod", "shop/low", since_ms=None, notes=("a note",))))
    with answering(body.encode()) as (url, _):
        assert main(["history", "pod", "shop/low", "-o", "table", "--url", url]) == 0
    heading, line, note = capsys.readouterr().out.splitlines()
    assert heading.split() == ["WHEN", "BY", "WHAT"]
    assert line == "2023-11-14T22:13:20.000Z  slackwater  preempted on n1 to make room for shop/high"
    assert note == "(a note)"


def test_the_history_of_a_preemptor_names_its_victims(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps(json_of(past_of(a_history(LOW), "pod", "shop/high", since_ms=None)))
    with answering(body.encode()) as (url, _):
        assert main(["history", "pod", "shop/high", "-o", "table", "--url", url]) == 0
    assert "pod shop/low: preempted on n1" in capsys.readouterr().out


def test_pods_of_one_name_are_distinguished(capsys: pytest.CaptureFixture[str]) -> None:
    entries = (LOW, replace(LOW, uid="abcdefgh", action=HistoryAction.BOUND, other=""))
    body = json.dumps(json_of(past_of(a_history(*entries), "pod", "shop/low", since_ms=None)))
    with answering(body.encode()) as (url, _):
        assert main(["history", "pod", "shop/low", "-o", "table", "--url", url]) == 0
    heading, *lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert heading == ["WHEN", "UID", "BY", "WHAT"]
    assert [line[1] for line in lines] == ["12345678", "abcdefgh"]


def test_nothing_is_said_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps(json_of(past_of(a_history(), "node", "n1", since_ms=None)))
    with answering(body.encode()) as (url, _):
        assert main(["history", "node", "n1", "--since", "24h", "-o", "table", "--url", url]) == 0
    assert capsys.readouterr().out == "node n1: nothing is recorded within 24h\n"


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["pod", "low/"], "history pod: got 'low/', want NAME or NAMESPACE/NAME"),
        (["pod", "/low"], "history pod: got '/low', want NAME or NAMESPACE/NAME"),
        (["node", "a/b"], "history node: got 'a/b', want a name without a slash"),
        (["node", "n1", "--since=-1h"], "--since: duration '-1h': negative, want 0 or more"),
        (["group", "pool"], "argument KIND: invalid choice: 'group' (choose from pod, node)"),
    ],
)
def test_bad_arguments_are_named(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", *arguments]) == 2
    assert want in capsys.readouterr().err


def test_an_answer_that_is_no_history_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"{}") as (url, _):
        assert main(["history", "node", "n1", "--url", url]) == 4
    assert "want a history" in capsys.readouterr().err


def test_html_of_another_server_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"<!DOCTYPE HTML>\n<html><body>not here</body></html>", status=404) as (url, _):
        assert main(["history", "node", "n1", "--url", url]) == 4
    want = f"slackwater: {url}/history/nodes/n1: got status 404, want 200: a page of HTML, want Slackwater's ops listener\n"
    assert capsys.readouterr().err == want


def test_a_time_shows_what_happened_around_it(capsys: pytest.CaptureFixture[str]) -> None:
    """LOW happened at 22:13:20 in UTC."""
    body = json.dumps(json_of(past_of(a_history(LOW), "pod", "shop/low", since_ms=None))).encode()
    for at, want in (("2023-11-14T22:10Z", 1), ("2023-11-14T23:16:00+01:00", 1), ("2023-11-14T22:19Z", 0)):
        with answering(body) as (url, _):
            assert main(["history", "pod", "shop/low", "--at", at, "--url", url, "-o", "json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["entries"]) == want


@pytest.mark.anyio
async def test_the_endpoint_answers_for_the_whole_cluster_the_oldest_first() -> None:
    removal = replace(LOW, action=HistoryAction.DRAIN_BEGAN, pod="", uid="", other="", at_ms=LOW.at_ms + 1)
    status, answer = await get("/history?since=101s", a_history(removal, LOW, replace(LOW, at_ms=LOW.at_ms - 2000)))
    assert (status, answer["object"]) == (200, "the cluster")
    assert [entry["action"] for entry in answer["entries"]] == ["preempted", "drain-began"]


def test_of_the_cluster_is_shown_what_was_done_and_counted_what_the_scheduler_said(capsys: pytest.CaptureFixture[str]) -> None:
    refused = [replace(LOW, action=HistoryAction.REFUSED, pod=f"shop/w-{n % 2}", other="", why="full") for n in range(3)]
    asked = [replace(LOW, action=HistoryAction.SCALE_UP, pod=f"shop/w-{n}", other="", why="pool 1->3") for n in range(2)]
    body = json.dumps(json_of(past_of(a_history(*refused, *asked, LOW), "cluster", "", since_ms=None))).encode()
    with answering(body) as (url, requests):
        assert main(["history", "--at", "2023-11-14T22:13Z", "--url", url, "-o", "table"]) == 0
    assert requests[0][0].startswith("/history?since=")
    _, preempted, scale_up, counted = capsys.readouterr().out.splitlines()
    assert "2 times, such as shop/w-0  slackwater  nodes were requested for it: pool 1->3" in scale_up
    assert "shop/low" in preempted
    assert counted == "(the scheduler: refused 3 times, 2 pods; -o json has each)"
    with answering(body) as (url, _):
        assert main(["history", "--at", "2023-11-14T21:13Z", "--url", url, "-o", "table"]) == 0
    assert capsys.readouterr().out.startswith("the cluster: nothing is recorded around 2023-11-14T2")


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["pod"], "history pod: got no name, want NAME or NAMESPACE/NAME"),
        (["--at", "25:00"], "argument --at: got '25:00', want a time such as 10:05 or 2026-11-27T10:05Z"),
        (["pod", "a", "--at", "10:05", "--since", "1h"], "argument --since: not allowed with argument --at"),
    ],
)
def test_a_time_that_means_nothing_is_refused(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", *arguments]) == 2
    assert want in capsys.readouterr().err
