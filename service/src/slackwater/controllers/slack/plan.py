"""Slack as one function: rules, marked workloads and what was before in; placeholders with their places out.

    with snapshot.fork():                        # real pods stand where they are, or where scale-up saw them to fit
        found = plan_slack(snapshot, state, asked, policy, now=now)
        ...                                     # who found no place is demand for new nodes, after all real pods

1. How much room each rule wants, and in which pieces (`sizing`, `steady`); how many placeholders are like which pod.
2. Which placeholders that are: as many as possible are those of the loop before (`assign`).
3. Where they stand: each where it stood, if it fits there still (`settle`).

Whatever is placed stands in the snapshot afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.controllers.slack.assign import Shape, assigned
from slackwater.controllers.slack.planning_input import SlackInput
from slackwater.controllers.slack.pod_headroom import PodHeadroom, like
from slackwater.controllers.slack.rule import SlackPolicy, SlackRule
from slackwater.controllers.slack.settle import Settled, settled
from slackwater.controllers.slack.sizing import Cut, cut
from slackwater.controllers.slack.state import SlackState
from slackwater.controllers.slack.steady import Held, steadied
from slackwater.model.equivalence import Kind
from slackwater.model.ids import UnixTime
from slackwater.model.placeholders import NAMESPACE
from slackwater.model.resources import Amounts
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot

#: What a rule's placeholders that are as large as any pod belong to; its pieces belong to the rule's name alone.
_LARGEST = "{} (largest pod)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackDemand:
    """What is asked for now: the policy, what its rules find in the cluster, by name, and pods that are to be mirrored."""

    policy: SlackPolicy
    grounds: Mapping[str, SlackInput] = field(default_factory=dict)
    pod_headroom: tuple[PodHeadroom, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackFound:
    """`cuts` by the rule's name: what it came to. `state` is for the next loop."""

    state: SlackState
    settled: Settled
    cuts: Mapping[str, Cut]


def plan_slack(snapshot: ClusterSnapshot, before: SlackState, demand: SlackDemand, *, now: UnixTime) -> SlackFound:
    """Plans slack: which placeholders there are, and where each stands.

    Raises `UnreadLabel` where the snapshot was built without the mirrored kinds."""
    wanted, cuts, held = _wanted(before, demand, now)
    found = settled(snapshot, assigned(wanted, before.placeholders))
    return SlackFound(state=SlackState(placeholders=found.placeholders, held=held), settled=found, cuts=cuts)


def _wanted(
    before: SlackState, demand: SlackDemand, now: UnixTime
) -> tuple[dict[str, Sequence[Shape]], dict[str, Cut], dict[str, Held]]:
    wanted: dict[str, Sequence[Shape]] = {}
    cuts: dict[str, Cut] = {}
    held: dict[str, Held] = {}
    for rule in demand.policy.rules:
        if not rule.asks:
            continue
        slack_input = demand.grounds.get(rule.name, SlackInput())
        cuts[rule.name] = whole = cut(rule, slack_input)
        scale_down = demand.policy.shrink_seconds
        held[rule.name] = now_held = steadied(whole, before.held.get(rule.name), now=now, shrink_seconds=scale_down)
        wanted[_LARGEST.format(rule.name)] = _shapes(rule, slack_input, whole.largest)
        wanted[rule.name] = _shapes(rule, slack_input, now_held.pieces.sizes())
    for pod_headroom in demand.pod_headroom:
        shapes = [Shape(like(pod_headroom.kind), pod_headroom.labels)] * pod_headroom.count
        wanted[pod_headroom.source] = [*wanted.get(pod_headroom.source, ()), *shapes]  # a source may ask for several kinds
    return wanted, cuts, held


def _shapes(rule: SlackRule, slack_input: SlackInput, sizes: Sequence[Amounts]) -> list[Shape]:
    """One shape for each size, so that placeholders of a size share their kind."""
    shapes = {
        size: Shape(
            Kind(namespace=NAMESPACE, requests=size, node_selector=rule.node_labels, tolerations=slack_input.tolerations)
        )
        for size in dict.fromkeys(sizes)
    }
    return [shapes[size] for size in sizes]
