"""A crowded node, and machines that leave it: which, where to, how many, and that nothing of it stays behind."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from slackwater.model.effects import CreateMigration, DeleteMigration
from slackwater.model.events import BindEnded, MigrationGone, MigrationNotStarted, MigrationSeen, NodeGone, PodRead
from slackwater.model.ids import Instant, NodeName, PodKey
from slackwater.model.objects import Pod
from slackwater.model.permits import PermitRefusal
from slackwater.model.reasons import Reason
from slackwater.model.vertical import MigrationRef, VirtualMachineMigration
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.growing import Growing

TWO = amounts("2", "4Gi")


def a_cluster(*, binds: Any = False, **migration: Any) -> Growing:
    """`full` is above its watermark by 1 CPU: 9 + 1 of 10; `empty` has room."""
    cluster = Growing(replace(installed.POLICY, migration=replace(installed.MIGRATION, **migration), bind=binds))
    for name in ("full", "empty"):
        cluster.has_node(a_node(name, cpu="10", memory="40Gi"))
    return cluster


def movable(cluster: Growing, name: str, *, on: str = "full", always: bool = False, auto: bool = True) -> Pod:
    vertical = a_vertical(using=TWO, maximum=amounts("8", "16Gi"), auto_migrate=auto, always_migrate=always)
    return cluster.places(name, on=on, vertical=vertical)


def crowded(**migration: Any) -> tuple[Growing, list[Pod]]:
    """Five machines of 2 CPU on `full`, the load of m0 the lowest; each has asked once."""
    cluster = a_cluster(**migration)
    pods = [movable(cluster, f"m{i}") for i in range(5)]
    for i, pod in enumerate(pods):
        assert not cluster.reported(cluster.decide(pod, TWO, load=i + 1)).migrate
    return cluster, pods


def created(cluster: Growing) -> list[str]:
    return [effect.machine for effect in cluster.sent if isinstance(effect, CreateMigration)]


def by_hand(cluster: Growing, key: PodKey, source: Pod, machine: str) -> VirtualMachineMigration:
    """Running, and not of our making."""
    return VirtualMachineMigration(
        key=key,
        uid=f"uid-{key.name}",
        resource_version=cluster.version(),
        machine=machine,
        phase="Running",
        ours=False,
        deleting=False,
        source_pod=source.key.name,
        target_pod="",
        target_node=None,
    )


def finish(cluster: Growing, pod: Pod) -> Pod:
    """What the controller does, up to the end."""
    key = PodKey("default", f"schedplugin-{pod.key.name}")
    assert pod.vertical is not None
    target = PodKey("default", f"{pod.key.name}-target")
    cluster.change(pod, migration=MigrationRef(name=key.name, role="source"))
    cluster.migration(key, phase="Pending", source_pod=pod.key.name, target_pod=target.name)
    moved = replace(pod.vertical, migration=MigrationRef(name=key.name, role="target"))
    new = cluster.has_pod(target.name, on=None, vertical=moved)
    rows = cluster.state_machine.state.nodes.rows_of(["full", "empty"])
    codes = cluster.state_machine.filter(new, rows, Instant(cluster.now))
    assert [Reason(code) for code in codes.tolist()] == [Reason.TARGET_NODE_ELSEWHERE, Reason.OK]
    assert cluster.state_machine.bind(new.uid, new.key, NodeName("empty"), Instant(cluster.now)).effect is not None
    new = cluster.store(structs.replace(new, node=NodeName("empty")))
    cluster.migration(key, phase="Succeeded")
    new = cluster.change(new, migration=None)
    cluster.deletes(pod)
    return new


def test_the_first_request_of_a_machine_never_starts_a_migration() -> None:
    crowded()


def test_the_machine_with_the_lowest_load_leaves_and_its_agent_is_notified() -> None:
    cluster, pods = crowded()
    cluster.sent.clear()
    assert not cluster.reported(cluster.decide(pods[1], TWO, load=2)).migrate
    answer = cluster.reported(cluster.decide(pods[0], TWO, load=1))
    assert answer.migrate
    assert answer.permit == TWO
    (effect,) = [effect for effect in cluster.sent if isinstance(effect, CreateMigration)]
    assert (effect.name, effect.machine, effect.target_node) == ("schedplugin-m0-pod", "m0", "empty")
    assert cluster.cpu("full")["PAF"] == 2000
    assert cluster.cpu("empty")["held"] == 2000


def test_no_more_leave_than_the_pressure_asks_for() -> None:
    cluster, pods = crowded()
    for _ in range(5):
        for i, pod in enumerate(pods):
            cluster.decide(pod, TWO, load=i + 1)
        cluster.passes(1)
        cluster.write()
    assert [move.machine.name for move in cluster.state_machine.migrating.migrations.values()] == ["m0"]


def test_no_machine_leaves_a_node_that_is_not_above_its_watermark() -> None:
    cluster = a_cluster()
    pods = [movable(cluster, f"m{i}") for i in range(4)]
    for _ in range(3):
        for pod in pods:
            assert not cluster.reported(cluster.decide(pod, TWO)).migrate


def test_a_machine_that_may_not_migrate_blocks_no_other() -> None:
    cluster = a_cluster()
    fixed = movable(cluster, "fixed", auto=False)
    pods = [movable(cluster, f"m{i}") for i in range(4)]
    for _ in range(2):
        cluster.decide(fixed, TWO, load=1)
        for pod in pods:
            cluster.decide(pod, TWO, load=5)
    assert created(cluster) == ["m0"]


def test_a_silent_machine_does_not_hold_the_others_up() -> None:
    cluster, pods = crowded()
    assert not cluster.reported(cluster.decide(pods[1], TWO, load=2)).migrate
    cluster.passes(61)
    assert cluster.reported(cluster.decide(pods[1], TWO, load=2)).migrate


def test_a_migration_runs_to_its_end_and_leaves_nothing_behind() -> None:
    cluster, pods = crowded()
    cluster.decide(pods[0], TWO, load=1)
    cluster.write()
    new = finish(cluster, pods[0])
    assert cluster.cpu("full") == {"R": 8000, "B": 0, "CP": 0, "PAF": 0, "held": 0}
    assert cluster.cpu("empty") == {"R": 2000, "B": 0, "CP": 0, "PAF": 0, "held": 0}
    assert [effect for effect in cluster.sent if isinstance(effect, DeleteMigration)]
    cluster.write()
    assert cluster.migrations == {}
    assert cluster.state_machine.migrating.migrations == {}
    for _ in range(3):
        for pod in (*pods[1:], new):
            assert not cluster.reported(cluster.decide(pod, TWO, load=1)).migrate


@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_no_other_machine_leaves_for_the_pressure_of_one_that_has_arrived_elsewhere(*, restarts: bool) -> None:
    """Its old pod still counts until it is deleted."""
    cluster, pods = crowded()
    assert cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    cluster.write()
    key = PodKey("default", f"schedplugin-{pods[0].key.name}")
    cluster.change(pods[0], migration=MigrationRef(name=key.name, role="source"))
    cluster.migration(key, phase="Running", source_pod=pods[0].key.name, target_pod="target")
    cluster.migration(key, phase="Succeeded")
    if restarts:
        cluster.restarts()
    for _ in range(3):
        for i, pod in enumerate(pods[1:], start=1):
            cluster.decide(pod, TWO, load=i + 1)
    assert cluster.cpu("full")["PAF"] == 2000
    assert list(cluster.state_machine.migrating.migrations) == []
    cluster.deletes(pods[0])
    assert (cluster.cpu("full")["R"], cluster.cpu("full")["PAF"]) == (8000, 0)


def test_an_agent_that_was_notified_may_change_nothing() -> None:
    cluster, pods = crowded()
    cluster.decide(pods[0], TWO, load=1)
    cluster.write()
    cluster.change(pods[0], migration=MigrationRef(name="schedplugin-m0-pod", role="source"))
    refused = cluster.decide(pods[0], amounts("3", "4Gi"), last=TWO)
    assert isinstance(refused, PermitRefusal)
    assert (refused.status, refused.message) == (
        400,
        "cannot change resources: agent has already been informed that pod is migrating",
    )
    answer = cluster.reported(cluster.decide(pods[0], TWO, last=TWO))
    assert (answer.permit, answer.migrate, answer.permit_limit_pending) == (TWO, False, False)


def test_growth_of_a_leaving_machine_is_withheld_and_accounted_for() -> None:
    cluster, pods = crowded()
    answer = cluster.reported(cluster.decide(pods[0], amounts("3", "4Gi"), load=1, last=TWO))
    assert (answer.permit, answer.migrate) == (TWO, True)
    assert cluster.cpu("full") == {"R": 10_000, "B": 0, "CP": 1000, "PAF": 3000, "held": 0}
    assert cluster.reported(cluster.decide(pods[0], amounts("4", "4Gi"), load=1, last=TWO)).permit == TWO
    assert cluster.cpu("full")["PAF"] == 4000


def test_a_migration_that_cannot_be_made_leaves_nothing_behind_and_is_tried_again_later() -> None:
    cluster, pods = crowded()
    cluster.decide(pods[0], TWO, load=1)
    cluster.sent.clear()
    cluster.take(MigrationNotStarted(pods[0].uid, "403"))
    assert cluster.cpu("full")["PAF"] == 0
    assert cluster.cpu("empty")["held"] == 0
    assert not cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    assert cluster.reported(cluster.decide(pods[1], TWO, load=2)).migrate  # it does not block the others
    cluster.take(MigrationNotStarted(pods[1].uid, "403"))
    cluster.passes(6)
    assert cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate


def test_a_failed_migration_is_deleted_and_the_machine_waits_before_the_next() -> None:
    cluster, pods = crowded()
    cluster.decide(pods[0], TWO, load=1)
    cluster.write()
    key = PodKey("default", "schedplugin-m0-pod")
    cluster.change(pods[0], migration=MigrationRef(name=key.name, role="source"))
    cluster.migration(key, phase="Failed", source_pod=pods[0].key.name)
    assert (cluster.cpu("full")["PAF"], cluster.cpu("empty")["held"]) == (0, 0)
    cluster.write()
    cluster.change(pods[0], migration=None)
    assert not cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    assert cluster.reported(cluster.decide(pods[1], TWO, load=2)).migrate


def test_without_a_target_node_no_machine_leaves() -> None:
    cluster, pods = crowded()
    cluster.store(a_pod("rest", on="empty", cpu="7500m", memory="1Gi"))  # 2 more are above its watermark of 9
    assert not cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    assert cluster.state_machine.state.event_counts.migrations_without_target_node == 1


@pytest.mark.parametrize(
    ("limits", "want"),
    [({"max_concurrent": 1}, 1), ({"max_per_source": 2}, 2), ({"max_per_target": 3, "max_per_source": 9}, 3)],
    ids=["cluster", "source", "target"],
)
def test_so_many_migrations_at_the_same_time(limits: dict[str, int], want: int) -> None:
    cluster = a_cluster(**limits)
    pods = [movable(cluster, f"m{i}", always=True) for i in range(4)]
    for _ in range(2):
        for pod in pods:
            cluster.decide(pod, TWO)
    assert len(created(cluster)) == want


def test_a_machine_that_always_migrates_needs_no_pressure() -> None:
    cluster = a_cluster()
    pod = movable(cluster, "tester", always=True, auto=False)
    assert not cluster.reported(cluster.decide(pod, TWO)).migrate
    assert cluster.reported(cluster.decide(pod, TWO)).migrate


def test_switched_off_nothing_migrates() -> None:
    cluster, pods = crowded(enabled=False)
    for pod in pods:
        assert not cluster.reported(cluster.decide(pod, TWO, load=1)).migrate


def test_denied_growth_counts_less_by_its_weight_and_only_when_it_lasts() -> None:
    """Reserved 9500 of 10000: 500 above the watermark; 1000 denied; 1200 accounted for."""

    def starts(**migration: object) -> bool:
        cluster = a_cluster(**migration)
        pods = [movable(cluster, f"m{i}") for i in range(3)]
        cluster.store(a_pod("rest", on="full", cpu="4", memory="1Gi"))
        grower = pods[2]
        for pod in pods:
            cluster.decide(pod, TWO, load=1, last=TWO)
        cluster.decide(pods[0], TWO, load=1)
        assert created(cluster) == ["m0"]  # 2 accounted for, against 1 above the watermark
        cluster.decide(grower, amounts("5", "4Gi"), load=1, last=TWO)
        return cluster.reported(cluster.decide(pods[1], TWO, load=1)).migrate

    assert starts()
    assert not starts(capacity_pressure_weight=100_000)


def test_the_target_goes_elsewhere_when_its_target_node_is_lost() -> None:
    cluster, pods = crowded()
    cluster.has_node(a_node("third", cpu="10", memory="40Gi"))
    cluster.decide(pods[0], TWO, load=1)
    cluster.write()
    target_node = cluster.state_machine.migrating.migrations[PodKey("default", "schedplugin-m0-pod")].target_node
    assert target_node is not None
    other = "third" if target_node == "empty" else "empty"
    cluster.take(NodeGone(target_node))
    del cluster.nodes[target_node]
    vertical = replace(pods[0].vertical or a_vertical(), migration=MigrationRef(name="schedplugin-m0-pod", role="target"))
    new = cluster.has_pod("target", on=None, vertical=vertical)
    codes = cluster.state_machine.filter(new, cluster.state_machine.state.nodes.rows_of([other]), Instant(cluster.now))
    assert codes.tolist() == [Reason.OK]


def test_the_target_node_stays_held_when_the_target_does_not_come_at_once() -> None:
    cluster, pods = crowded()
    cluster.decide(pods[0], TWO, load=1)
    cluster.write()
    vertical = replace(pods[0].vertical or a_vertical(), migration=MigrationRef(name="schedplugin-m0-pod", role="target"))
    new = cluster.has_pod("target", on=None, vertical=vertical)
    rows = cluster.state_machine.state.nodes.rows_of(["empty"])
    assert not cluster.state_machine.filter(new, rows, Instant(cluster.now)).any()
    assert cluster.cpu("empty")["held"] == 2000
    cluster.passes(72)
    assert cluster.cpu("empty")["held"] == 2000, "by its own hold: its bind may come"
    cluster.passes(10)
    cluster.state_machine.apply(PodRead(new), Instant(cluster.now))
    cluster.passes(1)  # and nobody waits for ever
    assert cluster.cpu("empty")["held"] == 0


def test_where_we_bind_the_target_node_is_held_from_filter_to_the_bind_of_the_target() -> None:
    cluster, pods = crowded(binds=True)
    cluster.decide(pods[0], TWO, load=1)
    cluster.write()
    vertical = replace(pods[0].vertical or a_vertical(), migration=MigrationRef(name="schedplugin-m0-pod", role="target"))
    new = cluster.has_pod("target", on=None, vertical=vertical)
    rows, empty = cluster.state_machine.state.nodes.rows_of(["empty"]), NodeName("empty")
    assert not cluster.state_machine.filter(new, rows, Instant(cluster.now)).any()
    assert cluster.cpu("empty")["held"] == 2000
    cluster.passes(1)
    assert cluster.state_machine.bind(new.uid, new.key, empty, Instant(cluster.now)).reason is Reason.OK
    assert cluster.cpu("empty")["held"] == 0
    cluster.state_machine.apply(BindEnded(new.uid, empty, "refused", ""), Instant(cluster.now))
    assert cluster.cpu("empty")["held"] == 2000, "at once, so that no other pod takes it"
    assert not cluster.state_machine.filter(new, rows, Instant(cluster.now)).any()
    assert cluster.state_machine.bind(new.uid, new.key, empty, Instant(cluster.now)).reason is Reason.OK
    cluster.passes(1)
    assert cluster.cpu("empty")["held"] == 0


@pytest.mark.parametrize("pods_first", [False, True], ids=["migrations-first", "pods-first"])
def test_a_restart_finds_running_migrations_and_deletes_finished_ones(*, pods_first: bool) -> None:
    cluster, pods = crowded()
    cluster.decide(pods[0], TWO, load=1)
    cluster.write()
    cluster.change(pods[0], migration=MigrationRef(name="schedplugin-m0-pod", role="source"))
    cluster.migration(PodKey("default", "schedplugin-m0-pod"), phase="Running", source_pod=pods[0].key.name)
    old = VirtualMachineMigration(
        key=PodKey("default", "schedplugin-old"),
        uid="old",
        resource_version=1,
        machine="m4",
        phase="Succeeded",
        ours=True,
        deleting=False,
        source_pod="",
        target_pod="",
        target_node=None,
    )
    cluster.migrations[old.key] = old
    cluster.migrations[PodKey("default", "by-hand")] = replace(old, key=PodKey("default", "by-hand"), uid="hand", ours=False)
    cluster.restarts(pods_first=pods_first)
    assert (cluster.cpu("full")["PAF"], cluster.cpu("empty")["held"]) == (2000, 2000)
    assert [effect.key.name for effect in cluster.sent if isinstance(effect, DeleteMigration)] == ["schedplugin-old"]
    for _ in range(3):
        for i, pod in enumerate(pods):
            cluster.decide(pod, TWO, load=i + 1)
    assert created(cluster) == []  # what runs accounts for the pressure


def test_a_migration_that_others_made_counts_and_is_left_alone() -> None:
    cluster, pods = crowded()
    key = PodKey("default", "by-hand")
    cluster.migrations[key] = by_hand(cluster, key, pods[2], "m2")
    cluster.take(MigrationSeen(cluster.migrations[key]))
    assert cluster.cpu("full")["PAF"] == 2000
    assert not cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    cluster.migration(key, phase="Failed")
    assert [effect for effect in cluster.sent if isinstance(effect, DeleteMigration)] == []
    assert cluster.cpu("full")["PAF"] == 0
    cluster.take(MigrationGone(key))


def test_of_two_migrations_of_one_machine_the_other_goes_on_when_one_ends() -> None:
    cluster = a_cluster()
    pod = movable(cluster, "m")
    keys = [PodKey("default", name) for name in ("one", "other")]
    for key in keys:
        cluster.migrations[key] = by_hand(cluster, key, pod, "m")
        cluster.take(MigrationSeen(cluster.migrations[key]))
    for key, want in zip(keys, (2000, 0), strict=True):
        cluster.take(MigrationGone(key))
        assert cluster.cpu("full")["PAF"] == want


def test_deleting_is_tried_until_the_object_is_gone() -> None:
    cluster, pods = crowded()
    cluster.decide(pods[0], TWO, load=1)
    cluster.write()
    cluster.migration(PodKey("default", "schedplugin-m0-pod"), phase="Failed", source_pod=pods[0].key.name)
    cluster.sent.clear()
    cluster.passes(12)
    assert len([effect for effect in cluster.sent if isinstance(effect, DeleteMigration)]) == 2
    cluster.write()
    cluster.passes(12)
    assert [effect for effect in cluster.sent if isinstance(effect, DeleteMigration)] == []


def test_plain_pods_never_migrate() -> None:
    cluster = a_cluster()
    vertical = replace(a_vertical(using=amounts("9500m", "4Gi"), auto_migrate=True, always_migrate=True), machine=None)
    pod = cluster.has_pod("plain", on="full", vertical=vertical)
    for _ in range(3):
        cluster.decide(pod, amounts("9500m", "4Gi"))
    assert created(cluster) == []


def test_a_source_that_goes_before_its_migration_exists_holds_nothing() -> None:
    cluster, pods = crowded()
    assert cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    assert cluster.cpu("empty")["held"] == 2000
    cluster.sent.clear()  # the object is never created
    cluster.deletes(pods[0])
    assert cluster.cpu("empty")["held"] == 0
    assert cluster.state_machine.migrating.migrations == {}


def test_a_place_is_kept_for_a_machine_that_waits_to_leave_a_drained_node() -> None:
    cluster, pods = crowded(max_concurrent=1)
    cluster.has_node(a_node("drained", cpu="10", memory="40Gi"))
    large = a_vertical(using=amounts("10", "4Gi"), maximum=amounts("10", "16Gi"))
    leaving = cluster.places("leaving", on="drained", vertical=large)
    drains = cluster.state_machine.drain_migrations
    cluster.store(a_pod("rest", on="empty", cpu="1", memory="1Gi"))  # so that `leaving` fits nowhere for now
    drains.ask(leaving.uid, NodeName("drained"))
    cluster.passes(0.1)
    assert list(drains.waiting) == [leaving.uid]
    assert not cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    drains.forget([leaving.uid])
    cluster.passes(0.1)
    assert cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate


def test_the_target_is_the_node_that_is_least_full_by_share() -> None:
    """`large` has more in use than `empty`, and is the less full one all the same."""
    cluster, pods = crowded()
    cluster.has_node(a_node("large", cpu="40", memory="160Gi"))
    cluster.store(a_pod("some", on="empty", cpu="4", memory="16Gi"))
    cluster.store(a_pod("more", on="large", cpu="10", memory="40Gi"))
    cluster.decide(pods[0], TWO, load=1)
    assert [effect.target_node for effect in cluster.sent if isinstance(effect, CreateMigration)] == ["large"]


THREE = amounts("3", "4Gi")
KEY = PodKey("default", "schedplugin-m0-pod")


def targets(cluster: Growing) -> list[tuple[str, str]]:
    """Name and target node of each migration that was asked for since `sent` was emptied."""
    return [(effect.name, effect.target_node) for effect in cluster.sent if isinstance(effect, CreateMigration)]


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_a_migration_that_its_controller_does_not_begin_is_given_up_and_another_target_is_tried(phase: Any) -> None:
    cluster, pods = crowded()
    cluster.has_node(a_node("second", cpu="10", memory="40Gi"))
    cluster.decide(pods[0], TWO, load=1)
    ((_, first),) = targets(cluster)
    cluster.write()
    cluster.migration(KEY, phase=phase)
    cluster.passes(299)
    assert (cluster.cpu(first)["held"], cluster.reported(cluster.decide(pods[0], THREE, load=1)).permit) == (2000, TWO)
    cluster.sent.clear()
    cluster.passes(2)
    assert [effect.key for effect in cluster.sent if isinstance(effect, DeleteMigration)] == [KEY]
    assert (cluster.cpu("full")["PAF"], cluster.cpu(first)["held"]) == (0, 0)
    cluster.decide(pods[0], TWO, load=1)
    cluster.passes(6)
    cluster.sent.clear()  # the deletion is not carried out: the controller's finalizer stays
    assert cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    ((name, other),) = targets(cluster)
    assert (name, other != first) == ("schedplugin-m0-pod-2", True)


def test_a_machine_grows_again_once_its_migration_was_given_up() -> None:
    cluster = a_cluster()
    pod = movable(cluster, "m0")
    cluster.migrations[KEY] = replace(by_hand(cluster, KEY, pod, "m0"), phase="")
    cluster.take(MigrationSeen(cluster.migrations[KEY]))
    cluster.passes(1)
    assert cluster.cpu("full")["PAF"] == 2000
    cluster.passes(301)
    assert cluster.cpu("full")["PAF"] == 0
    assert [effect for effect in cluster.sent if isinstance(effect, DeleteMigration)] == []  # it is not ours
    assert cluster.ask(pod, THREE).permit == THREE
    cluster.migration(KEY, phase="Running")  # it begins after all
    assert cluster.cpu("full")["PAF"] == 3000


def test_an_object_of_the_name_that_is_not_ours_is_never_taken_for_ours() -> None:
    cluster, pods = crowded()
    cluster.decide(pods[0], TWO, load=1)
    assert targets(cluster) == [(KEY.name, "empty")]
    cluster.sent.clear()
    stranger = replace(by_hand(cluster, KEY, pods[3], "m3"), phase="Succeeded", source_pod="")
    cluster.take(MigrationSeen(stranger))
    assert (cluster.cpu("full")["PAF"], cluster.cpu("empty")["held"]) == (0, 0)
    cluster.take(MigrationNotStarted(pods[0].uid, "409 AlreadyExists"))
    assert cluster.sent == []
    cluster.decide(pods[0], TWO, load=1)
    cluster.passes(20)
    cluster.sent.clear()
    assert cluster.reported(cluster.decide(pods[0], TWO, load=1)).migrate
    assert targets(cluster) == [(f"{KEY.name}-2", "empty")]
    cluster.write()
    assert (cluster.cpu("full")["PAF"], cluster.cpu("empty")["held"]) == (2000, 2000)


def test_another_object_in_the_place_of_ours_ends_our_migration() -> None:
    cluster, pods = crowded()
    cluster.decide(pods[0], TWO, load=1)
    cluster.write()
    cluster.take(MigrationSeen(replace(by_hand(cluster, KEY, pods[3], "m3"), uid="another")))
    assert cluster.cpu("empty")["held"] == 0
    assert [move.pod for move in cluster.state_machine.migrating.migrations.values()] == [pods[3].uid]


def test_a_machine_that_has_to_leave_a_drained_node_is_migrated_again_when_its_migration_fails() -> None:
    cluster = a_cluster()
    pod = movable(cluster, "m0")
    drains = cluster.state_machine.drain_migrations
    drains.ask(pod.uid, NodeName("full"))
    cluster.passes(0.1)
    cluster.write()
    assert list(drains.waiting) == []
    cluster.migration(KEY, phase="Failed", source_pod=pod.key.name)
    cluster.write()
    cluster.passes(6)
    assert targets(cluster) == [(KEY.name, "empty")]
    cluster.deletes(pod)
    cluster.passes(1)
    assert list(drains._waiting) == []
