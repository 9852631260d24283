"""Room that appears wakes who was refused for lack of it, where kube-scheduler would not; and nothing dies for nothing."""

from dataclasses import replace

from msgspec import structs

from slackwater.cluster.holds import Hold, HoldKey
from slackwater.model.effects import Activate, Bind, Nominate, ReadPod
from slackwater.model.events import ActivationLost, NodeSeen, PodGone, PodRead, PodSeen
from slackwater.model.ids import Instant, NodeName, Row
from slackwater.model.pod_constraints import KindInterner
from slackwater.model.reasons import Reason
from tests.scenarios.test_the_life_of_a_bind import Story
from tests.support import installed
from tests.support.builders import a_node, a_pod, amounts


def test_a_repeated_bind_decides_over_an_earlier_read() -> None:
    pod = a_pod("p", cpu="3")
    story = Story(a_node("n"), pod)
    story.bind(pod, "n")
    story.bind_ended(pod, "n", "unknown")
    assert story.after(11) == [ReadPod(pod.uid, pod.key)]
    answer = story.state_machine.bind(pod.uid, pod.key, NodeName("n"), story.at)
    assert answer == (Reason.OK, Bind(pod.uid, pod.key, NodeName("n")), True)
    story.state_machine.apply(PodRead(pod), story.at)
    assert story.reserved("n") == 3000, "the read is older than the repeated bind"
    story.bind_ended(pod, "n", "bound")
    assert story.reserved("n") == 3000


def test_a_binding_that_was_given_up_and_happened_all_the_same_counts() -> None:
    pod = a_pod("p", cpu="3")
    story = Story(a_node("n"), pod)
    story.bind(pod, "n")
    story.bind_ended(pod, "n", "unreachable")
    assert story.reserved("n") == 0
    story.bind_ended(pod, "n", "bound")
    assert story.reserved("n") == 3000


def test_no_victims_for_a_pod_that_filter_refuses_whatever_goes() -> None:
    victim = a_pod("v", on="n", cpu="4")
    story = Story(a_node("n"), a_node("m"), victim)
    proposed = {NodeName("n"): [victim.uid]}
    hopeless = a_pod("h", cpu="1", priority=9, missing_request="app: cpu")
    assert story.state_machine.preempt(hopeless, proposed, story.at) == {}
    binding = a_pod("b", cpu="1", priority=9)
    story.seen(binding)
    assert list(story.state_machine.preempt(binding, proposed, story.at)) == ["n"]
    story.bind(binding, "m")
    assert story.state_machine.preempt(binding, proposed, story.at) == {}
    story.bind_ended(binding, "m", "refused")
    assert story.state_machine.preempt(binding, {NodeName("m"): [victim.uid]}, story.at) == {}, "a bind there was denied"


def test_no_second_victim_is_evicted_while_our_watch_is_behind_kube_schedulers() -> None:
    """It saw the first victim leave node n and asks again; we still count that victim."""
    first, second, pod = a_pod("v", on="n", cpu="4"), a_pod("w", on="m", cpu="4"), a_pod("p", cpu="2", priority=9)
    story = Story(a_node("n"), a_node("m"), first, second, pod)
    assert list(story.state_machine.preempt(pod, {NodeName("n"): [first.uid], NodeName("m"): [second.uid]}, story.at)) == [
        "n",
        "m",
    ]
    story.filter(pod, "n", "m")
    assert story.state_machine.preempt(pod, {NodeName("m"): [second.uid]}, story.at) == {}
    assert story.state_machine.apply(PodGone(first.uid, first.key), story.at) == [Activate(pod.uid, pod.key, "room-appeared")]
    assert story.filter(pod, "n", "m") == [Reason.OK, Reason.NOT_ENOUGH_CPU]


