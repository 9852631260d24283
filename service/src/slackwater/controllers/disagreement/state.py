"""Where kube-scheduler and we disagree about a pod. In: pods as the watch shows them, and what the planning process judged.
Out: what to judge next, Events, the findings of explain, and the pods for which scale-up believes kube-scheduler.

- *Refused*: kube-scheduler's condition says that the pod fits nowhere, and it fits on some node by the rules that we know.
  kube-scheduler writes no condition whose text is the same, so refusals cannot be counted: `_LOOKS` looks in a row have to find
  that the pod fits, while the condition stands. They prove something only if kube-scheduler knew the node as we do: the node
  has not changed since before the refusal, or the same node fits for as long as any back-off of kube-scheduler lasts.
- *Placed*: kube-scheduler bound the pod to a node that refuses it by the rules that we know. A bind is compared only if
  nothing that matters for it has changed from the bind until the look.

docs/adr/0262 has the reasons. Invariant: nothing here changes a decision of the state machine. `runtime.state_machine` and
`runtime.pod_lifecycle` report every pod, and the loop of this capability every answer.
"""

import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.holds import HoldKey
from slackwater.model.effects import Announce
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Node, Pod
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, Kind
from slackwater.model.reasons import Reason
from slackwater.model.scheduler_profile import profile_of
from slackwater.model.texts import counts_every_node, refusal_reasons

#: The reason of the Events.
REASON: Final = "SchedulerDisagrees"
#: The looks in a row that make a disagreement, and the seconds between two.
_LOOKS: Final = 3
LOOK_SECONDS: Final = 2
#: How far our watch and kube-scheduler's may be apart, with the write of a condition.
LAG_SECONDS: Final = 2
#: By then kube-scheduler has bound a pod after filter's answer, unless it waits for volumes, or something else refused the pod.
BIND_SECONDS: Final = 5
#: By then kube-scheduler has tried a pod again for which something changed: its back-off lasts ten seconds at most.
TRIED_SECONDS: Final = 15
#: So many waiting pods kube-scheduler tries in a second even when it is slow: all times are longer by that.
TRIED_PER_SECOND: Final = 50
#: A pod that does not fit is looked at after pauses that double, up to 2**5 times the first.
_MOST_DOUBLED: Final = 5
#: The most pods and binds of one look, Events after one, nodes named for a pod, and kept pods that were placed wrongly.
_MOST_PODS, MOST_BINDS, _MOST_EVENTS, MOST_NODES, _MOST_PLACED = 500, 32, 5, 16, 1_000
#: The seconds between two looks at binds alone.
_BINDS_SECONDS: Final = 5
#: The scheduler that Kubernetes has by default. It is a kube-scheduler, too.
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_OURS: Final = "Slackwater: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """What explain says of a pod. `words`: kube-scheduler's message; for a placed pod, our reason. `nodes`: where the pod fits,
    or where it was placed. `bought`: scale-up has bought a node for the pod on kube-scheduler's word."""

    placed: bool
    words: str
    nodes: tuple[NodeName, ...]
    bought: bool = False


