"""Templates: derives what a new node of a group looks like from the group's real nodes, or from the provider.

- `template_of`: the template of a group.
- `typical_node`: one node made of the newest nodes: what the group's configuration says field by field, and for the rest what
  most of them have. One odd node changes nothing, unless it is the only one.
- `shortfalls`: in what nodes came other than promised, for people.
- `usual_csi`: how many volumes a new node can attach. Without a limit it would seem to attach any number, and a plan would add
  too few nodes.
- `usual_slices`: which devices it will have. Without them no plan would add a node for a pod with a claim.

In: a group's nodes and what provider or configuration say. Out: a `Template`, or None. This module does not remember the last
node of a group that has no nodes any more: the caller does, and passes it (`known`). Taints about the present
state of one node are in `model.node_taints`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import chain
from typing import Final

import numpy as np
from msgspec import structs

from slackwater.cluster.nodegroups.status import BoughtNode
from slackwater.controllers.scaleup.groups import Template, resources_of
from slackwater.fit.plugins.node_affinity import judge_node_affinity
from slackwater.fit.plugins.taint_toleration import judge_taint_toleration
from slackwater.model.columns import Mask
from slackwater.model.devices import ResourceSlice
from slackwater.model.ids import NodeName
from slackwater.model.kubernetes_rules import DEFAULT_VERSION, KubernetesVersion
from slackwater.model.node_taints import DEFAULT_TAINT_RULES, TaintRules, taint_id
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.objects import Node, Pod, Taint, is_daemon
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, PodConstraints
from slackwater.model.resources import NOTHING, Amounts, amounts_of
from slackwater.model.storage import CsiNode
from slackwater.snapshot.node_facts import HOSTNAME, NodeFacts
from slackwater_protocol.names import NODE_GROUP, TEMPLATE_NODE, TO_BE_DELETED_TAINT

#: Part of the names of devices, which a node reports later than its CPU and memory.
_DEVICE_MARK: Final = "/"
#: So many nodes that were created so long after a purchase, or after the last node of a type, show that machines have changed
#: since.
MANY: Final = 3
LATER_SECONDS: Final = 900.0
#: An odd number of nodes. Fewer than all, because machines change: the newest show what the next one will be.
_NEWEST: Final = 9
#: A taint that more than this part of the nodes lack is about those that have it: a detector of problems may have found one on
#: three of four nodes. Who takes a node's trouble for a property of its group stops the group.
_LACKING: Final = 1 / 8
#: Labels that every kubelet sets. Providers often assume their values, so nodes know better.
_KUBELETS: Final = frozenset({"kubernetes.io/os", "kubernetes.io/arch"})
#: The ends of the names of labels whose value follows from the zone.
OF_ZONE: Final = ("/zone", "/zone-id")
#: The resource of which configurations rarely say anything: 110, the kubelet's default, is then assumed.
_PODS: Final = "pods"
_EXAMPLES: Final = 3
#: ResourceSlices by the name of their node.
Slices = Mapping[str, Sequence[ResourceSlice]]
_NO_SLICES: Final[Slices] = {}
_NO_CSI_NODES: Final[Mapping[str, CsiNode]] = {}


def template_of(
    group: NodeGroup,
    nodes: Iterable[Node],
    *,
    pods_on: Callable[[NodeName], Iterable[Pod]],
    bought: Sequence[BoughtNode] = (),
    daemons: Sequence[Pod] = (),
    system: Amounts = NOTHING,
    taints: TaintRules = DEFAULT_TAINT_RULES,
    kubernetes: KubernetesVersion = DEFAULT_VERSION,
    known: Node | None = None,
    csi_nodes: Mapping[str, CsiNode] = _NO_CSI_NODES,
    published: Slices = _NO_SLICES,
    bought_slices: Slices = _NO_SLICES,
) -> Template | None:
    """The group's template; None if it has no nodes and the provider describes none. `nodes`: the group's nodes that have
    started. `bought`: those of its last purchase, even if they are gone. `daemons`: the pods that DaemonSets would create.
    `known`: the last template node, used if there are no nodes and the provider gives none. `csi_nodes`, `published`: the
    CSINodes and the ResourceSlices, by node. `bought_slices`: the ResourceSlices of bought nodes.

    What came of the last purchase shows what the next one brings. Without one, a new node has what provider or configuration
    say, field by field, and else what most of the newest good nodes have. Nodes that are not ready are looked at only if there
    is nothing else. `system` is subtracted from a provider's template; in real nodes it is subtracted already.
    """
    there = list(nodes)
    models, said = _models(group, there), group.template or (None if there else known)
    if not models and not bought and (said is None or (said.allocatable == NOTHING and not said.scalars)):
        return None
    if said is not None:
        said = structs.replace(said, allocatable=said.allocatable.minus(system).not_below_zero())
    came = _came(bought, models)
    last = [each.node for each in came] or models
    node = _new_node(group, last, None if came else said, taints)
    gone = {each.node.name: each.running_pods for each in came if not each.there}
    usual = _usual_daemons([(model.name, gone.get(model.name) or pods_on(model.name)) for model in last])
    owners = {(pod.key.namespace, pod.eviction_facts.owner) for pod in usual}
    missing = (pod for pod in daemons if (pod.key.namespace, pod.eviction_facts.owner) not in owners)
    names = {each.node.name for each in came}
    others = [model for model in models if model.name not in names]
    promised = came and (others or said is not None)
    stated = [each for each in (group.template, known) if each is not None]
    csi = next((each.csi for each in stated if each.csi is not None), None)
    slices = usual_slices([published[each.name] for each in there if each.name in published])
    slices = slices or next((each.slices for each in stated if each.slices), ())
    return Template(
        node=structs.replace(
            node,
            csi=usual_csi([csi_nodes[each.name] for each in there if each.name in csi_nodes], csi),
            slices=usual_slices(list(bought_slices.values())) if bought_slices else slices,
        ),
        running_pods=(*usual, *(_by_itself(pod) for pod in missing if runs_on(pod, node, kubernetes))),
        broken_promise=_broken_promise(group, _new_node(group, others, said, taints), node) if promised else "",
        differing=differing_labels([*last, *models] if came else models),
    )


def _new_node(group: NodeGroup, nodes: Sequence[Node], said: Node | None, taints: TaintRules) -> Node:
    if nodes:
        return cleaned(typical_node(nodes, said, taints), group, taints)
    assert said is not None
    node = cleaned(said, group, taints)
    return structs.replace(node, labels={**node.labels, **({NODE_GROUP: group.name} if group.provider == "kwok" else {})})


def _broken_promise(group: NodeGroup, promised: Node, came: Node) -> str:
    """No zone is promised where the cloud chooses it."""
    return shortfalls(promised if group.choice.zones == "template" else without_zone(promised), came)


def without_zone(node: Node) -> Node:
    """The node without labels that follow from its zone."""
    return structs.replace(node, labels={key: value for key, value in node.labels.items() if not key.endswith(OF_ZONE)})


def _came(bought: Sequence[BoughtNode], models: Sequence[Node]) -> Sequence[BoughtNode]:
    """The nodes of the last purchase; none if many others were created long after it."""
    names = {each.node.name for each in bought}
    last = max((each.node.created_at or 0.0 for each in bought), default=0.0) + LATER_SECONDS
    later = sum((node.created_at or 0.0) > last and node.name not in names for node in models)
    return () if later >= MANY else bought


def _usual_daemons(pods_on: Sequence[tuple[NodeName, Iterable[Pod]]]) -> tuple[Pod, ...]:
    """The DaemonSet and mirror pods that run on most of the nodes, the newest node's first."""
    found: dict[object, Pod] = {}
    carriers = Counter[object]()
    for name, pods in pods_on:
        there = [pod for pod in pods if is_daemon(pod) and not pod.deleting and not pod.ended]
        carriers.update({_origin(pod, name) for pod in there})
        for pod in there:
            found.setdefault(_origin(pod, name), pod)
    return tuple(pod for origin, pod in found.items() if 2 * carriers[origin] > len(pods_on))


