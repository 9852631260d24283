"""The rules of the history: which entry follows from a pod as the watch shows it, from the end of an API call, or from a
report. Pure functions.

A pod that is placed at its first attempt gets no entry: its own status has the node and the time.
"""

from collections.abc import Sequence
from typing import Final

from slackwater.cluster.pods import Disruption
from slackwater.model.effects import Announce, CreateMigration, DeleteVictim, DrainEnd, Evict
from slackwater.model.history import ENDS, SHORTENED, HistoryAction, HistoryEntry, fitting, short_uid
from slackwater.model.objects import VICTIM_MESSAGE, Pod
from slackwater.model.texts import refusal_reasons
from slackwater.model.vertical import VirtualMachineMigration

#: After this time a refusal of a pod is reported again, even if its reasons are the same.
_AGAIN_MS: Final = 3_600_000
#: At most so many refusals of one pod are reported within `_AGAIN_MS`.
_MOST_REFUSALS: Final = 8
#: How the condition DisruptionTarget of a victim begins: whoever wrote it; if we wrote it. A message of kube-scheduler begins
#: with its profile's name, which may be ours, but goes on in other words.
_PREEMPTED: Final = "PreemptionByScheduler: "
_OURS: Final = f"{_PREEMPTED}{VICTIM_MESSAGE}"
_EVICTION: Final = "EvictionByEvictionAPI: "
_AFTER_PLACING: Final = ENDS | {HistoryAction.BOUND, HistoryAction.MIGRATING}
_ENDED: Final = {"Succeeded": HistoryAction.MIGRATED, "Failed": HistoryAction.MIGRATION_FAILED}
_SHOWN: Final = {"ScaleDown": HistoryAction.DRAIN_BEGAN, "TriggeredScaleUp": HistoryAction.SCALE_UP}


def of_pod(pod: Pod, before: Sequence[HistoryEntry], at_ms: int) -> HistoryEntry | None:
    """The entry about a pod that kube-scheduler refused for new reasons, or that got a node after it had waited. None if there
    is nothing to report. `before`: the entries about pods of this name."""
    key, uid = str(pod.key), short_uid(pod.uid)
    mine = [entry for entry in before if entry.uid == uid and entry.pod == key]
    if pod.node is not None:
        placed = any(entry.action in _AFTER_PLACING for entry in mine)
        if not before or placed or pod.deleting or pod.ended:
            return None
        return HistoryEntry(at_ms=at_ms, action=HistoryAction.BOUND, pod=key, uid=uid, node=pod.node)
    message = pod.unschedulable_message
    if message is None or not _is_news(message, mine, at_ms):
        return None
    return HistoryEntry(at_ms=at_ms, action=HistoryAction.REFUSED, pod=key, uid=uid, why=fitting(message))


def of_disruption(
    seen: Disruption, preemptor: str, before: Sequence[HistoryEntry], removal: HistoryEntry | None, at_ms: int
) -> HistoryEntry | None:
    """The entry about a pod that shows the condition DisruptionTarget; None if an entry of `before` reports the disruption.

    `preemptor`: the pod for which kube-scheduler proposed this pod to us as a victim; "" if not known. `removal`: the entry
    about the beginning of the node's removal; None if the node is not being removed. A disruption may come from a call of ours
    that has no entry: the process that made the call was killed before it wrote one."""
    uid = short_uid(seen.uid)
    if any(entry.uid == uid and entry.action in ENDS for entry in before):
        return None
    action, other, why = HistoryAction.DISRUPTED, "", fitting(seen.why)
    if removal is not None and seen.why.startswith(_EVICTION):
        action, why = HistoryAction.EVICTED, removal.why
    elif seen.why.startswith(_OURS):
        action, other, why = HistoryAction.PREEMPTED, seen.why.removeprefix(_OURS), ""
    elif seen.why.startswith(_PREEMPTED):
        other = preemptor
    node = seen.node or ""
    return HistoryEntry(at_ms=at_ms, action=action, pod=str(seen.key), uid=uid, node=node, other=other, why=why)


def is_notable(pod: Pod, *, known: bool) -> bool:
    """Might `of_pod` return an entry? A quick check for each changed pod. `known`: there are entries about pods of its name."""
    return known if pod.node is not None else pod.unschedulable_message is not None


