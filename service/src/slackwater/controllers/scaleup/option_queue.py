"""The option queue: keeps the options of a planning in order, the best first, while one after another is taken into the plan.

An option that is taken affects others: options with pods of the same equivalence groups, options that need more of a limit than
is left, and options whose pods' verdicts depend on where other pods are. If few options are affected, each is estimated again
at once, and the choice is exact. If many are, or the planning is in a hurry, each is estimated again when its turn comes: a
thousand new estimates for each group that grows would take an hour. Every option that is taken was estimated on the present
snapshot (docs/adr/0160).

A bundle of which a bound on its merit is known waits with the bound, and is estimated when its turn comes: the choice stays
exact, and a bundle that cannot be the best is not estimated at all.

`SparedEstimates` has two ways. An optimistic option is what an estimate of a bundle could find at best, without making it. An
option that beats the optimistic ones of all other bundles is the best, so these need no estimate (branch and bound). Invariant:
no expander measures the bundle's estimate as better than its optimistic option. There is none where pods may go to nodes that
are there already, since nobody knows beforehand how many do; and none where no verdict moves, since such an estimate costs
little.

Node groups are interchangeable if their new nodes are the same for every pod of the demand; one estimate
serves all of them. Invariant: groups with equal keys get the
same estimate on the same snapshot, as long as no limit on their sizes ends it.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

import numpy as np
import numpy.typing as npt

from slackwater.controllers.scaleup.estimate import Option, Run
from slackwater.controllers.scaleup.expanders import Merit
from slackwater.controllers.scaleup.groups import Budget
from slackwater.controllers.scaleup.inter_pod_constraints import topology_keys
from slackwater.controllers.scaleup.template_nodes import IS_MOVING, TemplateNodes
from slackwater.fit.assumed_claims import has_claims
from slackwater.fit.binpacking import copies_on
from slackwater.fit.failure import concerning
from slackwater.fit.feasible_nodes import feasible
from slackwater.fit.plugins.dynamic_resources import needs_devices
from slackwater.model.columns import Int64, Rows
from slackwater.model.storage import Storage
from slackwater.snapshot.equivalence_groups import KindId
from slackwater.snapshot.node_facts import CPU, HOSTNAME, MEMORY

Bundle = tuple[int, ...]
#: Up to so many affected options are estimated again at once.
_FEW: Final = 64


class OptionQueue:
    """A queue of the options of `bundles`; the one with the smallest `merit` is the best. `estimate` makes a bundle's option.
    `bound` returns what the merit of that option is at least; None if that is not known. `affected` returns the bundles
    of whose estimates an option in the snapshot may change the verdicts; without it, all of them that move. `hurried`: each
    option is estimated again only when its turn comes, however few are affected."""

    def __init__(
        self,
        bundles: Sequence[Bundle],
        budget: Budget,
        *,
        estimate: Callable[[Bundle], Option],
        merit: Callable[[Option], Merit],
        bound: Callable[[Bundle], Merit | None] = lambda _: None,
        affected: Callable[[Option], Container[Bundle]] | None = None,
        hurried: Callable[[], bool] = lambda: False,
    ) -> None:
        self._budget = budget
        self._estimate, self._merit, self._bound, self._affected = estimate, merit, bound, affected
        self._hurried = hurried
        self._options: dict[Bundle, Option] = {}
        #: Grows with every estimate of the bundle, so that entries of earlier estimates are recognized.
        self._version: dict[Bundle, int] = dict.fromkeys(bundles, 0)
        self._queue: list[tuple[Merit, int, Bundle]] = []
        #: For each limit, the options that need it, as a heap of (-amount, version, bundle): the largest need comes first.
        self._needs: dict[int, list[tuple[int, int, Bundle]]] = {}
        self._of_kind: dict[KindId, dict[Bundle, None]] = {}
        self._moving: dict[Bundle, None] = {}
        #: Options that must be estimated again before they are taken.
        self._outdated: dict[Bundle, None] = {}
        #: Those of them that wait with a bound.
        self._bounded: dict[Bundle, None] = {}
        for bundle in bundles:
            self._enter(bundle)

    def best(self) -> Option | None:
        """The best option on the present snapshot; None if no option helps any pod. May estimate options again."""
        while True:
            while self._queue:
                _, version, bundle = self._queue[0]
                if version != self._version[bundle]:
                    heappop(self._queue)
                elif bundle in self._outdated:
                    self._renew(bundle)
                else:
                    return self._options[bundle]
            if not self._outdated:
                return None
            for bundle in list(self._outdated):  # options that helped no pod at their last estimate
                self._renew(bundle)

    def best_known(self) -> Option | None:
        """The best option that needs no new estimate; None if there is none. For the end of the planning's time. An option
        whose estimate was cut short is used only if there is no complete one."""
        known = [option for bundle, option in self._options.items() if option.n_pods and bundle not in self._outdated]
        return min([option for option in known if not option.cut] or known, key=self._merit, default=None)

    def took(self, option: Option, *, shown: bool) -> None:
        """Updates the queue after the option was taken into the plan. `shown`: its pods were placed in the snapshot."""
        outdated = {option.bundle: None}
        for kind in option.kinds:
            outdated.update(self._of_kind.get(kind, {}))
        for limit, _ in self._budget.needs(option.groups):
            needs, left = self._needs.get(limit, []), self._budget.left(limit)
            while needs and -needs[0][0] > left:
                _, version, bundle = heappop(needs)
                if version == self._version[bundle]:
                    outdated[bundle] = None
        if shown:
            outdated.update(dict.fromkeys(self._changed_by(option)))
        self._outdated.update(outdated)
        for bundle in outdated:
            self._bounded.pop(bundle, None)
        again = [bundle for bundle in self._outdated if bundle not in self._bounded]
        for bundle in again if len(again) <= _FEW and not self._hurried() else ():
            self._enter(bundle)

    def _changed_by(self, option: Option) -> Iterator[Bundle]:
        """The bundles whose verdicts the pods and nodes of the option, which are in the snapshot, may have changed."""
        affected = None if self._affected is None else self._affected(option)
        present = option.at[option.at < 0]
        for bundle in (*self._moving, *self._bounded):
            known = self._options.get(bundle)
            if affected is None or bundle in affected or (known is not None and np.isin(known.at, present).any()):
                yield bundle

    def _enter(self, bundle: Bundle) -> None:
        """Puts the bundle into the queue by the bound on its merit; by its option if no bound is known."""
        bound = self._bound(bundle)
        if bound is None:
            self._renew(bundle)
            return
        self._forget(bundle)
        self._outdated[bundle] = self._bounded[bundle] = None
        heappush(self._queue, (bound, self._version[bundle], bundle))

    def _renew(self, bundle: Bundle) -> None:
        self._forget(bundle)
        option = self._options[bundle] = self._estimate(bundle)
        version = self._version[bundle]
        if option.moving:
            self._moving[bundle] = None
        if not option.n_pods:
            return
        heappush(self._queue, (self._merit(option), version, bundle))
        for kind in option.kinds:
            self._of_kind.setdefault(kind, {})[bundle] = None
        for limit, amount in self._budget.needs(option.groups):
            heappush(self._needs.setdefault(limit, []), (-amount, version, bundle))

    def _forget(self, bundle: Bundle) -> None:
        self._version[bundle] += 1
        for known in (self._outdated, self._bounded, self._moving):
            known.pop(bundle, None)
        option = self._options.pop(bundle, None)
        for kind in option.kinds if option is not None else ():
            self._of_kind.get(kind, {}).pop(bundle, None)


Floats = npt.NDArray[np.float64]
#: Rounds shares up, so that a bound stays a bound.
_MORE = 1 + 1e-9
#: More than what the price of a node's requests gains or loses by rounding to micros.
_ROUNDED = 1 + 1e-4


class SparedEstimates:
    """Spares estimates on the present snapshot: it keeps those of single node groups, by what their new nodes are, and makes
    optimistic options. `forget` what is known when the snapshot or the demand changes."""

    def __init__(self, template_nodes: TemplateNodes) -> None:
        self._of = template_nodes
        self._options: dict[object, Option] = {}
        self._keys: dict[int, object] = {}
        #: By the key of alike equivalence groups: may their pods go to nodes that are in the snapshot?
        self._stays: dict[int, bool] = {}
        #: By the same key: `_room`.
        self._rooms: dict[int, tuple[Rows, int] | None] = {}
        self._shares: dict[tuple[KindId, ...], tuple[Int64, Floats]] = {}
        snapshot, kinds = template_nodes.snapshot, [template_nodes.snapshot.of(kind) for kind in template_nodes.codes]
        #: The keys of node labels on which the verdict on a new node may depend, once other pods have been placed.
        self._labels = {key for kind in kinds for key in topology_keys(snapshot, kind)}
        if any(has_claims(snapshot, kind) for kind in kinds):
            self._labels.update(_storage_keys(snapshot.volumes.objects))
        self._all_labels = any(needs_devices(snapshot, kind) for kind in kinds)
        codes = np.array(list(template_nodes.codes.values()), np.uint8).reshape(len(kinds), len(template_nodes.groups))
        self._codes = np.ascontiguousarray(codes.T)

    def forget(self) -> None:
        self._options.clear()
        self._stays.clear()
        self._rooms.clear()
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
            template = self._of.template(group)
            node = template.node
            labels = ((name, value) for name, value in node.labels.items() if name != HOSTNAME)
            read = tuple(sorted(pair for pair in labels if self._all_labels or pair[0] in self._labels))
            csi = None if node.csi is None else (node.csi.drivers, node.csi.migrated)
            has = (node.allocatable, node.scalars, node.taints, node.unschedulable, node.features, csi, repr(node.slices))
            running = tuple((pod.kind, pod.labels) for pod in template.running_pods)
            whole = group if self._of.all_or_nothing(group) else None
            key = self._keys[group] = (has, read, running, self._codes[group].tobytes(), whole)
        return key

    def optimistic(self, bundle: Sequence[int], runs: Sequence[Run]) -> Option | None:
        """The optimistic option of a bundle. `runs`: the pods that a new node of the bundle may take."""
        moving = [run.kind for run in runs if run.kind in self._of.inter_pod_constraints.moving]
        if not moving or any(self._may_stay(kind) for kind in moving):
            return None
        most, total = self._on_one_node(bundle, runs)
        offered = total.min(axis=1)
        asked = (most * (offered[:, None] / np.maximum(total, 1))).max(axis=1)
        return self._at_best(bundle, runs, bundle[0], asked, offered)

    def cheapest(self, bundle: Sequence[int], runs: Sequence[Run], prices: Sequence[int]) -> Option | None:
        """The optimistic option of a bundle by the expanders that compare prices, for pods that may go to nodes in the
        snapshot too; None if some may at once. `prices`: of a new node of each group.

        n nodes take at most n times the most that one takes, beside what there is room for already, and not more than all
        pods. So one node of the lowest price, all of that and the room is cheapest for what it takes."""
        moving = [run for run in runs if run.kind in self._of.inter_pod_constraints.moving]
        rooms = [self._room(run.kind) for run in moving]
        if not moving or any(room is None for room in rooms):
            return None
        most, total = self._on_one_node(bundle, runs)
        requests = self._of.snapshot.kinds.requests[: len(most)]
        stays, rows = np.zeros(len(most)), np.zeros(self._of.snapshot.n_rows, np.bool_)
        for run, (takers, copies) in zip(moving, filter(None, rooms), strict=True):
            stays += requests[:, run.kind] * min(copies, len(run.pods))
            rows[takers] = True
        facts, used = self._of.snapshot.facts, self._of.snapshot.used_by_others()
        for line in (CPU, MEMORY):  # pods of several equivalence groups share the room
            stays[line] = min(
                stays[line], np.maximum(facts.allocatable[line, : len(rows)] - used[line, : len(rows)], 0)[rows].sum()
            )
        every = sum(requests[:, run.kind] * len(run.pods) for run in runs)
        asked = np.minimum((most.max(axis=1) + stays), every) * _ROUNDED
        return self._at_best(bundle, runs, min(bundle, key=lambda group: prices[group]), asked, total.min(axis=1))

    def _on_one_node(self, bundle: Sequence[int], runs: Sequence[Run]) -> tuple[Floats, Int64]:
        """What pods on one new node of each group request of each resource at most, and what the node has; shape (resources,
        groups)."""
        of, kinds = self._of, tuple(run.kind for run in runs)
        if kinds not in self._shares:
            self._shares[kinds] = self._compared(kinds)
        units, shares = self._shares[kinds]
        # What fits of each line of `empty`, in units of the pods' greatest common divisor, limits what they request.
        room = np.maximum(of.empty[:, list(bundle)], 0) // units[:, None] * units[:, None]
        with np.errstate(invalid="ignore"):
            most: Floats = np.fmin.reduce(shares[:, :, None] * room, axis=1)
        return most, of.total[: len(most), list(bundle)]

    def _at_best(self, bundle: Sequence[int], runs: Sequence[Run], node: int, asked: Floats, offered: Int64) -> Option | None:
        """An option of one node, with all pods."""
        names, amounts = list(self._of.snapshot.facts.resource), np.ceil(asked * _MORE)
        if not np.isfinite(amounts).all():
            return None
        return Option(
            bundle=tuple(bundle),
            names=tuple(self._of.groups[group].name for group in bundle),
            groups=np.array([node], np.intp),
            kinds=tuple(run.kind for run in runs),
            pods=np.concatenate([run.pods for run in runs]),
            at=np.zeros(0, np.intp),
            asked=dict(zip(names, map(int, amounts.tolist()), strict=True)),
            offered=dict(zip(names, offered.tolist(), strict=True)),
            left_out=False,
            cut=False,
            moving=True,
        )

    def _room(self, kind: KindId) -> tuple[Rows, int] | None:
        """The rows of the snapshot to which pods of the equivalence group may go once others are placed, and how many pods
        these rows have room for; None if some may go at once."""
        key, snapshot = self._of.alike.key(kind), self._of.snapshot
        if key not in self._rooms:
            with concerning(kind):
                found = feasible(snapshot, kind)
                rows = np.flatnonzero(IS_MOVING[found.codes])
                copies = copies_on(snapshot, snapshot.of(kind), rows)
            at_once = found.refusal is not None or found.feasible.any()
            self._rooms[key] = None if at_once else (rows[copies > 0], int(copies[copies > 0].sum()))
        return self._rooms[key]

    def _may_stay(self, kind: KindId) -> bool:
        """May pods of the equivalence group go to nodes that are in the snapshot, once other pods are placed?"""
        key = self._of.alike.key(kind)
        if key not in self._stays:
            with concerning(kind):
                found = feasible(self._of.snapshot, kind)
            self._stays[key] = found.refusal is not None or bool(IS_MOVING[found.codes].any())
        return self._stays[key]

    def _compared(self, kinds: tuple[KindId, ...]) -> tuple[Int64, Floats]:
        """For each line of `empty`, the greatest common divisor of the pods' amounts, shape (lines,); and the most that a pod
        requests of each resource for each unit of the line, shape (resources, lines)."""
        of, n_lines = self._of, len(self._of.empty)
        amounts = np.zeros((n_lines, len(kinds)), np.int64)
        for at, kind in enumerate(kinds):
            for line, amount in of.amounts(kind):
                amounts[line, at] = amount
        requests = of.snapshot.kinds.requests[: len(of.snapshot.facts.resource), list(kinds)]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = requests[:, None, :] / amounts
        return np.maximum(np.gcd.reduce(amounts, axis=1), 1), np.where(requests[:, None, :] > 0, each, 0).max(axis=2)


def _storage_keys(storage: Storage) -> Iterator[str]:
    """The keys of node labels that decide which volumes a node reaches."""
    for volume in (storage.volumes or {}).values():
        yield from volume.labels
        terms = (*(volume.node_terms or ()), *(volume.migrated_terms or ()))
        yield from (requirement.key for term in terms for requirement in term.labels)
    for each in (storage.classes or {}).values():
        yield from (key for pairs in each.topologies for key, _ in pairs)
    for capacity in storage.capacities or ():
        yield from (requirement.key for requirement in capacity.topology or ())