def _origin(pod: Pod, node: NodeName) -> object:
    """What pods of one DaemonSet, or of one file for the kubelet, have in common."""
    facts = pod.eviction_facts
    name = pod.key.name.removesuffix(f"-{node}")
    return (pod.key.namespace, name if facts.mirror_pod or facts.owner is None else facts.owner)


def cleaned(node: Node, group: NodeGroup, taints: TaintRules) -> Node:
    """Makes a template's node from a node: without its name, cordon, own taints and other state of this one node. It gets a
    hostname label, as every kubelet sets one, and the label by which storage is published for nodes to come."""
    name = NodeName(f"template-of:{group.name}")
    return structs.replace(
        node,
        name=name,
        uid="",
        resource_version=0,
        labels={**node.labels, HOSTNAME: name, TEMPLATE_NODE: "true"},
        taints=tuple(taint for taint in node.taints if not taints.is_own(taint.key)),
        unschedulable=False,
        ready=True,
        images=(),
        provider_id="",
        created_at=None,
    )


def runs_on(daemon: Pod, node: Node, kubernetes: KubernetesVersion = DEFAULT_VERSION) -> bool:
    """Would the DaemonSet controller create the pod `daemon` on the node? The controller judges labels and taints, not room."""
    facts = NodeFacts(kubernetes)
    facts.add([node])
    return bool(accepting(daemon, facts)[0])


