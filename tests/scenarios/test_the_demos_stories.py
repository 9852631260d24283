"""`slackwater demo` shows every story within two minutes, on the dashboard's own stream.

The test reads what a browser would read, for as long as something has not been seen yet.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from random import SystemRandom
from typing import Any

import httpx
import pytest

from slackwater.sandbox.free_ports import FreePorts

#: Longer than the two minutes that the demo names: other tests run beside this one. It ends when every story has been seen.
_SECONDS = 900
WANT = {
    "pods are placed",
    "a group grows, and says for which pods",
    "a group is at its limit, and says so",
    "pods are preempted, and other nodes were considered",
    "a gate holds a pod back while Slackwater's victims end",
    "the pod is nominated to where they were, and placed there",
    "the metrics count the preemption",
    "a machine migrates",
    "a drain waits for a budget, and names it",
    "the blocked drain ends once the budget allows it",
    "placeholders are in place",
    "a burst takes the room of placeholders",
    "the room is made again",
    "nodes come and go",
    "a pod has an explanation with remedies",
    "a dear node is replaced by a cheaper one, and that saves money",
    "money is shown, and changes",
}

_ENDED = re.compile(r'^slackwater_goroutines_execution_total\{operation="preemption",result="success"\} [1-9]', re.MULTILINE)


@pytest.mark.timeout(_SECONDS + 120)
def test_every_demo_story_is_seen_on_the_dashboard() -> None:
    ports = FreePorts(SystemRandom())  # holds the port until the demo listens on it
    port = ports.take()
    command = [sys.executable, "-m", "slackwater", "demo", "--port", str(port), "--duration", f"{_SECONDS}s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        try:
            seen = _watch(f"http://127.0.0.1:{port}", demo)
        finally:
            demo.terminate()
        _, said = demo.communicate(timeout=60)
    assert sorted(WANT - seen) == [], said[-2000:]
    assert "Traceback" not in said
    assert [line for line in said.splitlines() if len(line) > 80] == []


def _watch(url: str, demo: "subprocess.Popen[str]") -> set[str]:
    seen: set[str] = set()
    ends = time.monotonic() + _SECONDS
    with httpx.Client(base_url=url, timeout=120) as client:
        for state in _states(client, ends, demo):
            seen |= {story for story, found in _stories(state).items() if found}
            if "a pod has an explanation with remedies" not in seen:
                answer = client.get("/explain/pods/default/report-0")
                if answer.status_code == 200 and answer.json()["remedies"]:
                    seen.add("a pod has an explanation with remedies")
            if "the metrics count the preemption" not in seen and _ENDED.search(client.get("/metrics").text):
                seen.add("the metrics count the preemption")
            if seen >= WANT or time.monotonic() > ends:
                break
    return seen


def _states(client: httpx.Client, ends: float, demo: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    """The dashboard's sections after each event, and all decisions that were sent so far; none if the demo has ended."""
    while time.monotonic() < ends and demo.poll() is None:
        try:
            if client.get("/readyz").status_code == 200:
                break
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    if demo.poll() is not None:
        return
    state: dict[str, Any] = {}
    decisions: list[dict[str, Any]] = []
    least: list[int] = []
    moves: list[dict[str, Any]] = []
    costs: set[str] = set()
    with client.stream("GET", "/dashboard/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data:"):
                frame = json.loads(line[5:])
                decisions += frame.pop("timeline", {"entries": []})["entries"]
                state |= frame
                least.append(_placed(state))
                loop = state.get("autoscaler") or {}
                moves += (loop.get("consolidation") or {}).get("ended", ())
                costs |= {cost["perHour"] for cost in [(loop.get("cost") or {}).get("present")] if cost}
                yield {**state, "decisions": decisions, "placed": least, "moves": moves, "costs": costs}


def _placed(state: dict[str, Any]) -> int:
    """How many placeholders are in place; -1 before the autoscaler's first loop."""
    slack = (state.get("autoscaler") or {}).get("slack")
    return sum(source["placed"] for source in slack["sources"]) if slack else -1


_KINDS = ("bind", "grow", "preempt", "nominate", "node", "migrate")


def _stories(state: dict[str, Any]) -> dict[str, bool]:
    decisions, placed = state["decisions"], state["placed"]
    of = {kind: [each for each in decisions if each["kind"] == kind] for kind in _KINDS}
    drains = state["drains"]["entries"]
    problems = {each["code"] for each in state["health"]["problems"]}
    full = max(placed)
    fallen = next((at for at, count in enumerate(placed) if full > count >= 0 and full in placed[:at]), len(placed))
    ended = [each for each in decisions if each["kind"] == "remove node" and each["name"].startswith("store-")]
    gated = [each for each in state["preemptions"]["entries"] if each["gateShut"]]
    express = [[each for each in of[kind] if each["name"].startswith("default/express-")] for kind in ("nominate", "bind")]
    return {
        "pods are placed": bool(of["bind"]),
        "a group grows, and says for which pods": any("for default/large-" in each["text"] for each in of["grow"]),
        "a group is at its limit, and says so": "limit large" in problems,
        "pods are preempted, and other nodes were considered": any("victim" in each["instead"] for each in of["preempt"]),
        "a gate holds a pod back while Slackwater's victims end": any(
            each["node"] == "vm-node" and "default/spot-" in str(each["waitingFor"]) for each in gated
        ),
        "the pod is nominated to where they were, and placed there": all(
            any("vm-node" in each["text"] for each in kind) for kind in express
        ),
        "a machine migrates": bool(of["migrate"]),
        "a drain waits for a budget, and names it": any(
            pod["blockedBy"] == "default/store" for drain in drains for pod in drain["pods"]
        ),
        "the blocked drain ends once the budget allows it": any(each["text"].startswith("removed") for each in ended),
        "placeholders are in place": full > 0,
        "a burst takes the room of placeholders": fallen < len(placed),
        "the room is made again": full in placed[fallen:],
        "a dear node is replaced by a cheaper one, and that saves money": any(
            move["phase"] == "done" and move["newNodes"] and float(move["saved"]) > 0 for move in state["moves"]
        ),
        "money is shown, and changes": len(state["costs"]) > 1,
        "nodes come and go": {"the node has come", "the node is gone"} <= {each["text"] for each in of["node"]},
    }
