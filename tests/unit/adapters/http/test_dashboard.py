"""The dashboard's page, its frames, and its stream, without a browser."""

import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import TaskGroup
from prometheus_client import CollectorRegistry

from slackwater.adapters.http import dashboard, uvicorn_listener
from slackwater.adapters.http.dashboard.routes import OpenStreams
from slackwater.adapters.http.dashboard.update_frames import Frames
from slackwater.adapters.http.status import SettingsView
from slackwater.adapters.http.uvicorn_listener import listen, serve_app
from slackwater.app.settings import Settings, as_file
from slackwater.model.events import NodeGone, NodeSeen, PausesSeen, PodSeen
from slackwater.model.ids import Instant, NodeName
from slackwater.model.pauses import pauses_of
from slackwater.model.resources import sum_of
from slackwater.runtime.dashboard.node_use import NodeUse
from slackwater.runtime.dashboard.observer import DashboardObserver
from slackwater.runtime.decision_log import DecisionLog
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts
from tests.support.ops import Ready, ops_app
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

NOW = Instant(100.0)


def a_state_machine(n_nodes: int = 3) -> StateMachine:
    state_machine = StateMachine(installed.POLICY)
    for number in range(n_nodes):
        state_machine.apply(NodeSeen(a_node(f"n{number}", cpu="4")), NOW)
    return state_machine


def an_app(state_machine: StateMachine, *, listeners: OpenStreams | None = None, readiness: Ready | None = None) -> Any:
    return ops_app(
        state_machine=state_machine,
        readiness=readiness or Ready(),
        registry=CollectorRegistry(),
        settings=SettingsView(as_file(Settings())),
        clock=lambda: NOW,
        listeners=listeners,
    )


class Watching:
    """Frames with a clock that a test moves: each look finds the last frame old."""

    def __init__(self, state_machine: StateMachine) -> None:
        self.now = 0.0
        about = dict[str, Any](status={}, autoscaler=None).copy
        clock, self.log = lambda: Instant(self.now), DecisionLog(lambda: self.now)
        self.use: NodeUse | None = None
        self.observer = DashboardObserver(
            state_machine, self.log, about, node_use=lambda: self.use, clock=clock, wall=lambda: self.now
        )
        self.frames = Frames(state_machine, self.observer, about=lambda: {"status": {}}, clock=clock, wall=lambda: self.now)

    async def after(self, seen: int) -> list[tuple[int, str, dict[str, Any]]]:
        self.now += 10
        return [(seq, event, json.loads(data)) for seq, event, data in await self.frames.after(seen)]


async def test_the_first_frame_has_everything_and_later_ones_what_changed() -> None:
    state_machine = a_state_machine()
    watching = Watching(state_machine)
    [(seq, event, board)] = await watching.after(0)
    assert (event, board["nodes"]["names"]) == ("board", ["n0", "n1", "n2"])
    state_machine.apply(PodSeen(a_pod("p", on="n1", cpu="3")), NOW)
    [(next_seq, event, change)] = await watching.after(seq)
    assert (next_seq, event, change["nodes"]["rows"]) == (seq + 1, "change", [1])
    reserved = board["nodes"]["lines"].index("cpu.reserved")
    assert change["nodes"]["numbers"][reserved] == [3000]
    assert "drains" not in change, "a section that is as before is not told again"


async def test_pending_pods_come_with_their_reason_the_most_important_first() -> None:
    state_machine = a_state_machine()
    for name, priority in (("low", 0), ("high", 9)):
        state_machine.apply(PodSeen(a_pod(name, priority=priority)), NOW)
    [(_, _, board)] = await Watching(state_machine).after(0)
    assert [pod["name"] for pod in board["pending"]["entries"]] == ["high", "low"]
    assert board["pending"]["total"] == 2


async def test_what_nodes_use_comes_in_the_order_of_the_nodes_once_it_was_read() -> None:
    state_machine = a_state_machine()
    watching = Watching(state_machine)
    [(seq, _, board)] = await watching.after(0)
    assert board["use"] is None
    of = {NodeName("n2"): amounts("1"), NodeName("gone"): amounts("9"), NodeName("n0"): amounts("500m")}
    watching.use = NodeUse(of, sum_of(of.values()))
    [(seq, _, change)] = await watching.after(seq)
    assert change["use"]["cpu"] == [500, None, 1000]
    [(seq, _, change)] = await watching.after(seq)
    assert "use" not in change
    state_machine.apply(NodeGone(NodeName("n0")), NOW)
    [(_, _, board)] = await watching.after(seq)
    assert board["use"]["cpu"] == [None, 1000]


async def test_other_nodes_need_a_whole_frame() -> None:
    state_machine = a_state_machine()
    watching = Watching(state_machine)
    [(seq, _, _)] = await watching.after(0)
    state_machine.apply(NodeGone(NodeName("n1")), NOW)
    [(_, event, board)] = await watching.after(seq)
    assert (event, board["nodes"]["names"]) == ("board", ["n0", "n2"])


