"""What a person has paused does not begin, what can be ended ends at once, and after `resume` everything goes on."""

from dataclasses import replace

import pytest
from msgspec import structs

from slackwater.model.effects import CreateMigration, Nominate, WritePreempting
from slackwater.model.events import NodeSeen, PausesSeen, Synced
from slackwater.model.ids import Instant, NodeName
from slackwater.model.pauses import ACTIVITIES, Activity, Pause, pauses_of, unknown_keys
from slackwater.model.reasons import Reason
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.draining import a_cluster as a_cluster_with_drains
from tests.support.growing import Growing
from tests.support.preempting import Cluster
from tests.support.removing import machine, replica
from tests.support.shrinking import ShrinkScene
from tests.support.small_state_machine import N, SmallStateMachine


def paused(*activities: Activity) -> PausesSeen:
    return PausesSeen(tuple(Pause(activity=activity, note="by a test") for activity in activities))


RESUMED = PausesSeen(())


def test_the_key_all_pauses_every_activity_and_other_keys_have_their_own_notes() -> None:
    data = {"all": "incident", "scale-up": "quota"}
    assert {pause.activity: pause.note for pause in pauses_of(data)} == {
        activity: "quota" if activity == "scale-up" else "incident" for activity in ACTIVITIES
    }
    assert pauses_of({}) == ()
    assert unknown_keys({"scaledown": "a slip of the pen", "all": ""}) == ["scaledown"]


def test_a_refused_pod_preempts_no_pod_until_preemption_is_resumed() -> None:
    victim, pod = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="2", priority=9)
    cluster = Cluster(a_node("n"), victim, pod)
    cluster.take(paused("preemption"))
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU]
    assert cluster.preempt(pod, n=[victim]) == [], "kube-scheduler's own proposal is not kept either"
    assert cluster.deleted == []
    cluster.take(RESUMED)
    assert cluster.filter(pod) == [Reason.GATED]
    cluster.serve()
    assert cluster.deleted == ["v"]


def test_a_preemption_whose_victims_still_stay_ends_and_its_pod_is_released() -> None:
    victim, pod = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="2", priority=9)
    cluster = Cluster(a_node("n"), victim, pod)
    assert cluster.filter(pod) == [Reason.GATED]
    cluster.take(paused("preemption"))
    assert cluster.filter(pod) == [Reason.NOT_ENOUGH_CPU]
    served = cluster.serve()
    assert cluster.deleted == []
    assert WritePreempting(pod.uid, pod.key, None) in served
    assert cluster.at_rest()


def test_a_new_process_does_not_continue_preemptions_while_they_are_paused() -> None:
    victim, pod = a_pod("v", on="n", cpu="3"), a_pod("p", cpu="2", priority=9)
    before = Cluster(a_node("n"), victim, pod)
    before.filter(pod)
    before.serve(gone=False)
    annotated = before.pods[pod.uid]
    assert annotated.preempting is not None
    after = Cluster(a_node("n"), victim, annotated, synced=False)
    after.take(paused("preemption"))
    after.take(Synced())
    served = after.serve()
    assert after.deleted == []
    assert WritePreempting(pod.uid, pod.key, None) in served


def test_no_migration_begins() -> None:
    cluster = Growing(replace(installed.POLICY, migration=installed.MIGRATION))
    for name in ("full", "empty"):
        cluster.has_node(a_node(name, cpu="10", memory="40Gi"))
    using = amounts("2", "4Gi")
    cluster.sent += cluster.state_machine.apply(paused("migration"), Instant(cluster.now))

    def ask_all() -> list[str]:
        for number, pod in enumerate(pods):
            cluster.decide(pod, using, load=number + 1)
        return [effect.machine for effect in cluster.sent if isinstance(effect, CreateMigration)]

    vertical = a_vertical(using=using, maximum=amounts("8", "16Gi"), auto_migrate=True)
    pods = [cluster.places(f"m{number}", on="full", vertical=vertical) for number in range(5)]
    assert (ask_all(), ask_all()) == ([], [])
    cluster.sent += cluster.state_machine.apply(RESUMED, Instant(cluster.now))
    assert ask_all()


def test_no_pod_is_nominated_after_a_sample_miss_and_filter_still_names_one_node() -> None:
    cluster = SmallStateMachine(installed.POLICY)
    cluster.comes(a_pod("there", on=N, cpu="3"))
    cluster.apply(paused("nomination"))
    assert cluster.ask(cluster.comes(a_pod("p", cpu="2")), N) == [Reason.NOT_ENOUGH_CPU]
    assert cluster.state_machine.state.event_counts.sample_misses == 1
    assert not [effect for effect in cluster.after(1.0) if isinstance(effect, Nominate)]
    cluster.apply(RESUMED)
    assert cluster.ask(cluster.comes(a_pod("q", cpu="2")), N) == [Reason.NOT_ENOUGH_CPU]
    assert [effect.uid for effect in cluster.after(1.0) if isinstance(effect, Nominate)] == ["uid-q"]
    assert cluster.state_machine.choose(a_pod("r", cpu="1"), cluster.state_machine.state.nodes.row_of[N], cluster.now)


def test_drains_under_way_are_rolled_back_at_once() -> None:
    cluster = a_cluster_with_drains([machine("n1"), machine("n2")], [replica("a", "n1")])
    cluster.begin("n1")
    cluster.tell(paused("scale-down"))
    cluster.tick(20)
    assert cluster.how_it_ended() == {"n1": "Cancelled"}
    assert not cluster.nodes["n1"].taints
    assert not cluster.nodes["n1"].unschedulable
    assert "evict a" not in cluster.log


@pytest.mark.anyio
async def test_no_node_is_removed_and_none_stays_tainted_until_scale_down_is_resumed() -> None:
    scenario = ShrinkScene()
    scenario.cloud.has("a", size=4, min_size=0, template=structs.replace(a_node("t", cpu="4"), scalars=(("pods", 110),)))
    scenario.settle()
    await scenario.pass_time(30)
    assert any(scenario.taints.values())
    scenario.carry_out(scenario.state_machine.apply(paused("scale-down"), scenario.now))
    await scenario.pass_time(600)
    assert (scenario.sizes(), any(scenario.taints.values())) == ({"a": 4}, False)
    scenario.carry_out(scenario.state_machine.apply(RESUMED, scenario.now))
    await scenario.pass_time(600)
    assert scenario.sizes() == {"a": 0}


@pytest.mark.anyio
async def test_no_node_is_added_until_scale_up_is_resumed() -> None:
    scenario = ShrinkScene()
    scenario.cloud.has("a", size=0, template=structs.replace(a_node("t", cpu="4"), scalars=(("pods", 110),)))
    scenario.state_machine.apply(paused("scale-up"), scenario.now)
    scenario.wants_many(3)
    await scenario.pass_time(120)
    assert scenario.sizes() == {"a": 0}
    scenario.state_machine.apply(RESUMED, scenario.now)
    await scenario.pass_time(60)
    assert scenario.sizes()["a"] >= 3


def test_pauses_hold_over_a_change_of_the_settings() -> None:
    cluster = SmallStateMachine(installed.POLICY)
    cluster.apply(paused("preemption", "migration"))
    changed = replace(installed.POLICY, hold_timeout=3.0)
    cluster.state_machine.adopt_policy(changed)
    in_force = cluster.state_machine.policy
    assert (in_force.hold_timeout, in_force.preemption.paused, in_force.migration.enabled) == (3.0, True, False)
    cluster.apply(RESUMED)
    assert cluster.state_machine.policy == changed
    cluster.apply(NodeSeen(a_node(NodeName("later"))))