def test_no_second_victim_is_evicted_where_our_watch_caught_up_between_filter_and_preempt() -> None:
    """Filter refused from an older state; the question that follows is about a state that nobody has any more."""
    first, second, pod = a_pod("v", on="n", cpu="4"), a_pod("w", on="m", cpu="4"), a_pod("p", cpu="2", priority=9)
    story = Story(a_node("n"), a_node("m"), first, second, pod)
    assert list(story.state_machine.preempt(pod, {NodeName("n"): [first.uid], NodeName("m"): [second.uid]}, story.at)) == [
        "n",
        "m",
    ]
    story.filter(pod, "n", "m")
    assert story.state_machine.apply(PodGone(first.uid, first.key), story.at) == [Activate(pod.uid, pod.key, "room-appeared")]
    elsewhere = {NodeName("m"): [second.uid]}
    assert story.state_machine.preempt(pod, elsewhere, story.at) == {}
    # Somebody else has taken the room: others may have to go after all.
    story.seen(a_pod("x", on="n", cpu="4", priority=9))
    assert list(story.state_machine.preempt(pod, elsewhere, story.at)) == ["m"]


def test_victims_that_stay_hold_up_a_preemptor_for_a_bounded_time() -> None:
    first, second, pod = a_pod("v", on="n", cpu="4"), a_pod("w", on="m", cpu="4"), a_pod("p", cpu="2", priority=9)
    story = Story(a_node("n"), a_node("m"), first, second, pod)
    elsewhere = {NodeName("m"): [second.uid]}
    story.state_machine.preempt(pod, {NodeName("n"): [first.uid]}, story.at)
    assert story.state_machine.preempt(pod, elsewhere, story.at) == {}
    assert story.after(3) == [Activate(pod.uid, pod.key, "victims-awaited")]
    assert list(story.state_machine.preempt(pod, elsewhere, story.at)) == ["m"]


def test_a_preemptor_whose_victims_do_not_leave_may_have_others_at_once_when_its_agreement_is_old() -> None:
    first, second, pod = a_pod("v", on="n", cpu="4"), a_pod("w", on="m", cpu="4"), a_pod("p", cpu="2", priority=9)
    story = Story(a_node("n"), a_node("m"), first, second, pod)
    story.state_machine.preempt(pod, {NodeName("n"): [first.uid]}, story.at)
    story.after(3)
    elsewhere = {NodeName("m"): [second.uid]}
    assert list(story.state_machine.preempt(pod, elsewhere, story.at)) == ["m"], "nobody is on the way out"
    story.seen(structs.replace(second, deleting=True, resource_version=10**6))
    story.after(30)
    assert story.state_machine.preempt(pod, {NodeName("n"): [first.uid]}, story.at) == {}, "the victim on m is about to be gone"


def test_room_that_our_watch_shows_later_than_kube_schedulers_activates_pods_refused_just_before() -> None:
    old, pod = a_pod("old", on="n", cpu="4"), a_pod("p", cpu="3")
    story = Story(a_node("n"), old, pod)
    assert story.filter(pod, "n") == [Reason.NOT_ENOUGH_CPU]
    story.now += 0.5
    touch = Activate(pod.uid, pod.key, "room-appeared")
    assert story.state_machine.apply(PodGone(old.uid, old.key), story.at) == [touch]
    assert story.filter(pod, "unknown") == [Reason.NODE_UNKNOWN]
    assert story.state_machine.apply(NodeSeen(a_node("unknown")), story.at) == [touch]
    assert story.state_machine.apply(NodeSeen(a_node("unknown", cpu="8")), story.at) == [], "once"


def test_room_that_appears_long_after_the_refusal_is_kube_schedulers_own_event() -> None:
    old, pod = a_pod("old", on="n", cpu="4"), a_pod("p", cpu="3")
    story = Story(a_node("n"), old, pod)
    story.filter(pod, "n")
    story.now += 5
    assert story.state_machine.apply(PodGone(old.uid, old.key), story.at) == []


def test_a_pod_that_kube_scheduler_does_not_try_again_is_activated_for_room_however_late_our_watch_showed_it() -> None:
    """kube-scheduler saw the room before it asked, and our watch is 5 s behind: it has spent the event."""
    old, pod = a_pod("old", on="n", cpu="4"), a_pod("p", cpu="3")
    story = Story(a_node("n"), old, pod)
    assert story.filter(pod, "n") == [Reason.NOT_ENOUGH_CPU]
    story.now += 5
    assert story.state_machine.apply(PodGone(old.uid, old.key), story.at) == []
    assert story.after(6) == [], "kube-scheduler may come by itself"
    assert story.after(2) == [Activate(pod.uid, pod.key, "room-missed")]
    assert story.after(60) == [], "once"


