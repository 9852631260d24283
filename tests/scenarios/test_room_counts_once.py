"""A pod's room counts once, whoever binds: pods whose binds are slow, or never come, take no more of the cluster than they ask.

The sizes are those of the freezes that were seen when a hold counted on every node that a pod might be bound to.
"""

from dataclasses import replace
from functools import partial

import pytest
from msgspec import structs

from slackwater.model.effects import Activate, ReadPod
from slackwater.model.events import BindOutcome
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import ClaimMount, PodConstraints
from slackwater.model.reasons import Reason
from tests.scenarios.test_the_life_of_a_bind import Story
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.schedulermodel import Job, SchedulerModel

NODES = 100
#: By name: CPU set aside on each node, and how many nodes have a machine that grows.
STRICTER = {"nodes.system": ("100m", 0), "one machine": ("0", 1), "a machine on each node": ("0", NODES)}
each_way = pytest.mark.parametrize("binds", [True, False], ids=["we bind", "kube-scheduler binds"])
each_cause = pytest.mark.parametrize("stricter", STRICTER)


def a_cluster(*, binds: bool, stricter: str, nodes: int = NODES) -> SchedulerModel:
    system, machines = STRICTER[stricter]
    cluster = SchedulerModel(replace(installed.POLICY, bind=binds, nodes=replace(installed.NODES, system=amounts(system, "0"))))
    names = [f"n-{number:03}" for number in range(nodes)]
    grows = partial(structs.replace, vertical=a_vertical(using=amounts("250m", "1Gi")))
    cluster.begin(
        [a_node(name, cpu="16", memory="64Gi") for name in names],
        [grows(a_pod(f"vm-{name}", on=name, cpu="100m", memory="128Mi")) for name in names[:machines]],
    )
    return cluster


def with_a_volume(pod: Pod) -> Pod:
    return structs.replace(pod, kind=replace(pod.kind, pod_constraints=PodConstraints(claims=(ClaimMount("data"),))))


@each_way
@each_cause
def test_30_pods_whose_volumes_take_5_s_are_bound_after_5_s_and_no_pod_is_refused(binds: bool, stricter: str) -> None:
    cluster = a_cluster(binds=binds, stricter=stricter)
    pods = (with_a_volume(a_pod(f"p-{number}", cpu="4", memory="4Gi")) for number in range(30))
    jobs = [cluster.comes(Job(pod=pod, volume_seconds=5.0)) for pod in pods]
    cluster.run(10)
    assert [job.refused for job in jobs] == [0] * 30
    assert all(job.bound_at is not None and job.bound_at < 5.5 for job in jobs)
    assert (cluster.denied, cluster.over_total) == (0, set())


@each_way
@each_cause
@pytest.mark.parametrize("nodes", [100, 5])
def test_three_pods_that_fail_after_filter_and_are_retried_cause_no_refusal(binds: bool, stricter: str, nodes: int) -> None:
    cluster = a_cluster(binds=binds, stricter=stricter, nodes=nodes)
    for number in range(3):
        cluster.comes(Job(pod=a_pod(f"bad-{number}", cpu="5", memory="5Gi"), volume_seconds=0.5, fails=True))
    others = (a_pod(f"p-{number}", cpu="2" if nodes == NODES else "250m", memory="128Mi") for number in range(62))
    jobs = [cluster.comes(Job(pod=pod), after=20 + number) for number, pod in enumerate(others)]
    cluster.run(90)
    assert [job.refused for job in jobs] == [0] * len(jobs)
    assert all(job.bound_at is not None for job in jobs)
    assert (cluster.denied, cluster.over_total) == (0, set())


@each_way
@each_cause
def test_pods_that_fill_the_cluster_never_take_a_node_over_total(binds: bool, stricter: str) -> None:
    """A tenth of them more than fit, by our accounting; kube-scheduler's own has more room."""
    cluster = a_cluster(binds=binds, stricter=stricter, nodes=10)
    sizes = (("250m", "512Mi"), ("500m", "3Gi"), ("1", "1Gi"), ("1500m", "2Gi"))
    pods = (a_pod(f"p-{n}", cpu=sizes[n % 4][0], memory=sizes[n % 4][1]) for n in range(220))
    jobs = [cluster.comes(Job(pod=pod), after=0.005 * number) for number, pod in enumerate(pods)]
    cluster.run(30)
    bound = sum(job.bound_at is not None for job in jobs)
    assert bound > 150, "a machine that nobody has heard of yet may grow to 4 CPU"
    assert (cluster.denied, cluster.over_total) == (0, set())


def test_a_bind_leaves_the_room_that_is_held_for_other_pods() -> None:
    """Where kube-scheduler binds, but its file has the bind verb."""
    first, second = a_pod("first", cpu="3"), a_pod("second", cpu="2")
    story = Story(a_node("n"), first, second)
    assert story.filter(first, "n") == [Reason.OK]
    assert story.bind(second, "n") is Reason.HELD_FOR_OTHERS
    assert story.bind(first, "n") is Reason.OK


def test_a_pod_that_comes_back_and_goes_elsewhere_activates_pods_refused_for_its_room() -> None:
    first, second = a_pod("first", cpu="3"), a_pod("second", cpu="2")
    story = Story(a_node("n"), a_node("m"), first, second)
    story.filter(first, "n")
    assert story.filter(second, "n") == [Reason.HELD_FOR_OTHERS]
    story.filter(first, "m")
    assert Activate(second.uid, second.key, "hold-ended") in story.after(1)


@pytest.mark.parametrize("outcome", ["refused", "unreachable"])
def test_a_repeated_bind_that_fails_says_nothing_of_the_first_one_whose_answer_was_lost(outcome: BindOutcome) -> None:
    """The first one may still be on its way: its room is kept until the pod was read, late enough."""
    pod = a_pod("p", cpu="3")
    story = Story(a_node("n"), pod)
    story.bind(pod, "n")
    story.bind_ended(pod, "n", "unknown")
    assert story.bind(pod, "n") is Reason.OK
    effects = story.bind_ended(pod, "n", outcome)
    assert ReadPod(pod.uid, pod.key) in effects
    assert story.reserved("n") == 3000
    story.bind_ended(pod, "n", "bound")
    assert story.reserved("n") == 3000
