"""The closed list of nomination misses: why the pod was not bound by our nomination. A miss costs time, never correctness."""

from enum import StrEnum
from typing import Final


class Miss(StrEnum):
    """Why a nomination was a miss."""

    LATE = "late"
    REFUSED_IN_TREE = "refused-in-tree"
    REFUSED = "refused"
    ELSEWHERE = "elsewhere"
    EXPIRED = "expired"
    REPLACED = "replaced"
    GONE = "gone"
    UNWRITTEN = "unwritten"


#: For people; constant for each miss.
MISSES: Final[dict[Miss, str]] = {
    Miss.LATE: "kube-scheduler was searching already when it could have seen the nomination",
    Miss.REFUSED_IN_TREE: "kube-scheduler's own filters refused the node, and it searched on",
    Miss.REFUSED: "our own filter refused the node when kube-scheduler asked: room was taken meanwhile",
    Miss.ELSEWHERE: "the pod was bound to another node",
    Miss.EXPIRED: "kube-scheduler did not bind the pod in time; the room was given up, the nomination stays a hint",
    Miss.REPLACED: "somebody else nominated the pod for another node, or took the nomination away",
    Miss.GONE: "the pod was deleted, or ended",
    Miss.UNWRITTEN: "the API server did not take the nomination: the pod had changed, or no answer came in time",
}
