"""Placeholders: pods that exist only inside the plans of the autoscaler, to keep room for pods to come.

A placeholder is a `Pod` like any other, so that every planner judges it by the rules that judge pods. What tells it apart is
its UID, which no API server gives. It has the lowest priority there is, and may leave any node. Deliberately absent: how
many there are, and where they stand (`controllers.slack`).
"""

from typing import Final

from slackwater.model.equivalence import Kind
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.objects import Labels, Pod

#: People know them as pods `slack/<n>`.
NAMESPACE: Final = "slack"
#: Of an int32, the least: nobody ever makes way for a placeholder.
LOWEST_PRIORITY: Final = -(2**31)
_UID_PREFIX: Final = "placeholder:"
#: One replica set looks as if it made them all, so that they count as pods that something makes again elsewhere.
_EVICTION_FACTS: Final = EvictionFacts(owner=Owner("apps", "ReplicaSet", NAMESPACE), safe_to_evict="true")


def a_placeholder(number: int, kind: Kind, labels: Labels = (), *, node: NodeName | None = None) -> Pod:
    """The pod `slack/<number>`, equal in its needs to a pod of the kind with these labels."""
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
    """Does the pod stand in plans alone?"""
    return pod.uid.startswith(_UID_PREFIX)
