"""Makes the report: plays the rounds, and adds up nodes, money and causes before and after.

In: a `Cluster`, settings, a horizon and the time. Out: a `WorthAnswer`. Every sum is of integers: the parts by group, type,
zone, capacity type, cause, namespace and label each add up to the whole. Without a price the formula of docs/prices.md counts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.app.offline.cluster import Cluster
from slackwater.app.offline.consolidation import planned_consolidation
from slackwater.app.offline.explain import node_remedies
from slackwater.app.offline.known_groups import labelled_groups
from slackwater.app.offline.scaledown import notes_of
from slackwater.app.policies import consolidation_rules_of, scale_up_policy_of
from slackwater.app.prices import every_price, has_prices
from slackwater.app.rounds.engine import Played, play
from slackwater.app.rounds.virtual_drains import DEFAULT_PACE, Pace
from slackwater.app.settings import Settings
from slackwater.app.worth.answer import (
    Money,
    NodeTotals,
    RoundsAnswer,
    ShareAnswer,
    SharesAnswer,
    StayAnswer,
    TotalsChange,
    WorthAnswer,
)
from slackwater.app.worth.shares import IDLE, shares, use_answers
from slackwater.app.worth.use import Use
from slackwater.controllers.scaledown.state import KeptNode, ScaleDownState
from slackwater.fit.remaining_pdb_tracker import Disruptions
from slackwater.model.ids import NodeName, PodKey, UnixTime
from slackwater.model.nodegroups import GroupName, Membership
from slackwater.model.objects import INSTANCE_TYPE, ZONE, Node, Pod
from slackwater.model.prices import Price, PriceBook, capacity_type_of, cost_of
from slackwater.model.reasons import UnremovableReason
from slackwater.model.texts import count_text

#: For so many causes, the dearest first, remedies are sought: each takes as long as `explain node`.
_MOST_REMEDIES: Final = 12
#: So many instance types are named that have no price.
_MOST_TYPES: Final = 5
_NO_GROUP: Final = GroupName("")
_BUDGETS: Final = frozenset({UnremovableReason.NOT_ENOUGH_PDB, UnremovableReason.MULTIPLE_PDBS})


def worth_answer(
    cluster: Cluster,
    settings: Settings,
    *,
    horizon_seconds: int,
    start: UnixTime,
    by_label: str | None = None,
    use: Use | None = None,
    pace: Pace = DEFAULT_PACE,
    report: Callable[[int], None] = lambda seconds: None,
) -> WorthAnswer:
    """Plays the rounds and reports on them. `use`: what pods use, if it is known. `report` is as in `play`. Raises
    `SettingsError` if the price table cannot be read."""
    book = every_price(settings, overlays=cluster.price_overlays, table=cluster.price_table)
    played = play(cluster, settings, start=start, horizon_seconds=horizon_seconds, pace=pace, report=report)
    budgets = cluster.counted_budgets()
    return _Report(played, settings, book, horizon_seconds, start).answer(
        by_label,
        use=use,
        assumptions=_assumptions(pace, settings),
        skipped=notes_of(played.grown.snapshot, cluster, budgets),
    )


def _assumptions(pace: Pace, settings: Settings) -> tuple[str, ...]:
    unpriced = "no price is configured: nodes are priced by the formula, which compares sizes"
    removed_only = "nodes are not replaced by cheaper ones: autoscaler.consolidation.enabled is false"
    return (
        *(() if has_prices(settings) else (unpriced,)),
        *(() if settings.autoscaler.consolidation.enabled else (removed_only,)),
        f"a new pod is ready after {pace.pod_start:g} s, a new node after {pace.node_boot:g} s; a machine is deleted in "
        f"{pace.node_removal:g} s; an evicted pod takes its whole grace period to end",
        "controllers make an evicted pod again at once, nobody changes the demand, and nothing fails",
    )


@dataclass(slots=True)
class _Report:
    played: Played
    settings: Settings
    book: PriceBook
    horizon: int
    start: UnixTime

    def answer(
        self, by_label: str | None, *, use: Use | None, assumptions: tuple[str, ...], skipped: tuple[str, ...]
    ) -> WorthAnswer:
        played = self.played
        now, end = self._priced(played.began), self._priced(played.end)
        cost = cost_of((price, 1) for price in now.prices.values())
        growth = end.micros(node for node in end.nodes if node.name in played.growth)
        label = None if by_label is None else self._shares(by_label, now, end, lambda pod: dict(pod.labels).get(by_label, ""))
        return WorthAnswer(
            currency=self.book.currency,
            basis=None if cost is None else cost.basis,
            horizon_seconds=self.horizon,
            total=self._change("", now, now.nodes, end, end.nodes),
            saved=self._money(now.micros(now.nodes) - end.micros(end.nodes) + growth),
            growth=self._money(growth),
            bound=self._bound(end),
            by={
                "group": self._by(now, end, lambda nodes, node: nodes.groups[node.name]),
                "type": self._by(now, end, lambda _, node: node.labels.get(INSTANCE_TYPE, "")),
                "zone": self._by(now, end, lambda _, node: node.labels.get(ZONE, "")),
                "capacityType": self._by(now, end, lambda _, node: capacity_type_of(node)),
            },
            rounds=RoundsAnswer(
                removed=len(played.removed),
                added=len(played.added),
                evictions=played.evictions,
                failed_removals=played.failed_removals,
                seconds=round(played.seconds, 1),
                plans=played.plans,
                over=played.over,
                pending_now=sum(pod.pending for pod in played.began.pods),
                pending_end=sum(pod.pending for pod in played.end.pods),
            ),
            stays=list(self._stays(end)),
            namespaces=self._shares("namespace", now, end, lambda pod: pod.key.namespace),
            label=label,
            use=() if use is None else use_answers(now.cluster, use, by_label),
            assumptions=(*assumptions, *_unpriced(now, end, self.settings), *_without_label(by_label, label)),
            remarks=played.began.remarks,
            skipped=skipped,
        )

    def _money(self, micros: int) -> Money:
        return Money.of(micros, self.horizon)

    def _priced(self, cluster: Cluster) -> "_Nodes":
        known = cluster.groups
        if known is None:
            known = labelled_groups(cluster.nodes, self.settings.autoscaler.node_groups)
        membership = Membership(found.group for found in known)
        provider = {found.group.name: found.group.price_micros for found in known}
        groups = {node.name: membership.group_of(node) or _NO_GROUP for node in cluster.nodes}
        prices = {
            node.name: self.book.of(groups[node.name], node, provider=provider.get(groups[node.name])) for node in cluster.nodes
        }
        return _Nodes(cluster, groups, prices)

    # --- nodes ------------------------------------------------------------------------------------------------------------

    def _by(self, now: "_Nodes", end: "_Nodes", name_of: Callable[["_Nodes", Node], str]) -> list[TotalsChange]:
        """A row for each name, the dearest now first."""
        parts: dict[str, tuple[list[Node], list[Node]]] = {}
        for at, nodes in enumerate((now, end)):
            for node in nodes.nodes:
                parts.setdefault(name_of(nodes, node), ([], []))[at].append(node)
        ordered = sorted(parts.items(), key=lambda part: (-now.micros(part[1][0]), part[0]))
        return [self._change(name, now, before, end, after) for name, (before, after) in ordered]

    def _change(self, name: str, now: "_Nodes", before: Sequence[Node], end: "_Nodes", after: Sequence[Node]) -> TotalsChange:
        return TotalsChange(name=name, now=self._totals(now, before), end=self._totals(end, after))

    def _totals(self, nodes: "_Nodes", some: Sequence[Node]) -> NodeTotals:
        return NodeTotals(
            nodes=len(some),
            cpu_cores=round(sum(node.allocatable.cpu for node in some) / 1000, 3),
            memory_gib=round(sum(node.allocatable.memory for node in some) / 2**30, 3),
            cost=self._money(nodes.micros(some)),
        )

    def _bound(self, end: "_Nodes") -> Money | None:
        """What the pods of the groups' nodes cost at least, and the nodes of no group beside them; None if it is not known."""
        rules = consolidation_rules_of(self.settings, scale_up_policy_of(self.settings, prices=self.book, plan_steps=0))
        plan = planned_consolidation(
            end.cluster,
            self.played.grown,
            ScaleDownState(),
            rules,
            self.book,
            budgets=end.cluster.budgets,
            now=UnixTime(self.start + self.played.seconds),
            stop=lambda: True,  # the bound is known before the first move is sought
        )
        others = [node for node in end.nodes if end.groups[node.name] == _NO_GROUP]
        return self._money(plan.bound + end.micros(others)) if plan.bound else None

    # --- whom it is for ---------------------------------------------------------------------------------------------------

    def _shares(self, of: str, now: "_Nodes", end: "_Nodes", name_of: Callable[[Pod], str]) -> SharesAnswer:
        before, after = (
            shares(each.cluster, {name: price.micros for name, price in each.prices.items()}, self.book.formula, name_of)
            for each in (now, end)
        )
        names = sorted((before.keys() | after.keys()) - {IDLE}, key=lambda name: (-before[name], str(name)))
        return SharesAnswer(
            of=of,
            shares=[ShareAnswer(name=str(name), now=self._money(before[name]), end=self._money(after[name])) for name in names],
            idle_now=self._money(before[IDLE]),
            idle_end=self._money(after[IDLE]),
        )

    # --- what stays -------------------------------------------------------------------------------------------------------

    def _stays(self, end: "_Nodes") -> Iterator[StayAnswer]:
        """The nodes that stay by reason and cause, the dearest first."""
        kept = {each.node: each for each in self.played.kept}
        causes, found = _Causes(end.cluster), dict[tuple[UnremovableReason | None, str], list[Node]]()
        for node in end.nodes:
            why = kept.get(node.name)
            cause = "" if why is None else causes.of(why) or _of_group(end.groups[node.name])
            found.setdefault((None if why is None else why.unremovable_reason, cause), []).append(node)
        ordered = sorted(found.items(), key=lambda each: (-end.micros(each[1]), each[0][1], str(each[0][0])))
        first = [nodes[0].name for (reason, _), nodes in ordered[:_MOST_REMEDIES] if reason is not None]
        remedies = node_remedies(end.cluster, self.settings, first, now=UnixTime(self.start + self.played.seconds))
        for (reason, cause), nodes in ordered:
            example, why = nodes[0].name, kept.get(nodes[0].name)
            yield StayAnswer(
                reason="Removable" if reason is None else str(reason),
                text="the horizon ended before its removal began" if reason is None else reason.text,
                nodes=len(nodes),
                cost=self._money(end.micros(nodes)),
                cause=cause,
                example=f"{example}: {why.detail}" if why is not None and why.detail else example,
                remedies=remedies.get(example, ()),
            )


