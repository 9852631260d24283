"""An object that cannot be read, or applied, closes its node and ends nothing else."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from slackwater.model.effects import Announce, Effect
from slackwater.model.events import Event, NodeGone, NodeSeen, ObjectUnreadable, PodGone, PodSeen, Synced, TimePassed
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.model.permits import PermitAsk, PersistedPermit
from slackwater.model.reasons import Reason
from slackwater.model.resources import LARGEST_AMOUNT, MOST_PODS_ON_NODE
from slackwater.runtime.intake import Intake
from slackwater.runtime.record.recording import RecordedStateMachine
from slackwater.runtime.record.replay import Replay
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.builders import a_node, a_pod, a_vertical, amounts
from tests.support.invariants import violations
from tests.support.small_state_machine import M, N, SmallStateMachine

QUARANTINED = Reason.NODE_QUARANTINED


def unreadable(pod: Pod) -> ObjectUnreadable:
    return ObjectUnreadable(pod.uid, f"pod {pod.key}", pod.node, "requests: negative")


def small() -> SmallStateMachine:
    """Where we bind, filter says of each node whether it takes the pod."""
    return SmallStateMachine(replace(installed.POLICY, bind=True))


def test_a_bound_pod_that_cannot_be_read_closes_its_node_alone_until_it_can() -> None:
    story = small()
    story.apply(unreadable(a_pod("odd", on=N)))
    waiting = story.comes(a_pod("waiting"))
    assert story.ask(waiting, N, M) == [QUARANTINED, 0]
    story.comes(a_pod("odd", on=N))
    assert story.ask(waiting, N, M) == [0, 0]


def test_a_quarantined_node_is_never_the_one_that_filter_names() -> None:
    story = SmallStateMachine(installed.POLICY)
    story.apply(unreadable(a_pod("odd", on=N)))
    waiting, row_of = story.comes(a_pod("waiting")), story.state_machine.state.nodes.row_of
    assert [story.state_machine.choose(waiting, row_of[node], story.now) for node in (N, M)] == [False, True]
    assert (story.held(N), story.held(M)) == (0, waiting.need.cpu)


def test_an_unreadable_pod_closes_the_node_that_it_was_bound_to() -> None:
    """The bind is known, the watch has not shown it, and then the pod cannot be read: it names no node by itself."""
    story = small()
    pod = story.comes(a_pod("p"))
    assert story.state_machine.bind(pod.uid, pod.key, N, story.now).reason is Reason.OK
    story.apply(unreadable(pod))
    assert story.ask(story.comes(a_pod("waiting")), N, M) == [QUARANTINED, 0]


def test_a_node_opens_when_the_last_of_its_unreadable_pods_is_gone() -> None:
    story = small()
    first, second = a_pod("first", on=N), a_pod("second", on=N)
    for pod in (first, second):
        story.apply(unreadable(pod))
    waiting = story.comes(a_pod("waiting"))
    story.apply(PodGone(first.uid, first.key))
    assert story.ask(waiting, N, M) == [QUARANTINED, 0]
    story.apply(PodGone(second.uid, second.key))
    assert story.ask(waiting, N, M) == [0, 0]
    assert len(story.state_machine.state.quarantine) == 0


def test_refused_pods_are_activated_when_the_node_opens() -> None:
    story = small()
    odd = a_pod("odd", on=N)
    story.apply(unreadable(odd))
    story.apply(unreadable(a_pod("other", on=M)))
    waiting = story.comes(a_pod("waiting"))
    assert story.ask(waiting, N, M) == [QUARANTINED, QUARANTINED]
    effects = story.apply(PodGone(odd.uid, odd.key)) + story.after(1)
    assert waiting.uid in {getattr(effect, "uid", None) for effect in effects}


def test_a_known_pod_keeps_its_amounts_and_is_logged_once() -> None:
    story = small()
    pod = story.comes(a_pod("p", on=N, cpu="2"))
    said = [effect for _ in range(3) for effect in story.apply(unreadable(pod)) if isinstance(effect, Announce)]
    assert [(effect.key, effect.type) for effect in said] == [(pod.key, "Warning")]
    assert story.state_machine.state.ledger.columns.reserved[0, story.state_machine.state.nodes.row_of[N]] == 2000


def test_a_pending_pod_that_cannot_be_read_closes_nothing() -> None:
    story = small()
    assert story.apply(unreadable(a_pod("pending"))) == []
    assert len(story.state_machine.state.quarantine) == 0


@pytest.mark.parametrize("known", [True, False])
def test_an_unreadable_pod_that_has_ended_opens_its_node(known: bool) -> None:
    story = small()
    odd = a_pod("odd", on=N, cpu="2")
    if known:
        story.comes(odd)
    story.apply(unreadable(odd))
    waiting = story.comes(a_pod("waiting"))
    assert story.ask(waiting, N, M) == [QUARANTINED, 0]
    story.apply(structs.replace(unreadable(odd), node=None))
    assert story.ask(waiting, N, M) == [0, 0]
    assert odd.uid not in {pod.uid for pod in story.state_machine.state.pods}
    assert story.state_machine.state.ledger.columns.reserved[0, story.state_machine.state.nodes.row_of[N]] == 0
    assert len(story.state_machine.state.quarantine) == 0
    assert violations(story.state_machine) == []


def test_a_pending_pod_keeps_its_past_while_it_cannot_be_read() -> None:
    story = small()
    pending = story.comes(a_pod("pending"))
    assert story.apply(unreadable(pending)) == []
    assert story.state_machine.state.pods.get(pending.uid) == pending


def test_a_node_that_comes_after_its_unreadable_pod_is_closed_from_the_start() -> None:
    story = small()
    story.apply(structs.replace(unreadable(a_pod("odd")), node="late"))
    late = a_node("late")
    story.apply(NodeSeen(late))
    assert story.ask(story.comes(a_pod("waiting")), late.name, M) == [QUARANTINED, 0]
    story.apply(NodeGone(late.name))
    other = a_node("other")
    story.apply(NodeSeen(other))  # it may be given the row of the node that went
    assert story.ask(story.comes(a_pod("another")), other.name, M) == [0, 0]


def test_a_node_that_cannot_be_read_is_closed_until_it_is_seen_again() -> None:
    story = small()
    node = a_node(N)
    story.apply(ObjectUnreadable(node.uid, f"node {N}", N, "allocatable: not a quantity"))
    waiting = story.comes(a_pod("waiting"))
    assert story.ask(waiting, N, M) == [QUARANTINED, 0]
    story.apply(NodeSeen(node))
    assert story.ask(waiting, N, M) == [0, 0]


def test_nothing_grows_on_a_node_with_a_pod_that_cannot_be_read() -> None:
    story = small()
    vm = story.comes(structs.replace(a_pod("vm", on=N), vertical=a_vertical(machine=None, permit=written("1", "4Gi"))))
    ask = PermitAsk(
        key=vm.key,
        version=7,
        asked=amounts("2", "8Gi"),
        last_permit=amounts("1", "4Gi"),
        compute_unit=amounts("250m", "1Gi"),
        load=None,
        slots=False,
    )
    odd = a_pod("odd", on=N)

    def reserved() -> int:
        story.state_machine.ask_permit(ask, None, story.now)
        claim = story.state_machine.state.reservations.get(vm.uid)
        assert claim is not None
        return claim.pod_resources.reserved.cpu

    story.apply(unreadable(odd))
    assert reserved() == 1000
    story.apply(PodGone(odd.uid, odd.key))
    assert reserved() == 2000


def written(cpu: str, memory: str) -> str:
    held = amounts(cpu, memory)
    return PersistedPermit(permit=held, permit_limit=held).text()


def test_two_pods_whose_requests_would_wrap_an_int64_leave_a_full_node() -> None:
    """`5Ei` and `5Ei` are more than 2^63: the node had room for everything then."""
    story = small()
    for name in ("one", "two"):
        pod = a_pod(name, on=N)
        story.comes(structs.replace(pod, kind=replace(pod.kind, requests=amounts("1", str(LARGEST_AMOUNT)))))
    assert story.ask(story.comes(a_pod("waiting")), N, M)[1] == 0
    assert story.ask(story.comes(a_pod("another")), N) != [0]


def test_a_node_counts_so_many_pods_that_their_sum_cannot_wrap_and_closes_for_the_next() -> None:
    """The sum of 8,192 pods of the largest size, 2^63, wrapped, and the node had room for everything."""
    state_machine = StateMachine(installed.POLICY)
    intake = Intake(state_machine, lambda: Instant(1000.0), {})
    intake.connect(Sink())  # type: ignore[arg-type]
    pods = [a_pod(f"p{number}", on=N) for number in range(MOST_PODS_ON_NODE + 2)]
    pods = [structs.replace(pod, kind=replace(pod.kind, requests=amounts("1", str(LARGEST_AMOUNT)))) for pod in pods]
    events: list[Event] = [NodeSeen(a_node(N)), NodeSeen(a_node(M)), Synced(), *map(PodSeen, pods)]
    for event in events:
        intake.take(event)
    assert dict(intake.failed) == {"PodSeen": 2}
    assert (
        state_machine.state.ledger.numbers(state_machine.state.nodes.row_of[N]).reserved.memory
        == MOST_PODS_ON_NODE * LARGEST_AMOUNT
    )
    waiting = a_pod("waiting")
    intake.take(PodSeen(waiting))
    rows = np.array([state_machine.state.nodes.row_of[name] for name in (N, M)], np.intp)
    assert state_machine.filter(waiting, rows, Instant(1000.0)).tolist() == [QUARANTINED, 0]
    assert violations(state_machine) == []
    for pod in pods[MOST_PODS_ON_NODE:]:
        intake.take(PodGone(pod.uid, pod.key))
    assert N not in state_machine.state.quarantine
    assert state_machine.filter(waiting, rows[:1], Instant(1000.0)).tolist() != [0]


# --- events that cannot be applied --------------------------------------------------------------------------------------


class Fragile(RecordedStateMachine):
    """Fails on the pods that are named `odd`, as a bug would."""

    odd = True

    def _pod_seen(self, pod: Pod, now: Instant, *, read: bool = False) -> list[Effect]:
        if pod.key.name == "odd" and type(self).odd:
            raise OverflowError("Python int too large to convert to C long")
        return super()._pod_seen(pod, now, read=read)


class Sink:
    """Takes effects instead of the dispatcher."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def submit_all(self, effects: Sequence[Effect]) -> None:
        self.effects += effects


@pytest.mark.anyio
async def test_an_event_that_cannot_be_applied_ends_nothing_and_closes_its_node() -> None:
    frames: list[bytes] = []
    state_machine = Fragile(installed.POLICY, write_frame=frames.append)
    intake = Intake(state_machine, lambda: Instant(1000.0), {})
    intake.connect(Sink())  # type: ignore[arg-type]
    events: list[Event] = [NodeSeen(a_node(N)), NodeSeen(a_node(M)), Synced(), PodSeen(a_pod("odd", on=N)), TimePassed()]
    for event in events:
        intake.take(event)
    assert dict(intake.failed) == {"PodSeen": 1}
    assert N in state_machine.state.quarantine
    assert M not in state_machine.state.quarantine
    assert violations(state_machine) == []
    differences = list(Replay(frames).differences())
    assert differences[0].recorded == ["raised", "OverflowError"], "code that has no such bug answers otherwise"
    assert differences[0].replayed == []