def _is_news(message: str, mine: Sequence[HistoryEntry], at_ms: int) -> bool:
    """Should this refusal be reported? Only if its reasons differ from those of every refusal in `mine` of the last hour (the
    numbers of nodes do not matter), and fewer than `_MOST_REFUSALS` were reported within that hour."""
    recent = [entry.why for entry in mine if entry.action is HistoryAction.REFUSED and at_ms - entry.at_ms < _AGAIN_MS]
    reasons = _reasons(fitting(message))
    return len(recent) < _MOST_REFUSALS and all(_reasons(why) != reasons for why in recent)


def _reasons(why: str) -> frozenset[str]:
    return refusal_reasons(why, cut=why.endswith(SHORTENED))


def of_call(
    effect: Evict | DeleteVictim | CreateMigration, node: str, removal: HistoryEntry | None, at_ms: int
) -> HistoryEntry:
    """The entry about a call that the API server accepted. `node`: the pod's node, or "". `removal`: as in `of_disruption`."""
    pod, uid = str(effect.key), short_uid(effect.uid)
    match effect:
        case Evict():
            why = "" if removal is None else removal.why
            return HistoryEntry(at_ms=at_ms, action=HistoryAction.EVICTED, pod=pod, uid=uid, node=effect.node, why=why)
        case DeleteVictim():
            other = str(effect.preemptor)
            return HistoryEntry(at_ms=at_ms, action=HistoryAction.PREEMPTED, pod=pod, uid=uid, node=node, other=other)
        case CreateMigration():
            target = effect.target_node
            return HistoryEntry(at_ms=at_ms, action=HistoryAction.MIGRATING, pod=pod, uid=uid, node=node, target=target)


def of_announcement(event: Announce, at_ms: int) -> HistoryEntry | None:
    """The entry about the decision of the autoscaler that this Event announces: a node's removal, or a scale-up for a pod. None
    for any other Event."""
    action = _SHOWN.get(event.reason)
    if action is None:
        return None
    why = fitting(event.note)
    if event.about == "Node":
        return HistoryEntry(at_ms=at_ms, action=action, node=event.key.name, why=why.removeprefix(_REMOVED))
    return HistoryEntry(at_ms=at_ms, action=action, pod=str(event.key), uid=short_uid(event.uid), why=why)


def of_withheld(about: str, name: str, text: str, pods: Sequence[str], at_ms: int) -> list[HistoryEntry]:
    """The entries about a decision that is not carried out: one about the node, or one about each pod that it is for."""
    if about == "nodes":
        return [HistoryEntry(at_ms=at_ms, action=HistoryAction.WITHHELD, node=name, why=fitting(text))]
    why = fitting(f"{name} {text}")
    return [HistoryEntry(at_ms=at_ms, action=HistoryAction.WITHHELD, pod=pod, why=why) for pod in pods or ("",)]


#: How the Event about a node's removal begins. The entry leaves this out, since its action says the same.
_REMOVED: Final = "node is removed, since it is "


def of_drain(end: DrainEnd, at_ms: int) -> HistoryEntry:
    """The entry about the end of a node's removal."""
    reason = "" if end.unremovable_reason is None else f", because {end.unremovable_reason} {end.detail}".rstrip()
    why = f"{end.outcome} after {end.seconds:.0f} s, {end.evicted} pods evicted{reason}"
    return HistoryEntry(at_ms=at_ms, action=HistoryAction.DRAIN_ENDED, node=end.order.node, why=fitting(why))


def of_migration(
    migration: VirtualMachineMigration, before: Sequence[HistoryEntry], node: str, at_ms: int
) -> HistoryEntry | None:
    """The entry about a finished migration. None if the migration has not finished, or if `before`, the entries about its
    source pod, reports the end already. `node`: the target pod's node; "" if not known."""
    action = _ENDED.get(migration.phase)
    moves = [entry.action for entry in before if entry.action in {HistoryAction.MIGRATING, *_ENDED.values()}]
    if action is None or (moves and moves[-1] is not HistoryAction.MIGRATING):
        return None
    namespace = migration.key.namespace
    return HistoryEntry(
        at_ms=at_ms,
        action=action,
        pod=f"{namespace}/{migration.source_pod}",
        target=migration.target_node or node,
        other=f"{namespace}/{migration.target_pod}" if migration.target_pod else "",
        why="" if action is HistoryAction.MIGRATED else f"VirtualMachineMigration {migration.key} has failed",
    )