def accepting(daemon: Pod, facts: NodeFacts) -> Mask:
    """The nodes on which the DaemonSet controller would create the pod `daemon`, by row."""
    every = slice(0, facts.n_rows)
    refusals = judge_node_affinity(facts, daemon.kind, every) + judge_taint_toleration(facts, daemon.kind, every)
    return np.asarray(refusals == 0)


def _models(group: NodeGroup, there: Sequence[Node]) -> list[Node]:
    """The newest of the real nodes to derive a template from: the ready and complete ones; of all nodes, if there is no such
    node and the provider has no template. Without taints that are not those of the group: all nodes vote on these, since the
    newest may be just those that a detector of problems found."""
    good = [node for node in there if _is_usable_example(node, group)]
    voters = good if good or group.template is not None else there
    common = {taint_id(taint) for taint in common_taints(voters)}
    newest = nlargest(_NEWEST, voters, key=lambda node: (node.created_at or 0.0, node.name))
    kept = ((node, tuple(taint for taint in node.taints if taint_id(taint) in common)) for node in newest)
    return [node if taints == node.taints else structs.replace(node, taints=taints) for node, taints in kept]


def _is_usable_example(node: Node, group: NodeGroup) -> bool:
    whole = group.template is None or not awaits_devices(node, group.template)
    leaves = any(taint.key == TO_BE_DELETED_TAINT for taint in node.taints)
    return node.ready and whole and not node.unschedulable and not leaves


def awaits_devices(node: Node, template: Node) -> bool:
    """Does the node not report yet a device that the nodes of its group have? Then it counts as upcoming.

    A GPU appears on a node only once its device plug-in runs there, minutes after the node is Ready.
    """
    has = dict(node.scalars)
    return any(_DEVICE_MARK in name and amount and not has.get(name) for name, amount in template.scalars)


def _by_itself(daemon: Pod) -> Pod:
    """The DaemonSet pod without its constraints on other pods and volumes. The DaemonSet controller ignores them, and they
    might read labels that the snapshot was built without."""
    asks = daemon.kind.pod_constraints or NO_POD_CONSTRAINTS
    only = PodConstraints(scalars=asks.scalars, host_ports=asks.host_ports, scored=asks.scored)
    return structs.replace(daemon, kind=replace(daemon.kind, pod_constraints=only))


