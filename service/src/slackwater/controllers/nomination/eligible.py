"""Eligibility: which pending pods may be nominated in advance. All others are left to kube-scheduler.

Not eligible: pods of other schedulers; pods that somebody else has nominated; pods behind a gate that is not ours; pods whose
place depends on objects that the nomination snapshot lacks (volume claims, resource claims, namespaces by their labels).
Deliberately absent: whether there is room, and what the state machine knows beyond the pod itself (its hold, its preemption).
"""

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import PodConstraints
from slackwater_protocol.names import GATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """The rule for one configuration. `gated`: pods behind our own gate are eligible. `missing_requests_refused`: our filter
    refuses every pod that lacks a request."""

    scheduler_name: str
    gated: bool = True
    missing_requests_refused: bool = True

    def __call__(self, pod: Pod) -> bool:
        """May the pod be nominated?"""
        kind = pod.kind
        return (
            pod.node is None
            and pod.nominated_node is None
            and not (pod.ended or pod.deleting)
            and kind.scheduler_name == self.scheduler_name
            and (not pod.gates or (self.gated and pod.gates == (GATE,)))
            and pod.vertical_problem is None
            and pod.preempting is None
            and not (self.missing_requests_refused and kind.missing_request is not None and pod.vertical is None)
            and (kind.pod_constraints is None or not _hangs_on_others(kind.pod_constraints))
        )


def _hangs_on_others(asks: PodConstraints) -> bool:
    terms = (*asks.affinity, *asks.anti_affinity, *(weighted.term for weighted in asks.preferred_pods))
    return bool(
        asks.claims
        or asks.resource_claims
        or asks.node_name is not None
        or any(term.namespace_selector is not None for term in terms)
    )


#: Says whether a pod may be nominated.
Eligible = Callable[[Pod], bool]
