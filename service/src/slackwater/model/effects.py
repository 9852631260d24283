"""What should be done outside: values that `World` returns and the dispatcher carries out.

Each names its object by UID as well, so that a write meant for one pod never meets its successor of the same name.
"""

from dataclasses import dataclass
from typing import Literal

from slackwater.model.ids import NodeName, PodKey, PodUid


@dataclass(frozen=True, slots=True)
class Bind:
    """POST the Binding of a pod to a node. Ends as `BindEnded`."""

    uid: PodUid
    key: PodKey
    node: NodeName


@dataclass(frozen=True, slots=True)
class Touch:
    """Patch an annotation of a pending pod: kube-scheduler then tries it again within about 100 ms (facts, call 2)."""

    uid: PodUid
    key: PodKey
    why: str


@dataclass(frozen=True, slots=True)
class Nominate:
    """Patch status.nominatedNodeName: kube-scheduler tries that node first and alone (facts, call 1)."""

    uid: PodUid
    key: PodKey
    node: NodeName


@dataclass(frozen=True, slots=True)
class ReadPod:
    """GET the pod, because the watch has not told what became of it. Ends as `PodRead` or `PodGone`."""

    uid: PodUid
    key: PodKey


@dataclass(frozen=True, slots=True)
class Announce:
    """An Event on a pod for people. Dropped under load; nothing depends on it."""

    uid: PodUid
    key: PodKey
    type: Literal["Normal", "Warning"]
    reason: str
    note: str


Effect = Bind | Touch | Nominate | ReadPod | Announce
