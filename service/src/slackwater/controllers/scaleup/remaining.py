"""What a plan is made for: the demand and the groups, without the parts for which planning failed (`Remaining`).

An error concerns an equivalence group or a node group (`fit.failure`). The plan is made again without it, and says so."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import GrowableGroup
from slackwater.controllers.scaleup.inter_pod_constraints import representatives
from slackwater.controllers.scaleup.outcome import PlanFailure, Unhelpable, failed_group, failed_reason, failure_of
from slackwater.controllers.scaleup.pending import Demand, importance
from slackwater.fit.failure import PlanningFailed
from slackwater.model.objects import Pod
from slackwater.model.texts import first_few
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup, UnreadLabel

#: So many equivalence groups that fail are left out one by one; each later failure leaves out all pods under the same kinds of
#: rules. So the number of attempts at one plan is bounded.
_ALONE: Final = 8
#: The most pods named in one text.
_MOST_NAMED: Final = 3


@dataclass(slots=True, kw_only=True)
class Remaining:
    """What a plan is made for: the demand and the groups, without those that failed so far, so that one part's error never
    stops the growth for the others. Pods are left out from the beginning if their selectors read labels that the snapshot was
    built without. Pods that are nominated to a node that is gone are ordinary ones."""

    snapshot: ClusterSnapshot
    demand: Demand
    groups: list[GrowableGroup]
    failures: list[PlanFailure] = field(default_factory=list)
    unhelpable: list[Unhelpable] = field(default_factory=list)

    def __post_init__(self) -> None:
        there, nominated = self.snapshot.facts.row_of, self.demand.nominated
        lost = [pod for pod in nominated if pod.nominated_node not in there]
        if lost:
            counted = tuple(sorted((*self.demand.counted, *lost), key=importance))
            kept = tuple(pod for pod in nominated if pod.nominated_node in there)
            self.demand = replace(self.demand, nominated=kept, counted=counted)
        known = self.snapshot.kinds.keys
        unread = [pod for pod in (*self.demand.counted, *self.demand.nominated) if not pod.kind.keys_read <= known]
        if unread:
            self._leave_out(unread, UnreadLabel(unread[0].kind.keys_read - known))

    def leave_out(self, failed: PlanningFailed) -> None:
        """Leaves out what failed. Raises the error itself if that is no part of the demand and no group."""
        error, about = failed.__cause__ or failed, failed.about
        if isinstance(about, str):
            at = next(at for at, group in enumerate(self.groups) if group.name == about)
            self.groups[at] = failed_group(self.groups[at], error)
            self.failures.append(failure_of("group", f"node group {about}", error))
            return
        snapshot, demand = self.snapshot, self.demand
        counted = representatives(snapshot, snapshot.number(demand.counted))
        kinds = np.concatenate((counted, snapshot.number(demand.nominated)))
        gone = {about}
        if len(self.failures) >= _ALONE:
            present, rules = map(KindId, np.unique(kinds).tolist()), _rules(snapshot.of(about))
            gone = {kind for kind in present if _rules(snapshot.of(kind)) == rules}
        pods = (*demand.counted, *demand.nominated)
        left_out = [pods[at] for at in np.flatnonzero(np.isin(kinds, list(gone))).tolist()]
        if not left_out:
            raise error
        self._leave_out(left_out, error)

    def _leave_out(self, pods: Sequence[Pod], error: BaseException) -> None:
        gone = {pod.uid for pod in pods}
        self.demand = replace(
            self.demand,
            counted=tuple(pod for pod in self.demand.counted if pod.uid not in gone),
            nominated=tuple(pod for pod in self.demand.nominated if pod.uid not in gone),
        )
        pods = sorted(pods, key=importance)
        about = f"pods {first_few([str(pod.key) for pod in pods], _MOST_NAMED)}"
        self.failures.append(failure_of("pods", about, error))
        why = dict.fromkeys((group.name for group in self.groups), failed_reason(error))
        self.unhelpable.append(Unhelpable(pods=tuple(pods), groups=why))


def _rules(kind: NumberedGroup) -> tuple[bool, ...]:
    """Which kinds of rules the pods are under. Errors that come in numbers come from the same rule."""
    asks = kind.asks
    each = (asks.affinity, asks.anti_affinity, asks.spread, asks.claims, asks.disks, asks.resource_claims, asks.host_ports)
    return tuple(map(bool, (*each, asks.container_devices)))
