"""Our writer against the real API server: what its answers really are when a pod is bound, gone or replaced."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import aiohttp
import pytest

from slackwater.adapters.kube.client import open_client
from slackwater.adapters.kube.decode import PodDecoder
from slackwater.adapters.kube.event_recorder import Recorder, RecorderConfig
from slackwater.adapters.kube.writer import ApiWriter
from slackwater.model.effects import Activate, Announce, Bind, Nominate, ReadPod
from slackwater.model.events import BindEnded, PodGone, PodRead
from slackwater.model.ids import NodeName, PodKey, PodUid
from slackwater.model.pod_constraints import KindInterner
from slackwater.ports.protocols import Outcome
from tests.cluster.support.ground import Ground
from tests.controlplane.talk import create, read, remove
from tests.support.controlplane.stack import ControlPlane
from tests.support.service import perform

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

_numbers = count(1)


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    async with control_plane.session() as session:
        yield session


@pytest.fixture
async def writer(control_plane: ControlPlane) -> AsyncIterator[ApiWriter]:
    """As the service's own account, whose rights are part of what is tried here."""
    seconds = count(0, 20)
    async with open_client(kubeconfig=str(control_plane.kubeconfig("slackwater"))) as client:
        recorder = Recorder(
            client, instance="t", now=lambda: datetime.now(UTC), clock=lambda: next(seconds), config=RecorderConfig()
        )
        yield ApiWriter(client, PodDecoder(KindInterner()), recorder, stamp=lambda: str(next(_numbers)))


class Pending:
    """A pod that waits for us alone."""

    def __init__(self, api: aiohttp.ClientSession, ground: Ground) -> None:
        self._api = api
        self.key = PodKey(ground.name, "written")
        self.path = f"/api/v1/namespaces/{ground.name}/pods"

    async def create(self) -> PodUid:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}
        spec = {"schedulerName": "nobody", "containers": [container]}
        made = await create(self._api, self.path, {"metadata": {"name": self.key.name}, "spec": spec})
        return PodUid(made["metadata"]["uid"])

    async def read(self) -> dict[str, Any]:
        return await read(self._api, f"{self.path}/{self.key.name}")

    async def remove(self) -> None:
        await remove(self._api, f"{self.path}/{self.key.name}")


@pytest.fixture
def pending(api: aiohttp.ClientSession, ground: Ground) -> Pending:
    return Pending(api, ground)


def bind_end(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome.event, BindEnded)
    return outcome.verdict, outcome.event.outcome


def learned(outcome: Outcome) -> object:
    """The node that the pod was found on (None: not bound), or "gone"."""
    match outcome.event:
        case PodRead(pod):
            return pod.node
        case PodGone():
            return "gone"
        case other:
            pytest.fail(f"it taught {other}")


async def test_a_bind_happens_once_and_says_so_each_time(writer: ApiWriter, pending: Pending) -> None:
    uid = await pending.create()
    here, there = NodeName("writer-1"), NodeName("writer-2")
    assert bind_end(await perform(writer, Bind(PodUid("other"), pending.key, here))) == ("refused", "gone")
    assert bind_end(await perform(writer, Bind(uid, pending.key, here))) == ("done", "bound")
    assert bind_end(await perform(writer, Bind(uid, pending.key, here))) == ("done", "bound")
    assert bind_end(await perform(writer, Bind(uid, pending.key, there))) == ("refused", "elsewhere")
    assert (await pending.read())["spec"]["nodeName"] == here
    await pending.remove()
    assert bind_end(await perform(writer, Bind(uid, pending.key, here))) == ("refused", "gone")
    await pending.create()
    assert bind_end(await perform(writer, Bind(uid, pending.key, here))) == ("refused", "gone")


async def test_an_activation_changes_the_pod_each_time_and_never_its_successor(writer: ApiWriter, pending: Pending) -> None:
    uid = await pending.create()
    touch = Activate(uid, pending.key, "room was freed")
    texts = set()
    for _ in range(2):
        assert (await perform(writer, touch)).verdict == "done"
        texts.add((await pending.read())["metadata"]["annotations"]["slackwater.dev/touched"])
    assert len(texts) == 2
    await pending.remove()
    outcome = await perform(writer, touch)
    assert (outcome.verdict, learned(outcome)) == ("refused", "gone")
    await pending.create()
    outcome = await perform(writer, touch)
    assert (outcome.verdict, learned(outcome)) == ("refused", "gone")
    assert "annotations" not in (await pending.read())["metadata"]


async def test_a_nomination_is_for_a_pending_pod_alone(writer: ApiWriter, pending: Pending) -> None:
    uid = await pending.create()
    nominate = Nominate(uid, pending.key, NodeName("writer-1"))
    assert (await perform(writer, nominate)).verdict == "done"
    assert (await pending.read())["status"]["nominatedNodeName"] == "writer-1"
    assert (await perform(writer, Bind(uid, pending.key, NodeName("writer-2")))).verdict == "done"
    outcome = await perform(writer, nominate)
    assert (outcome.verdict, outcome.code, learned(outcome)) == ("refused", 422, "writer-2")
    await pending.remove()
    outcome = await perform(writer, nominate)
    assert (outcome.verdict, learned(outcome)) == ("refused", "gone")
    await pending.create()
    outcome = await perform(writer, nominate)
    assert (outcome.verdict, learned(outcome)) == ("refused", "gone")
    assert "nominatedNodeName" not in (await pending.read())["status"]


async def test_a_pod_is_read_or_found_gone(writer: ApiWriter, pending: Pending) -> None:
    uid = await pending.create()
    outcome = await perform(writer, ReadPod(uid, pending.key))
    assert isinstance(outcome.event, PodRead)
    assert (outcome.event.pod.uid, outcome.event.pod.node) == (uid, None)
    assert learned(await perform(writer, ReadPod(PodUid("other"), pending.key))) == "gone"
    await pending.remove()
    assert learned(await perform(writer, ReadPod(uid, pending.key))) == "gone"


async def test_people_see_one_event_that_counts(
    writer: ApiWriter, pending: Pending, api: aiohttp.ClientSession, ground: Ground
) -> None:
    uid = await pending.create()
    for _ in range(3):
        outcome = await perform(writer, Announce(uid, pending.key, "Warning", "BindDenied", "no room left"))
        assert outcome.verdict == "done", outcome
    found = await read(api, f"/apis/events.k8s.io/v1/namespaces/{ground.name}/events")
    [event] = [event for event in found["items"] if event["regarding"]["uid"] == uid]
    assert (event["reason"], event["note"], event["series"]["count"]) == ("BindDenied", "no room left", 3)
