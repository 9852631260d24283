"""Reports a slack plan by source: for the log, `/dumpstate`, metrics, and `slackwater simulate`."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from slackwater.controllers.slack.headroom_demand import READY, source_of
from slackwater.controllers.slack.rate_sizing import MOST_PIECES
from slackwater.controllers.slack.scale_up import SlackPlan
from slackwater.controllers.slack.slo_sizing import SLORoom
from slackwater.controllers.slack.start_time_slo import Forecaster
from slackwater.model.ids import NodeName
from slackwater.model.nodegroups import GroupName
from slackwater.model.resources import NOTHING, Amounts, sum_of


@dataclass(slots=True, kw_only=True)
class SlackShare:
    """The number of placeholders of one source: `placed` are on existing or upcoming nodes, `coming` on nodes that the plan
    adds, `homeless` nowhere.

    `amount` is the sum of the requests of all of them, `placed_amount` that of the placed ones.
    """

    placeholders: int = 0
    placed: int = 0
    coming: int = 0
    amount: Amounts = NOTHING
    placed_amount: Amounts = NOTHING

    @property
    def homeless(self) -> int:
        return self.placeholders - self.placed - self.coming


def slack_shares(plan: SlackPlan) -> dict[str, SlackShare]:
    """The placeholders by source, in the order of each source's first placeholder."""
    found: dict[str, SlackShare] = {}
    for each in plan.state.placeholders:
        share, asks = found.setdefault(each.source, SlackShare()), each.pod.kind.requests
        share.placeholders += 1
        share.coming += each.number in plan.coming
        share.amount = share.amount.plus(asks)
        if each.place is not None:
            share.placed += 1
            share.placed_amount = share.placed_amount.plus(asks)
    return found


def slack_problems(plan: SlackPlan) -> list[str]:
    """The problems for the status: annotations that cannot be read, and rules that request more placeholders than allowed."""
    text = f"more than {MOST_PIECES} placeholders: less is kept than was asked for"
    short = [f"slack {name}: {text}" for name, cut in plan.cuts.items() if cut.short]
    return [*plan.headroom.problems, *(cut.text for cut in plan.cuts_of_headroom), *short]


def unmet(plan: SlackPlan) -> tuple[str, ...]:
    """What asks for room for pods to come and gets less, with why: these problems, and those in the status of a buffer."""
    asked = ((each.buffer, said) for each in plan.headroom.buffers for said in each.status.conditions or ())
    unready = (f"{source_of(buffer)}: {said.message}" for buffer, said in asked if (said.type, said.status) == (READY, "False"))
    return *unready, *slack_problems(plan)


def slack_document(plan: SlackPlan) -> dict[str, Any]:
    """The slack plan as JSON values: sources with their requests, placeholders with nodes, and nodes kept for slack alone."""
    shares = slack_shares(plan)
    return {
        "sources": [_source(name, share, plan) for name, share in shares.items()],
        "asked": {name: cut.asked._asdict() for name, cut in plan.cuts.items()},
        "startTimeSLOs": [_slo(name, room) for name, room in plan.headroom.slos.items()],
        "nodesForSlackAlone": plan.alone,
        "nodesForSlackAloneByGroup": dict(plan.alone_in),
        "limited": [cut.text for cut in plan.cuts_of_headroom],
        "pushedOff": [f"slack/{number}" for number in plan.pushed],
        "placeholders": [
            {
                "name": str(each.pod.key),
                "source": each.source,
                "node": each.place,
                "group": plan.coming.get(each.number),
                **each.pod.kind.requests._asdict(),
            }
            for each in plan.state.placeholders
        ],
    }


def slack_in_group(plan: SlackPlan, group: GroupName, nodes: Collection[NodeName]) -> dict[str, Any]:
    """The slack of one group as JSON values: placeholders on its nodes and on nodes to be added, their sources, and the nodes
    kept for slack alone. `nodes` are the group's. CPU in milliCPU, memory in bytes."""
    here = [each for each in plan.state.placeholders if each.place in nodes]
    coming = [each for each in plan.state.placeholders if plan.coming.get(each.number) == group]
    sources = Counter(each.source for each in (*here, *coming))
    return {
        "placeholders": len(here),
        "coming": len(coming),
        **sum_of(each.pod.kind.requests for each in here)._asdict(),
        "sources": dict(sorted(sources.items())),
        "nodesForSlackAlone": plan.alone_in.get(group, 0),
    }


def _slo(name: str, room: SLORoom) -> dict[str, Any]:
    """One start-time SLO as JSON values. Shares are 0..1. `keptShare` is the share of the last day's pods that started within
    the SLO; None if no pod arrived."""
    of, kept, forecaster = room.observed.of, room.observed.kept, room.forecast.forecaster
    return {
        "name": name,
        "share": of.share_ppm / 1_000_000,
        "withinSeconds": of.within,
        "leadSeconds": room.forecast.slo.lead_seconds,
        "room": room.forecast.room,
        "way": _period_text(forecaster),
        "exceededPercent": round(100 * room.forecast.exceeded, 1),
        "observedMinutes": len(room.observed.arrivals),
        "keptShare": kept.share,
        "inTime": kept.in_time,
        "late": kept.late,
        "waiting": kept.waiting,
        "problem": room.problem,
    }


def _period_text(forecaster: Forecaster) -> str:
    cycle = {60: "hour", 1440: "day"}.get(forecaster.period)
    if cycle is None:
        return "the same at all times"
    return f"by the minute of the {cycle}" if forecaster.most else f"by the time of the {cycle}"


def _source(name: str, share: SlackShare, plan: SlackPlan) -> Mapping[str, Any]:
    held = plan.state.held.get(name)
    return {
        "name": name,
        **{count: getattr(share, count) for count in ("placeholders", "placed", "coming", "homeless")},
        "amount": share.amount._asdict(),
        "tooManySince": None if held is None else held.too_many_since,
    }
