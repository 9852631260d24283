"""`slackwater drains` against a small HTTP server: the table, the JSON, cancelling, and every way the answer can be no."""

import json
from typing import Any

import pytest

from slackwater.cli.main import main
from tests.support.http_answers import answering

REMOVALS = [{"node": "n1", "phase": "evicting"}, {"node": "n2", "phase": "deleting"}]
ENDED = [
    {"node": "n3", "outcome": "done", "reason": None, "detail": "", "seconds": 3.0, "evicted": 4},
    {"node": "n4", "outcome": "rolled-back", "reason": "NotEnoughPdb", "detail": "shop/web", "seconds": 9.0, "evicted": 0},
]


def state(**more: Any) -> bytes:
    return json.dumps(
        {"autoscaler": {"scaleDown": {"status": "Candidates", "removals": REMOVALS, "ended": ENDED, **more}}}
    ).encode()


def test_the_table_names_each_node_and_how_the_last_removals_ended(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(state(), at="/dumpstate") as (url, _):
        assert main(["drains", "--url", url, "-o", "table"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NODE  PHASE",
        "n1    evicting",
        "n2    deleting",
        "ended: n3: done, 4 pods evicted",
        "ended: n4: rolled-back (NotEnoughPdb: shop/web), 0 pods evicted",
        "removals: Candidates",
    ]


def test_no_removal_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(state(removals=[], ended=[]), at="/dumpstate") as (url, _):
        assert main(["drains", "list", "--url", url, "-o", "table"]) == 0
        assert capsys.readouterr().out.splitlines() == ["no node is being removed", "removals: Candidates"]
        assert main(["drains", "--url", url]) == 0
    assert json.loads(capsys.readouterr().out) == {"removals": [], "ended": [], "status": "Candidates"}


@pytest.mark.parametrize("body", [{"autoscaler": None}, {"autoscaler": {"scaleDown": None}}])
def test_an_autoscaler_that_removes_nothing_is_a_no(body: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with answering(json.dumps(body).encode()) as (url, _):
        assert main(["drains", "--url", url]) == 1
    assert "removes no nodes, or has not looked yet" in capsys.readouterr().err


@pytest.mark.parametrize("body", [b"{}", b"[]", b"<html>"])
def test_an_answer_that_is_no_state_is_a_no(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(body) as (url, _):
        assert main(["drains", "--url", url]) == 4
    assert "got no dumpstate of this version" in capsys.readouterr().err


def test_a_drain_is_cancelled_by_a_post(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b'{"node":"n 1","answer":"cancelled"}') as (url, asked):
        assert main(["drains", "cancel", "n 1", "--url", url, "-o", "table"]) == 0
    assert asked == [("/drains/n%201/cancel", b"")]
    assert capsys.readouterr().out == "the drain of node n 1 is cancelled and rolled back\n"


def test_a_drain_that_is_not_there_is_a_no_in_the_listeners_words(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b'{"detail": "node n1: is not being removed"}', status=404) as (url, _):
        assert main(["drains", "cancel", "n1", "--url", url]) == 3
    assert capsys.readouterr().err.endswith("node n1: is not being removed\n")


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (["cancel"], "drains cancel: got no node, want one"),
        (["list", "n1"], "drains list: got node n1, want cancel before it"),
        (["cancel", "n1", "--watch"], "--watch: got it with cancel, want it alone"),
        (["cancle", "n1"], "invalid choice: 'cancle' (did you mean cancel?)"),
    ],
)
def test_bad_arguments(arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drains", *arguments]) == 2
    assert want in capsys.readouterr().err
