"""Events on pods that wait: after some time, few, one explanation for pods alike, and none for pods that have their node."""

import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import anyio
import pytest
from msgspec import structs

from slackwater.cluster.pods import PodTable
from slackwater.explain.events import note_of
from slackwater.model.effects import Announce
from slackwater.model.ids import Instant
from slackwater.ports.protocols import Explained, NothingThere
from slackwater.runtime.wait_events import WaitEvents, WaitEventsPolicy
from tests.faults.virtualloop import run_virtually
from tests.support.builders import a_pod

SHORT = {
    "code": "insufficient_cpu",
    "text": "the node has not enough cpu",
    "nodes": 5,
    "resource": "cpu",
    "short": {"milliCPU": 1500},
    "objects": [],
    "closest": "n3",
}
_FAILURES = {"gone": NothingThere("gone"), "broken": ZeroDivisionError("a bug")}
REMEDY = {"change": "lower the pod's cpu to 500m", "checked": True, "changes": []}


def an_answer(*, state: str = "pending", reasons: int = 1, remedies: int = 1) -> dict[str, Any]:
    return {"object": "pod shop/a", "state": state, "reasons": [SHORT] * reasons, "remedies": [REMEDY] * remedies}


@dataclass
class Scene:
    """`seconds`: how long an explanation takes. `sent` are the Events with their times."""

    seconds: float = 0.0
    state: str = "pending"
    only_of: str | None = "slackwater"
    pods: PodTable = field(default_factory=PodTable)
    asked: list[str] = field(default_factory=list)
    sent: list[tuple[float, Announce]] = field(default_factory=list)
    policy: WaitEventsPolicy = field(default_factory=WaitEventsPolicy)

    async def explain(self, _what: Explained, namespace: str, name: str) -> bytes:
        self.asked.append(f"{namespace}/{name}")
        await anyio.sleep(self.seconds)
        if self.state in _FAILURES:
            raise _FAILURES[self.state]
        return json.dumps(an_answer(state=self.state)).encode()

    def submit(self, effects: Iterable[Announce]) -> None:
        self.sent += [(anyio.current_time(), effect) for effect in effects]

    async def run(self, seconds: float) -> None:
        events = WaitEvents(
            self.pods,
            self.explain,
            self.submit,
            clock=lambda: Instant(anyio.current_time()),
            after_seconds=30.0,
            only_of=self.only_of,
            policy=self.policy,
        )
        with anyio.move_on_after(seconds):
            await events.run()


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtually(Random(1), main)


def test_a_pod_is_announced_after_its_time_and_again_after_ten_minutes() -> None:
    scene = Scene()

    async def main() -> None:
        scene.pods.put(a_pod("a", message="no room"))
        await scene.run(700.0)

    play(main)
    assert [round(at) for at, _ in scene.sent] == [31, 631]
    event = scene.sent[0][1]
    assert (event.key.name, event.type, event.reason) == ("a", "Warning", "Unschedulable")
    assert event.note == note_of(an_answer())


def test_a_pod_that_gets_its_node_in_time_has_no_event() -> None:
    scene = Scene()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(scene.run, 120.0)
            await anyio.sleep(5.0)
            for name in ("placed", "gone", "ended"):
                scene.pods.put(a_pod(name, message="no room"))
            await anyio.sleep(20.0)
            scene.pods.put(a_pod("placed", on="n1"))
            scene.pods.put(a_pod("ended", message="no room", ended=True))
            gone = a_pod("gone")
            scene.pods.drop(gone.uid, gone.key, Instant(0.0))

    play(main)
    assert scene.sent == []
    assert scene.asked == []


def test_a_thousand_pods_alike_share_an_explanation_and_a_bounded_rate_of_events() -> None:
    scene = Scene(seconds=0.1)

    async def main() -> None:
        for number in range(1000):
            scene.pods.put(a_pod(f"a-{number}", message="no room"))
        await scene.run(130.0)

    play(main)
    assert 300 <= len(scene.sent) <= 500, "five a second, for less than 100 s"
    assert len({event.key for _, event in scene.sent}) == len(scene.sent), "everybody once before anybody twice"
    assert len(scene.asked) == 2, "one a minute"


def test_explanations_take_a_tenth_of_the_time_at_most() -> None:
    scene = Scene(seconds=2.0)

    async def main() -> None:
        for number in range(100):
            scene.pods.put(a_pod(f"a-{number}", cpu=f"{number + 1}", message="no room"))
        await scene.run(1030.0)

    play(main)
    assert 40 <= len(scene.asked) <= 50, "a pod of another size needs another explanation"


def test_pods_of_other_schedulers_have_none_unless_the_autoscaler_looks_after_them() -> None:
    for only_of, want in (("slackwater", 0), (None, 1)):
        scene = Scene(only_of=only_of)

        async def main(scene: Scene = scene) -> None:
            pod = a_pod("a", message="no room")
            scene.pods.put(structs.replace(pod, kind=replace(pod.kind, scheduler_name="default-scheduler")))
            await scene.run(60.0)

        play(main)
        assert len(scene.sent) == want


@pytest.mark.parametrize("state", ["schedulable", "waiting", "placed", "gone", "broken"])
def test_a_pod_that_waits_for_nothing_is_looked_at_again_and_not_announced(state: str) -> None:
    scene = Scene(state=state)

    async def main() -> None:
        scene.pods.put(a_pod("a", message="no room"))
        await scene.run(200.0)

    play(main)
    assert scene.sent == []
    assert len(scene.asked) in {2, 3}


def test_the_text_has_the_reasons_and_the_first_remedies() -> None:
    want = (
        "waits, because the node has not enough cpu on 5 nodes, 1500m cpu short on n3. "
        "What would help: lower the pod's cpu to 500m."
    )
    assert note_of(an_answer()) == want


def test_without_a_remedy_the_text_says_so() -> None:
    note = note_of(an_answer(remedies=0))
    assert note is not None
    assert note.endswith("No change that was tried helps; see `slackwater explain pod shop/a`.")


def test_many_reasons_leave_room_for_the_remedy() -> None:
    long = {**SHORT, "text": "x" * 2000}
    note = note_of({**an_answer(), "reasons": [long] * 9})
    assert note is not None
    assert len(note) < 1024, "the API takes no more"
    assert "and 6 more reasons" in note
    assert "What would help: lower" in note
