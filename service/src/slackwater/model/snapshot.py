"""A frozen copy of the picture, and forks of it for trials.

A snapshot never changes: a plan made on one carries its generation, and is re-checked against the present world before it acts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from slackwater.model.columns import NodeColumns
from slackwater.model.ids import Generation, NodeName, PodUid, Row
from slackwater.model.objects import Node
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPod:
    """A pod that counts on a node: the row of the node and what is Reserved for the pod."""

    row: Row
    reserved: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The cluster at one generation. `nodes[row]` is None where the row is free.

    `gated` are pending pods whose room is being made by preemption: they need no new node (kubernetes/kubernetes#134428).
    """

    generation: Generation
    columns: NodeColumns
    nodes: tuple[Node | None, ...]
    row_of: Mapping[NodeName, Row]
    pods: Mapping[PodUid, PlacedPod]
    gated: frozenset[PodUid] = frozenset()

    def fork(self) -> "Fork":
        """A trial on top of this snapshot; dropping it leaves no trace."""
        return Fork(self.columns.copy(), dict(self.pods), None)


class TrialRefused(Exception):
    """A trial did what cannot be: the message names the pod and why."""


class Fork:
    """Columns and pods that may be changed freely.

    As a context manager it is dropped at the end unless `commit()` was called; committing hands the state to the parent fork.
    The outermost fork has no parent: its caller reads the result from it.
    """

    __slots__ = ("_committed", "_parent", "columns", "pods")

    def __init__(self, columns: NodeColumns, pods: dict[PodUid, PlacedPod], parent: "Fork | None") -> None:
        self.columns = columns
        self.pods = pods
        self._parent = parent
        self._committed = False

    def fork(self) -> "Fork":
        return Fork(self.columns.copy(), dict(self.pods), self)

    def place(self, uid: PodUid, pod: PlacedPod) -> None:
        """Counts a pod on a row, whether it fits or not: judging is the caller's part.

        :raises TrialRefused: the pod is placed already.
        """
        if uid in self.pods:
            raise TrialRefused(f"pod {uid}: already on row {self.pods[uid].row}, wanted on row {pod.row}")
        self.pods[uid] = pod
        self.columns.reserved[:, pod.row] += pod.reserved

    def remove(self, uid: PodUid) -> PlacedPod:
        """Takes a pod off its row.

        :raises TrialRefused: the pod is on no row.
        """
        pod = self.pods.pop(uid, None)
        if pod is None:
            raise TrialRefused(f"pod {uid}: on no row of this trial")
        self.columns.reserved[:, pod.row] -= pod.reserved
        return pod

    def commit(self) -> None:
        self._committed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._committed and kind is None and self._parent is not None:
            self._parent.columns, self._parent.pods = self.columns, self.pods