def typical_node(nodes: Sequence[Node], said: Node | None, rules: TaintRules) -> Node:
    """The node that stands for `nodes`, the newest first and at least one. `said`: what configuration or provider say; it wins
    where it says something. None if they say nothing.

    Amounts are compared with what is said: the kubelet keeps a part of a machine, so somewhat less than was said is true.
    """
    stated = NOTHING if said is None else said.allocatable
    cpu = _amount([node.allocatable.cpu for node in nodes], stated.cpu)
    memory = _amount([node.allocatable.memory for node in nodes], stated.memory)
    return structs.replace(
        nodes[0],
        allocatable=amounts_of((cpu, memory)),
        scalars=tuple(_scalars(nodes, said)),
        labels=_labels(nodes, {} if said is None else said.labels),
        taints=_taints(nodes, said, rules),
    )


def _labels(nodes: Sequence[Node], said: dict[str, str]) -> dict[str, str]:
    """The labels that most of the nodes have, each with its most frequent value; of equally frequent ones the newest."""
    pairs = Counter(chain.from_iterable(node.labels.items() for node in nodes))
    carriers = Counter(chain.from_iterable(node.labels for node in nodes))
    found: dict[str, str] = {}
    for (key, value), _ in pairs.most_common():
        if 2 * carriers[key] > len(nodes):
            found.setdefault(key, value)
    return found | {key: value for key, value in said.items() if key not in _KUBELETS or key not in found}


def differing_labels(nodes: Sequence[Node]) -> frozenset[str]:
    """The keys of labels that are no property of the group, because no value is that of most of the nodes."""
    values = Counter(chain.from_iterable(node.labels.items() for node in nodes))
    shared = {key for (key, _), count in values.items() if 2 * count > len(nodes)}
    return frozenset(key for key, _ in values if key not in shared)


def _taints(nodes: Sequence[Node], said: Node | None, rules: TaintRules) -> tuple[Taint, ...]:
    stated = () if said is None else tuple(taint for taint in said.taints if not rules.is_own(taint.key))
    if stated or (said is not None and len(nodes) == 1):
        return stated
    return tuple(common_taints(nodes))


def common_taints(nodes: Sequence[Node]) -> list[Taint]:
    """The taints that nearly all of the nodes have, in the order in which they are met; each once, whatever its value."""
    found: dict[tuple[str, str], Taint] = {}
    for node in nodes:
        for taint in node.taints:
            found.setdefault(taint_id(taint), taint)
    carriers = Counter(id_ for node in nodes for id_ in {taint_id(taint) for taint in node.taints})
    return [taint for id_, taint in found.items() if len(nodes) - carriers[id_] <= _LACKING * len(nodes)]


def _scalars(nodes: Sequence[Node], said: Node | None) -> Iterator[tuple[str, int]]:
    each = [dict(node.scalars) for node in nodes]
    stated = {} if said is None else dict(said.scalars)
    for name in sorted({name for scalars in (*each, stated) for name in scalars}):
        values = [scalars.get(name, 0) for scalars in each]
        amount = (_median(values) or stated.get(name, 0)) if name == _PODS else _amount(values, stated.get(name))
        if amount:
            yield name, amount


def _amount(values: Sequence[int], said: int | None) -> int:
    """The amount of one resource. `values`: what the nodes have, the newest first. A single node with less than nine tenths of
    what was said does not count: it may be another machine."""
    if not said:
        return _median(values)
    plausible = [value for value in values if said <= 2 * value and value <= said]
    sure = [value for value in plausible if 10 * value >= 9 * said]
    counted = plausible if len(values) > 1 and 2 * len(plausible) > len(values) else sure
    return _median(counted) if counted else said


