"""Finds the problems of the service and of the cluster for the top of the dashboard: what is wrong, since when, what to do.

    found = problems(state_machine, waiting, status=..., loop=..., now=..., wall=...)
    since.of(found, wall)     # with the time when each began, the gravest first; empty if all is well

If the state does not show when a problem began, `Since` uses the time when it was first seen. The text of a problem does not
contain its age, so that the dashboard sends it only once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from slackwater.controllers.scaledown.drains.drain import Drain
from slackwater.model.ids import Instant, UnixTime
from slackwater.model.texts import count_text, first_few
from slackwater.runtime.state_machine import StateMachine

#: How long an eviction, a preemption or a pod waits before it is a problem.
LATE_AFTER_SECONDS: Final = 30.0
#: How long a pod may be pending before it is reported as a problem.
PENDING_SECONDS: Final = 60.0
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthProblem:
    """One problem. `code` identifies it from look to look. `since` is the Unix time when it began, 0 if the state does not show
    that. `view` is the address within the dashboard that shows it."""

    code: str
    grave: bool
    text: str
    todo: str
    view: str
    since: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The pending pods: how many, and when the oldest was created."""

    total: int
    oldest_at: UnixTime


class Since:
    """Remembers when each problem was first seen, as long as it lasts."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}

    def of(self, found: Iterable[HealthProblem], wall: UnixTime) -> list[HealthProblem]:
        """Adds to each problem when it began. Returns the problems sorted: grave ones first, then the oldest first."""
        now = {problem.code: problem for problem in found}
        self._first = {code: self._first.get(code, problem.since or int(wall)) for code, problem in now.items()}
        dated = [replace(problem, since=problem.since or self._first[code]) for code, problem in now.items()]
        return sorted(dated, key=lambda problem: (not problem.grave, problem.since, problem.code))


def problems(
    state_machine: StateMachine,
    waiting: Waiting,
    *,
    status: Mapping[str, Any],
    loop: Mapping[str, Any] | None,
    now: Instant,
    wall: UnixTime,
) -> Iterator[HealthProblem]:
    """All present problems, unsorted. `status` is the JSON value of `/statusz`, `loop` that of the autoscaler's last loop
    (None: there is none)."""
    yield from _of_service(status)
    yield from _of_nodes(state_machine, now, wall)
    yield from _of_drains(state_machine.drains.active, now, wall)
    yield from _of_preemptions(state_machine, now, wall)
    if loop is not None:
        yield from _of_loop(loop)
    if waiting.total and wall - waiting.oldest_at >= PENDING_SECONDS:
        text = f"{count_text(waiting.total, 'pod')} without a node, the oldest for more than a minute"
        todo = "Open the pending pods: each group shows what would help."
        yield HealthProblem(code="pending", grave=False, text=text, todo=todo, view="pending", since=int(waiting.oldest_at))


def _of_service(status: Mapping[str, Any]) -> Iterator[HealthProblem]:
    sources = status.get("eventSources", {}).items()
    silent = sorted(name for name, source in sources if not source["alive"] and not source["absent"])
    if silent:
        text = f"The API server sends nothing about {first_few(silent, _MOST_NAMED)}"
        todo = "What is shown may be outdated. Look whether the API server answers, and at the service's log."
        yield HealthProblem(code="silent", grave=True, text=text, todo=todo, view="overview")
    if status.get("settingsProblem"):
        text = f"The changed configuration is not in force: {status['settingsProblem']}"
        todo = "Check the file with `slackwater config check`."
        yield HealthProblem(code="settings", grave=False, text=text, todo=todo, view="overview")
    for name, certificate in status.get("certificates", {}).items():
        if certificate["problem"]:
            text = f"The new certificate of listener {name} is not in use: {certificate['problem']}"
            yield HealthProblem(
                code=f"certificate {name}", grave=True, text=text, todo="Replace the files of the listener.", view="overview"
            )


def _of_nodes(state_machine: StateMachine, now: Instant, wall: UnixTime) -> Iterator[HealthProblem]:
    doubted = list(state_machine.state.quarantine.items())
    if doubted:
        names = sorted(str(name) for name, _ in doubted)
        since = int(wall - (now - min(entry.since for _, entry in doubted)))
        text = f"{count_text(len(names), 'node')} in quarantine, where nothing new is placed: {first_few(names, _MOST_NAMED)}"
        todo = "The next audit clears a node whose sums are in order; open the node for what was found."
        yield HealthProblem(code="quarantine", grave=True, text=text, todo=todo, view="nodes?show=quarantined", since=since)
    columns = state_machine.state.ledger.columns
    over = int((columns.reserved > columns.total).any(axis=0).sum())
    if over:
        text = f"{count_text(over, 'node')} with more reserved than it has"
        todo = "Pods bound by others, or a node that shrank. Move pods away from it."
        yield HealthProblem(code="over", grave=True, text=text, todo=todo, view="nodes?show=over")


def _of_drains(drains: Iterable[Drain], now: Instant, wall: UnixTime) -> Iterator[HealthProblem]:
    for drain in drains:
        late = [
            eviction
            for eviction in drain.pods.evictions.values()
            if eviction.step in {"waiting", "refused", "homeless"} and now - eviction.first_at >= LATE_AFTER_SECONDS
        ]
        if late:
            first = min(late, key=lambda eviction: eviction.first_at)
            pods = sorted(str(eviction.pod.key) for eviction in late)
            text = f"The drain of {drain.order.node} waits for {first_few(pods, _MOST_NAMED)}"
            todo = "A disruption budget blocks the eviction: add a replica, raise the budget, or cancel the drain."
            if first.step == "homeless":
                todo = "The pod fits on no other node now; the drain is rolled back soon if that stays so."
            since = int(wall - (now - first.first_at))
            view = f"why/node/{drain.order.node}"
            yield HealthProblem(code=f"drain {drain.order.node}", grave=False, text=text, todo=todo, view=view, since=since)


def _of_preemptions(state_machine: StateMachine, now: Instant, wall: UnixTime) -> Iterator[HealthProblem]:
    for found in (each for _, each in state_machine.preemptions.items()):
        if found.waiting and now - found.since >= 2 * LATE_AFTER_SECONDS:
            text = f"Pod {found.pod.key} still waits for its victims to leave {found.node}"
            todo = "Look at the victims' finalizers and grace periods."
            since = int(wall - (now - found.since))
            yield HealthProblem(
                code=f"preemption {found.pod.key}", grave=False, text=text, todo=todo, view="preemptions", since=since
            )


def _of_loop(loop: Mapping[str, Any]) -> Iterator[HealthProblem]:
    if not loop["healthy"]:
        text = "So many nodes are unready that none is removed"
        todo = "Look for an outage of the network or of a zone."
        yield HealthProblem(code="unready", grave=True, text=text, todo=todo, view="nodes?show=not-ready")
    for number, text in enumerate(loop["problems"][:_MOST_NAMED]):
        yield HealthProblem(
            code=f"loop {number}", grave=True, text=f"Autoscaler: {text}", todo="See the node groups.", view="groups"
        )
    for group in loop["groups"]:
        name, backoff = group["name"], group["backoff"]
        if backoff is not None:
            text = f"Node group {name} could not grow: {backoff['message'] or backoff['code']}"
            todo = "It is tried again after a pause; other groups are used meanwhile."
            yield HealthProblem(code=f"backoff {name}", grave=False, text=text, todo=todo, view=f"why/group/{name}")
        # A higher maximum is advised only if the plan found that a new node of the group would take the pods.
        if group["limitedPods"] and group["target"] >= group["maxSize"]:
            waiting = count_text(group["limitedPods"], "pod")
            most = count_text(group["maxSize"], "node")
            text = f"Node group {name} is at its limit of {most}, and one more would take {waiting}"
            todo = f"Raise maxSize of {name}, or look at the pending pods."
            yield HealthProblem(code=f"limit {name}", grave=False, text=text, todo=todo, view=f"why/group/{name}")
