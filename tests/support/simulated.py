"""A cluster on virtual time whose demand follows a script, and the observations of it that a counterfactual gets.

The engine of `app/rounds` is its autoscaler, scheduler and controllers; a cluster whose settings remove nothing only grows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from msgspec import structs

from slackwater.app.counterfactual.observation import Observation
from slackwater.app.counterfactual.replica_sets import ending_order
from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.known_groups import labelled_groups
from slackwater.app.rounds.engine import Rounds
from slackwater.app.rounds.virtual_cluster import at_text
from slackwater.app.rounds.virtual_drains import DEFAULT_PACE, Pace
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import GroupRegistryView
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import Generation, Instant, NodeName, PodKey, PodUid, UnixTime
from slackwater.model.objects import Node, Pod

K = TypeVar("K")
#: How many pods a workload wants, by the seconds since the start.
Wanted = Callable[[float], int]


class SimulatedCluster:
    """`wanted`: for each example pod, the name of its workload and how many pods it wants."""

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        wanted: Mapping[str, tuple[Pod, Wanted]],
        start: UnixTime,
        *,
        pace: Pace = DEFAULT_PACE,
    ) -> None:
        cluster = replace(cluster, groups=labelled_groups(cluster.nodes, settings.autoscaler.node_groups))
        self.rounds = Rounds(cluster, settings, start, pace)
        self.node_seconds = 0.0
        self._read, self._start, self._wanted = cluster, start, wanted
        self._there: dict[str, list[PodUid]] = {name: [] for name in wanted}
        self._made = 0
        self._seen_nodes: dict[NodeName, Node] = {}
        self._seen_pods: dict[PodUid, Pod] = {}
        #: Each pod as the API server would show it: with a UID that is an opaque text.
        self._shown: dict[PodUid, tuple[Pod, Pod]] = {}

    def run(self, until: UnixTime, *, step: float = 5.0) -> Iterator[Observation]:
        """Plays up to a time, and yields an observation for each step."""
        timeline = self.rounds.timeline
        while timeline.now < until:
            self._follow_wanted()
            yield self._observation()
            self.node_seconds += step * len(self.rounds.cluster.replica.nodes)
            self.rounds.advance(UnixTime(timeline.now + step))

    def _follow_wanted(self) -> None:
        now, cluster, changes = self.rounds.timeline.now, self.rounds.cluster, list[PodChange]()
        for name, (example, wanted) in self._wanted.items():
            there, count = self._there[name], wanted(now - self._start)
            while len(there) < count:
                self._made += 1
                there.append(PodUid(f"{name}-{self._made}"))
                changes.append(PodChange(there[-1], _pod(example, name, there[-1], now)))
            pods = {uid: pod for uid in there if (pod := cluster.find(uid)) is not None}
            for uid in sorted(pods, key=ending_order(pods, now))[: max(len(there) - count, 0)]:
                there.remove(uid)
                changes.append(PodChange(pods[uid].uid, None))
        if changes:
            cluster.follow(Changes(generation=Generation(0), pods=changes), self._read)
            self.rounds.changed()

    def _observation(self) -> Observation:
        nodes, first = dict(self.rounds.cluster.replica.nodes), not self._seen_nodes
        pods = {pod.uid: pod for pod in self._pods()}
        changes = Changes(
            generation=Generation(0),
            nodes=[NodeChange(name, nodes.get(name)) for name in _changed(self._seen_nodes, nodes)],
            pods=[PodChange(uid, pods.get(uid)) for uid in _changed(self._seen_pods, pods)],
            budgets=tuple(self.rounds.cluster.cluster().budgets or ()),
            daemons=self._read.daemons if first else None,
            namespaces={"default": {}} if first else None,
        )
        self._seen_nodes, self._seen_pods = nodes, pods
        now = self.rounds.timeline.now
        registry = GroupRegistryView(group_status={})
        return Observation(at=now, changes=changes, rebuild=first, registry=registry, now=Instant(now))

    def _pods(self) -> Iterator[Pod]:
        replica, shown = self.rounds.cluster.replica, dict[PodUid, tuple[Pod, Pod]]()
        for pod in (*(each.pod for each in replica.bound_pods()), *replica.pending.values()):
            before = self._shown.get(pod.uid)
            if before is None or before[0] is not pod:
                before = pod, structs.replace(pod, uid=PodUid(pod.uid.replace("~", "/")))
            shown[pod.uid] = before
            yield before[1]
        self._shown = shown


def _changed(before: Mapping[K, object], now: Mapping[K, object]) -> list[K]:
    return [key for key in {**before, **now} if before.get(key) is not now.get(key)]


def _pod(example: Pod, workload: str, uid: PodUid, at: UnixTime) -> Pod:
    return structs.replace(
        example,
        uid=uid,
        key=PodKey("default", uid),
        node=None,
        created_at=at_text(at),
        started_at=at_text(at),
        eviction_facts=EvictionFacts(owner=Owner("apps", "ReplicaSet", workload)),
    )