def _median(values: Sequence[int]) -> int:
    """The median; of an even number of values without the oldest, which is the last."""
    odd = sorted(values[: len(values) - 1 + len(values) % 2])
    return odd[len(odd) // 2]


def shortfalls(promised: Node, came: Node) -> str:
    """What the nodes that came lack of the promise, as a text; "" if they lack nothing."""
    found = [*_less(promised, came)]
    has = set(map(taint_id, promised.taints))
    found += [f"taint {taint.key}" for taint in came.taints if taint_id(taint) not in has]
    labels = ((key, came.labels.get(key), value) for key, value in sorted(promised.labels.items()) if key in came.labels)
    found += [f"label {key}={has} instead of {value}" for key, has, value in labels if has != value]
    found += [f"no label {key}" for key in sorted(promised.labels.keys() - came.labels.keys() - {TEMPLATE_NODE})]
    more = f" and {len(found) - _EXAMPLES} more" if len(found) > _EXAMPLES else ""
    return f"new nodes came with {', '.join(found[:_EXAMPLES])}{more}" if found else ""


def _less(promised: Node, came: Node) -> Iterator[str]:
    has = resources_of(came)
    for name, amount in resources_of(promised).items():
        if (there := has.get(name, 0)) < amount:
            unit = "m" if name == "cpu" else ""
            yield f"{name} {there}{unit} instead of {amount}{unit}"


def usual_csi(csi_nodes: Sequence[CsiNode], said: CsiNode | None) -> CsiNode | None:
    """A CSINode with each driver's most frequent limit; of equally frequent limits the smallest. None if no driver is known.

    A driver that no node reports gets its limit from `said`, by the provider. A node on which a driver is still starting does
    not report the driver.
    """
    reported: dict[str, Counter[int | None]] = {}
    for csi_node in csi_nodes:
        for driver, limit in csi_node.drivers:
            reported.setdefault(driver, Counter())[limit] += 1
    limits = {} if said is None else dict(said.drivers)
    limits |= {
        driver: max(counts, key=lambda limit: (counts[limit], float("-inf") if limit is None else -limit))
        for driver, counts in reported.items()
    }
    migrated = Counter(plugin for csi_node in csi_nodes for plugin in csi_node.migrated)
    usual = tuple(sorted(plugin for plugin, count in migrated.items() if 2 * count > len(csi_nodes)))
    return CsiNode(name="", drivers=tuple(sorted(limits.items())), migrated=usual) if limits or usual else None


def usual_slices(each: Sequence[Sequence[ResourceSlice]]) -> tuple[ResourceSlice, ...]:
    """The slices of one node with the most frequent combination of drivers and numbers of devices. Among equally frequent
    combinations, the one with the fewest devices; () if no node has complete slices. `each`: the slices of each node.

    Nodes on which a driver is still publishing its slices do not count. A pool that has its node's name gets the name "".
    """
    whole = [slices for slices in each if _is_whole(slices)]
    makes = Counter(map(_make, whole))
    best = max(whole, key=lambda slices: (makes[_make(slices)], -sum(len(one.devices) for one in slices)), default=())
    return tuple(replace(one, pool="" if one.pool == one.nodes.name else one.pool) for one in best)


def awaits_slices(node: Node, template: Node, published: Slices) -> bool:
    """Does the node lack ResourceSlices that the nodes of its group have? Then it counts as upcoming: a driver publishes the
    devices of a node only once the driver runs there."""
    return bool(template.slices) and node.name not in published


def _make(slices: Sequence[ResourceSlice]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for one in slices:
        counts[one.driver] += len(one.devices)
    return tuple(sorted(counts.items()))


def _is_whole(slices: Sequence[ResourceSlice]) -> bool:
    """Do all pools have all slices of one generation, and none of another?"""
    found = Counter((one.driver, one.pool, one.generation) for one in slices)
    pools = {(one.driver, one.pool) for one in slices}
    return len(found) == len(pools) and all(found[one.driver, one.pool, one.generation] == one.slices for one in slices)
