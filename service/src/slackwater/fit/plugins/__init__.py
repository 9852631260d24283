"""The only definition of "fits", and the scores of kube-scheduler's default profile: its plug-ins, each with its filter and its
score. Verdicts are codes of `model.reasons.Reason`."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

from slackwater.model.columns import Codes
from slackwater.model.reasons import Reason
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from slackwater.snapshot.equivalence_groups import NumberedGroup
from slackwater.snapshot.row_journal import Selection


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why PreFilter refuses the pod before any node is judged; it holds for every node. `text` is kube-scheduler's message; it
    mostly names the object at fault, such as a missing PersistentVolumeClaim."""

    reason: Reason
    text: str


#: What a predicate reads to judge a row. facts: the row's node. room: also the row's pods. anywhere: also nodes and pods of
#: other rows.
_Reads = Literal["facts", "room", "anywhere"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predicate:
    """The filter of one plug-in. `part` returns what it reads of an equivalence group, or None if it does not apply to the
    group. Groups with equal parts have equal verdicts on every row.

    All rows are judged again when the result of `stamp` changes. `refuse` is the plug-in's PreFilter: the refusal of the pod on
    every node; None if the plug-in does not refuse it.
    """

    name: str
    part: Callable[[ClusterSnapshot, NumberedGroup], Hashable | None]
    judge: Callable[[ClusterSnapshot, NumberedGroup, Selection], Codes]
    reads: _Reads
    stamp: Callable[[ClusterSnapshot, NumberedGroup], tuple[int, ...]] = lambda _snapshot, _kind: ()
    refuse: Callable[[ClusterSnapshot, NumberedGroup], Refusal | None] = lambda _snapshot, _kind: None