def test_a_pod_that_came_back_by_itself_or_fits_nowhere_is_not_activated() -> None:
    old, back, large = a_pod("old", on="n", cpu="4"), a_pod("back", cpu="3"), a_pod("large", cpu="5")
    elsewhere = a_pod("elsewhere", cpu="1", node_selector={"disk": "ssd"})
    story = Story(a_node("n"), old, back, large, elsewhere)
    for pod in (back, large, elsewhere):
        story.filter(pod, "n")
    story.now += 5
    story.state_machine.apply(PodGone(old.uid, old.key), story.at)
    assert story.filter(back, "n") == [Reason.OK]
    story.bind(back, "n")
    story.bind_ended(back, "n", "bound")
    story.seen(a_pod("back", on="n", cpu="3"))
    assert [effect for _ in range(30) for effect in story.after(2) if isinstance(effect, Activate)] == []


def test_no_more_pods_are_activated_than_there_is_room_for() -> None:
    olds = [a_pod(f"old-{number}", on="n", cpu="2") for number in range(2)]
    pods = [a_pod(f"p{number:02}", cpu="2") for number in range(40)]
    story = Story(a_node("n"), *olds, *pods)
    for pod in pods:
        assert story.filter(pod, "n") == [Reason.NOT_ENOUGH_CPU]
    story.now += 5
    story.state_machine.apply(PodGone(olds[0].uid, olds[0].key), story.at)
    assert story.after(6) == []
    woken = [effect.key.name for _ in range(110) for effect in story.after(0.1) if isinstance(effect, Activate)]
    assert woken == ["p00"]
    # It never comes: others are, one after another.
    woken = [effect.key.name for _ in range(130) for effect in story.after(0.1) if isinstance(effect, Activate)]
    assert len(woken) == 1


def test_a_heartbeat_of_a_node_is_no_room() -> None:
    old, pod = a_pod("old", on="n", cpu="4"), a_pod("p", cpu="3")
    story = Story(a_node("n"), old, pod)
    story.filter(pod, "n")
    assert story.state_machine.apply(NodeSeen(a_node("n")), story.at) == []


def test_a_feasible_node_ends_the_sample_miss() -> None:
    pod = a_pod("p")
    story = Story(a_node("full", cpu="100m"), a_node("a"), a_node("b"), pod)
    story.filter(pod, "full")
    assert story.filter(pod, "a", "b") == [Reason.OK, Reason.NODE_NOT_CHOSEN]
    assert story.after(1) == []
    story.filter(pod, "full")
    story.bind(pod, "a")
    assert not [effect for effect in story.after(1) if isinstance(effect, Nominate)]


def test_the_nominated_node_of_a_sample_miss_takes_a_more_important_pod_and_is_chosen_for_one_too() -> None:
    pod, equal, important, sample_miss = (
        a_pod(name, cpu="3", priority=priority) for name, priority in zip("peis", (1, 1, 2, 2), strict=True)
    )
    story = Story(a_node("full", cpu="100m"), a_node("n"), pod, equal, important, sample_miss)
    story.filter(pod, "full")
    assert Nominate(pod.uid, pod.key, NodeName("n")) in story.after(1)
    assert story.filter(equal, "n") == [Reason.HELD_FOR_OTHERS]
    story.filter(sample_miss, "full")
    assert Nominate(sample_miss.uid, sample_miss.key, NodeName("n")) in story.after(1)
    assert story.filter(sample_miss, "n") == [Reason.OK]
    assert story.filter(important, "n") == [Reason.HELD_FOR_OTHERS], "kube-scheduler is about to bind an equal one there"


def test_nodes_that_would_not_take_the_pod_are_no_sample_miss() -> None:
    pod = a_pod("p", node_selector={"disk": "ssd"})
    story = Story(a_node("full", cpu="100m", labels={"disk": "ssd"}), a_node("other"), pod)
    story.filter(pod, "full")
    assert story.state_machine.state.event_counts.sample_misses == 0
    story.state_machine.apply(NodeSeen(a_node("other", labels={"disk": "ssd"})), story.at)
    story.filter(pod, "full")
    assert story.state_machine.state.event_counts.sample_misses == 1


