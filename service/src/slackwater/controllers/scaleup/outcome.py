"""The result of a scale-up planning, as values. A plan is checked again before it is carried out."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from slackwater.controllers.scaleup.groups import GrowableGroup, SkipReason
from slackwater.fit.steps import CutBy
from slackwater.model.ids import NodeName, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    """How a group should grow. `nodes`: for each new node, the pods that it is for.

    The most important nodes come first (by the place of their first pod in the demand), so a caller that may create only some
    of them begins at the front. A node that only brings the group to its minimum has no pods.
    """

    group: GroupName
    nodes: tuple[tuple[Pod, ...], ...]

    @property
    def count(self) -> int:
        return len(self.nodes)

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for node in self.nodes for pod in node)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRefusal:
    """Why a new node of a group would not take the pod: the verdict, and kube-scheduler's texts for it."""

    reason: Reason
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhelpable:
    """Pods for which no node group grows, for the same reasons. `groups`: the reason why each node group does not grow for
    them. `tried`: the pods were judged on a new node of each group; False if a bound left no time for it. `cut`: a limit
    ended the plan before it was known whether a group can grow for them; the next plan begins with them."""

    pods: tuple[Pod, ...]
    groups: Mapping[GroupName, GroupRefusal | SkipReason]
    tried: bool = True
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedPod:
    """A pod that is not planned for, and why."""

    pod: Pod
    why: str


#: slack: the placeholders. drains: which drains are rolled back for pending pods.
FailedPart = Literal["pods", "group", "slack", "drains", "consolidation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFailure:
    """A part of a plan that raised an error; the rest was planned without it. `about` names the part, `error` is the error in
    one line, `trace` its traceback."""

    part: FailedPart
    about: str
    error: str
    trace: str


def failure_of(part: FailedPart, about: str, error: BaseException) -> PlanFailure:
    """The report of an error. Call it only if the rest of the plan is made."""
    trace = "".join(traceback.format_exception(error))
    return PlanFailure(part=part, about=about, error=f"{type(error).__name__}: {error}", trace=trace)


def failed_reason(error: BaseException) -> SkipReason:
    """Why a group does not grow for which, or for whose pods, planning raised the error."""
    return SkipReason(kind="error", text=f"planning failed: {type(error).__name__}: {error}")


def failed_group(group: GrowableGroup, error: BaseException) -> GrowableGroup:
    """The group without its template, so that planning takes no notice of it but for the reason."""
    return replace(group, template=None, upcoming=0, skip_reason=failed_reason(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedNodes:
    """How near the nodes that were packed at the lowest price are to the least possible cost. `cost`: theirs, `bound`: no plan
    for the same pods costs less; both in micros an hour, `bound` 0 if it is not known. `steps`, `cut`: see `Packing`. `solver`:
    linear programs were used."""

    cost: int
    bound: int
    steps: int
    cut: bool
    solver: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpPlan:
    """The scale-up plan. Every pod of the demand is in exactly one of its lists.

    `scale_ups`: all groups that should grow, each once, without regard to limits on nodes in creation. `schedulable`: pods that
    fit on existing or upcoming nodes, in some cases only once nodes of the plan are there. `passed_over`: pods for which no
    nodes are added now. `not_looked_at`: pods beyond the limit on pods in one loop. `failures`: what planning failed for; the
    pods among it are in `unhelpable`. `again_at`: when the first pod that is passed over for its age will count; None if there
    is no such pod. `packed`: None if nothing was packed at the lowest price. `steps`: the work of the plan; `cut_by`: the limit
    that ended a part of it (`fit.steps`).
    """

    scale_ups: tuple[ScaleUp, ...] = ()
    schedulable: tuple[tuple[Pod, NodeName], ...] = ()
    unhelpable: tuple[Unhelpable, ...] = ()
    passed_over: tuple[SkippedPod, ...] = ()
    not_looked_at: tuple[Pod, ...] = ()
    failures: tuple[PlanFailure, ...] = ()
    again_at: UnixTime | None = None
    packed: PackedNodes | None = None
    steps: int = 0
    cut_by: CutBy | None = None

    @property
    def n_nodes(self) -> int:
        return sum(scale_up.count for scale_up in self.scale_ups)