def _unpriced(now: "_Nodes", end: "_Nodes", settings: Settings) -> Iterator[str]:
    """A text about nodes that the formula prices although there is a table, or others have a price."""
    prices = {**end.prices, **now.prices}
    nodes = {node.name: node for node in (*now.nodes, *end.nodes)}.values()
    unpriced = Counter(node.labels.get(INSTANCE_TYPE, "") for node in nodes if prices[node.name].basis == "formula")
    configured = settings.autoscaler.prices
    has_table = configured is not None and configured.table is not None
    if unpriced and (has_table or unpriced.total() < len(nodes)):
        most = unpriced.most_common(_MOST_TYPES)
        named = [f"{count_text(count, 'node')} of {kind or 'no instance type'}" for kind, count in most]
        others = [f"{len(unpriced) - _MOST_TYPES} other types"] if len(unpriced) > _MOST_TYPES else []
        yield f"no price is known for these, and the formula prices them: {', '.join([*named, *others])}"


def _without_label(key: str | None, shares: SharesAnswer | None) -> Iterator[str]:
    if shares is not None and not any(each.name for each in shares.shares):
        yield f"no pod has the label {key}"


@dataclass(frozen=True, slots=True)
class _Nodes:
    """A cluster with the group and the price of each node."""

    cluster: Cluster
    groups: Mapping[NodeName, GroupName]
    prices: Mapping[NodeName, Price]

    @property
    def nodes(self) -> Sequence[Node]:
        return self.cluster.nodes

    def micros(self, nodes: Iterable[Node]) -> int:
        return sum(self.prices[node.name].micros for node in nodes)


class _Causes:
    """What keeps nodes, as `kind namespace/name`: the budget of the pod that blocks, or its controller."""

    def __init__(self, cluster: Cluster) -> None:
        self._pods: dict[PodKey, Pod] = {pod.key: pod for pod in cluster.pods if pod.node is not None}
        self._deployments = cluster.scales.deployments
        self._disruptions = Disruptions(cluster.budgets or ())

    def of(self, kept: KeptNode) -> str:
        """ "" if no pod keeps the node."""
        if kept.blocked_by is None:
            return ""
        pod = self._pods.get(kept.blocked_by)
        if pod is None:
            return f"Pod {kept.blocked_by}"
        if kept.unremovable_reason in _BUDGETS and (budgets := self._disruptions.of(pod)):
            return " and ".join(f"PodDisruptionBudget {namespace}/{name}" for namespace, name in budgets)
        owner = pod.eviction_facts.owner
        if owner is None:
            return f"Pod {pod.key}"
        _, owner = self._deployments.get((pod.key.namespace, owner), (pod.key.namespace, owner))
        return f"{owner.kind} {pod.key.namespace}/{owner.name}"


def _of_group(group: GroupName) -> str:
    return "nodes of no group" if group == _NO_GROUP else f"group {group}"
