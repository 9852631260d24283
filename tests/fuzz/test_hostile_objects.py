"""Objects with any number of JSON, any quantity text and any annotation: the service lives, and places everybody else.

Anybody who may create or annotate a pod can write these; a kubelet can report any amounts of its node.
"""

import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.cluster.pods import PodTable
from slackwater.model.ids import NodeName, PodKey
from slackwater.model.resources import LARGEST_AMOUNT
from slackwater.sandbox.embedded_demo import asking
from slackwater_protocol.names import BOUNDS, NEON_BOUNDS, NEON_VM_RESOURCES, PERMIT
from tests.support.wholeservice import Whole, a_whole_service

pytestmark = pytest.mark.anyio

#: So many hostile objects in all.
OBJECTS: Final = int(os.environ.get("SLACKWATER_FUZZ_OBJECTS", "400"))
_BATCH: Final = 50
_ROOM: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_PODS: Final = "/api/v1/namespaces/default/pods"
_NODES: Final = "/api/v1/nodes"
#: The nodes where hostile pods stand, and those where everybody else has to find a place.
_HOSTILE: Final = ("hostile-1", "hostile-2")
_QUIET: Final = ("quiet-1", "quiet-2")
_SUFFIXES: Final = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e9", "e999", "E-5")

_digits = st.one_of(
    st.integers(min_value=0, max_value=2**70).map(str),
    st.sampled_from(["0", "1", "8", "5", str(2**50), str(2**63 - 1), str(2**63), "9" * 25, "9" * 1001, "0" * 5000 + "3"]),
    st.sampled_from(["0." + "0" * 5000 + "1", "1" + "0" * 5000 + "e-5000"]),
)
quantities = st.one_of(
    st.builds(
        lambda sign, digits, suffix: f"{sign}{digits}{suffix}",
        st.sampled_from(["", "-", "+"]),
        _digits,
        st.sampled_from(_SUFFIXES),
    ),
    st.text(max_size=8),
)
#: As JSON text: any number, of any length.
numbers = st.one_of(
    st.integers(min_value=-(2**70), max_value=2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["1e999", "-1e999", "Infinity", "-Infinity", "NaN", "9" * 5000, "-0", "0.1", "1e18", "null", "true", "[]", "{}"]
    ),
)
quoted = quantities.map(json.dumps)
values = st.one_of(numbers, quoted)


@st.composite
def permits(draw: st.DrawFn) -> str:
    permit, permit_limit = (f'{{"vCPUs":{draw(values)},"mem":{draw(values)}}}' for _ in range(2))
    return f'{{"permit":{permit},"limit":{permit_limit},"pod":"p","number":{draw(numbers)},"epoch":{draw(numbers)}}}'


@st.composite
def sizes(draw: st.DrawFn) -> str:
    cpus = f'{{"min":{draw(values)},"max":{draw(values)},"use":{draw(values)}}}'
    slots = f'{{"min":{draw(numbers)},"max":{draw(numbers)},"use":{draw(numbers)}}}'
    return f'{{"cpus":{cpus},"memorySlots":{slots},"memorySlotSize":{draw(values)}}}'


@st.composite
def bounds(draw: st.DrawFn) -> str:
    low, high = (f'{{"cpu":{draw(values)},"mem":{draw(values)}}}' for _ in range(2))
    return f'{{"min":{low},"max":{high}}}'


@st.composite
def hostile_pods(draw: st.DrawFn) -> dict[str, Any]:
    """Pending, behind a gate, or on one of the hostile nodes; with a few of the annotations that we read."""
    texts = {PERMIT: permits(), NEON_VM_RESOURCES: sizes(), NEON_BOUNDS: bounds(), BOUNDS: bounds()}
    chosen = draw(st.lists(st.sampled_from(sorted(texts)), unique=True, max_size=3))
    annotations = {name: draw(st.one_of(texts[name], st.text(max_size=20))) for name in chosen}
    requests = {
        name: draw(quantities) for name in draw(st.lists(st.sampled_from(["cpu", "memory", "example.com/gpu"]), unique=True))
    }
    spec: dict[str, Any] = {"schedulerName": "slackwater", "priority": draw(st.sampled_from([0, 5, -5]))}
    spec["containers"] = [{"name": "app", "image": "i", "resources": {"requests": requests}}]
    match draw(st.sampled_from(["pending", "gated", "bound", "bound"])):
        case "gated":
            spec["schedulingGates"] = [{"name": "slackwater.dev/gate"}]
        case "bound":
            spec["nodeName"] = draw(st.sampled_from(_HOSTILE))
        case _:
            pass
    return {"metadata": {"annotations": annotations}, "spec": spec}


def of_two(kind: str, unit: str) -> dict[str, Any]:
    """A bound pod of which two wrap an int64: by requests, or by bounds."""
    spec = {"schedulerName": "slackwater", "nodeName": _HOSTILE[0]}
    annotations = {} if kind == "requests" else {BOUNDS: f'{{"min":{{"cpu":1,"mem":"1Gi"}},"max":{{"cpu":1,"mem":"{unit}"}}}}'}
    requests = {"cpu": "1", "memory": unit if kind == "requests" else "1Gi"}
    return {
        "metadata": {"annotations": annotations},
        "spec": {**spec, "containers": [{"name": "app", "image": "i", "resources": {"requests": requests}}]},
    }


