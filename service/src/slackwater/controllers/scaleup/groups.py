"""The node groups that planning sees, and the limits within which they may grow.

- `GrowableGroup`, `Template`: what the provider says about a group, its template, and why it may not grow (`SkipReason`).
- `Budget`, `NodeQuota`: the limits: each group's maximum, the cluster's, quotas, and the most nodes of one plan.
- `similar_groups`: the bundles of groups that grow together.

The caller makes one value for each group in each loop. This module does not keep state between loops (back-off, cool-downs,
nodes in creation), and does not find templates (`template`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

import numpy as np

from slackwater.model.columns import Int64, Rows
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.prices import Price, capacity_type_of
from slackwater.model.resources import NOTHING, Amounts
from slackwater.model.selectors import EVERYTHING, Selector, selects
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, MEMORY, PODS

#: switched-off: by configuration. not-ready: the group is unhealthy. backoff: adding a node to the group failed recently.
#: no-template: it is not known what a new node of the group looks like. limit: the group, the cluster or a quota is at its
#: maximum. time: a limit on steps or time ended planning. error: planning raised an error.
SkipKind = Literal["switched-off", "not-ready", "backoff", "no-template", "limit", "time", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipReason:
    """Why a group may not grow, or may not grow further. `text`: the reason for people."""

    kind: SkipKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The template of a group's new nodes. `node`: a new node, which stands for no real machine. `running_pods`: the DaemonSet
    pods that it would run.

    `broken_promise`: in what the last purchase was other than promised, as a text; "" if in nothing. `unsure`: what of a new
    node the cloud chooses, as a text; the template then has what every variant has. `kinds`: a new node of each instance type
    among which the cloud chooses; empty if it does not. `differing`: the keys of labels that differ between the real nodes from
    which the template was made.
    """

    node: Node
    running_pods: tuple[Pod, ...] = ()
    broken_promise: str = ""
    unsure: str = ""
    kinds: tuple[Node, ...] = ()
    differing: frozenset[str] = frozenset()

    @property
    def remark(self) -> str:
        """What to say where a new node of the group is refused."""
        return "; ".join(filter(None, (self.broken_promise, self.unsure)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowableGroup:
    """A node group as planning sees it. `template`: None if it is not known what a new node looks like. `skip_reason`: why the
    group may not grow; None if it may.

    `upcoming`: the number of the group's nodes that were ordered and are not in the snapshot yet. Planning adds them as copies
    of the template. `dead`: how many nodes of the group's target will never come; they do not count for its minimum. `price`:
    what a new node costs; None if prices are not configured, or the group has no template.

    `whole`: the group of which this is a variant; None if it is a group of its own. A group whose nodes differ is planned as
    its variants. Their targets add up to that of the whole, and its maximum is theirs together.
    """

    group: NodeGroup
    template: Template | None
    upcoming: int = 0
    skip_reason: SkipReason | None = None
    dead: int = 0
    price: Price | None = None
    whole: NodeGroup | None = None

    @property
    def name(self) -> GroupName:
        return self.group.name

    @property
    def provided(self) -> NodeGroup:
        """The group that the provider knows."""
        return self.whole or self.group

    @property
    def owner(self) -> GroupName:
        """The name of the group that the provider knows."""
        return self.provided.name

    @property
    def price_micros(self) -> int:
        """What a new node costs, in micros an hour; 0 if that is not known."""
        return 0 if self.price is None else self.price.micros

    @property
    def is_spot(self) -> bool:
        """Whether new nodes are known to be spot nodes."""
        return self.template is not None and capacity_type_of(self.template.node) == "spot"


#: By resource name: `cpu` in milliCPU, `memory` and huge pages in bytes, devices by number.
Resources = Mapping[str, int]


def resources_of(node: Node) -> Resources:
    """What is allocatable on the node, by resource name."""
    return {"cpu": node.allocatable.cpu, "memory": node.allocatable.memory, **dict(node.scalars)}


def upcoming_name(group: GroupName, number: int) -> NodeName:
    """The name in a plan of a node that has not registered, since its real name is not known yet."""
    return NodeName(f"upcoming:{group}:{number}")


def add_nodes(snapshot: ClusterSnapshot, template: Template, names: Sequence[NodeName], *, system: Amounts = NOTHING) -> range:
    """Adds copies of the template, with its DaemonSet pods, to the snapshot. Returns their rows. In our accounting each node
    has `system` less than is allocatable."""
    rows = snapshot.add_copies(template.node, names)
    if not names:
        return rows
    if snapshot.ledger is not None:
        total = template.node.allocatable.minus(system).not_below_zero()
        snapshot.ledger.total[:, rows.start : rows.stop] = total.column
    if not template.running_pods:
        return rows
    where, once = np.arange(rows.start, rows.stop), np.ones(len(rows), np.int64)
    for kind in snapshot.number(template.running_pods).tolist():
        snapshot.place_many(KindId(kind), where, once)
    return rows


#: The resource name in quotas that counts nodes.
NODES: Final = "nodes"
_GROUP_FULL: Final = "max node group size reached"
#: The label of nodes that stand for other clusters, which count for no quota.
_VIRTUAL: Final = ("type", "virtual-kubelet")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeQuota:
    """A quota on the nodes that `selector` selects. `limits`: the most that they may have together, by resource (`nodes`,
    `cpu`, `memory`, or another resource's name)."""

    name: str
    limits: Mapping[str, int]
    selector: Selector = EVERYTHING


@dataclass(slots=True, kw_only=True)
class _LimitLeft:
    """A quota's limit on one resource. `left`: what is left of it. `takes`: what a new node of each group takes of it."""

    text: str
    left: int
    takes: tuple[int, ...]


class Budget:
    """The nodes that a plan may still add to each group within all limits. Groups are given by position.

    Each planning has one budget; a trial uses a copy of it. Every limit is an integer of which a new node takes a part: nodes
    are counted, CPU is in milliCPU, memory in bytes, everything else in whole numbers. Amounts are what nodes have allocatable.
    There is no limit on nodes in creation here: a plan is for the whole demand, and the code that carries it out decides how
    many nodes to create at a time.
    """

    __slots__ = ("_limits_left", "_most", "sizes")

    def __init__(self, sizes: list[int], most: tuple[int, ...], limits: list[_LimitLeft]) -> None:
        #: The target size of each group, with the nodes that the plan adds so far.
        self.sizes = sizes
        self._most = most
        self._limits_left = limits

    @classmethod
    def of(
        cls, groups: Sequence[GrowableGroup], *, nodes: Sequence[Node], quotas: Iterable[NodeQuota] = (), max_nodes: int = 0
    ) -> Self:
        """The budget of one planning. `nodes`: all existing and upcoming nodes. `max_nodes`: the most nodes of the whole plan;
        0: no limit."""
        limits = [limit for quota in quotas for limit in _limits_left(quota, groups, nodes)]
        limits += _limits_of_wholes(groups)
        if max_nodes:
            text = f"one plan adds at most {max_nodes} nodes"
            limits.append(_LimitLeft(text=text, left=max_nodes, takes=(1,) * len(groups)))
        return cls([group.group.target for group in groups], tuple(group.group.max_size for group in groups), limits)

    def room(self, group: int) -> int:
        """The number of further nodes that may be added to the group, if none is added to other groups; >= 0."""
        room = self._most[group] - self.sizes[group]
        for limit in self._limits_left:
            if limit.takes[group]:
                room = min(room, limit.left // limit.takes[group])
        return max(room, 0)

    def take(self, group: int, count: int) -> None:
        self.sizes[group] += count
        for limit in self._limits_left:
            limit.left -= limit.takes[group] * count

    def skip_reason(self, group: int) -> SkipReason | None:
        """Why no further node may be added to the group; None if one may."""
        if self.sizes[group] >= self._most[group]:
            return SkipReason(kind="limit", text=_GROUP_FULL)
        full = (limit.text for limit in self._limits_left if limit.takes[group] and limit.left < limit.takes[group])
        text = next(full, None)
        return None if text is None else SkipReason(kind="limit", text=text)

    def needs(self, groups: Rows) -> list[tuple[int, int]]:
        """What new nodes of these groups, one for each entry, take from the limits, as (limit's number, amount). A group's
        position is the number of its maximum; numbers of quotas' limits follow."""
        found = counted(groups)
        of_groups = tuple(found)
        for number, limit in enumerate(self._limits_left, len(self.sizes)):
            amount = sum(limit.takes[group] * count for group, count in of_groups)
            if amount:
                found.append((number, amount))
        return found

    def left(self, limit: int) -> int:
        """How much is left of the limit with this number (see `needs`)."""
        n_groups = len(self.sizes)
        return self._most[limit] - self.sizes[limit] if limit < n_groups else self._limits_left[limit - n_groups].left

    def limits(self) -> tuple[Int64, Int64]:
        """The limits that groups share: what is left of each, shape (limits,), and what a node of each group takes of it, shape
        (limits, groups)."""
        taken = np.array([limit.takes for limit in self._limits_left], np.int64)
        left = np.array([max(limit.left, 0) for limit in self._limits_left], np.int64)
        return left, taken.reshape(len(left), len(self.sizes))

    def copy(self) -> "Budget":
        limits = [_LimitLeft(text=limit.text, left=limit.left, takes=limit.takes) for limit in self._limits_left]
        return Budget(list(self.sizes), self._most, limits)


def counted(groups: Rows) -> list[tuple[int, int]]:
    """Counts the entries of each group that occurs: (group, count), sorted by group."""
    if len(groups) and (groups == groups[0]).all():  # the usual case: an option with one group
        return [(int(groups[0]), len(groups))]
    return sorted(Counter(groups.tolist()).items())


def _limits_left(quota: NodeQuota, groups: Sequence[GrowableGroup], nodes: Sequence[Node]) -> Iterable[_LimitLeft]:
    counted = [node for node in nodes if counts_for(quota, node)]
    templates = [None if group.template is None else group.template.node for group in groups]
    for resource, limit in sorted(quota.limits.items()):
        yield _LimitLeft(
            text=f'exceeded quota: "{quota.name}", resources: {resource}',
            left=limit - sum(amount_of(node, resource) for node in counted),
            takes=tuple(amount_of(node, resource) if node is not None and counts_for(quota, node) else 0 for node in templates),
        )


def _limits_of_wholes(groups: Sequence[GrowableGroup]) -> Iterable[_LimitLeft]:
    """The maximum of each group that is planned as variants."""
    most: dict[GroupName, int] = {}
    for group in groups:
        if group.whole is not None:
            most[group.owner] = max(group.whole.max_size, most.get(group.owner, 0))
    for name, max_size in most.items():
        has = sum(group.group.target for group in groups if group.owner == name)
        yield _LimitLeft(text=_GROUP_FULL, left=max_size - has, takes=tuple(int(group.owner == name) for group in groups))


def counts_for(quota: NodeQuota, node: Node) -> bool:
    """Does the quota apply to the node?"""
    key, value = _VIRTUAL
    return node.labels.get(key) != value and selects(quota.selector, node.labels)


def amount_of(node: Node, resource: str) -> int:
    """What counts for the node in a quota on the resource: 1 for `nodes`, else what is allocatable."""
    return 1 if resource == NODES else resources_of(node).get(resource, 0)


#: The labels in which similar groups do not differ: what kind of machine it is, and how it is paid for.
DISTINGUISHING_LABELS: Final = (
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/windows-build",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-preemptible",
    "cloud.google.com/gke-provisioning",
    "kubernetes.azure.com/scalesetpriority",
    "node.kubernetes.io/lifecycle",
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
)
#: How far amounts may differ, in percent of the larger one.
_PERCENT: Final = 5
#: Resources that say nothing about the kind of machine.
_ALIKE_ENOUGH: Final = frozenset({"pods", "ephemeral-storage"})


def similar_groups(
    groups: Sequence[GrowableGroup],
    empty: Int64,
    among: Sequence[int],
    *,
    ranks: Sequence[int | None],
    balance: bool,
    ignored_labels: Collection[str] = (),
) -> list[tuple[int, ...]]:
    """Finds the bundles of similar groups among `among`: groups that grow together, so that their sizes stay equal; usually one
    for each zone. A group may be in several bundles. Groups are given by position, sorted in each bundle, and have a template.
    `empty`: what is free on a new node of each group, by resource, shape (lines, groups). `ranks`: the priority of each group,
    None without one. `balance` False: each group is a bundle of its own.

    The tolerances are Cluster Autoscaler's. There are three deliberate differences from it. Groups of different priority
    (expander "priority") are never similar, since their owner prefers one. Groups need not take the same pods: each pod goes to
    a group of the bundle that takes it, so one pod with a volume in one zone does not end the balancing of all others. And for
    the same reason most labels say nothing: only those that change what a machine is or costs make groups unlike. A subnet, a
    kernel or the name of a scaling group differs between zones, and no list of labels to ignore can name them all.
    """
    if not balance:
        return _balanced_by_the_cloud(groups, among)
    compared = [key for key in DISTINGUISHING_LABELS if key not in ignored_labels]
    #: Groups that differ in nothing but amounts, by their amounts. Cloud providers sell few sizes, so there are few keys.
    classes: dict[object, dict[tuple[int, ...], list[int]]] = {}
    for at in among:
        template = groups[at].template
        assert template is not None
        node = template.node
        # None for a label that the group lacks, or of which its nodes have many values.
        labels = tuple(None if key in template.differing else node.labels.get(key) for key in compared)
        others = frozenset((name, amount) for name, amount in node.scalars if amount and name not in _ALIKE_ENOUGH)
        alone = at if groups[at].group.options.all_or_nothing else None
        same = (ranks[at], labels, tuple(sorted(map(str, node.taints))), others, alone)
        # What may differ by `_PERCENT`: allocatable CPU and memory, and what the DaemonSets leave of them and of pods.
        amounts = (*node.allocatable, *empty[[CPU, MEMORY, PODS], at].tolist())
        classes.setdefault(same, {}).setdefault(amounts, []).append(at)
    found: dict[tuple[int, ...], None] = {}
    for by_amounts in classes.values():
        table, members = np.array(list(by_amounts), np.int64), list(by_amounts.values())
        for own, amounts in enumerate(table):
            near = (100 * np.abs(table - amounts) <= _PERCENT * np.maximum(table, amounts)).all(axis=1)
            near[own] = True  # needed if DaemonSets request more than the node has: a negative amount is not near itself
            found[tuple(sorted(group for number in np.flatnonzero(near).tolist() for group in members[number]))] = None
    return sorted(found)


def _balanced_by_the_cloud(groups: Sequence[GrowableGroup], among: Sequence[int]) -> list[tuple[int, ...]]:
    """Each group alone; only the zones of one group grow together where its cloud spreads nodes evenly over them."""
    bundles: dict[object, list[int]] = {}
    for at in among:
        evenly = groups[at].whole is not None and groups[at].provided.choice.zones == "evenly"
        bundles.setdefault(groups[at].owner if evenly else at, []).append(at)
    return [tuple(bundle) for bundle in bundles.values()]
