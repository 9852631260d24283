"""Templates: what a new node of a group looks like, by one of its real nodes without what is that node's own, or by the
provider.

A real node that is ready comes first, since it shows what the kubelet reserves and which DaemonSets run there; then what the
provider or the configuration says; then a real node that is not ready. Taints and labels are those of most of the group's
nodes (`usual`). Deliberately absent: remembering the node of a group that has none any more; the caller does, and passes it as
the provider's template.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from slackwater.controllers.scaleup.existing import awaits_devices
from slackwater.controllers.scaleup.groups import Template
from slackwater.controllers.scaleup.usual import differing_labels, usual_labels, usual_taints
from slackwater.fit.filter.node_affinity import judge_node_affinity
from slackwater.fit.filter.taint_toleration import judge_taint_toleration
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import NodeGroup
from slackwater.model.nodetaints import DEFAULT_TAINT_RULES, TaintRules
from slackwater.model.objects import Node, Pod, is_daemon
from slackwater.model.pod_constraints import NO_POD_CONSTRAINTS, PodConstraints
from slackwater.model.resources import NOTHING, Amounts
from slackwater.snapshot.node_facts import HOSTNAME, NodeFacts
from slackwater_protocol.names import NODE_GROUP, TO_BE_DELETED_TAINT


def template_of(
    group: NodeGroup,
    nodes: Iterable[Node],
    *,
    pods_on: Callable[[NodeName], Iterable[Pod]],
    daemons: Sequence[Pod] = (),
    system: Amounts = NOTHING,
    taints: TaintRules = DEFAULT_TAINT_RULES,
) -> Template | None:
    """The group's template; None if nothing is known. `nodes` are the group's, `daemons` the pods that DaemonSets would create.

    `system` is subtracted from a provider's template; real nodes are taken to have it subtracted already.
    """
    models = _models(group, nodes)
    if not models and group.template is None:
        return None
    if models:
        example = min(models, key=lambda node: (-_n_devices(node), node.name))
        there = tuple(pod for pod in pods_on(example.name) if is_daemon(pod) and not pod.deleting and not pod.ended)
        common = replace(example, labels=usual_labels(example, models), taints=usual_taints(models, group.template))
        node = cleaned(common, group, taints)
    else:
        assert group.template is not None
        there, node = (), cleaned(group.template, group, taints)
        labels = {**node.labels, **({NODE_GROUP: group.name} if group.provider == "kwok" else {})}
        node = replace(node, labels=labels, allocatable=node.allocatable.minus(system).not_below_zero())
    owners = {(pod.key.namespace, pod.eviction_facts.owner) for pod in there}
    missing = (pod for pod in daemons if (pod.key.namespace, pod.eviction_facts.owner) not in owners)
    standing = (*there, *(_by_itself(pod) for pod in missing if runs_on(pod, node)))
    return Template(node=node, standing=standing, n_models=len(models), differing=differing_labels(models))


def cleaned(node: Node, group: NodeGroup, taints: TaintRules) -> Node:
    """The node without its name, cordon and other state of its own. It gets a hostname label, as every kubelet sets one."""
    name = NodeName(f"template-of:{group.name}")
    return replace(
        node,
        name=name,
        uid="",
        resource_version=0,
        labels={**node.labels, HOSTNAME: name},
        taints=tuple(taint for taint in node.taints if not taints.is_own(taint.key)),
        unschedulable=False,
        ready=True,
        images=(),
        provider_id="",
        created_at=None,
    )


def runs_on(daemon: Pod, node: Node) -> bool:
    """Would the DaemonSet controller create its pod on the node? It judges labels and taints, not room."""
    facts = NodeFacts()
    facts.add([node])
    here = slice(0, 1)
    return not (
        np.any(judge_node_affinity(facts, daemon.kind, here)) or np.any(judge_taint_toleration(facts, daemon.kind, here))
    )


def _models(group: NodeGroup, nodes: Iterable[Node]) -> list[Node]:
    """The real nodes to copy from: the good ones, or all of them if none is good and the provider has no template."""
    there = list(nodes)
    good = [node for node in there if _is_good(node, group)]
    return good if good or group.template is not None else there


def _is_good(node: Node, group: NodeGroup) -> bool:
    whole = group.template is None or not awaits_devices(node, group.template)
    leaves = any(taint.key == TO_BE_DELETED_TAINT for taint in node.taints)
    return node.ready and whole and not node.unschedulable and not leaves


def _n_devices(node: Node) -> int:
    """The number of device resources. A node that reports fewer than others of its group may not have found them yet."""
    return sum(1 for _, amount in node.scalars if amount)


def _by_itself(daemon: Pod) -> Pod:
    """The DaemonSet pod without its rules about other pods: these do not bind us, and might read labels unknown so far."""
    asks = daemon.kind.pod_constraints or NO_POD_CONSTRAINTS
    only = PodConstraints(scalars=asks.scalars, host_ports=asks.host_ports, scored=asks.scored)
    return replace(daemon, kind=replace(daemon.kind, pod_constraints=only))
