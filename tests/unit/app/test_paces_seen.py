"""How long pods and nodes really took, and what is assumed before anything was seen."""

from slackwater.app.counterfactual.paces_seen import PacesSeen
from slackwater.app.rounds.virtual_drains import DEFAULT_PACE
from slackwater.model.ids import NodeName, PodUid, UnixTime
from tests.support.builders import a_pod

NODE = NodeName("n")


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
