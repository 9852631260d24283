"""Interchangeable node groups: those whose new nodes are the same for every pod of the demand. One estimate serves all of them.

In: the verdicts on template nodes (`template_nodes`). Out: a key for each node group. Invariant: groups with equal keys get the
same estimate on the same snapshot, as long as no limit on their sizes ends it.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from slackwater.controllers.scaleup.estimate import Option
from slackwater.controllers.scaleup.groups import Budget
from slackwater.controllers.scaleup.template_nodes import TemplateNodes
from slackwater.fit.assumed_claims import has_claims
from slackwater.fit.plugins.dynamic_resources import needs_devices
from slackwater.fit.plugins.inter_pod_affinity import repelling_counters
from slackwater.snapshot.counted_pods import TermCarriers
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.node_facts import HOSTNAME


class SharedEstimates:
    """The estimates of single node groups on the present snapshot, by what their new nodes are. `forget` them when it or the
    demand changes."""

    def __init__(self, template_nodes: TemplateNodes) -> None:
        self._of = template_nodes
        self._options: dict[object, Option] = {}
        self._keys: dict[int, object] = {}
        kinds = [template_nodes.snapshot.of(kind) for kind in template_nodes.codes]
        self._labels = {key for kind in kinds for key in self._read_by(kind)}
        if any(has_claims(template_nodes.snapshot, kind) for kind in kinds):
            self._labels.update(self._of_storage())
        self._all_labels = any(needs_devices(template_nodes.snapshot, kind) for kind in kinds)
        groups, count = len(template_nodes.groups), len(kinds)
        codes = np.array(list(template_nodes.codes.values()), np.uint8).reshape(count, groups)
        self._codes = np.ascontiguousarray(codes.T)

    def forget(self) -> None:
        self._options.clear()
        self._of.alike.forget()

    def known(self, group: int, budget: Budget) -> Option | None:
        """The estimate of the group, made for one with which it is interchangeable; None if there is none, or if the group may
        not grow by so many nodes."""
        option, room = self._options.get(self.key(group)), budget.room(group)
        if option is None or option.n_nodes > room or (option.left_out and option.n_nodes == room):
            return None
        return replace(
            option, bundle=(group,), names=(self._of.groups[group].name,), groups=np.full(option.n_nodes, group, np.intp)
        )

    def note(self, group: int, budget: Budget, option: Option) -> None:
        """Keeps an estimate for others, unless a limit on the group's size, or time, ended it."""
        if not option.cut and (option.n_nodes < budget.room(group) or not option.left_out):
            self._options[self.key(group)] = option

    def key(self, group: int) -> object:
        """What the group's new nodes are, as far as pods of the demand can tell."""
        key = self._keys.get(group)
        if key is None:
            template, node = self._of.template(group), self._of.node(group)
            labels = ((name, value) for name, value in node.labels.items() if name != HOSTNAME)
            read = tuple(sorted(pair for pair in labels if self._all_labels or pair[0] in self._labels))
            csi = None if node.csi is None else (node.csi.drivers, node.csi.migrated)
            has = (node.allocatable, node.scalars, node.taints, node.unschedulable, node.features, csi, repr(node.slices))
            running = tuple((pod.kind, pod.labels) for pod in template.running_pods)
            whole = group if self._of.all_or_nothing(group) else None
            key = self._keys[group] = (has, read, running, self._codes[group].tobytes(), whole)
        return key

    def _read_by(self, kind: NumberedGroup) -> Iterator[str]:
        """The keys of node labels on which the verdict on a new node may depend, once other pods have been placed."""
        asks = kind.asks
        yield from (constraint.topology_key for constraint in asks.spread)
        yield from (term.topology_key for term in (*asks.affinity, *asks.anti_affinity))
        counters = (counter.of for counter in repelling_counters(self._of.snapshot, kind))
        yield from (of.term.topology_key for of in counters if isinstance(of, TermCarriers))

    def _of_storage(self) -> Iterator[str]:
        """The keys of node labels that decide which volumes a node reaches."""
        storage = self._of.snapshot.volumes.objects
        for volume in (storage.volumes or {}).values():
            yield from volume.labels
            terms = (*(volume.node_terms or ()), *(volume.migrated_terms or ()))
            yield from (requirement.key for term in terms for requirement in term.labels)
        for each in (storage.classes or {}).values():
            yield from (key for pairs in each.topologies for key, _ in pairs)
        for capacity in storage.capacities or ():
            yield from (requirement.key for requirement in capacity.topology or ())
