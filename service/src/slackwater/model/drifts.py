"""The closed list of differences that an audit finds: between the cluster state and the cluster, or within the cluster
state."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Drift(StrEnum):
    """The cause of a difference."""

    MISSED_EVENT = "missed_event"
    STALE_OBJECT = "stale_object"
    UNKNOWN_NODE = "unknown_node"
    UNKNOWN_POD = "unknown_pod"
    ALTERED_OBJECT = "altered_object"
    WRONG_PLACE = "wrong_place"
    WRONG_ACCOUNT = "wrong_account"
    WRONG_SUM = "wrong_sum"
    WRONG_HELD = "wrong_held"
    WRONG_TOTAL = "wrong_total"


TEXTS: Final[dict[Drift, str]] = {
    Drift.MISSED_EVENT: "the API server has a newer version of the object than the cluster state, which did not follow in time",
    Drift.STALE_OBJECT: "the cluster state has an object that the API server has no more",
    Drift.UNKNOWN_NODE: "the API server has a node that the cluster state has not",
    Drift.UNKNOWN_POD: "the API server has a pod that the cluster state has not, or a pod counts that nobody knows",
    Drift.ALTERED_OBJECT: "the cluster state has the object in the same version, and something else in it",
    Drift.WRONG_PLACE: "the pod counts on another node than the one it is on, or on none, or though it has ended",
    Drift.WRONG_ACCOUNT: "the pod counts for other amounts than its requests",
    Drift.WRONG_SUM: "the node's numbers are not the sum of what its pods count for",
    Drift.WRONG_HELD: "what is held on the node is not the sum of the holds there",
    Drift.WRONG_TOTAL: "the node's Total or Watermark does not follow from what it reports",
}


@dataclass(frozen=True, slots=True)
class Found:
    """One difference that an audit found: its cause, the object (`pod ns/name`, `node n`), and what was found and expected."""

    drift: Drift
    object: str
    detail: str

    def __str__(self) -> str:
        return f"{self.object}: {self.detail}"
