"""A machine that leaves may still grow to what it was permitted before: its target keeps that room until its agent is heard."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.ids import Instant, NodeName, PodKey
from slackwater.model.objects import Pod
from slackwater.model.reasons import Reason
from slackwater.model.vertical import MigrationRef
from tests.scenarios.test_the_life_of_a_migration import TWO, a_cluster, crowded
from tests.support.builders import a_vertical, amounts
from tests.support.growing import Growing

ONE = amounts("1", "2Gi")
KEY = PodKey("default", "schedplugin-m0-pod")


def leaving() -> tuple[Growing, Pod]:
    """m0 uses 1 CPU of the 2 that it was permitted, and leaves `full` for `empty`."""
    cluster, pods = crowded()
    assert cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    cluster.write()
    source = cluster.change(pods[0], using=ONE, migration=MigrationRef(name=KEY.name, role="source"))
    cluster.migration(KEY, phase="Pending", source_pod=source.key.name, target_pod="target")
    return cluster, source


def the_target(cluster: Growing, source: Pod) -> Pod:
    vertical = replace(source.vertical or a_vertical(), migration=MigrationRef(name=KEY.name, role="target"))
    return cluster.has_pod("target", on=None, vertical=vertical)


def lands(cluster: Growing, target: Pod) -> Pod:
    rows = cluster.state_machine.state.nodes.rows_of(["full", "empty"])
    codes = cluster.state_machine.filter(target, rows, Instant(cluster.now))
    assert [Reason(code) for code in codes.tolist()] == [Reason.TARGET_NODE_ELSEWHERE, Reason.OK]
    assert cluster.cpu("empty")["held"] == 2000
    assert cluster.state_machine.bind(target.uid, target.key, NodeName("empty"), Instant(cluster.now)).effect is not None
    return cluster.store(structs.replace(target, node=NodeName("empty")))


def test_the_target_keeps_room_for_what_its_source_was_permitted_and_has_not_used() -> None:
    cluster, source = leaving()
    target = lands(cluster, the_target(cluster, source))
    assert (cluster.cpu("empty")["R"], cluster.cpu("empty")["B"]) == (2000, 1000)
    target = cluster.change(target, using=TWO)  # its agent grew to its permit before it was stopped
    assert (cluster.cpu("empty")["R"], cluster.cpu("empty")["B"]) == (2000, 0)


@pytest.mark.parametrize("pods_first", [False, True], ids=["migrations-first", "pods-first"])
def test_a_restart_keeps_that_room_too(*, pods_first: bool) -> None:
    """Nothing was on record yet: it may be anything up to Max, until the machine's agent says what it has."""
    cluster, source = leaving()
    lands(cluster, the_target(cluster, source))
    cluster.restarts(pods_first=pods_first)
    assert (cluster.cpu("empty")["R"], cluster.cpu("empty")["B"]) == (8000, 7000)
    assert cluster.ask(source, TWO, last=TWO).permit == TWO
    assert (cluster.cpu("empty")["R"], cluster.cpu("empty")["B"]) == (2000, 1000)


def test_the_agent_that_arrives_ends_it() -> None:
    cluster, source = leaving()
    target = lands(cluster, the_target(cluster, source))
    cluster.migration(KEY, phase="Succeeded")
    target = cluster.change(target, migration=None)
    cluster.deletes(source)
    assert (cluster.cpu("empty")["R"], cluster.cpu("empty")["B"]) == (2000, 1000)
    assert cluster.ask(target, ONE).permit == ONE
    assert (cluster.cpu("empty")["R"], cluster.cpu("empty")["B"]) == (1000, 0)


def test_an_agent_that_arrives_with_more_than_its_pod_shows_yet_keeps_that() -> None:
    cluster, source = leaving()
    target = lands(cluster, the_target(cluster, source))
    cluster.migration(KEY, phase="Succeeded")
    target = cluster.change(target, migration=None)
    assert cluster.ask(target, TWO).permit == TWO


def test_a_machine_that_asks_for_something_else_during_its_bind_is_counted_again() -> None:
    """A restart counts what it gave back as well: else that room is given away too early."""
    cluster = a_cluster()
    pod = cluster.has_machine("vm", on="", vertical=a_vertical(using=ONE, maximum=amounts("8", "16Gi"), auto_migrate=True))
    assert not cluster.state_machine.filter(
        pod, cluster.state_machine.state.nodes.rows_of(["empty"]), Instant(cluster.now)
    ).any()
    assert cluster.state_machine.bind(pod.uid, pod.key, NodeName("empty"), Instant(cluster.now)).effect is not None
    records = cluster.state_machine.permit_limits.persisted_permits
    assert records.marked() == {}
    cluster.change(pod, using=TWO)
    assert records.marked() == {pod.uid: ONE}
