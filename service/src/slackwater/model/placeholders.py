"""Placeholders: pods that exist only inside the plans of the autoscaler, to keep room for pods to come.

A placeholder is a `Pod` like any other, so that planners judge it by the same rules. Its UID marks it: no API server assigns
such a UID. It has the lowest priority there is, and may leave any node. Deliberately absent: how many there are, and where they
are placed (`controllers.slack`).
"""

from typing import Final

from slackwater.model.equivalence import Kind
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import Labels, Pod

#: Placeholders are shown as pods `slack/<n>`.
NAMESPACE: Final = "slack"
#: The least int32: nothing is ever preempted for a placeholder.
LOWEST_PRIORITY: Final = -(2**31)
_UID_PREFIX: Final = "placeholder:"
#: Their owner is an invented replica set, so that they count as pods that a controller makes again elsewhere.
_EVICTION_FACTS: Final = EvictionFacts(owner=Owner("apps", "ReplicaSet", NAMESPACE), safe_to_evict="true")


def a_placeholder(number: int, kind: Kind, labels: Labels = (), *, node: NodeName | None = None) -> Pod:
    """The placeholder `slack/<number>`, with the scheduling needs of a pod of this `Kind` with these labels."""
    return Pod(
        uid=PodUid(f"{_UID_PREFIX}{number}"),
        key=PodKey(NAMESPACE, str(number)),
        resource_version=0,
        labels=labels,
        kind=kind,
        node=node,
        ended=False,
        deleting=False,
        priority=LOWEST_PRIORITY,
        created_at="",
        started_at="",
        nominated_node=None,
        unschedulable_message=None,
        eviction_facts=_EVICTION_FACTS,
    )


def is_placeholder(pod: Pod) -> bool:
    """Whether the pod is a placeholder."""
    return pod.uid.startswith(_UID_PREFIX)