class Storm:
    """A running service whose cluster is filled with hostile objects, a batch at a time.

    Each batch is followed by one ordinary pod, for which the extender is asked as kube-scheduler asks it.
    """

    def __init__(self, whole: Whole) -> None:
        self.whole = whole
        self.count = 0
        self._ask = asking(lambda: whole.running.extender)

    def add(self, pod: dict[str, Any]) -> str:
        """Creates the pod; the sandbox' API server may refuse it, as the real one would."""
        self.count += 1
        name = f"hostile-{self.count}"
        body = {"apiVersion": "v1", "kind": "Pod", **pod}
        body["metadata"] = {**pod["metadata"], "name": name, "namespace": "default"}
        answer = self.whole.sandbox.request("POST", _PODS, body=json.dumps(body).encode())
        assert answer.status in {201, 400, 422}, answer.body
        return name

    def report(self, node: str, amounts: dict[str, str]) -> None:
        """The node's kubelet reports these amounts."""
        patch = json.dumps({"status": {"allocatable": amounts, "capacity": amounts}}).encode()
        kind = "application/merge-patch+json"
        answer = self.whole.sandbox.request("PATCH", f"{_NODES}/{node}/status", body=patch, content_type=kind)
        assert answer.status in {200, 400, 422}, answer.body

    def remove(self, name: str) -> None:
        self.whole.sandbox.request("DELETE", f"{_PODS}/{name}", params={"gracePeriodSeconds": "0"})

    async def places_others(self, number: int) -> None:
        """An ordinary pod finds its place while all that is there."""
        name = f"good-{number}"
        resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        spec = {"schedulerName": "slackwater", "containers": [{"name": "app", "image": "i", "resources": resources}]}
        metadata = {"name": name, "namespace": "default"}
        pod = self.whole.create(_PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        answer = await self._asked("filter", {"Pod": pod, "Nodes": None, "NodeNames": [*_HOSTILE, *_QUIET]})
        assert set(_QUIET) <= set(answer["NodeNames"]), answer
        uid = pod["metadata"]["uid"]
        bound = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": _QUIET[number % 2]}
        assert await self._asked("bind", bound) == {"Error": ""}
        pods = self.whole.running.state_machine.state.pods
        await self.whole.until(lambda: (seen := pods.by_key(PodKey("default", name))) is not None and seen.node in _QUIET)
        self.remove(name)

    async def _asked(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        status, answer = await self._ask(verb, json.dumps(body).encode())
        assert status == 200, answer
        found: dict[str, Any] = json.loads(answer)
        return found


def batches(count: int) -> Iterator[list[dict[str, Any]]]:
    """The same pods on every run with the same count."""
    found: list[dict[str, Any]] = []

    @settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(hostile_pods())
    def collect(pod: dict[str, Any]) -> None:
        found.append(pod)

    collect()
    for start in range(0, count, _BATCH):
        yield [found[at % len(found)] for at in range(start, min(start + _BATCH, count))]


def _all_known(pods: PodTable, keys: Sequence[PodKey]) -> bool:
    return all(pods.by_key(key) is not None for key in keys)


async def test_hostile_objects_end_nothing_and_keep_no_other_pod_from_being_placed() -> None:
    async with a_whole_service({"extender": {"bind": True}}) as whole:
        for name in (*_HOSTILE, *_QUIET):
            labels = {"quiet": "true"} if name in _QUIET else {}
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            whole.create(_NODES, {**body, "status": {"capacity": _ROOM, "allocatable": _ROOM}})
        storm, state_machine = Storm(whole), whole.running.state_machine
        await whole.until(lambda: [node.ready for _, node in state_machine.state.nodes] == [True] * 4)
        await storm.places_others(0)
        for pair, wants in ((of_two("requests", "5Ei"), 2 * LARGEST_AMOUNT), (of_two("bounds", "8Ei"), 2 * 2**30)):
            names = [storm.add(pair), storm.add(pair)]
            keys = [PodKey("default", name) for name in names]
            await whole.until(partial(_all_known, state_machine.state.pods, keys))
            row = state_machine.state.nodes.row_of[NodeName(_HOSTILE[0])]
            columns = state_machine.state.ledger.columns
            assert columns.reserved[1, row] == wants, "bounds that are too large count as missing"
            for name in names:
                storm.remove(name)
        for number, batch in enumerate(batches(OBJECTS), start=1):
            names = [storm.add(pod) for pod in batch]
            storm.report(_HOSTILE[1], {"cpu": str(10**number % 2**80), "memory": f"{number}Ei", "example.com/gpu": "9" * 19})
            await storm.places_others(number)
            for name in names:
                storm.remove(name)
            await anyio.lowlevel.checkpoint()
        await storm.places_others(-1)
        assert not whole.running.intake.failed, whole.running.intake.failed
        assert len(state_machine.state.quarantine) == 0, dict(state_machine.state.quarantine.items())
