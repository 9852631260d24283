"""What an explanation is made of: findings, remedies, minimal sets. Values only, and their JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slackwater.explain.changes import Change
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName
from slackwater.model.reasons import MEANINGS, Reason
from slackwater.model.unremovable_reasons import TEXTS as HINDRANCE_TEXTS
from slackwater.model.unremovable_reasons import UnremovableReason
from slackwater.model.wait_reasons import TEXTS as STANDSTILL_TEXTS
from slackwater.model.wait_reasons import WaitReason

OURS: Final = "Slackwater"
#: How many objects one finding names.
MOST_OBJECTS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One reason. `code` is from a closed list (`model.reasons`, `.unremovable reasons`, `.wait reasons`).

    It holds on `nodes` nodes. `short` is what is lacking of `resource` on the `closest` of them, by unit (milliCPU, bytes,
    count). `objects` name what is in the way, as "kind name".
    """

    code: str
    plugin: str = OURS
    text: str
    detail: str = ""
    nodes: int = 0
    resource: str | None = None
    short: Mapping[str, int] = field(default_factory=dict)
    objects: tuple[str, ...] = ()
    closest: NodeName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Changes that together help, as was seen in the simulator; without any of them they do not."""

    changes: tuple[Change, ...]

    @property
    def words(self) -> str:
        return "; and ".join(change.words for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimalSet:
    """All `blockers` have to go, each by the change of the same place in `changes`; what is left of any keeps things as they
    are. `where` is a node."""

    where: str
    blockers: tuple[Finding, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWord:
    """What a node group has to do with it: why it does not help, or (no findings) that it would."""

    group: GroupName
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`facts` are figures about the object; `notes` say what could not be judged."""

    object: str
    state: str
    reasons: tuple[Finding, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    minimal: tuple[MinimalSet, ...] = ()
    groups: tuple[GroupWord, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def of_reason(reason: Reason, **more: Any) -> Finding:
    """A verdict as a finding."""
    meaning = MEANINGS[reason]
    return Finding(code=meaning.label, plugin=meaning.plugin, text=meaning.text, **more)


def of_unremovable_reason(unremovable_reason: UnremovableReason, **more: Any) -> Finding:
    return Finding(code=str(unremovable_reason), text=HINDRANCE_TEXTS[unremovable_reason], **more)


def of_wait_reason(wait_reason: WaitReason, **more: Any) -> Finding:
    return Finding(code=str(wait_reason), text=STANDSTILL_TEXTS[wait_reason], **more)


def document(explanation: Explanation) -> dict[str, Any]:
    """The answer of `/explain/...` as JSON values."""
    answer: dict[str, Any] = {
        "object": explanation.object,
        "state": explanation.state,
        "reasons": [_finding(finding) for finding in explanation.reasons],
        "remedies": [_remedy(remedy.changes) for remedy in explanation.remedies],
        "minimal": [_minimal(each) for each in explanation.minimal],
        "facts": dict(explanation.facts),
    }
    if explanation.groups:
        answer["groups"] = [_group(word) for word in explanation.groups]
    if explanation.notes:
        answer["notes"] = list(explanation.notes)
    return answer


def _finding(finding: Finding) -> dict[str, Any]:
    found: dict[str, Any] = {
        "code": finding.code,
        "plugin": finding.plugin,
        "text": finding.text,
        "nodes": finding.nodes,
        "resource": finding.resource,
        "short": dict(finding.short),
        "objects": list(finding.objects),
    }
    if finding.detail:
        found["detail"] = finding.detail
    if finding.closest is not None:
        found["closest"] = finding.closest
    return found


def _remedy(changes: Iterable[Change]) -> dict[str, Any]:
    listed = tuple(changes)
    return {"change": Remedy(changes=listed).words, "checked": True, "changes": [change.words for change in listed]}


def _minimal(found: MinimalSet) -> dict[str, Any]:
    return {
        "where": found.where,
        "blockers": [_finding(blocker) for blocker in found.blockers],
        "remedy": _remedy(found.changes),
    }


def _group(word: GroupWord) -> dict[str, Any]:
    return {"group": word.group, "helps": not word.findings, "reasons": [_finding(finding) for finding in word.findings]}
