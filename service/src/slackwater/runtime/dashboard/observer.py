"""Observes the cluster state for the dashboard: what happened to pods and nodes, figures over time, and problems.

    observer.observe()     # each second, by `run`, whether or not a dashboard is open

A look reads the journals of pods and nodes, so it takes time in proportion to the changes. It writes what happened to pods and
nodes to `decision_log`, the figures of the last hour and day to `series`, and what is wrong now to `problems`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import anyio
import anyio.lowlevel

from slackwater.model.ids import Instant, NodeName, PodUid, UnixTime
from slackwater.model.objects import Pod, created_at_of
from slackwater.runtime.dashboard.health import HealthProblem, Since, Waiting, problems
from slackwater.runtime.dashboard.node_use import NodeUse
from slackwater.runtime.dashboard.pending import without_numbers
from slackwater.runtime.dashboard.series import Series
from slackwater.runtime.decision_log import KINDS, DecisionLog
from slackwater.runtime.state_machine import StateMachine
from slackwater_protocol.money import MICROS

LOOK_SECONDS: Final = 1.0
#: Pods or nodes read before other tasks get a turn: about two milliseconds.
_SLICE: Final = 1000
#: A pod or node created up to this long before the observer started counts as new, because the API server's clock may differ.
_CLOCK_SECONDS: Final = 2.0
#: A pod that has a node when it is first seen is noted as placed if it is not older than this.
_LATELY_SECONDS: Final = 60.0
#: Victims named in one sentence.
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class _Pending:
    """A pending pod as it was last seen."""

    key: str
    created_at: UnixTime
    message: str | None


class DashboardObserver:
    """Observes the state machine from its construction on. `about` returns as JSON values what does not come from it: "status",
    the content of `/statusz`, and "autoscaler", the record of the autoscaler's last loop (None if there is none). `node_use`
    returns what nodes use, if that is known. `clock` and `wall` are the clocks of the service."""

    def __init__(
        self,
        state_machine: StateMachine,
        decision_log: DecisionLog,
        about: Callable[[], Mapping[str, Any]],
        *,
        node_use: Callable[[], NodeUse | None],
        clock: Callable[[], Instant],
        wall: Callable[[], float],
    ) -> None:
        self.decision_log = decision_log
        self.series = Series(KINDS)
        self.problems: list[HealthProblem] = []
        self.node_use = node_use
        self._state_machine = state_machine
        self._about = about
        self._clock = clock
        self._wall = wall
        self._began = wall() - _CLOCK_SECONDS
        self._pods: set[PodUid] = set()
        self._nodes: set[NodeName] = set()
        self._pending: dict[PodUid, _Pending] = {}
        self._placed_lately: dict[PodUid, float] = {}
        self._known_nodes: set[NodeName] = set()
        self._preemptions: set[int] = set()
        self._since = Since()
        self._before: dict[str, int] = {}
        self._nodes_added = self._nodes_removed = 0
        self._one = anyio.Lock()
        self._looked_at = Instant(float("-inf"))
        state_machine.state.pods.journal.add_reader(self._pods)
        state_machine.state.nodes.journal.add_reader(self._nodes)
        self._pods.update(pod.uid for pod in state_machine.state.pods)
        self._nodes.update(state_machine.state.nodes.row_of)

    async def run(self) -> None:
        """Looks each second until cancelled."""
        while True:
            await self.observe()
            await anyio.sleep(LOOK_SECONDS)

    async def observe(self, *, at_least: float = 0.0) -> None:
        """Observes what changed since the last look; does nothing if that was less than `at_least` seconds ago."""
        async with self._one:
            if self._clock() - self._looked_at < at_least:
                return
            self._looked_at = self._clock()
            for start in range(len(self._pods), 0, -_SLICE):  # pods that change meanwhile are left to the next look
                for _ in range(min(start, _SLICE)):
                    uid = self._pods.pop()
                    self._pod_changed(uid, self._state_machine.state.pods.get(uid))
                await anyio.lowlevel.checkpoint()
            changed = sorted(self._nodes)
            self._nodes.clear()
            for start in range(0, len(changed), _SLICE):
                self._nodes_changed(changed[start : start + _SLICE])
                await anyio.lowlevel.checkpoint()
            self._look_at_preemptions()
            await anyio.lowlevel.checkpoint()
            wall = UnixTime(self._wall())
            about = self._about()
            self.series.take(wall, self._figures(wall, about["autoscaler"]))
            waiting = Waiting(total=len(self._pending), oldest_at=self._oldest(wall))
            found = problems(
                self._state_machine, waiting, status=about["status"], loop=about["autoscaler"], now=self._clock(), wall=wall
            )
            self.problems = self._since.of(found, wall)

    # --- pods -------------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> Collection[PodUid]:
        """The pods that were pending at the last look."""
        return self._pending.keys()

    def _pod_changed(self, uid: PodUid, pod: Pod | None) -> None:
        before = self._pending.get(uid)
        if pod is not None and pod.pending:
            now = _Pending(str(pod.key), created_at_of(pod.created_at), pod.unschedulable_message)
            self._pending[uid] = now
            changed = before is None or without_numbers(before.message) != without_numbers(now.message)
            if now.message is not None and changed and (before is not None or now.created_at >= self._began):
                self.decision_log.seen("wait", "pods", now.key, now.message)
            return
        if before is not None:
            del self._pending[uid]
        if pod is None or pod.node is None:
            if before is not None:
                self.decision_log.seen("wait", "pods", before.key, "gone before it had a node")
        elif before is not None:
            self._placed(before, pod, pod.node)
        elif uid not in self._placed_lately and not pod.ended:
            created_at = created_at_of(pod.created_at)
            if created_at >= max(self._began, self._wall() - _LATELY_SECONDS):
                self._placed(_Pending(str(pod.key), created_at, None), pod, pod.node)

    def _placed(self, before: _Pending, pod: Pod, node: NodeName) -> None:
        """Notes that the pod has a node. A pod that was created and placed between two looks is noted once."""
        now = self._wall()
        while self._placed_lately and next(iter(self._placed_lately.values())) < now - 2 * _LATELY_SECONDS:
            del self._placed_lately[next(iter(self._placed_lately))]
        self._placed_lately[pod.uid] = now
        if self._state_machine.policy.bind:
            return  # the effect of the bind is in the log already
        text = f"to {node} after {max(0, int(now - before.created_at))} s"
        owner = pod.eviction_facts.owner
        daemon = () if owner is None or owner.kind != "DaemonSet" else (f"daemonset {owner.name}",)
        self.decision_log.seen("bind", "pods", before.key, text, related=(f"nodes {node}", *daemon))

    # --- nodes, figures ---------------------------------------------------------------------------------------------------

    def _nodes_changed(self, names: Iterable[NodeName]) -> None:
        nodes = self._state_machine.state.nodes
        for name in names:
            node = nodes.get(name)
            if node is None and name in self._known_nodes:
                self._known_nodes.discard(name)
                self._nodes_removed += 1
                self.decision_log.seen("node", "nodes", name, "the node is gone")
            elif node is not None and name not in self._known_nodes:
                self._known_nodes.add(name)
                if (node.created_at or 0.0) >= self._began:
                    self._nodes_added += 1
                    self.decision_log.seen("node", "nodes", name, "the node has come")

    def _look_at_preemptions(self) -> None:
        """Notes each preemption that began since the last look, with its victims. Misses one that began and ended in
        between."""
        running = {found.number: found for _, found in self._state_machine.preemptions.items()}
        for number, found in running.items():
            if number not in self._preemptions:
                pods = (self._state_machine.state.pods.get(uid) for uid in found.waiting)
                victims = sorted(str(pod.key) for pod in pods if pod is not None)
                named = ", ".join(victims[:_MOST_NAMED]) + (" ..." if len(victims) > _MOST_NAMED else "")
                leaving = f"these leave for it: {named}" if named else "its victims have left already"
                text = f"on {found.node}, {leaving}"
                related = (f"nodes {found.node}", *(f"pods {victim}" for victim in victims))
                instead = "; ".join(other.text for other in found.others)
                self.decision_log.seen("preempt", "pods", str(found.pod.key), text, related=related, instead=instead)
        self._preemptions = set(running)

    def _oldest(self, wall: UnixTime) -> UnixTime:
        return min((pod.created_at for pod in self._pending.values()), default=wall)

    def _figures(self, wall: UnixTime, loop: Mapping[str, Any] | None) -> dict[str, int | None]:
        columns, counts = self._state_machine.state.ledger.columns, self._state_machine.state.event_counts
        total, reserved = columns.total.sum(axis=1).tolist(), columns.reserved.sum(axis=1).tolist()
        cpu, memory = (1000 * part // whole if whole else 0 for part, whole in zip(reserved, total, strict=True))
        use = self.node_use()
        used = (None, None) if use is None else tuple(1000 * u // t if t else 0 for u, t in zip(use.total, total, strict=True))
        grown = {
            "failures": counts.failures,
            "binds": counts.confirmed + counts.adopted,
            "nodesAdded": self._nodes_added,
            "nodesRemoved": self._nodes_removed,
            "evictions": self.decision_log.n_evicted,
            **{f"decisions.{kind}": self.decision_log.counts[kind] for kind in KINDS},
        }
        figures = {name: count - self._before.get(name, count) for name, count in grown.items()}
        self._before = grown
        return {
            "cpuPermille": cpu,
            "memoryPermille": memory,
            "pending": len(self._pending),
            "oldestPendingSeconds": max(0, int(wall - self._oldest(wall))),
            "nodes": len(self._state_machine.state.nodes),
            "costMicros": _cost_micros(loop),
            "cpuUsedPermille": used[0],
            "memoryUsedPermille": used[1],
            **figures,
        }


def _cost_micros(loop: Mapping[str, Any] | None) -> int | None:
    """What the nodes of all groups cost an hour by the last loop; None without prices."""
    price = (loop or {}).get("cost", {}).get("present")
    return None if price is None else int(Decimal(price["perHour"]) * MICROS)
