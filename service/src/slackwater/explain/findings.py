"""The parts of an explanation: findings, remedies and minimal sets as values, and their JSON."""

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
    """One reason. `code` is from a closed list (`model.reasons`, `model.unremovable_reasons`, `model.wait_reasons`).

    It applies to `nodes` nodes. `short` is what is lacking of `resource` on the `closest` of them, by unit (milliCPU, bytes,
    count). `objects` are the objects that cause it, as "kind name".
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
    """Changes that help together, as a simulation has shown; with any one left out they do not."""

    changes: tuple[Change, ...]

    @property
    def words(self) -> str:
        return "; and ".join(change.words for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimalSet:
    """A minimal set: all `blockers` have to go, each by the entry of `changes` at its position; if one stays, nothing is
    gained. `where` is a node."""

    where: str
    blockers: tuple[Finding, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWord:
    """What a node group could do: why it does not help the pod, or, without findings, that it would."""

    group: GroupName
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer. `facts` are figures about the object; `notes` say what could not be judged."""

    object: str
    state: str
    reasons: tuple[Finding, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    minimal: tuple[MinimalSet, ...] = ()
    groups: tuple[GroupWord, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def of_reason(reason: Reason, **more: Any) -> Finding:
    """The finding for a verdict."""
    meaning = MEANINGS[reason]
    return Finding(code=meaning.label, plugin=meaning.plugin, text=meaning.text, **more)


def of_unremovable_reason(unremovable_reason: UnremovableReason, **more: Any) -> Finding:
    return Finding(code=str(unremovable_reason), text=HINDRANCE_TEXTS[unremovable_reason], **more)


def of_wait_reason(wait_reason: WaitReason, **more: Any) -> Finding:
    return Finding(code=str(wait_reason), text=STANDSTILL_TEXTS[wait_reason], **more)


def document(explanation: Explanation) -> dict[str, Any]:
    """The explanation as JSON values, as `/explain/...` answers it."""
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
