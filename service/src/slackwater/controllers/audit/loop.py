"""The audit loop: compares the cluster state with the API server's objects, and each node's sums (Reserved, held and so on)
with sums computed again. It logs each difference, counts it by cause, and repairs it.

    sample       checks the sums of a few nodes, several times a second; a wrong sum quarantines its node and starts an audit
    list         compares a fresh list of nodes and pods with the cluster state
    check again  compares what differed once more after a pause, since the watch may lag; reads what still differs
    sums         checks the sums of every node
    repair       goes through the state machine's own events, like any other change

The work is cut into slices of a few ms, between which other tasks run. Deliberately absent: how an object is compared, what a
node's sums should be (`differences`), and any write to the API server.
"""

import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio
import anyio.lowlevel
import structlog

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.audit.differences import (
    Drift,
    SumDifference,
    compare_absent_node,
    compare_absent_pod,
    compare_node,
    compare_pod,
    wrong_held,
    wrong_on,
)
from slackwater.model.events import Event, NodeAudited, NodeDoubted, NodeGone, NodeSeen, ObjectUnreadable, PodAudited, PodGone
from slackwater.model.ids import NodeName, PodKey, PodUid, Seconds
from slackwater.model.objects import Node, Pod
from slackwater.ports.protocols import AuditReadError, AuditReads, Listing

_log = structlog.get_logger(__name__)

#: Differences that one audit names in the log; all are counted.
_MOST_NAMED: Final = 20
#: Nodes whose sums are checked before other tasks run: about 2 ms at 30 pods each.
_NODES: Final = 15
#: Samples until the held sums are checked again. That check looks at every hold; there are thousands while the watch lags.
_HELD_EVERY: Final = 4
#: Objects that are looked up before other tasks run: about 1 ms.
_LOOKED_UP: Final = 2_000
#: While a node is quarantined, the pause before the next audit is this many times the duration of the last audit.
_RESTS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig:
    """Settings of the audit. `interval`: 0 switches the audit off. `settle_seconds`: the pause before an object that
    differed is compared again, since the watch may lag.

    Every `sample_seconds` the sums of a few nodes are checked, of all nodes within `round_seconds`. `most_read`: objects that
    one audit may read one by one; further differences are left for the next audit. At least `spacing_seconds` pass between two
    audits, however many nodes are quarantined.
    """

    interval: Seconds
    settle_seconds: float = 5.0
    call_seconds: float = 30.0
    most_read: int = 1_000
    sample_seconds: float = 0.25
    round_seconds: float = 80.0
    spacing_seconds: float = 10.0


@dataclass(slots=True)
class AuditCounts:
    """Counts of audits. They only grow, except `last_*`."""

    audits: int = 0
    failed: int = 0
    drifts: Counter[Drift] = field(default_factory=lambda: Counter(dict.fromkeys(Drift, 0)))
    quarantines: int = 0
    last_seconds: float = 0.0
    last_left: int = 0  #: differences that were not repaired
    last_serving_seconds: float = 0.0  #: time that the last audit took on the event loop that answers kube-scheduler
    longest_slice_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Suspect:
    """An object whose listed state differs from the cluster state. `again` compares the two once more after `settle_seconds`
    (None: equal by now). `read` reads the object and repairs the difference."""

    again: Callable[[], SumDifference | None]
    read: Callable[[SumDifference], Awaitable[None]]
    node: NodeName | None  #: the node whose sums cannot be checked until this object is repaired


