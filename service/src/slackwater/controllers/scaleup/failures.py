"""Leaves out of a scale-up plan what raised an error, so that one part's error never stops the growth for the others.

In: the demand, the groups and an error that names what it concerns (`fit.failure`). Out: the demand and the groups without it.
Invariant: the number of attempts at one plan is bounded. The first `_ALONE` equivalence groups that fail are left out one by
one; each later failure leaves out all pods under the same kinds of rules.
"""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason
from slackwater.controllers.scaleup.inter_pod_constraints import representatives
from slackwater.controllers.scaleup.outcome import FailedPart, PlanFailure, Unhelpable
from slackwater.controllers.scaleup.pending import Demand, importance
from slackwater.fit.failure import PlanningFailed
from slackwater.model.columns import Mask
from slackwater.model.objects import Pod
from slackwater.model.texts import first_few
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import KindId, NumberedGroup, UnreadLabel

_ALONE: Final = 8
#: The most pods named in one text.
_MOST_NAMED: Final = 3


def failure_of(part: FailedPart, about: str, error: BaseException) -> PlanFailure:
    """The report of an error. Call it only if the rest of the plan is made."""
    trace = "".join(traceback.format_exception(error))
    return PlanFailure(part=part, about=about, error=_text(error), trace=trace)


def failed_group(group: GrowableGroup, error: BaseException) -> GrowableGroup:
    """The group without its template, so that planning takes no notice of it but for the reason."""
    return replace(group, template=None, upcoming=0, skip_reason=_skip_reason(error))


@dataclass(slots=True, kw_only=True)
class Remaining:
    """What a plan is made for: the demand and the groups, without those that failed so far."""

    snapshot: ClusterSnapshot
    demand: Demand
    groups: list[GrowableGroup]
    failures: list[PlanFailure] = field(default_factory=list)
    unhelpable: list[Unhelpable] = field(default_factory=list)

    def leave_out_unread(self) -> None:
        """Leaves out pods whose selectors read labels that the snapshot was built without."""
        known = self.snapshot.kinds.keys
        unread = [pod for pod in (*self.demand.counted, *self.demand.nominated) if not pod.kind.keys_read <= known]
        if unread:
            self._leave_out(unread, UnreadLabel(unread[0].kind.keys_read - known))

    def leave_out(self, failed: PlanningFailed) -> None:
        """Leaves out what failed. Raises the error itself if that is no part of the demand and no group."""
        error = failed.__cause__ or failed
        if isinstance(failed.about, str):
            at = next(at for at, group in enumerate(self.groups) if group.name == failed.about)
            self.groups[at] = failed_group(self.groups[at], error)
            self.failures.append(failure_of("group", f"node group {failed.about}", error))
            return
        pods = self._pods_of(failed.about)
        if not pods:
            raise error
        self._leave_out(pods, error)

    def _pods_of(self, kind: KindId) -> list[Pod]:
        snapshot, demand = self.snapshot, self.demand
        numbers = (representatives(snapshot, snapshot.number(demand.counted)), snapshot.number(demand.nominated))
        kinds = np.concatenate(numbers)
        failed: Mask = kinds == kind
        if len(self.failures) >= _ALONE:
            alike = {of for of in np.unique(kinds).tolist() if _rules(snapshot.of(KindId(of))) == _rules(snapshot.of(kind))}
            failed = np.isin(kinds, list(alike))
        pods = (*demand.counted, *demand.nominated)
        return [pods[at] for at in np.flatnonzero(failed).tolist()]

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
        why = dict.fromkeys((group.name for group in self.groups), _skip_reason(error))
        self.unhelpable.append(Unhelpable(pods=tuple(pods), groups=why))


def _skip_reason(error: BaseException) -> SkipReason:
    return SkipReason(kind="error", text=f"planning failed: {_text(error)}")


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _rules(kind: NumberedGroup) -> tuple[bool, ...]:
    """Which kinds of rules the pods are under. Errors that come in numbers come from the same rule."""
    asks = kind.asks
    each = (asks.affinity, asks.anti_affinity, asks.spread, asks.claims, asks.disks, asks.resource_claims, asks.host_ports)
    return tuple(map(bool, (*each, asks.container_devices)))
