"""Values through the pipe: what arrives equals what was sent, a bounded piece at a time, and shared values are told once."""

import gc
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from slackwater.controllers.scaleup.expanders import read_priorities
from slackwater.model.changes import Changes, PodChange
from slackwater.model.eviction_facts import NO_EVICTION_FACTS
from slackwater.model.ids import Generation
from slackwater.model.nodegroups import GroupName
from slackwater.model.objects import Pod
from slackwater.runtime.planner.value_frames import Decoder, Encoder
from tests.support.builders import a_node, a_pod
from tests.support.containers import sizes

FRAMED_TYPES = frozenset({Changes})


@dataclass
class Pipe:
    encoder: Encoder
    decoder: Decoder

    def through(self, value: Any) -> tuple[Any, list[bytes]]:
        frames = list(self.encoder.frames(value))
        arrived = [self.decoder.take(frame) for frame in frames]
        assert [found is None for found in arrived] == [True] * (len(frames) - 1) + [False]
        assert arrived[-1] is not None
        return arrived[-1].value, frames


def a_pipe() -> Pipe:
    return Pipe(Encoder(FRAMED_TYPES), Decoder())


def changes(pods: Iterable[Pod]) -> Changes:
    return Changes(generation=Generation(7), pods=tuple(PodChange(pod.uid, pod) for pod in pods))


def alike(count: int) -> list[Pod]:
    """Pods that share their kind and ties, as the edge decodes them."""
    one = a_pod("p", labels={"app": "a"}, on="n1")
    return [structs.replace(one, uid=a_pod(f"p{number}").uid) for number in range(count)]


def test_what_arrives_equals_what_was_sent() -> None:
    sent = changes([a_pod("a", on="n1", cpu="2"), a_pod("b", labels={"x": "y"}, priority=-5, message="0/1 nodes")])
    assert a_pipe().through(sent)[0] == sent
    nodes = [a_node("n1"), a_node("n2", cpu="8")]
    assert a_pipe().through({"nodes": nodes, "none": None, 5: (1.5, "x")})[0] == {
        "nodes": tuple(nodes),
        "none": None,
        5: (1.5, "x"),
    }


def test_the_expressions_of_the_expander_priority_arrive() -> None:
    sent = read_priorities({10: ["on-demand"], 50: ["^spot-[0-9]+$"]})
    arrived, _ = a_pipe().through(sent)
    assert arrived == sent
    assert [arrived.of(GroupName(name)) for name in ("spot-7", "on-demand", "spot-x")] == [50, 10, None]


def test_much_arrives_in_pieces_of_a_bounded_size() -> None:
    sent = changes(alike(5000))
    arrived, frames = a_pipe().through(sent)
    assert arrived == sent
    assert len(frames) > 10
    assert max(map(len, frames)) < 64 * 1024


def test_a_long_mapping_keeps_its_order() -> None:
    arrived, frames = a_pipe().through({f"k{number}": number for number in range(500, 0, -1)})
    assert list(arrived) == [f"k{number}" for number in range(500, 0, -1)]
    assert len(frames) > 1


def test_kinds_and_eviction_facts_are_sent_once_and_shared_at_the_other_end() -> None:
    pipe, pods = a_pipe(), alike(200)
    first, _ = pipe.through(changes(pods[:100]))
    second, frames = pipe.through(changes(pods[100:]))
    assert len({id(change.pod.kind) for change in (*first.pods, *second.pods)}) == 1
    assert len({id(change.pod.eviction_facts) for change in (*first.pods, *second.pods)}) == 1
    assert not any(b"requests" in frame or b"Amounts" in frame for frame in frames)


def test_an_unused_kind_is_forgotten_at_both_ends() -> None:
    pipe = a_pipe()
    for _ in range(50):
        pipe.through(changes(alike(3)))
        gc.collect()
    pipe.through(changes(()))
    # What is left is no pod's own.
    assert list(pipe.decoder._known.values()) == [NO_EVICTION_FACTS]
    assert len(pipe.encoder._shared._numbers) == 1


def test_texts_of_pods_that_are_gone_are_few() -> None:
    """Over months pods are made at millions of seconds."""
    pipe = a_pipe()
    for day in range(1, 15):
        made = [f"2027-02-{day:02}T{hour:02}:{minute:02}:00Z" for hour in range(24) for minute in range(0, 60, 2)]
        arrived, _ = pipe.through(
            changes(structs.replace(pod, created_at=at) for pod, at in zip(alike(720), made, strict=True))
        )
        assert [change.pod.created_at for change in arrived.pods] == made
    assert sizes(pipe.decoder)["Shared._kept"] <= 4_200
    again, _ = pipe.through(changes(structs.replace(pod, created_at=made[-1]) for pod in alike(100)))
    assert len({id(change.pod.created_at) for change in again.pods}) == 1


def test_a_number_is_not_taken_for_the_value_that_had_it_before() -> None:
    """Addresses are given again: two hundred kinds at one address each are two hundred kinds."""
    pipe = a_pipe()
    for cpu in range(1, 200):
        arrived, _ = pipe.through(changes([a_pod("p", cpu=str(cpu))]))
        assert arrived.pods[0].pod.kind.requests.cpu == 1000 * cpu


def test_a_pod_that_the_other_side_gave_goes_back_by_its_uid() -> None:
    pods = alike(300)
    given = {pod.uid: pod for pod in pods}
    stranger = a_pod("stranger")
    pipe = Pipe(Encoder(FRAMED_TYPES, theirs=lambda pod: given.get(pod.uid) is pod), Decoder(pod_of=given.__getitem__))
    arrived, frames = pipe.through([*pods, stranger])
    assert all(mine is theirs for mine, theirs in zip(pods, arrived, strict=False))
    assert (arrived[-1] == stranger, arrived[-1] is stranger) == (True, False)
    assert sum(map(len, frames)) < 100 * len(pods)
