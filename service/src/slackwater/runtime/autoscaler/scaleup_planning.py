"""The plan of growth on a mirror: the fleet's census and the cluster's nodes, made into the groups of `decide.scaleup`.

What is remembered here between loops: where pods were seen to fit (hints), and what a node of each group looked like when
there last was one. Deliberately absent: the rules of planning.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from slackwater.cluster.nodegroups.status import Census
from slackwater.controllers.scaleup.attaching import attaching
from slackwater.controllers.scaleup.groups import Bar, BarKind, GrowableGroup
from slackwater.controllers.scaleup.outcome import PassedOver
from slackwater.controllers.scaleup.pending import Demand, which_count
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.controllers.scaleup.policy import ScaleUpPolicy
from slackwater.controllers.scaleup.template import template_of
from slackwater.controllers.slack.mirrored import specimens
from slackwater.controllers.slack.rule import SlackPolicy
from slackwater.controllers.slack.slo_sizing import NO_PROMISES, promised
from slackwater.controllers.slack.state import SlackState
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Node, Pod
from slackwater.runtime.autoscaler.headroom import Asking, asking_now
from slackwater.runtime.autoscaler.lead_times import leads_of
from slackwater.runtime.autoscaler.planning import GrowthRules, Inquiry
from slackwater.runtime.autoscaler.slack_planning import Planned, SlackInquiry, plan_with_slack
from slackwater.runtime.autoscaler.tenancy import PodsTenancy
from slackwater.snapshot.replica import Mirror


class GrowthPlanner:
    """Implements `run.loops.planning.ScaleUpPlanner`."""

    def __init__(self) -> None:
        self._slack_state = SlackState()
        self._promised = NO_PROMISES
        self._hints: Mapping[PodUid, NodeName] = {}
        self._templates: dict[GroupName, Node] = {}

    def __call__(self, mirror: Mirror, inquiry: Inquiry, stop: Callable[[], bool]) -> Planned:
        policy, slack = inquiry.rules.policy, inquiry.rules.slack
        demand = _demand(mirror, inquiry.now, inquiry.rules)
        groups = [self._group(mirror, census, inquiry, policy) for census in inquiry.census.values()]
        standing = [pod for group in groups if group.template is not None for pod in group.template.standing]
        asking = Asking() if slack is None else self._asking(mirror, inquiry, slack, groups)
        mirror.learn([*standing, *specimens(asking.mirrored)])
        picture = mirror.picture
        # kube-scheduler preempts expendable pods: they hold no room against a pod that is none.
        with mirror.without_below(policy.pending.priority_cutoff) as counted:
            for census in inquiry.census.values():
                _leave_out(mirror, census)
            if slack is None:
                plan = plan_scale_up(picture, demand, groups, policy=policy, clock=_until(stop), hints=self._hints)
                found = Planned(plan=plan)
            else:
                found = plan_with_slack(
                    picture,
                    demand,
                    groups,
                    policy=policy,
                    clock=_until(stop),
                    slack=SlackInquiry(policy=slack, now=inquiry.now, asking=asking, state=self._slack_state),
                    tenancy=PodsTenancy(counted),
                    hints=self._hints,
                )
        self._slack_state = SlackState() if found.slack is None else found.slack.state
        self._hints = {pod.uid: name for pod, name in found.plan.schedulable}
        return found

    def _asking(self, mirror: Mirror, inquiry: Inquiry, slack: SlackPolicy, groups: Sequence[GrowableGroup]) -> Asking:
        starts = {name: census.starts for name, census in inquiry.census.items()}
        leads = leads_of(inquiry.observed, groups, starts, slack)
        self._promised = promised(inquiry.observed, leads, self._promised, unneeded_seconds=slack.unneeded_seconds)
        return asking_now(mirror, inquiry.askers).with_promises(self._promised)

    def _group(self, mirror: Mirror, census: Census, inquiry: Inquiry, policy: ScaleUpPolicy) -> GrowableGroup:
        known = self._templates.get(census.name)
        found = growable_group(
            mirror,
            census,
            inquiry.barred.get(census.name),
            daemons=inquiry.daemons,
            policy=policy,
            known=known,
        )
        if found.template is not None and any(name in mirror.nodes for name in census.ready):
            self._templates[census.name] = found.template.node
        return found


def _demand(mirror: Mirror, now: UnixTime, rules: GrowthRules) -> Demand:
    """Pods that our own filter would refuse everywhere are helped by no node."""
    strict_for = rules.strict_for
    hopeless = [
        PassedOver(pod=pod, why=f"refused on every node: no request for {pod.kind.missing_request}")
        for pod in mirror.pending.values()
        if pod.kind.missing_request is not None and pod.kind.scheduler_name == strict_for
    ]
    passed = {found.pod.uid for found in hopeless}
    pods = (pod for pod in mirror.pending.values() if pod.uid not in passed)
    pending = rules.policy.pending
    preemptible = mirror.lowest_priority(pending.priority_cutoff)
    demand = which_count(pods, rules=pending, now=now, reserved=mirror.promised, preemptible=preemptible)
    return replace(demand, passed_over=(*hopeless, *demand.passed_over)) if hopeless else demand


def growable_group(
    mirror: Mirror,
    census: Census,
    why_not: str | None,
    *,
    daemons: Sequence[Pod],
    policy: ScaleUpPolicy,
    known: Node | None = None,
) -> GrowableGroup:
    """A group on a mirror. `why_not` is the census' word against growing; `known` what a node of it looked like when there was
    one, as far as its provider does not say."""
    group = census.group
    if group.template is None and known is not None:
        group = replace(group, template=known)
    template = template_of(
        group,
        [mirror.nodes[name] for name in census.ready if name in mirror.nodes],
        pods_on=lambda name: (tenant.pod for tenant in mirror.on(mirror.row_of(name))),
        daemons=daemons,
        system=policy.system,
        taints=policy.taints,
    )
    csi_nodes = mirror.picture.volumes.objects.csi_nodes or {}
    said = (None if group.template is None else group.template.csi) or (None if known is None else known.csi)
    template = attaching(template, [csi_nodes[name] for name in census.ready if name in csi_nodes], said=said)
    return GrowableGroup(group=census.group, template=template, upcoming=census.upcoming, bar=bar_of(census, why_not))


def _leave_out(mirror: Mirror, census: Census) -> None:
    """Nodes that have registered and not started are counted as upcoming ones: not both."""
    for name in census.starting:
        if name in mirror.nodes:
            mirror.picture.close(mirror.row_of(name))


def bar_of(census: Census, why: str | None) -> Bar | None:
    """What `why`, the census' own word, is called in a plan."""
    if why is None:
        return None
    kind: BarKind = "not-ready"
    if census.off:
        kind = "switched-off"
    elif census.backoff is not None and why.startswith("backing off"):
        kind = "backoff"
    elif census.group.target >= census.group.max_size:
        kind = "limit"
    return Bar(kind=kind, text=why)


def _until(stop: Callable[[], bool]) -> Callable[[], float]:
    """The planner asks the clock wherever it may end: whoever wants it to end makes all of its time be over."""
    return lambda: float("inf") if stop() else time.monotonic()