@dataclass(frozen=True, slots=True)
class Looks:
    """What the planning process is to judge. `refused`: waiting pods, each with the version up to which a node counts as
    unchanged, and the node on which filter holds room for it (None: it holds none). `binds`: pod, node, and whether our
    accounting counts more on the node than kube-scheduler's."""

    refused: tuple[tuple[PodUid, int, NodeName | None], ...] = ()
    binds: tuple[tuple[PodUid, NodeName, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """The answer. `refused`: for each pod, nodes that fit (at most `MOST_NODES`), and whether one of all that fit is unchanged.
    `binds`: the reason for which the pod's node refuses it, OK if it does not. Pods that cannot be judged are missing."""

    refused: Mapping[PodUid, tuple[tuple[NodeName, ...], bool]] = field(default_factory=dict)
    binds: Mapping[PodUid, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Refused:
    """A refused pod. `fits`: how many of the last looks in a row found that it fits on `nodes`; `since`: the first of them.
    `unchanged`: how many of the last looks in a row found a node that has not changed since `version`, that is since before the
    refusal. `passed_at`: when filter last answered for the pod, since the refusal; a bind may follow."""

    pod: Pod
    message: str
    version: int
    due: Instant
    since: Instant = Instant(0.0)
    fits: int = 0
    unchanged: int = 0
    misses: int = 0
    nodes: tuple[NodeName, ...] = ()
    passed_at: Instant | None = None
    disputed: bool = False
    announced: bool = False


@dataclass(frozen=True, slots=True)
class _Bind:
    pod: Pod
    row: Row
    at: Instant
    stamp: tuple[int, ...]


class Disagreements:
    """What is known of disagreements. The counters only grow."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._refused: dict[PodUid, _Refused] = {}
        self._placed: dict[PodUid, Disagreement] = {}
        #: Pods for which a node was bought on kube-scheduler's word.
        self._bought: set[PodUid] = set()
        #: The last bind on each node that is to be compared.
        self._binds: dict[NodeName, _Bind] = {}
        self._binds_at = Instant(0.0)
        #: When each node last changed by itself. kube-scheduler may have placed a pod there before it saw that.
        self._nodes_changed: dict[NodeName, Instant] = {}
        self._arrived = self._repelling = 0
        #: How many changes the nodes have had, at the last moments of `observe`.
        self._versions: deque[tuple[Instant, int]] = deque(maxlen=4)
        self.refusals_disputed = self.binds_compared = self.binds_disagreed = 0

    # --- what the watch shows -------------------------------------------------------------------------------------------------

    def observe(self, now: Instant) -> None:
        """Notes how many changes the nodes have had by now; to be called once a second."""
        self._versions.append((now, self._state.nodes.changes))

    def waiting(self, pod: Pod, schedulers: Collection[str], now: Instant) -> None:
        """Takes the newest state of a pod without a node. `schedulers`: those whose rules the configuration gives."""
        message = pod.unschedulable_message
        known = self._refused.get(pod.uid)
        if (
            message is None
            or pod.gates
            or pod.deleting
            or pod.nominated_node is not None
            or (pod.kind.scheduler_name != _DEFAULT_SCHEDULER and pod.kind.scheduler_name not in schedulers)
            or _is_our_word(message)
        ):
            self._refused.pop(pod.uid, None)
        elif known is not None and known.pod.kind == pod.kind and message == known.message:
            known.pod = pod
        elif known is not None and known.pod.kind == pod.kind and refusal_reasons(message) == refusal_reasons(known.message):
            # It was refused again, for the same reasons.
            known.pod, known.message, known.version, known.due = pod, message, self._version_before(now), now
            known.passed_at = None
        else:
            due = Instant(now + self._pause(LOOK_SECONDS))
            self._refused[pod.uid] = _Refused(pod=pod, message=message, version=self._version_before(now), due=due)

    def passed(self, uid: PodUid, now: Instant) -> None:
        """Takes note that filter was asked about the pod."""
        if (known := self._refused.get(uid)) is not None:
            known.passed_at = now

    def bound(self, pod: Pod, now: Instant, *, waited: bool) -> None:
        """Takes a pod that the watch shows on its node for the first time. `waited`: it was seen without a node before."""
        self._arrived += 1
        self._repelling += pod.kind.repels
        row = None if pod.node is None else self._state.nodes.row_of.get(pod.node)
        if pod.node is None or row is None:
            return
        self._binds.pop(pod.node, None)
        changed_at = self._nodes_changed.get(pod.node)
        new = changed_at is not None and now - changed_at < LAG_SECONDS
        if waited and not new and pod.vertical is None and not pod.deleting:
            self._binds[pod.node] = _Bind(pod, row, now, self._stamp(pod.kind, row))

    def node_seen(self, before: Node | None, node: Node, now: Instant) -> None:
        """Takes a node that is new, or that was as in `before`."""
        if before is None or _facts(before) != _facts(node):
            self._nodes_changed[node.name] = now
            self._binds.pop(node.name, None)

    def resized(self, name: NodeName) -> None:
        """Takes note that a pod of the node takes another amount than before."""
        self._binds.pop(name, None)

    def node_gone(self, name: NodeName) -> None:
        self._nodes_changed.pop(name, None)
        self._binds.pop(name, None)

    def forget(self, uid: PodUid) -> None:
        """Forgets that the pod waited."""
        self._refused.pop(uid, None)
        self._bought.discard(uid)

    def ended(self, uid: PodUid) -> None:
        """Forgets the pod."""
        self.forget(uid)
        self._placed.pop(uid, None)

    def _version_before(self, now: Instant) -> int:
        """How many changes the nodes had had before anything that kube-scheduler may not have seen yet."""
        return next((version for at, version in reversed(self._versions) if at <= now - LAG_SECONDS), 0)

    def _stamp(self, kind: Kind, row: Row) -> tuple[int, ...]:
        """Equal as long as nothing has changed that could turn the verdict on a bind of the kind to the row. Pods that come to
        the row replace its bind in `_binds`."""
        nodes = self._state.nodes
        own = int(nodes.room_version[row]), self._repelling
        return (*own, nodes.changes, nodes.rules_version, self._arrived) if self._reads_other_nodes(kind) else own

    def _reads_other_nodes(self, kind: Kind) -> bool:
        """Do pods on other nodes, volumes or devices decide with the node whether a pod of the kind fits?"""
        asks = kind.pod_constraints or NO_POD_CONSTRAINTS
        others = asks.affinity or asks.anti_affinity or asks.spread or profile_of(self._state.nodes.facts.profiles, kind).spread
        return bool(others or asks.claims or asks.resource_claims or asks.container_devices or kind.packed_rules)

    def _pause(self, seconds: float) -> float:
        return seconds + len(self._refused) // TRIED_PER_SECOND

    # --- looks ----------------------------------------------------------------------------------------------------------------

    def is_due(self, now: Instant, *, binds: bool) -> bool:
        """Is there something to judge? `binds`: binds are judged even if no pod waits."""
        if binds and self._binds and now - self._binds_at >= _BINDS_SECONDS:
            return True
        return any(refused.due <= now for refused in self._refused.values())

    def looks(self, now: Instant, is_promised: Callable[[Pod, Instant], bool]) -> Looks:
        """What to judge on the cluster as it is now. `is_promised`: the pod waits for our own sake; it is put off."""
        refused: list[tuple[PodUid, int, NodeName | None]] = []
        for uid, found in self._refused.items():
            if found.due > now or len(refused) >= _MOST_PODS:
                continue
            hold, passed_at = self._state.holds.get(HoldKey(uid)), found.passed_at
            binding = passed_at is not None and (now - passed_at < BIND_SECONDS or found.pod.kind.mounts_claims)
            if is_promised(found.pod, now) or (binding and hold is not None):
                found.due = Instant(now + self._pause(LOOK_SECONDS))
            else:
                node = None if hold is None else self._state.nodes.by_row[hold.row]
                refused.append((uid, found.version, None if node is None else node.name))
        return Looks(tuple(refused), self._binds_to_compare(now))

    def _binds_to_compare(self, now: Instant) -> tuple[tuple[PodUid, NodeName, bool], ...]:
        """The binds of which nothing has changed. Of many, those whose pods have the smallest hashes: a sample that is the same
        for the same pods."""
        self._binds_at, stricter = now, self._state.nodes.stricter
        # Pods that kube-scheduler assumed before a younger one may be bound after it.
        ripe = [(node, self._binds.pop(node)) for node, bind in list(self._binds.items()) if now - bind.at >= LAG_SECONDS]
        same = [(bind.pod.uid, node, bind.row) for node, bind in ripe if bind.stamp == self._stamp(bind.pod.kind, bind.row)]
        same.sort(key=lambda each: (zlib.crc32(each[0].encode()), each[0]))
        return tuple((uid, node, bool(stricter[row])) for uid, node, row in same[:MOST_BINDS])

    def judged(self, looks: Looks, answer: Judged, now: Instant) -> list[Announce]:
        """Takes the answer to `looks`. Returns the Events on pods about which a disagreement is new."""
        for uid, version, _ in looks.refused:
            found = self._refused.get(uid)
            if found is not None and found.version == version:  # else the pod was refused again meanwhile
                self._look(found, *answer.refused.get(uid, ((), False)), now)
        events = list(self._compared(looks, answer))
        for found in self._refused.values():
            if found.disputed and not found.announced and len(events) < _MOST_EVENTS:
                found.announced = True
                note = (
                    f"kube-scheduler keeps refusing the pod, which fits on {found.nodes[0]} by the rules that Slackwater knows"
                )
                events.append(_event(found.pod, f"{note}: {found.message}"))
        return events[:_MOST_EVENTS]

    def _look(self, found: _Refused, nodes: tuple[NodeName, ...], unchanged: bool, now: Instant) -> None:
        """Takes one look at a refused pod: it fits on `nodes`, of which one has been `unchanged` since before the refusal."""
        common = tuple(node for node in nodes if node in found.nodes)
        if not nodes:
            found.misses, found.fits, found.unchanged, found.disputed = found.misses + 1, 0, 0, False
        elif found.fits and common:
            found.fits, found.misses, found.nodes = found.fits + 1, 0, common
        else:
            found.fits, found.misses, found.nodes, found.since = 1, 0, nodes, now
        found.unchanged = found.unchanged + 1 if unchanged and not self._reads_other_nodes(found.pod.kind) else 0
        known_to_both = found.unchanged >= _LOOKS or now - found.since >= self._pause(TRIED_SECONDS)
        if not found.disputed and found.fits >= _LOOKS and known_to_both:
            found.disputed, found.announced = True, False
            self.refusals_disputed += 1
        found.due = Instant(now + self._pause(LOOK_SECONDS) * 2 ** min(found.misses, _MOST_DOUBLED))

    def _compared(self, looks: Looks, answer: Judged) -> Iterator[Announce]:
        for uid, node, _ in looks.binds:
            if uid not in answer.binds:
                continue
            self.binds_compared += 1
            reason = Reason(answer.binds[uid])
            if reason is Reason.OK:
                continue
            self.binds_disagreed += 1
            pod = self._state.pods.get(uid)
            if pod is not None and not pod.ended and len(self._placed) < _MOST_PLACED:
                self._placed[uid] = Disagreement(placed=True, words=f"{reason.plugin}: {reason.text}", nodes=(node,))
                note = f"kube-scheduler placed the pod on {node}, which refuses it by the rules that Slackwater knows"
                yield _event(pod, f"{note}: {reason.plugin}: {reason.text}")

    # --- what is known --------------------------------------------------------------------------------------------------------

    def about(self, uid: PodUid) -> Disagreement | None:
        """The disagreement about the pod; None if there is none."""
        found = self._refused.get(uid)
        if found is None or not found.disputed:
            return self._placed.get(uid)
        return Disagreement(placed=False, words=found.message, nodes=found.nodes, bought=uid in self._bought)

    @property
    def disputed(self) -> int:
        """How many pods kube-scheduler keeps refusing now, although they fit."""
        return sum(found.disputed for found in self._refused.values())

    @property
    def agreement_percent(self) -> float | None:
        """The share of compared binds about which both agree; None before the first."""
        return None if not self.binds_compared else 100.0 * (1 - self.binds_disagreed / self.binds_compared)

    def believed(self) -> frozenset[PodUid]:
        """The pods for which scale-up believes kube-scheduler: one of each `Kind`. While a pod of a kind waits for which a node
        was bought, no other pod of the kind is among them, so the next node follows only after the last has taken its pod."""
        disputed = [found.pod for found in self._refused.values() if found.disputed]
        waiting = {pod.kind for pod in disputed if pod.uid in self._bought}
        return frozenset({pod.kind: pod.uid for pod in reversed(disputed) if pod.kind not in waiting}.values())

    def bought(self, uids: Iterable[PodUid]) -> None:
        """Notes that a node was requested for these pods, which `believed` returned."""
        self._bought.update(uid for uid in uids if uid in self._refused)


def _is_our_word(message: str) -> bool:
    """Does the message report a refusal of ours, and nothing about the other nodes? If it counts every node, kube-scheduler
    itself has refused those that we did not."""
    return _OURS in message and not counts_every_node(message)


def _facts(node: Node) -> tuple[object, ...]:
    return node.allocatable, node.scalars, node.unschedulable, node.taints, node.labels


def _event(pod: Pod, note: str) -> Announce:
    return Announce(pod.uid, pod.key, "Warning", REASON, note)