async def test_a_cordon_is_sent_though_no_amount_changed() -> None:
    state_machine = a_state_machine()
    watching = Watching(state_machine)
    [(seq, _, _)] = await watching.after(0)
    state_machine.apply(NodeSeen(a_node("n2", cpu="4", unschedulable=True)), NOW)
    [(_, event, change)] = await watching.after(seq)
    assert (event, change["nodes"]["rows"], change["nodes"]["numbers"][-1]) == ("change", [2], [2])


async def test_a_listener_that_is_far_behind_gets_a_whole_frame() -> None:
    watching = Watching(a_state_machine())
    [(first, _, _)] = await watching.after(0)
    seen = first
    for _ in range(10):
        [(seen, event, _)] = await watching.after(seen)
        assert event == "change"
    assert [event for _, event, _ in await watching.after(first)] == ["board"]


async def test_the_page_loads_only_what_this_service_has() -> None:
    transport = httpx.ASGITransport(app=an_app(a_state_machine()))
    async with httpx.AsyncClient(transport=transport, base_url="http://ops") as http:
        page = await http.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        wanted = {*re.findall(r'(?:src|href)="(/dashboard/[^"]+)"', page.text)}
        assert not re.findall(r'(?:src|href)="(?!/|#)', page.text)
        seen: set[str] = set()
        while wanted - seen:
            path = (wanted - seen).pop()
            seen.add(path)
            answer = await http.get(path)
            assert answer.status_code == 200, path
            assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", ""), path
            wanted |= {f"/dashboard/{name}" for name in re.findall(r'from "\./([^"]+)"', answer.text)}
        assert "/dashboard/nodes.js" in seen


def test_what_other_projects_wrote_is_what_was_vendored() -> None:
    """A new version of a file comes with its sum and its licence, and no other file of theirs is served."""
    static = resources.files(dashboard).joinpath("static")
    lines = [line.split("  ") for line in static.joinpath("vendored.txt").read_text("utf-8").splitlines() if line[0] != "#"]
    for want, name in lines:
        assert hashlib.sha256(static.joinpath(name).read_bytes()).hexdigest() == want, name
    assert {name for _, name in lines} == {each.name for each in static.iterdir() if each.name.startswith("uPlot")}
    assert "uPlot" in (Path(__file__).parents[4] / "NOTICE").read_text("utf-8")


async def test_a_pause_is_sent_and_its_end_too() -> None:
    state_machine = a_state_machine()
    watching = Watching(state_machine)
    state_machine.apply(PausesSeen(pauses_of({"scale-up": "since noon by anna"})), NOW)
    [(seq, _, board)] = await watching.after(0)
    assert board["health"]["paused"] == "Paused: scale-up since noon by anna. `slackwater resume` ends it."
    state_machine.apply(PausesSeen(()), NOW)
    [(_, _, change)] = await watching.after(seq)
    assert change["health"]["paused"] == ""


@asynccontextmanager
async def served(app: Any, listeners: OpenStreams) -> AsyncIterator[tuple[str, TaskGroup]]:
    with listen("ops", "127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        async with anyio.create_task_group() as group:
            await group.start(serve_app, app, sock, None, listeners.close)
            yield f"http://127.0.0.1:{port}", group
            group.cancel_scope.cancel()


async def test_the_stream_begins_with_a_board_and_its_listener_leaves_with_the_browser() -> None:
    listeners = OpenStreams()
    async with (
        served(an_app(a_state_machine(), listeners=listeners), listeners) as (url, _),
        httpx.AsyncClient(base_url=url, verify=False, timeout=60) as http,
    ):
        async with http.stream("GET", "/dashboard/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.aiter_lines()
            assert await anext(lines) == "event: board"
            assert json.loads((await anext(lines)).removeprefix("data: "))["seq"] == 1
            assert len(listeners) == 1
        await until(lambda: not len(listeners))


async def test_one_listener_too_many_is_refused_with_a_retry_after() -> None:
    listeners = OpenStreams(most=1)
    async with (
        served(an_app(a_state_machine(), listeners=listeners), listeners) as (url, _),
        httpx.AsyncClient(base_url=url, verify=False, timeout=60) as http,
        http.stream("GET", "/dashboard/events") as first,
    ):
        await anext(first.aiter_lines())
        second = await http.get("/dashboard/events")
        assert (second.status_code, second.headers["retry-after"]) == (503, "5")


async def test_a_service_that_stops_ends_its_streams_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_listener, "_GRACE_SECONDS", 60)  # else a machine that stands still cuts them off
    listeners = OpenStreams()
    async with (
        served(an_app(a_state_machine(), listeners=listeners), listeners) as (url, group),
        httpx.AsyncClient(base_url=url, verify=False, timeout=60) as http,
    ):
        async with http.stream("GET", "/dashboard/events") as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True), anyio.fail_after(60):
                assert [line async for line in lines][-1] == ""
        assert listeners.full, "nobody is let in any more"


async def test_before_the_state_is_complete_there_is_no_stream() -> None:
    transport = httpx.ASGITransport(app=an_app(a_state_machine(), readiness=Ready("pods")))
    async with httpx.AsyncClient(transport=transport, base_url="http://ops") as http:
        assert (await http.get("/dashboard/events")).status_code == 503
        assert (await http.get("/statusz")).json()["waitingFor"] == ["pods"]
