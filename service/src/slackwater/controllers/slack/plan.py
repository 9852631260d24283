"""Plans slack: rules, marked workloads and the previous state in; placeholders with their places out.

    with snapshot.fork():                        # real pods are on their nodes, or where scale-up saw them fit
        found = plan_slack(snapshot, state, demand, now=now)
        ...                                     # placeholders without a place are demand for new nodes, after all real pods

1. Finds how much room each rule wants, in which pieces (`sizing`, `steady`), and how many placeholders are like which pod.
2. Assigns placeholders, as many as possible of the previous loop's (`assign`).
3. Places them, each where it was if it still fits there (`settle`).

What is placed stays in the snapshot.
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

#: The source of a rule's placeholders for the largest pod; the source of its pieces is the rule's name alone.
_LARGEST = "{} (largest pod)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackDemand:
    """What is asked for now: the policy, the input of its rules by name, and placeholders like pods."""

    policy: SlackPolicy
    grounds: Mapping[str, SlackInput] = field(default_factory=dict)
    pod_headroom: tuple[PodHeadroom, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackFound:
    """The outcome of a slack plan. `cuts` are the sizes of each rule, by name. `state` is for the next loop."""

    state: SlackState
    settled: Settled
    cuts: Mapping[str, Cut]


def plan_slack(snapshot: ClusterSnapshot, before: SlackState, demand: SlackDemand, *, now: UnixTime) -> SlackFound:
    """Plans slack: which placeholders there are, and where each is placed.

    Raises `UnreadLabel` if the snapshot was built without the equivalence groups of `pod_headroom`."""
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
        wanted[pod_headroom.source] = [*wanted.get(pod_headroom.source, ()), *shapes]  # a source may have several entries
    return wanted, cuts, held


def _shapes(rule: SlackRule, slack_input: SlackInput, sizes: Sequence[Amounts]) -> list[Shape]:
    """A shape for each size; placeholders of one size share their shape, and so their equivalence group."""
    shapes = {
        size: Shape(
            Kind(namespace=NAMESPACE, requests=size, node_selector=rule.node_labels, tolerations=slack_input.tolerations)
        )
        for size in dict.fromkeys(sizes)
    }
    return [shapes[size] for size in sizes]