def test_a_bind_given_up_activates_its_pod() -> None:
    pod = a_pod("p")
    story = Story(a_node("n"), pod)
    story.bind(pod, "n")
    story.bind_ended(pod, "n", "unknown")
    story.after(11)
    assert story.state_machine.apply(PodRead(pod), story.at) == [Activate(pod.uid, pod.key, "bind-given-up")]


def test_changed_settings_and_lost_activations_take_effect_at_the_next_tick() -> None:
    pod, other = a_pod("p", cpu="4"), a_pod("q")
    story = Story(
        a_node("n"), pod, other, policy=replace(installed.POLICY, nodes=replace(installed.NODES, system=amounts("1", "0")))
    )
    assert story.filter(pod, "n") == [Reason.CPU_ABOVE_TOTAL]
    story.state_machine.adopt_policy(replace(story.state_machine.policy, nodes=installed.NODES))
    story.state_machine.apply(ActivationLost(other.uid, other.key, "room-appeared"), story.at)
    assert story.after(0.1) == [Activate(pod.uid, pod.key, "settings-changed"), Activate(other.uid, other.key, "room-appeared")]
    assert story.after(0.1) == [], "each once"


def test_a_hold_that_the_pods_next_filter_ends_activates_the_pods_that_waited_for_it() -> None:
    first, second = a_pod("first", cpu="3"), a_pod("second", cpu="3")
    story = Story(a_node("n"), a_node("full", cpu="1"), first, second)
    story.filter(first, "n")
    assert story.filter(second, "n") == [Reason.HELD_FOR_OTHERS]
    assert story.filter(first, "full") == [Reason.CPU_ABOVE_TOTAL]
    assert Activate(second.uid, second.key, "hold-ended") in story.after(0.1)


def test_a_pod_that_the_watch_shows_again_after_a_restore_counts_again() -> None:
    pod = a_pod("p", on="n", version=100)
    story = Story(a_node("n"), pod)
    story.state_machine.apply(PodGone(pod.uid, pod.key), story.at)
    story.state_machine.apply(PodSeen(a_pod("p", on="n", version=50)), story.at)
    assert story.reserved("n") == 500
    story.state_machine.apply(PodGone(pod.uid, pod.key, read=True), story.at)
    story.seen(a_pod("p", on="n", version=60))
    assert story.reserved("n") == 0, "a read found nothing: what the watch still tells is older"


def test_a_repeated_filter_of_a_pod_that_is_being_bound_holds_nothing_more() -> None:
    pod, other = a_pod("p", cpu="2"), a_pod("q", cpu="2")
    story = Story(a_node("n"), pod, other)
    story.bind(pod, "n")
    assert story.filter(pod, "n") == [Reason.OK]
    assert story.filter(other, "n") == [Reason.OK]


def test_kinds_are_forgotten_with_their_last_pod() -> None:
    interner = KindInterner()
    pods = [a_pod(f"p{number}", cpu=f"{number + 1}m") for number in range(10)]
    for pod in pods:
        assert interner.intern(pod.kind) is pod.kind
        assert interner.intern(replace(pod.kind)) is pod.kind
    assert len(interner) == 10
    del pods[1:], pod
    assert len(interner) == 1


def test_room_that_is_held_for_a_pod_itself_activates_neither_it_nor_one_like_it() -> None:
    """It was activated when it was nominated; the held room is no more than that."""
    old, pod, alike = a_pod("old", on="n", cpu="4"), a_pod("p", cpu="3"), a_pod("q", cpu="3")
    story = Story(a_node("n"), old, pod, alike)
    assert [story.filter(each, "n") for each in (pod, alike)] == [[Reason.NOT_ENOUGH_CPU]] * 2
    story.now += 5
    assert story.state_machine.apply(PodGone(old.uid, old.key), story.at) == []
    nomination = Hold(key=pod.key, row=Row(0), amounts=pod.need, deadline=Instant(story.now + 60), nominee=0)
    story.state_machine.state.holds.put(HoldKey(pod.uid), nomination)
    assert story.after(8) == []
