"""Formats the record of an autoscaler loop: as JSON for `/dumpstate`, as text for the status ConfigMap in Cluster Autoscaler's
format, and as a log line."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import structlog
import yaml
from pydantic.alias_generators import to_camel

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.consolidation.report import consolidation_document
from slackwater.controllers.loop_plans import OUTCOMES
from slackwater.controllers.scaledown.loop import ScaleDownRecord
from slackwater.controllers.scaleup.costs import total_of
from slackwater.controllers.slack.report import slack_document
from slackwater.controllers.slack.scale_up import SlackPlan
from slackwater.model.ids import UnixTime
from slackwater.model.prices import price_document
from slackwater.runtime.autoscaler.loop_record import LoopRecord, node_counts
from slackwater.runtime.autoscaler.withheld import withheld_by

#: The words of Cluster Autoscaler's status, which dashboards parse.
_HEALTH: Final = {True: "Healthy", False: "Unhealthy"}

_log = structlog.get_logger(__name__)


def record_document(record: LoopRecord) -> dict[str, Any]:
    """The record as JSON values; durations in seconds."""
    pending = record.pending
    return {
        "loop": record.number,
        "at": datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "generation": record.generation,
        "healthy": record.healthy,
        "seconds": {
            **{part: _seconds(getattr(record.spent, part)) for part in ("whole", "sense", "plan", "act")},
            "servingLoop": _seconds(record.spent.serving),
            "servingLoopLongest": _seconds(record.spent.longest),
        },
        "pending": {"total": pending.total, **{to_camel(outcome): getattr(pending, outcome) for outcome in OUTCOMES}},
        "inCreation": record.in_creation,
        **_cost(record),
        "groups": [_group(record, group_status) for group_status in record.group_status.values()],
        "queued": [
            {"group": queued.group, "nodes": queued.nodes, "priority": queued.priority, "waitsFor": queued.waits_for}
            for queued in record.queued
        ],
        "problems": list(record.problems),
        "notes": list(record.notes),
        "eventsLeftOut": record.events_left_out,
        **_withheld(record),
        "scaleDown": None if record.scale_down is None else _scale_down_document(record.scale_down),
        "slack": None if record.slack is None else slack_document(record.slack),
        **_consolidation(record),
    }


def _withheld(record: LoopRecord) -> dict[str, Any]:
    """What was decided and not done; nothing where everything is done."""
    found = [{"kind": each.kind, "name": each.name, "text": each.text} for each in withheld_by(record)]
    return {"withheld": found} if found else {}


def _consolidation(record: LoopRecord) -> dict[str, Any]:
    """Nothing where consolidation neither plans nor moves anything."""
    found = record.consolidation
    if found is None or not (found.running or found.ended or found.plan):
        return {}
    return {"consolidation": consolidation_document(found)}


def _cost(record: LoopRecord) -> dict[str, Any]:
    """What all groups cost: their nodes, and the nodes that are planned; nothing without prices."""
    if not record.costs:
        return {}
    costs = record.costs.values()
    sums = {"present": total_of(cost.present for cost in costs), "planned": total_of(cost.planned for cost in costs)}
    return {"cost": {name: price_document(price) for name, price in sums.items() if price is not None}}


def _scale_down_document(scale_down: ScaleDownRecord) -> dict[str, Any]:
    return {
        "status": scale_down.status,
        "unneeded": dict(scale_down.unneeded),
        "unremovable": {str(reason): count for reason, count in scale_down.reasons.items()},
        "begun": list(scale_down.begun),
        "givenUp": list(scale_down.given_up),
        "ended": [
            {
                "node": end.order.node,
                "outcome": end.outcome,
                "reason": None if end.unremovable_reason is None else str(end.unremovable_reason),
                "detail": end.detail,
                "seconds": _seconds(end.seconds),
                "evicted": end.evicted,
            }
            for end in scale_down.ended
        ],
        "removals": [{"node": node, "phase": phase} for node, phase in scale_down.removals],
        "underWay": scale_down.under_way[0],
        "draining": scale_down.under_way[1],
        "cooling": dict(scale_down.cooling),
        "overBudget": dict(scale_down.over_budget),
        "homeless": scale_down.homeless,
        "evaluated": scale_down.evaluated,
        "cut": scale_down.cut,
        "seconds": _seconds(scale_down.seconds),
    }


def _group(record: LoopRecord, group_status: NodeGroupStatus) -> dict[str, Any]:
    backoff = group_status.backoff
    calls = (
        {"from": call.seen, "to": call.to, "problem": None if problem is None else str(problem)}
        for call, problem in record.asked
        if call.group == group_status.name
    )
    return {
        "name": group_status.name,
        "provider": group_status.group.provider,
        "minSize": group_status.group.min_size,
        "maxSize": group_status.group.max_size,
        "target": group_status.group.target,
        **{state: len(getattr(group_status, state)) for state in ("ready", "unready", "starting")},
        **{state: getattr(group_status, state) for state in ("coming", "stuck", "leaving")},
        "startSeconds": [_seconds(each) for each in group_status.starts],
        "lost": [{"instance": lost.instance.id, "code": lost.code, "message": lost.message} for lost in group_status.lost],
        "planned": record.planned.get(group_status.name, 0),
        "limitedPods": record.pending.limited.get(group_status.name, 0),
        **({} if (cost := record.costs.get(group_status.name)) is None else {"cost": cost.document}),
        "asked": next(calls, None),
        "closed": group_status.closed(record.instant),
        "backoff": None
        if backoff is None or not backoff.holds(record.instant)
        else {"code": backoff.code, "message": backoff.message, "endsInSeconds": _seconds(backoff.until - record.instant)},
    }


class StatusText:
    """Formats the text of the status ConfigMap. Remembers when the status of each part last changed."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, str]] = {}

    def of(self, record: LoopRecord) -> str:
        """The status as YAML with Cluster Autoscaler's keys."""
        now = stamp(record.at)
        counts = _node_counts(record.group_status.values())
        growing = any(group_status.upcoming for group_status in record.group_status.values())
        document = {
            "time": now,
            "autoscalerStatus": "Running",
            "clusterWide": {
                "health": self._part("health", _HEALTH[record.healthy], now, nodeCounts=counts),
                "scaleUp": self._part("scaleUp", "InProgress" if growing else "NoActivity", now),
                "scaleDown": self._scale_down(record, None, now),
            },
            "nodeGroups": [self._group(record, group_status, now) for group_status in record.group_status.values()],
            "slackwater": _ours(record),
        }
        return yaml.safe_dump(document, sort_keys=False)

    def _group(self, record: LoopRecord, group_status: NodeGroupStatus, now: str) -> dict[str, Any]:
        group = group_status.group
        sizes = {"cloudProviderTarget": group.target, "minSize": group.min_size, "maxSize": group.max_size}
        health = self._part(
            f"{group_status.name} health", _HEALTH[group_status.known], now, nodeCounts=_node_counts([group_status]), **sizes
        )
        backoff = group_status.backoff
        if backoff is not None and backoff.holds(record.instant):
            info = {"errorCode": backoff.code, "errorMessage": backoff.message}
            scale_up = self._part(f"{group_status.name} scaleUp", "Backoff", now, backoffInfo=info)
        else:
            scale_up = self._part(f"{group_status.name} scaleUp", "InProgress" if group_status.upcoming else "NoActivity", now)
        scale_down = self._scale_down(record, group_status, now)
        return {"name": group_status.name, "health": health, "scaleUp": scale_up, "scaleDown": scale_down}

    def _scale_down(self, record: LoopRecord, group_status: NodeGroupStatus | None, now: str) -> dict[str, Any]:
        """The scale-down part of one group, or of the cluster (None): the number of unneeded nodes."""
        unneeded = {} if record.scale_down is None else record.scale_down.unneeded
        count = sum(unneeded.values()) if group_status is None else unneeded.get(group_status.name, 0)
        what = "scaleDown" if group_status is None else f"{group_status.name} scaleDown"
        return self._part(what, "CandidatesPresent" if count else "NoCandidates", now, candidates=count)

    def _part(self, what: str, status: str, now: str, **more: Any) -> dict[str, Any]:
        before = self._since.get(what)
        if before is None or before[0] != status:
            self._since[what] = (status, now)
        return {"status": status, **more, "lastProbeTime": now, "lastTransitionTime": self._since[what][1]}


