"""What people learn of a plan: which pods, in which words, and how often."""

from slackwater.cluster.nodegroups.status import Grow
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.controllers.scaleup.outcome import GroupRefusal, ScaleUp, Unhelpable
from slackwater.controllers.scaleup.plan_events import Announcer, not_triggered, triggered, why_not
from slackwater.model.ids import Instant
from slackwater.model.nodegroups import GroupName
from slackwater.model.reasons import Reason
from tests.support.builders import a_pod


def test_pods_of_the_requested_nodes_get_an_event_with_the_group_and_its_sizes() -> None:
    nodes = tuple((a_pod(f"a{number}"), a_pod(f"b{number}")) for number in range(3))
    scale_up = ScaleUp(group=GroupName("g"), nodes=nodes)
    call = Grow(group=GroupName("g"), provider="cloud", seen=4, to=6)
    reported = list(triggered([(scale_up, call, 50)]))
    assert [event.key.name for event in reported] == ["a0", "b0", "a1", "b1"]
    assert {event.note for event in reported} == {"pod triggered scale-up: [{g 4->6 (max: 50)}]"}


def test_reasons_are_counted_and_their_groups_named() -> None:
    full = SkipReason(kind="limit", text="max node group size reached")
    short = GroupRefusal(reason=Reason.RESOURCES_SHORT, words=("Insufficient cpu",))
    groups: dict[GroupName, GroupRefusal | SkipReason] = {GroupName("a"): short, GroupName("b"): full, GroupName("c"): short}
    assert why_not(groups) == ("pod didn't trigger scale-up: 2 Insufficient cpu (a, c), 1 max node group size reached (b)")
    assert why_not({}) == "pod didn't trigger scale-up: there are no node groups"


def test_many_groups_are_not_all_named() -> None:
    full = SkipReason(kind="limit", text="full")
    text = why_not({GroupName(f"g{number:02}"): full for number in range(25)})
    assert text.startswith("pod didn't trigger scale-up: 25 full (g00, ")
    assert text.endswith("g09 and 15 more)")


def unhelpable(count: int) -> Unhelpable:
    return Unhelpable(pods=tuple(a_pod(f"p{number}") for number in range(count)), groups={})


def test_the_same_is_said_again_only_after_a_while() -> None:
    announcer, found = Announcer(), [unhelpable(2)]
    assert len(announcer.select(not_triggered(found), Instant(0.0))[0]) == 2
    assert announcer.select(not_triggered(found), Instant(599.0)) == ([], 0)
    assert len(announcer.select(not_triggered(found), Instant(600.0))[0]) == 2


def test_one_loop_says_so_much_and_the_next_one_goes_on() -> None:
    announcer, found = Announcer(), [unhelpable(450)]
    said = [announcer.select(not_triggered(found), Instant(float(loop))) for loop in range(4)]
    assert [(len(events), left) for events, left in said] == [(200, 250), (200, 50), (50, 0), (0, 0)]