class Audit:
    """Runs audits, and checks samples of the sums between them. It only reads `state`, and changes nothing itself: `take` hands
    an event to the state machine and submits the effects."""

    def __init__(
        self,
        state: ClusterState,
        truth: AuditReads,
        take: Callable[[Event], None],
        *,
        config: AuditConfig,
        measure: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._state = state
        self._truth = truth
        self._take = take
        self._config = config
        self._measure = measure
        self._doubted = anyio.Event()
        self._sampled: list[NodeName] = []
        self._samples = 0
        self._suspects: list[_Suspect] = []
        self._unclear: set[NodeName] = set()
        #: UIDs of the unreadable objects of which the lists have shown nothing so far.
        self._unlisted: set[str] = set()
        self._left = 0
        self._named = 0
        self.counts = AuditCounts()

    async def run(self) -> None:
        """Runs samples and audits until cancelled. Start it after the state machine has listed everything."""
        if not self._config.interval:
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._sample, name="sampling of the sums")
            while True:
                with anyio.move_on_after(self._pause_seconds()):
                    await self._doubted.wait()
                self._doubted = anyio.Event()
                await self.audit()
                await anyio.sleep(self._config.spacing_seconds)

    def _pause_seconds(self) -> float:
        """The pause until the next audit; shorter while a node is quarantined, because the next audit may be able to clear
        it."""
        interval = self._config.interval
        return min(interval, _RESTS * self.counts.last_seconds) if self._state.quarantine.doubted else interval

    # --- sampling ---------------------------------------------------------------------------------------------------------

    async def _sample(self) -> None:
        while True:
            await anyio.sleep(self._config.sample_seconds)
            with self._slice():
                self.sample()

    def sample(self) -> None:
        """Checks the sums of the next few nodes, round robin, and quarantines nodes with a wrong sum. One call in `_HELD_EVERY`
        also checks the held sums of all nodes."""
        rows = self._state.nodes.row_of
        if not self._sampled:
            self._sampled = sorted(rows, reverse=True)
        count = math.ceil(len(rows) * self._config.sample_seconds / self._config.round_seconds)
        names = [self._sampled.pop() for _ in range(min(count, len(self._sampled)))]
        for name in names:
            if name in rows:
                self._doubt(name, wrong_on(self._state, name))
        self._samples += 1
        if self._samples % _HELD_EVERY == 1:
            for name, found in self._wrong_held().items():
                self._doubt(name, found)

    def _doubt(self, name: NodeName, found: Sequence[SumDifference]) -> None:
        if not found or name in self._state.quarantine:
            return
        why = "; ".join(map(str, found))
        _log.error("node quarantined: its sums do not add up", node=name, found=why)
        self.counts.quarantines += 1
        self._take(NodeDoubted(name, why))
        self._doubted.set()

    # --- the audit --------------------------------------------------------------------------------------------------------

    async def audit(self) -> bool:
        """Runs one whole audit. False if a read from the API server failed: the audit then ended before it checked the sums."""
        began, self._named, self.counts.last_serving_seconds = self._measure(), 0, 0.0
        before = self.counts.drifts.total()
        try:
            left = await self._audited()
        except AuditReadError as error:
            self.counts.failed += 1
            _log.warning("audit given up", error=str(error))
            return False
        self.counts.audits += 1
        self.counts.last_seconds, self.counts.last_left = self._measure() - began, left
        _log.info(
            "audited",
            nodes=len(self._state.nodes),
            pods=len(self._state.pods),
            differences=self.counts.drifts.total() - before,
            left=left,
            quarantined=len(self._state.quarantine),
            seconds=round(self.counts.last_seconds, 3),
            serving_seconds=round(self.counts.last_serving_seconds, 3),
        )
        return True

    async def _audited(self) -> int:
        self._suspects, self._left, self._unclear = [], 0, set()
        self._unlisted = self._state.quarantine.objects()
        await self._list_nodes()
        await self._list_pods()
        for uid in sorted(self._unlisted):
            self._take(ObjectUnreadable(uid, f"object {uid}", None, "the API server has it no more, or it has ended"))
        if self._suspects:
            await anyio.sleep(self._config.settle_seconds)
        for suspect in self._suspects:
            if (found := suspect.again()) is not None:
                await suspect.read(found)
        await self._close_all_sums()
        return self._left

    def _suspect(self, suspect: _Suspect) -> None:
        if len(self._suspects) < self._config.most_read:
            self._suspects.append(suspect)
            return
        self._left += 1
        if suspect.node is not None:
            self._unclear.add(suspect.node)

    async def _list_nodes(self) -> None:
        listed: set[str] = set()
        version = 0
        async with aclosing(self._truth.nodes(timeout_seconds=self._config.call_seconds)) as parts:
            async for part in parts:
                version = part.version
                with self._slice():
                    self._note_listed(part)
                    listed.update(name for _, name in part.unreadable)
                    listed.update(node.name for node in part.objects)
                    for node in part.objects:
                        self._judge_node(node.name, partial(compare_node, self._state, node))
        for name in [name for name in self._state.nodes.row_of if name not in listed]:
            self._judge_node(name, partial(compare_absent_node, self._state, name, version))

    def _judge_node(self, name: NodeName, judge: Callable[[], SumDifference | None]) -> None:
        if judge() is not None:
            self._suspect(_Suspect(judge, partial(self._read_node, name), name))

    def _note_listed(self, part: Listing[Node] | Listing[Pod]) -> None:
        if self._unlisted:
            self._unlisted.difference_update(uid for uid, _ in part.unreadable)
            self._unlisted.difference_update(each.uid for each in part.objects)

    async def _list_pods(self) -> None:
        listed: set[str] = set()
        version = 0
        async with aclosing(self._truth.pods(timeout_seconds=self._config.call_seconds)) as parts:
            async for part in parts:
                version = part.version
                with self._slice():
                    self._note_listed(part)
                    listed.update(uid for uid, _ in part.unreadable)
                    listed.update(pod.uid for pod in part.objects)
                    for pod in part.objects:
                        self._judge_pod(pod, partial(compare_pod, self._state, pod))
        known = list(self._state.pods)
        for start in range(0, len(known), _LOOKED_UP):
            with self._slice():
                for pod in known[start : start + _LOOKED_UP]:
                    if pod.uid not in listed:
                        self._judge_pod(pod, partial(compare_absent_pod, self._state, pod.uid, version))
            await anyio.lowlevel.checkpoint()

    def _judge_pod(self, pod: Pod, judge: Callable[[], SumDifference | None]) -> None:
        if judge() is not None:
            reservation = self._state.reservations.get(pod.uid)
            node = pod.node if reservation is None else reservation.node
            self._suspect(_Suspect(judge, partial(self._read_pod, pod.uid, pod.key), node))

    async def _read_node(self, name: NodeName, found: SumDifference) -> None:
        """Reads the node from the API server and repairs the cluster state. Reads again if a node came or went meanwhile, since
        it may have been this one."""
        while True:
            version = self._state.nodes.names_version
            fresh = await self._truth.node(name, timeout_seconds=self._config.call_seconds)
            if version == self._state.nodes.names_version:
                break
        if fresh is None:
            if name in self._state.nodes.row_of:
                self._repair(found, NodeGone(name))
        elif compare_node(self._state, fresh) is not None:
            known = self._state.nodes.get(name)
            replaced = known is not None and known.uid != fresh.uid
            self._repair(found, *([NodeGone(name)] if replaced else []), NodeSeen(fresh))

    async def _read_pod(self, uid: PodUid, key: PodKey, found: SumDifference) -> None:
        fresh = await self._truth.pod(key, timeout_seconds=self._config.call_seconds)
        if fresh is not None and fresh.uid == uid:
            if compare_pod(self._state, fresh) is not None:
                self._repair(found, PodAudited(fresh))
        elif self._state.pods.get(uid) is not None:
            self._repair(found, PodGone(uid, key, read=True))

    async def _close_all_sums(self) -> None:
        """Checks and repairs the sums of all nodes. Ends the quarantine of nodes whose sums are right again."""
        with self._slice():
            held = self._wrong_held()
        names = list(self._state.nodes.row_of)
        for start in range(0, len(names), _NODES):
            with self._slice():
                for name in names[start : start + _NODES]:
                    if name in self._state.nodes.row_of and name not in self._unclear:
                        self._close_sums(name, held.get(name, []))
            await anyio.lowlevel.checkpoint()

    def _wrong_held(self) -> dict[NodeName, list[SumDifference]]:
        named = {NodeName(found.object.removeprefix("node ")): [found] for found in wrong_held(self._state)}
        return {name: found for name, found in named.items() if name in self._state.nodes.row_of}

    def _close_sums(self, name: NodeName, held: Sequence[SumDifference]) -> None:
        wrong = [*wrong_on(self._state, name), *held]
        quarantined = name in self._state.quarantine and not self._state.quarantine.has_unreadable(name)
        for found in wrong:
            self._note(found)
        if wrong or quarantined:
            self._take(NodeAudited(name))
        if quarantined and name not in self._state.quarantine:
            _log.info("quarantine ended: the node's sums are in order", node=name)

    def _repair(self, found: SumDifference, *events: Event) -> None:
        self._note(found)
        for event in events:
            self._take(event)

    def _note(self, found: SumDifference) -> None:
        self.counts.drifts[found.drift] += 1
        self._named += 1
        if self._named <= _MOST_NAMED:
            _log.error("the cluster state differed", cause=found.drift.value, object=found.object, found=found.detail)

    @contextmanager
    def _slice(self) -> Iterator[None]:
        """A context that measures work which no other task interrupts."""
        began = self._measure()
        yield
        seconds = self._measure() - began
        self.counts.last_serving_seconds += seconds
        self.counts.longest_slice_seconds = max(self.counts.longest_slice_seconds, seconds)