def _node_counts(group_status: Iterable[NodeGroupStatus]) -> dict[str, Any]:
    counts = node_counts(group_status)
    registered = {
        "total": counts["ready"] + counts["unready"] + counts["notStarted"],
        "ready": counts["ready"],
        "notStarted": counts["notStarted"],
        "unready": {"total": counts["unready"], "resourceUnready": 0},
    }
    return {"registered": registered, **{key: counts[key] for key in ("longUnregistered", "unregistered")}}


def _ours(record: LoopRecord) -> dict[str, Any]:
    """The part of the status that Cluster Autoscaler does not have."""
    document = record_document(record)
    short = {key: document[key] for key in ("seconds", "pending", "inCreation", "queued", "scaleDown", "problems", "notes")}
    slack = document["slack"]
    short |= _cost(record) | _consolidation(record)
    if slack is not None:
        short["slack"] = {key: slack[key] for key in ("sources", "startTimeSLOs", "nodesForSlackAlone")}
    return short


def stamp(at: UnixTime) -> str:
    """The time in Cluster Autoscaler's format: 2026-08-21 10:00:00.123 +0000 UTC."""
    moment = datetime.fromtimestamp(at, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} +0000 UTC"


def _seconds(value: float) -> float:
    return round(value, 3)


def log_loop(record: LoopRecord) -> None:
    """Logs the loop as one line."""
    pending = record.pending
    asked = {call.group: f"{call.seen}->{call.to}" if problem is None else str(problem) for call, problem in record.asked}
    _log.info(
        "autoscaler loop",
        generation=record.generation,
        seconds=round(record.spent.whole, 3),
        planning=round(record.spent.plan, 3),
        pending=pending.total,
        schedulable=pending.schedulable,
        unhelpable=pending.unhelpable,
        not_looked_at=pending.not_looked_at,
        planned=dict(record.planned),
        asked=asked,
        in_creation=record.in_creation,
        queued=sum(queued.nodes for queued in record.queued),
        deleted=dict(record.deleted),
        problems=list(record.problems),
        withheld=sum(1 for _ in withheld_by(record)),
        **({} if record.scale_down is None else _scale_down_fields(record.scale_down)),
        **({} if record.slack is None else _slack_fields(record.slack)),
    )


def _scale_down_fields(scale_down: ScaleDownRecord) -> dict[str, object]:
    return {
        "scale_down": scale_down.status,
        "unneeded": dict(scale_down.unneeded),
        "begun": list(scale_down.begun),
        "given_up": list(scale_down.given_up),
        "ended": {end.order.node: str(end.unremovable_reason or end.outcome) for end in scale_down.ended},
        "under_way": scale_down.under_way[0],
        "homeless": scale_down.homeless,
    }


def _slack_fields(slack: SlackPlan) -> dict[str, object]:
    placeholders = slack.state.placeholders
    return {
        "slack": len(placeholders),
        "slack_placed": sum(each.place is not None for each in placeholders),
        "slack_coming": len(slack.coming),
        "slack_pushed": len(slack.pushed),
        "nodes_for_slack": slack.alone,
    }
