"""A question in the middle of a plan: it is answered on the replica as it was before, and the plan goes on as if it were alone.

The child that answers is a second session here, which gets the same frames: what is to be seen is the unwinding of its plan.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from msgspec import structs

from slackwater.cluster.nodegroups.status import NodeGroupStatus
from slackwater.controllers.consolidation.loop import ConsolidationInquiry
from slackwater.controllers.loop_plans import Inquiry, Plans, ScaleUpRules
from slackwater.controllers.scaledown.replica_plan import ScaleDownInquiry
from slackwater.controllers.scaledown.state import ScaleDownState
from slackwater.model.changes import Changes, NodeChange, PodChange
from slackwater.model.eviction_facts import EvictionFacts, Owner
from slackwater.model.ids import Generation, NodeName, UnixTime
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.model.objects import Node, Pod
from slackwater.model.prices import PriceBook
from slackwater.runtime.planner.messages import FRAMED_TYPES, Ask, AskScaleDown, PlannerQuestion, Question
from slackwater.runtime.planner.session import AnswerInChild, Session
from slackwater.runtime.planner.value_frames import Decoder, Encoder
from slackwater.snapshot.snapshot_replica import SnapshotReplica
from slackwater_protocol.names import NODE_GROUP
from tests.support import installed
from tests.support.builders import a_node, a_pod

RULES = ScaleUpRules(policy=replace(installed.SCALE_UP, pending=replace(installed.PENDING, after_scheduler=False)))
SCALE_DOWN = AskScaleDown(number=7, seconds=60.0)
OWNED = EvictionFacts(owner=Owner("apps", "ReplicaSet", "web"))
NODES = 12


def machine(name: str) -> Node:
    node = a_node(name, cpu="4", memory="16Gi", labels={NODE_GROUP: "a"})
    return structs.replace(node, scalars=(("pods", 110),))


def an_inquiry(changes: Changes) -> Inquiry:
    names = tuple(NodeName(f"n{number}") for number in range(NODES))
    group = NodeGroup(
        name=GroupName("a"), provider="cloud", min_size=0, max_size=90, target=NODES, instances=(), template=machine("t")
    )
    status = NodeGroupStatus(
        group=group, known=True, ready=names, unready=(), starting=(), coming=0, missing=0, lost=(), leaving=0
    )
    scale_down = ScaleDownInquiry(state=ScaleDownState(), policy=installed.SCALE_DOWN)
    return Inquiry(changes=changes, rules=RULES, group_status={group.name: status}, now=UnixTime(2e9), scale_down=scale_down)


def the_cluster() -> Changes:
    """Some pods fit, some need new nodes, and nodes could go."""
    running = [
        structs.replace(a_pod(f"r{number}", on=f"n{number}", cpu="1", memory="1Gi"), eviction_facts=OWNED)
        for number in range(NODES - 1)
    ]
    waiting = [a_pod(f"w{number}", cpu=f"{3500 + number}m", memory="1Gi") for number in range(8)]
    return Changes(
        generation=Generation(1),
        nodes=[NodeChange(NodeName(f"n{number}"), machine(f"n{number}")) for number in range(NODES)],
        pods=[PodChange(pod.uid, pod) for pod in (*running, *waiting)],
    )


CLUSTER = the_cluster()
PODS = {change.uid: change.pod for change in CLUSTER.pods if change.pod is not None}
LATE: Pod = a_pod("late", on="n11", cpu="3", memory="1Gi")


def question(number: int) -> Question:
    """A question that comes with a change."""
    changes = Changes(generation=Generation(2), pods=[PodChange(LATE.uid, LATE)])
    return Question(number=number, changes=changes, rebuild=False, body=Seen(), seconds=60.0)


@dataclass(frozen=True, slots=True)
class Seen:
    def answer(self, replica: SnapshotReplica) -> bytes:
        raise NotImplementedError


def seen(replica: SnapshotReplica) -> tuple[dict[str, int], int, bool]:
    used = {str(name): int(replica.snapshot.used[0, replica.row_of(name)]) for name in replica.nodes}
    return used, len(replica.pending), bool(replica.snapshot._trials)


class Process:
    """A planning process. `asks_at`: at which of its looks for messages, the first is 1, it finds the question."""

    def __init__(self, *, asks_at: int = 0, is_child: bool = False) -> None:
        self._asks_at, self._is_child = asks_at, is_child
        self.looks = 0
        self.begun = 0
        #: Of each child that was to plan a consolidation, how many frames of plans had been sent before.
        self.consolidations: list[int] = []
        self.answers: list[tuple[dict[str, int], int, bool]] = []
        self._encoder, self._decoder = Encoder(FRAMED_TYPES), Decoder(pod_of=PODS.__getitem__)
        self._frames: deque[bytes] = deque()
        self._done: list[bytes] = []
        self.session = Session(
            next_frame=self._next, plan_done=self._done.append, begin_answer=self._begin, begin_consolidation=self._consolidate
        )

    def _next(self) -> bytes | None:
        if not self._frames:
            self.looks += 1
            if self.looks == self._asks_at:
                self._frames.extend(self._encoder.frames(question(1)))
        return self._frames.popleft() if self._frames else None

    def _begin(self, _number: int, _seconds: float) -> AnswerInChild | None:
        self.begun += 1
        return self._answer if self._is_child else None

    def _consolidate(self, number: int, _seconds: float) -> AnswerInChild | None:
        assert number == SCALE_DOWN.number
        self.consolidations.append(len(self._done))
        return self._answer if self._is_child else None

    def _answer(self, _question: PlannerQuestion, replica: SnapshotReplica) -> None:
        self.answers.append(seen(replica))

    def say(self, message: Ask | AskScaleDown | Question) -> object:
        for frame in self._encoder.frames(message):
            self.session.take(frame)
        found = [arrived.value for frame in self._done if (arrived := self._decoder.take(frame)) is not None]
        self._done.clear()
        return found[0] if found else None

    def plans(self) -> Iterator[object]:
        yield without_times(self.say(Ask(inquiry=an_inquiry(CLUSTER), rebuild=True)))
        yield without_times(self.say(SCALE_DOWN))


def without_times(plans: object) -> str:
    changed = plans if hasattr(plans, "slack") else replace(plans, seconds=0.0)  # type: ignore[type-var]
    return repr(changed)


def looks_of_a_plan() -> tuple[int, int]:
    """How often the plans for scale-up, and both plans, look for messages."""
    process = Process()
    process.say(Ask(inquiry=an_inquiry(CLUSTER), rebuild=True))
    first = process.looks
    process.say(SCALE_DOWN)
    return first, process.looks


UP, BOTH = looks_of_a_plan()
EVERY = range(1, BOTH + 1)


def test_both_plans_look_for_messages_at_many_steps() -> None:
    assert UP > 5
    assert BOTH - UP > 5


@pytest.mark.parametrize("at", EVERY)
def test_at_each_step_the_answer_sees_the_replica_of_before_with_what_came_since(at: int) -> None:
    child = Process(asks_at=at, is_child=True)
    child.say(Ask(inquiry=an_inquiry(CLUSTER), rebuild=True))
    if at > UP:
        child.say(SCALE_DOWN)
    want = {**{f"n{number}": 1000 for number in range(NODES - 1)}, "n11": 3000}
    assert child.answers == [(want, 8, False)]


def test_a_question_changes_no_plan_and_the_next_plan_knows_what_came_with_it() -> None:
    want = list(Process().plans())
    for at in EVERY:
        asked = Process(asks_at=at)
        assert list(asked.plans()) == want, at
        assert asked.begun == 1
        asked.say(Ask(inquiry=an_inquiry(Changes(generation=Generation(3))), rebuild=False))
        assert asked.session._maker.replica.find(LATE.uid) == LATE


def test_a_question_between_the_two_plans_changes_neither() -> None:
    plain, asked = Process(), Process()
    first = Ask(inquiry=an_inquiry(CLUSTER), rebuild=True)
    assert without_times(plain.say(first)) == without_times(asked.say(first))
    asked.say(question(1))
    assert without_times(plain.say(SCALE_DOWN)) == without_times(asked.say(SCALE_DOWN))


def consolidating() -> Inquiry:
    """Nothing waits, so a consolidation is planned."""
    running = Changes(
        generation=CLUSTER.generation, nodes=CLUSTER.nodes, pods=[each for each in CLUSTER.pods if "r" in each.uid]
    )
    found = an_inquiry(running)
    rules = replace(RULES, policy=replace(RULES.policy, prices=PriceBook()))
    return replace(found, rules=rules, consolidation=ConsolidationInquiry(policy=installed.CONSOLIDATION))


def test_a_consolidation_is_planned_by_a_child_once_the_plan_of_removals_is_sent() -> None:
    parent = Process()
    parent.say(Ask(inquiry=consolidating(), rebuild=True))
    parent.say(SCALE_DOWN)
    assert [count > 0 for count in parent.consolidations] == [True]
    looks = parent.looks
    assert isinstance(parent.say(Ask(inquiry=an_inquiry(CLUSTER), rebuild=True)), Plans)
    assert parent.looks > looks
    child = Process(is_child=True)
    child.say(Ask(inquiry=consolidating(), rebuild=True))
    child.say(SCALE_DOWN)
    assert [pending for _, pending, in_a_trial in child.answers if not in_a_trial] == [0]


def test_no_child_plans_a_consolidation_that_nobody_asked_for_or_while_pods_need_nodes() -> None:
    pods_wait = replace(consolidating(), changes=CLUSTER)
    for inquiry in (an_inquiry(CLUSTER), pods_wait):
        process = Process()
        process.say(Ask(inquiry=inquiry, rebuild=True))
        process.say(SCALE_DOWN)
        assert process.consolidations == []
