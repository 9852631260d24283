"""The pods that no option helps, and why not, group by group."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np

from slackwater.controllers.scaleup.estimate import Run
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.controllers.scaleup.option_choice import OptionChoice
from slackwater.controllers.scaleup.outcome import GroupRefusal, Unhelpable
from slackwater.controllers.scaleup.template_nodes import Refusals
from slackwater.fit.steps import CutBy
from slackwater.model.columns import Rows
from slackwater.snapshot.equivalence_groups import KindId

_CUT: Final[Mapping[CutBy | None, SkipReason]] = {
    "time": SkipReason(kind="time", text="planning took too long: the next one goes on"),
    "steps": SkipReason(kind="time", text="planning reached its limit on steps: the next one goes on"),
}
_NOT_JUDGED: Final = SkipReason(kind="time", text="not judged: too many different pods fit nowhere; explain judges each alone")
_NOT_FOUND: Final = SkipReason(kind="limit", text="the group is all or nothing, and all of it is more than a limit allows")


def unhelpable(options: OptionChoice, unreached: Sequence[Run], refused: Mapping[KindId, Refusals]) -> list[Unhelpable]:
    """The pods that are left, with the reasons. Pods with the same reasons are together, in the order of importance.
    `unreached`: pods that a limit cut off before any option was sought. `refused`: by which rules each group's new node takes
    no pod of the equivalence group, as far as that was judged."""
    late = {id(run) for run in unreached}
    by_reason: dict[object, tuple[Refusals | None, bool, list[Rows]]] = {}
    for run in by_importance(options.runs.values(), unreached):
        why, cut = refused.get(run.kind), options.cut or id(run) in late
        by_reason.setdefault((id(why), cut), (why, cut, []))[2].append(run.pods)
    pods = options.demand.counted
    found = []
    for why, cut, some in by_reason.values():
        reasons = {group.name: _why(options, at, why, cut=cut) for at, group in enumerate(options.groups)}
        found.append(
            Unhelpable(
                pods=tuple(pods[pod] for pod in np.sort(np.concatenate(some)).tolist()),
                groups=reasons,
                tried=why is not None,
                cut=any(reason in _CUT.values() for reason in reasons.values()),
            )
        )
    return found


def by_importance(*runs: Iterable[Run]) -> list[Run]:
    """The runs in the order of importance of their first pods."""
    return sorted(chain.from_iterable(runs), key=lambda run: int(run.pods[0]))


def _why(options: OptionChoice, at: int, refused: Refusals | None, *, cut: bool) -> GroupRefusal | SkipReason:
    skip_reason, refusal = options.skip_reasons[at], None if refused is None else refused.get(at)
    # A higher limit does not help a pod that no node of the group takes.
    if skip_reason is not None and (skip_reason.kind != "limit" or refusal is None):
        return skip_reason
    found = refusal or options.budget.skip_reason(at)
    if found is not None:
        return found
    if cut and options.steps.cut is not None:
        return _CUT[options.steps.cut]
    return _NOT_JUDGED if refused is None else _NOT_FOUND
