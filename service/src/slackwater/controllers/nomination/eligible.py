"""Eligibility: which pending pods may be nominated in advance, and for which filter may choose a node.

Not nominated: pods of other schedulers; pods that somebody else has nominated; pods behind a gate that is not ours; pods whose
place depends on objects that the nomination snapshot lacks (volume claims, resource claims, namespaces by their labels).
A node is chosen for more of them. kube-scheduler's own filters have passed the nodes in question, so only the scores have to be
known, and no score of kube-scheduler's default plug-ins reads claims.
Deliberately absent: whether there is room, and what the state machine knows beyond the pod itself (its hold, its preemption).
"""

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

    def nominated(self, pod: Pod) -> bool:
        """May the pod be nominated in advance?"""
        return (
            self._may_place(pod)
            and pod.nominated_node is None
            and (not pod.gates or (self.gated and pod.gates == (GATE,)))
            and (pod.kind.pod_constraints is None or not _hangs_on_others(pod.kind.pod_constraints))
        )

    def chosen(self, pod: Pod) -> bool:
        """May filter choose a node for the pod?"""
        asks = pod.kind.pod_constraints
        return self._may_place(pod) and (asks is None or not _scored_by_namespaces(asks))

    def _may_place(self, pod: Pod) -> bool:
        kind = pod.kind
        return (
            pod.node is None
            and not (pod.ended or pod.deleting)
            and kind.scheduler_name == self.scheduler_name
            and pod.vertical_problem is None
            and pod.preempting is None
            and not (self.missing_requests_refused and kind.missing_request is not None and pod.vertical is None)
        )


def _scored_by_namespaces(asks: PodConstraints) -> bool:
    """Does the score of a node depend on which namespaces have certain labels?"""
    return any(weighted.term.namespace_selector is not None for weighted in asks.preferred_pods)


def _hangs_on_others(asks: PodConstraints) -> bool:
    terms = (*asks.affinity, *asks.anti_affinity, *(weighted.term for weighted in asks.preferred_pods))
    return bool(
        asks.claims
        or asks.resource_claims
        or asks.node_name is not None
        or any(term.namespace_selector is not None for term in terms)
    )
