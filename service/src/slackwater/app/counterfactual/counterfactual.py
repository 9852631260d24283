"""The sides, from one observation to the next: what really happens, and what Slackwater would have done.

In: observations of the real cluster. Out: lines of the log. An observation is played `LAG` seconds after it was made, because
only then it is known which pods were made again for others (`demand`).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from statistics import median
from typing import Final

from msgspec import structs

from slackwater.app.counterfactual.budgets import allowed_here
from slackwater.app.counterfactual.demand import LAG, Arrived, Demand, DemandEvent, arrivals
from slackwater.app.counterfactual.lines import SIDES, AnyLine, Began, Sample, Side, Sides
from slackwater.app.counterfactual.model_check import CheckedModel, is_empty
from slackwater.app.counterfactual.node_owners import GroupOf
from slackwater.app.counterfactual.observation import Observation
from slackwater.app.counterfactual.our_side import OurSide
from slackwater.app.counterfactual.real_side import RealSide
from slackwater.app.counterfactual.side_log import HOUR, MINUTE, SideLog
from slackwater.app.labelled_groups import BY_LABELS, by_labels
from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.known_groups import labelled_groups, with_group_labels
from slackwater.app.prices import every_price
from slackwater.app.settings import Settings
from slackwater.app.whatif.question import cluster_without_nodes
from slackwater.model.changes import Changes, NodeChange
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import DisruptionBudget, Node, Pod
from slackwater.model.prices import PriceBook, cost_of
from slackwater.snapshot.snapshot_replica import SnapshotReplica

ASSUMPTIONS: Final = (
    "pods arrive and end as they really do, wherever they run; a pod of a Job runs for as long as it really did, and of a "
    "ReplicaSet that is scaled down its controller chooses as it would here",
    "an evicted pod is made again at once; no machine fails to start, and nothing is refused",
    "a new node takes as long as those of its group really took, from when the pods came that waited for it; pods start and "
    "nodes go as fast as they really did",
    "the scheduler of the model preempts nobody, and draws no lots",
)


class Counterfactual:
    """The sides that are asked for. The first observation has to be the whole cluster. `newest`: the newest sample of each
    side."""

    def __init__(self, settings: Settings, version: str, sides: Sides = SIDES) -> None:
        """Raises `SettingsError` if the price table cannot be read."""
        self._settings, self._version, self._sides = settings, version, sides
        self._book = every_price(settings)
        self._numbers = count(1)
        self._waiting: deque[Observation] = deque()
        self._played: _Played | None = None
        self.newest: dict[Side, Sample] = {}

    def take(self, seen: Observation) -> list[AnyLine]:
        """Takes an observation, and plays those that are old enough. Returns the new lines."""
        lines = self._taken(seen)
        self.newest |= {line.side: line for line in lines if isinstance(line, Sample)}
        return lines

    def _taken(self, seen: Observation) -> list[AnyLine]:
        lines = list[AnyLine]()
        if seen.rebuild:
            lines += self.ended()
            self._played = _Played(seen, self._settings, self._book, self._numbers, self._sides)
            return [*lines, self._played.began(self._version), *self._played.take_lines()]
        assert self._played is not None, "the first observation is the whole cluster"
        self._played.demand.take(seen.changes.pods, seen.at)
        self._played.look_ahead(seen)
        self._waiting.append(seen)
        while self._waiting and self._waiting[0].at <= seen.at - LAG:
            self._played.play(self._waiting.popleft())
            lines += self._played.take_lines()
        return lines

    def head_of_file(self) -> list[AnyLine]:
        """What a new file of the log begins with, so that it can be read without the older one."""
        return [] if self._played is None else [self._played.began(self._version, goes_on=True), *self._played.head_of_file()]

    def ended(self) -> list[AnyLine]:
        """The last lines, of sides that end now."""
        self._waiting.clear()
        if self._played is None:
            return []
        self._played.write_hour()
        return self._played.take_lines()


class _Played:
    """The sides since one whole observation."""

    def __init__(self, seen: Observation, settings: Settings, book: PriceBook, numbers: "count[int]", sides: Sides) -> None:
        self.demand = Demand()
        self._settings, self._book, self._sides = settings, book, sides
        self._replica = SnapshotReplica()
        self._groups = _Groups(settings)
        seen = self._groups.labelled(seen)
        self._replica.take(seen.changes)
        self._read = self._groups.around(self._replica, seen)
        self._at = self._minute = self._hour = seen.at
        cluster = self._cluster()
        self._real = RealSide(SideLog("real", numbers, self._price_of), served="ours" not in sides)
        self._real.begin(cluster.nodes, cluster.pods, self._groups.group_of, seen.at)
        self.demand.begin(cluster.pods, seen.at)
        self._ours: OurSide | None = None
        self._check: CheckedModel | None = None
        #: The real side with what is not played yet, until a new node came; None afterwards, and without our side.
        self._ahead: RealSide | None = None
        if "ours" in sides:
            log = SideLog("ours", numbers, self._price_of)
            self._ours = OurSide(cluster, settings, log, self._groups.group_of, at=seen.at)
            self._check = CheckedModel(cluster, settings, seen.at)
            self._ahead = RealSide(SideLog("real", count(1), self._price_of))
            self._ahead.begin(cluster.nodes, cluster.pods, self._groups.group_of, seen.at)
        #: How many seconds the first new node took; None until one came.
        self._first_boot: float | None = None
        self._lines: list[AnyLine] = []
        self._budgets: Sequence[DisruptionBudget] = ()
        #: Our side's pod version when `_budgets` were counted.
        self._counted_at = -1
        self._sample()

    def began(self, version: str, *, goes_on: bool = False) -> Began:
        nodes = self._replica.nodes.values()
        cost = cost_of((self._book.of(self._groups.group_of(node) or GroupName(""), node), 1) for node in nodes)
        autoscaler = self._settings.autoscaler
        on = {"scale-down": autoscaler.scale_down.enabled, "consolidation": autoscaler.consolidation.enabled}
        return Began(
            at=self._at,
            version=version,
            sides=self._sides,
            currency=self._book.currency,
            basis=None if cost is None else cost.basis,
            capabilities=("scale-up", *(name for name, is_on in on.items() if is_on)),
            assumptions=() if self._ours is None else (*ASSUMPTIONS, *((BY_LABELS,) if by_labels(self._settings) else ())),
            goes_on=goes_on,
        )

    def head_of_file(self) -> list[AnyLine]:
        """The nodes that the sides have, as if they came now."""
        logs = [self._real.log, *(() if self._ours is None else [self._ours.log])]
        return [structs.replace(came, at=self._at) for log in logs for came in log.nodes.values()]

    def look_ahead(self, seen: Observation) -> None:
        """Learns from an observation before it is played how long the first new node takes: our first node may come as soon."""
        if self._ahead is None:
            return
        self._ahead.take(seen.changes.nodes, seen.changes.pods, self._groups.group_of, seen.at)
        self._ahead.log.take_lines()
        self._first_boot = self._ahead.paces.boot_times.of_all
        if self._first_boot is not None:
            self._ahead = None

    def take_lines(self) -> list[AnyLine]:
        ours = () if self._ours is None else self._ours.log.take_lines()
        lines = sorted((*self._real.log.take_lines(), *ours, *self._lines), key=lambda line: line.at)
        self._lines = []
        return lines

    def play(self, seen: Observation) -> None:
        """Plays up to the observation, and then what it shows. That happened at some time since the one before; of new pods it
        is known when, and for everything else the middle is taken."""
        seen, before = self._groups.labelled(seen), self._at
        while self._minute + MINUTE <= seen.at:  # each minute is written as it was
            self._minute = UnixTime(self._minute + MINUTE)
            self._advance(self._minute)
            self._sample()
        begin = UnixTime(max(before, self._minute))
        at = UnixTime((begin + seen.at) / 2)
        events = list(self.demand.due(seen.at))
        arrived = [event for event in events if isinstance(event, Arrived)]
        at_for_us = max(at, self._arrive(arrived, seen.came, begin, seen.at))
        self._advance(at_for_us)
        self._at = seen.at
        self._replica.take(seen.changes)
        self._read = self._groups.around(self._replica, seen)
        evictions = self._real.log.evictions
        self._real.take(seen.changes.nodes, seen.changes.pods, self._groups.group_of, at)
        self._take_ours(seen, events, at_for_us, self._real.log.evictions - evictions)
        if seen.at - self._hour >= HOUR:
            self.write_hour()

    def _advance(self, to: UnixTime) -> None:
        if self._ours is not None:
            paces = self._real.paces
            pace = paces.pace
            if paces.boot_times.of_all is None and self._first_boot is not None:
                pace = replace(pace, node_boot=self._first_boot)
            self._ours.advance(to, replace(pace, boots={**pace.boots, **self._groups.boots}))

    def _arrive(
        self, events: Sequence[Arrived], came: Sequence[tuple[UnixTime, int]], begin: UnixTime, end: UnixTime
    ) -> UnixTime:
        """Plays up to each arrival on our side. Returns the time of the last one."""
        if self._ours is None:
            return begin
        last = begin
        for at, some in arrivals(events, came):
            last = UnixTime(min(max(at, last), end))
            self._advance(last)
            self._ours.arrive(some)
        return last

    def _take_ours(self, seen: Observation, events: Sequence[DemandEvent], at: UnixTime, evictions: int) -> None:
        """What an observation changes on our side, and in the model that is checked. `evictions`: real ones since the last."""
        if self._ours is None or self._check is None:
            return
        others = [event for event in events if not isinstance(event, Arrived)]
        self._ours.take(seen.changes, others, self._read, self._groups.group_of, self._budgets_of(self._ours, seen.changes))
        self._check.real.evictions += evictions
        self._check.take(seen.changes, events, self._read, at)

    def _budgets_of(self, ours: OurSide, changes: Changes) -> Sequence[DisruptionBudget]:
        """The budgets as our side has them; counted again only if pods or budgets have changed on a side."""
        if changes.pods or changes.budgets is not None or ours.pod_version != self._counted_at:
            self._counted_at = ours.pod_version
            bound = (running_pod.pod for running_pod in self._replica.bound_pods())
            self._budgets = allowed_here(self._replica.budgets, ours.pods, bound)
        return self._budgets

    def write_hour(self) -> None:
        """Writes what is written once an hour, and begins the next hour."""
        at = self._hour = self._at
        waits = self._real.log.write_waits(at)
        if self._ours is None or self._check is None:
            return
        self._ours.log.write_waits(at)
        self._check.real.waits.update(waits)
        empty = sum(is_empty(self._pods_on(name)) for name in self._replica.nodes)
        self._lines.append(self._check.result(at, empty))
        self._check = CheckedModel(self._by_place(self._cluster()), self._settings, at)

    def _by_place(self, cluster: Cluster) -> Cluster:
        """The cluster whose pods have the UIDs of their places, by which demand names them."""
        return replace(
            cluster,
            pods=tuple(structs.replace(pod, uid=self.demand.place_of(pod.uid)) for pod in cluster.pods if not pod.deleting),
        )

    def _sample(self) -> None:
        self._real.log.sample(self._minute, self._real.pending)
        if self._ours is not None:
            self._ours.log.sample(self._minute, self._ours.pending)

    def _price_of(self, group: GroupName, node: Node) -> int:
        return self._book.of(group, node, provider=self._groups.provider_prices.get(group)).micros

    def _cluster(self) -> Cluster:
        """The real cluster now."""
        return replace(self._read, nodes=tuple(self._replica.nodes.values()), pods=tuple(self._replica.every_pod()))

    def _pods_on(self, name: NodeName) -> Sequence[Pod]:
        return [running_pod.pod for running_pod in self._replica.on(self._replica.row_of(name))]


class _Groups:
    """The node groups, as providers report them, or else as labels name them. `group_of`: the group of a node. `boots`: how
    long the machines of groups took to start, as far as the autoscaler has measured it."""

    def __init__(self, settings: Settings) -> None:
        self.group_of: GroupOf = lambda _: None
        self.provider_prices: dict[GroupName, int | None] = {}
        self.boots: dict[GroupName, float] = {}
        self._configured = settings.autoscaler.node_groups

    def labelled(self, seen: Observation) -> Observation:
        """The observation whose nodes have our group label, if no provider says to which group they belong."""
        if seen.registry is not None and seen.registry.group_status:
            return seen
        nodes = [
            change if change.node is None else NodeChange(change.name, with_group_labels([change.node])[0])
            for change in seen.changes.nodes
        ]
        return replace(seen, changes=replace(seen.changes, nodes=nodes))

    def around(self, replica: SnapshotReplica, seen: Observation) -> Cluster:
        """What there is beside nodes and pods. Machines that are on their way are the other side's, so no group has any."""
        nodes = tuple(replica.nodes.values())
        read = cluster_without_nodes(replica, seen.registry, seen.now, nodes)
        groups = labelled_groups(nodes, self._configured) if read.groups is None else read.groups
        groups = tuple(
            replace(each, coming=0, starting=frozenset(), group=replace(each.group, target=len(each.nodes))) for each in groups
        )
        self.group_of = Membership(each.group for each in groups).group_of
        status = {} if seen.registry is None else seen.registry.group_status
        self.boots = {name: median(each.starts) for name, each in status.items() if each.starts}
        self.provider_prices = {each.group.name: each.group.price_micros for each in groups}
        return replace(read, groups=groups)
