"""What the status says of consolidation, as JSON values."""

from typing import Any

from slackwater.controllers.consolidation.loop import ConsolidationRecord
from slackwater.controllers.consolidation.running_moves import RunningMove
from slackwater_protocol.money import decimal_text


def consolidation_document(record: ConsolidationRecord) -> dict[str, Any]:
    """The moves that run and those that ended in the last loop; money is for an hour."""
    plan = record.plan
    return {
        "began": record.began,
        "running": [_move(each) for each in record.running],
        "ended": [_move(each) for each in record.ended],
        "plan": None
        if plan is None
        else {
            "moves": len(plan.moves),
            "cost": decimal_text(plan.cost),
            "saved": decimal_text(plan.saved),
            "evictions": plan.evictions,
            "steps": plan.steps,
            "cutBy": plan.cut_by,
        },
    }


def _move(running: RunningMove) -> dict[str, Any]:
    move, end = running.move, running.end
    phase = "growing" if running.ready_at is None else "removing"
    return {
        "reason": move.reason,
        "nodes": [each.name for each in move.leaving],
        "newNodes": {str(group): count for group, count in running.new_nodes.items()},
        "saved": decimal_text(move.saved),
        "phase": phase if end is None else end.outcome,
        **({} if end is None or not end.detail else {"detail": end.detail}),
    }
