"""The rules of a kind with very many of them are one value in the serving process, and whole wherever they are read."""

import gc
import sys
from typing import Final

import msgspec
import pytest

from slackwater.adapters.kube.decode import PodDecoder
from slackwater.controllers.preemption.victims import _has_to_stay
from slackwater.model.events import NodeSeen, PodSeen
from slackwater.model.ids import Instant
from slackwater.model.objects import Pod
from slackwater.model.pod_constraints import MOST_RULES, Kind, KindInterner
from slackwater.runtime.dump import Dump, state_of
from slackwater.runtime.planner.value_frames import Decoder, Encoder
from slackwater.runtime.record.calls import encoded
from slackwater.runtime.restore import restore
from slackwater.runtime.state_machine import StateMachine
from tests.support import installed
from tests.support.answers import json_of
from tests.support.builders import a_node
from tests.support.large_objects import SHAPES, pod_json, stored

#: The shapes of pods with many rules; the others have few, and much else.
WITH_RULES: Final = sorted(SHAPES.keys() - {"local volumes", "gates", "labels", "owners", "node names"})
EVERYTHING_TOLERATED: Final = [{"operator": "Exists"}, *({"key": f"k{n}", "operator": "Exists"} for n in range(300))]


def decoded(raw: bytes, *, packs: bool) -> Pod:
    return PodDecoder(KindInterner(packs=packs)).decode(raw)


def both(raw: bytes) -> tuple[Kind, Kind]:
    """The kind as the serving process has it, and as every other reader has it."""
    return decoded(raw, packs=True).kind, decoded(raw, packs=False).kind


@pytest.mark.parametrize("name", WITH_RULES)
def test_packed_rules_are_the_same_rules(name: str) -> None:
    packed, whole = both(stored(SHAPES[name](600), 1))
    assert packed.packed_rules is not None
    assert packed.whole() == whole != packed
    assert hash(packed.whole()) == hash(whole)
    assert packed.pod_constraints is None
    assert (packed.requests, packed.namespace, packed.scheduler_name) == (whole.requests, whole.namespace, whole.scheduler_name)
    for fact in ("n_rules", "repels", "attracts", "mounts_claims", "tolerates_all", "missing_request", "preempts"):
        assert getattr(packed, fact) == getattr(whole, fact), fact


def test_what_is_read_without_unpacking_is_there_in_both() -> None:
    packed, whole = both(stored(pod_json("tolerant", tolerations=EVERYTHING_TOLERATED), 1))
    assert packed.packed_rules is not None
    assert packed.tolerates_all
    assert whole.tolerates_all
    names = ("required apart", "required together", "claims", "tolerations")
    kinds = [decoded(stored(SHAPES[name](600), 1), packs=True).kind for name in names]
    assert [kind.repels for kind in kinds] == [True, False, False, False]
    assert [kind.attracts for kind in kinds] == [False, True, False, False]
    assert [kind.mounts_claims for kind in kinds] == [False, False, True, False]
    assert not kinds[3].tolerates_all


def test_no_pod_is_added_to_the_victims_of_one_with_very_many_affinity_terms() -> None:
    victim = decoded(stored(pod_json("victim"), 2), packs=True)
    large, few = (stored(SHAPES["required together"](count), 1) for count in (600, 3))
    assert [_has_to_stay(victim, kind) for kind in both(large)] == [True, True], "it may have to run next to any pod"
    assert [_has_to_stay(victim, kind) for kind in both(few)] == [False, False]


def test_equal_kinds_are_one_packed_kind_and_few_rules_are_not_packed() -> None:
    pods = PodDecoder(KindInterner(packs=True))
    made = stored(SHAPES["preferred pods"](600), 1)
    first, second = (pods.decode(raw).kind for raw in (made, made.replace(b"uid-1", b"uid-2")))
    assert first is second
    assert len(pods.kinds) == 1
    few = pods.decode(stored(SHAPES["preferred pods"](MOST_RULES // 8), 3)).kind
    assert few.n_rules <= MOST_RULES
    assert few.packed_rules is None


def test_a_large_pod_leaves_few_objects_in_memory() -> None:
    pods = PodDecoder(KindInterner(packs=True))
    raws = [stored(SHAPES[name](1_000), number) for number, name in enumerate(WITH_RULES)]
    gc.collect()
    before = sys.getallocatedblocks()
    kept = [pods.decode(raw) for raw in raws]
    gc.collect()
    assert sys.getallocatedblocks() - before < 400 * len(kept), "a thousand rules were up to ten thousand objects"


def test_the_planning_process_and_dumps_have_all_rules_and_records_what_was_kept() -> None:
    raw = stored(SHAPES["required together"](600), 1)
    pod, whole = decoded(raw, packs=True), decoded(raw, packs=False)
    decoder = Decoder()
    (frame,) = Encoder(frozenset()).frames(pod)
    arrived = decoder.take(frame)
    assert arrived is not None
    assert arrived.value == whole
    assert msgspec.msgpack.decode(encoded(pod), type=Pod) == pod
    state_machine = StateMachine(installed.POLICY)
    for event in (NodeSeen(a_node("n-0")), PodSeen(pod)):
        state_machine.apply(event, Instant(0.0))
    found = json_of(state_of(Dump(state_machine, Instant(0.0))))
    assert "packed_rules" not in found["objects"]["kinds"][0]
    restored = restore(msgspec.json.decode(msgspec.json.encode(found)), installed.POLICY, Instant(0.0))
    assert restored.state.pods.get(pod.uid) == whole
