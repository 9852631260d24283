"""Why no group helps: found once for all pods that share the reasons, bounded, and never before growth is planned."""

from dataclasses import replace

from msgspec import structs

from slackwater.app.offline.cluster import read_cluster
from slackwater.app.offline.scaleup import scale_up_answer
from slackwater.app.settings import Settings
from slackwater.controllers.scaleup.groups import SkipReason
from slackwater.controllers.scaleup.plan import plan_scale_up
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import NodeSelectorTerm, PodConstraints, SpreadConstraint
from slackwater.model.selectors import Requirement
from slackwater.snapshot.cluster_snapshot import ClusterSnapshot
from tests.support import installed
from tests.support.answers import json_of
from tests.support.builders import a_pod
from tests.support.devices import node_body, pod_body
from tests.support.scalingup import a_group, a_template, demand_of, grown, planned


def too_large(count: int) -> list[Pod]:
    return [a_pod(f"p{number}", cpu=f"{100_000 + number}m") for number in range(count)]


def test_pods_with_the_same_reasons_are_judged_once() -> None:
    judged = [_rows_judged(count) for count in (100, 1000)]
    assert judged[1] < 1.1 * judged[0]


def _rows_judged(count: int) -> int:
    pods = [*too_large(count), a_pod("fits", cpu="3")]
    snapshot = ClusterSnapshot.build([], pods)
    groups = [a_group(f"g{number}") for number in range(50)]
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand_of(pods), groups, policy=installed.SCALE_UP, clock=lambda: 0.0)
    assert sum(grown(plan).values()) == 1
    (unhelpable,) = plan.unhelpable
    assert (len(unhelpable.pods), len(unhelpable.groups)) == (count, 50)
    return snapshot.rows_judged


def test_the_number_of_different_reasons_is_bounded_and_said() -> None:
    groups = [a_group(f"g{number}", a_template(f"t{number}", labels={"of": f"v{number}"})) for number in range(1000)]
    pods = [_for_groups(number) for number in range(130)]
    plan = planned(pods, groups)
    judged = [not isinstance(each.groups[groups[-1].name], SkipReason) for each in plan.unhelpable for _ in each.pods]
    assert (judged.count(True), judged.count(False)) == (100, 30)
    texts = {why.text for why in plan.unhelpable[-1].groups.values() if isinstance(why, SkipReason)}
    assert texts == {"not judged: too many different pods fit nowhere; explain judges each alone"}


def _for_groups(number: int) -> Pod:
    """Too large for the first groups, and not for the nodes of the others."""
    few = tuple(f"v{at}" for at in range(number + 1))
    pod = a_pod(f"p{number:03}", cpu="100")
    return structs.replace(pod, kind=replace(pod.kind, node_affinity=(NodeSelectorTerm((Requirement("of", "In", few),), ()),)))


def test_an_answer_that_would_be_too_long_names_the_pod_with_the_same_reasons() -> None:
    nodes = [node_body(f"n{number}", group=f"g{number}") for number in range(200)]
    pods = [pod_body(f"p{number:04}", requests={"cpu": f"{1000 + number}"}) for number in range(1100)]
    cluster = read_cluster({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]})
    entries = json_of(scale_up_answer(cluster, Settings()))["unhelpable"]
    whole = [entry for entry in entries if "sameAs" not in entry]
    assert (len(entries), len(whole), {len(entry["groups"]) for entry in whole}) == (1100, 1000, {200})
    assert {entry["sameAs"] for entry in entries if "sameAs" in entry} == {"default/p0000"}


def test_groups_that_are_alike_for_every_pod_are_estimated_once() -> None:
    """Pods that spread over zones, whose verdicts move with every pod: the work may not grow with such groups."""
    assert _rows_judged_of_spread(60) < 4 * _rows_judged_of_spread(6)


def _rows_judged_of_spread(count: int) -> int:
    pods = []
    for app in range(10):
        own = (Requirement("app", "In", (f"a{app}",)),)
        asks = PodConstraints(spread=(SpreadConstraint(hard=True, max_skew=1, topology_key="zone", selector=own),))
        for number in range(4):
            pod = structs.replace(a_pod(f"p{app}-{number}"), labels=(("app", f"a{app}"),))
            pods.append(structs.replace(pod, kind=replace(pod.kind, pod_constraints=asks)))
    labels = [{"zone": f"z{number % 3}", "of": f"v{number}"} for number in range(count)]
    groups = [a_group(f"g{number}", a_template(f"t{number}", labels=labels[number])) for number in range(count)]
    snapshot = ClusterSnapshot.build([], pods)
    with snapshot.fork():
        plan = plan_scale_up(snapshot, demand_of(pods), groups, policy=installed.SCALE_UP, clock=lambda: 0.0)
    assert not plan.unhelpable
    return snapshot.rows_judged
