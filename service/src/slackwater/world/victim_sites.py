"""Where the victims of a preemptor could be: nodes that would take it, were there room, and the pods there that it may take.

Asked of nodes that kube-scheduler's own filters let pass: only our accounting refuses them, so nothing but room is lacking.
Nobody is taken whose leaving would not help: a pod that a kubelet runs from a file, one that would not go when it was told
to, one that the preemptor has to stand beside (required pod affinity).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from slackwater.decide.preemption.victims import Occupant, Site
from slackwater.model.columns import Codes, Rows
from slackwater.model.ids import Instant, NodeName, PodUid, Row
from slackwater.model.objects import Pod
from slackwater.model.particulars import NO_PARTICULARS
from slackwater.model.reasons import Reason
from slackwater.model.resources import Amounts
from slackwater.model.selectors import selects
from slackwater.world.admitting import AdmittingRows
from slackwater.world.budgets import Budgets
from slackwater.world.claims import Claims
from slackwater.world.denials import Denials
from slackwater.world.nodes import NodeTable
from slackwater.world.pods import PodTable

_FULL: Final = np.array([Reason.NOT_ENOUGH_CPU, Reason.NOT_ENOUGH_MEMORY, Reason.HELD_FOR_OTHERS], np.uint8)
#: Nodes looked at for one pod, as kube-scheduler does: a tenth of them, but no fewer than this.
_LEAST_SITES: Final = 100
_SHARE_OF_SITES: Final = 10


class VictimSites:
    """`free_for` tells the room of a row for a pod, and `doomed` whether a pod is to leave for another preemptor;
    `immovable` names those that nobody should count on, and until when."""

    def __init__(
        self,
        *,
        nodes: NodeTable,
        pods: PodTable,
        claims: Claims,
        denials: Denials,
        budgets: Budgets,
        admitting: AdmittingRows,
        free_for: Callable[[PodUid, Row], Amounts],
        doomed: Callable[[PodUid], bool],
        immovable: dict[PodUid, Instant],
    ) -> None:
        self._nodes = nodes
        self._pods = pods
        self._claims = claims
        self._denials = denials
        self._budgets = budgets
        self._admitting = admitting
        self._free_for = free_for
        self._doomed = doomed
        #: Where the next search begins: not always the same nodes are looked at, where there are many.
        self._begin = 0
        self._immovable = immovable

    def of(self, pod: Pod, rows: Rows, codes: Codes, now: Instant) -> Iterator[Site]:
        """The sites among `rows`, which were judged `codes`. Only rows where our accounting is the stricter one: elsewhere
        kube-scheduler finds victims by itself, and what seems full to us alone is about to change."""
        wanted = rows[np.isin(codes, _FULL)]
        wanted = wanted[self._nodes.stricter[wanted] & self._admitting.of(pod.kind)[wanted]]
        denied = set(self._denials.nodes_denied(pod.uid, now))
        most = max(_LEAST_SITES, len(wanted) // _SHARE_OF_SITES)
        self._begin += 1
        first = self._begin % len(wanted) if len(wanted) > most else 0
        found = 0
        for row in [*wanted[first:].tolist(), *wanted[:first].tolist()]:
            node = self._nodes.by_row[row]
            if node is None or node.name in denied:
                continue
            site = self.site(pod, node.name, Row(row), self._claims.on_node(node.name), now)
            if site.occupants:
                found += 1
                yield site
            if found >= most:
                return

    def site(self, pod: Pod, node: NodeName, row: Row, uids: Iterable[PodUid], now: Instant) -> Site:
        """The node with those of the pods there that the preemptor may take."""
        victims = [victim for uid in uids if (victim := self._takeable(pod, uid, node, now)) is not None]
        victims.sort(key=lambda victim: (-victim.priority, victim.started_at or "9999", victim.uid))
        violations = self._budgets.violations([victim for victim in victims if not self._doomed(victim.uid)])
        violating = iter(violations)
        return Site(
            node=node,
            free=self._free_for(pod.uid, row),
            occupants=[self._occupant(victim, violating) for victim in victims],
        )

    def _occupant(self, victim: Pod, violating: Iterator[bool]) -> Occupant:
        claim = self._claims.get(victim.uid)
        assert claim is not None
        doomed = self._doomed(victim.uid)
        return Occupant(
            uid=victim.uid,
            priority=victim.priority,
            started_at=victim.started_at,
            reserved=claim.account.reserved,
            leaving=doomed or victim.deleting,
            violates_budget=not doomed and next(violating),
        )

    def _takeable(self, pod: Pod, uid: PodUid, node: NodeName, now: Instant) -> Pod | None:
        victim, claim = self._pods.get(uid), self._claims.get(uid)
        if victim is None or claim is None or claim.state != "seen" or claim.node != node:
            return None
        if victim.priority >= pod.priority or victim.ties.mirror or self._immovable.get(uid, now) > now:
            return None
        return None if _stands_beside(pod, victim) else victim

    def expire(self, now: Instant) -> None:
        for uid in [uid for uid, until in self._immovable.items() if until <= now or self._pods.get(uid) is None]:
            del self._immovable[uid]

    def anybody_below(self, priority: int) -> bool:
        """Is there any pod of lower priority at all?"""
        return any(found < priority for found in self._pods.priorities)


def _stands_beside(pod: Pod, victim: Pod) -> bool:
    """Does a required pod affinity of `pod` speak of the victim? Where namespaces are selected, all count as reached."""
    terms = (pod.kind.particulars or NO_PARTICULARS).affinity
    labels = dict(victim.labels) if terms else {}
    return any(
        (term.namespace_selector is not None or victim.key.namespace in term.namespaces) and selects(term.selector, labels)
        for term in terms
    )
