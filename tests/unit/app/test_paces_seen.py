"""How long pods and nodes really took, and what is assumed before anything was seen."""

import pytest

from slackwater.app.counterfactual.boot_times import BootTimes
from slackwater.app.counterfactual.paces_seen import PacesSeen
from slackwater.app.rounds.virtual_drains import DEFAULT_PACE
from slackwater.model.ids import NodeName, PodUid, UnixTime
from slackwater.model.nodegroups import GroupName
from tests.support.builders import a_pod

NODE, GROUP = NodeName("n"), GroupName("g")


def at(seconds: float) -> UnixTime:
    return UnixTime(1_800_000_000.0 + seconds)


def test_before_anything_was_seen_the_usual_is_assumed() -> None:
    assert PacesSeen().pace == DEFAULT_PACE


def test_a_pod_starts_from_its_node_to_its_readiness() -> None:
    seen = PacesSeen()
    for number, seconds in enumerate((3.0, 4.0, 40.0)):
        pod = a_pod(f"p{number}", on=NODE)
        seen.bound(pod.uid, at(0))
        seen.see(pod, at(seconds))
        seen.see(pod, at(1000))  # ready again: it had started before
    assert seen.pace.pod_start == 4.0


def test_a_node_goes_from_when_its_last_pod_is_gone() -> None:
    seen = PacesSeen()
    seen.removing(NODE, at(0))
    for name, seconds in (("a", 10), ("b", 20)):
        seen.leaves(PodUid(name), NODE)
        seen.gone(PodUid(name), at(seconds))
    seen.went(NODE, at(27))
    assert seen.pace.node_removal == 7.0


def test_an_empty_node_goes_from_when_it_is_known_and_one_that_stays_says_nothing() -> None:
    seen = PacesSeen()
    seen.removing(NODE, at(0))
    seen.stays(NODE)
    seen.went(NODE, at(100))
    assert seen.pace == DEFAULT_PACE
    seen.removing(NODE, at(200))
    seen.went(NODE, at(205))
    assert seen.pace.node_removal == 5.0


@pytest.mark.parametrize(("buyer", "seconds"), [("", 6.0), ("Karpenter", 5.0)])
def test_a_node_boots_from_when_the_pods_came_that_waited_for_it(buyer: str, seconds: float) -> None:
    """The middle one of them; Karpenter lets a second pass before it decides."""
    boots = BootTimes()
    boots.ready(NODE, GROUP, at(10), buyer)
    for made in (0, 4, 9, 11):  # the last one came when the node was there
        boots.bound(NODE, at(made))
    boots.pass_time(at(20))
    assert boots.of_groups == {GROUP: seconds}
    assert boots.of_all == seconds
