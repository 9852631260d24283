"""Permits are written under two conditions, checked by an API server that carries out the patches: the same object, the same
former text."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import anyio
import msgspec
import pytest
from msgspec import structs

from slackwater.adapters.api_calls import Response, Write
from slackwater.adapters.kube.vertical_writer import VerticalWriter
from slackwater.model.effects import WritePermit
from slackwater.model.events import PermitWritten
from slackwater.model.ids import PodKey, PodUid
from slackwater.model.permits import PersistedPermit
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded_demo import answered_by
from slackwater_protocol.names import PERMIT
from tests.support.builders import amounts

pytestmark = pytest.mark.anyio

PODS: Final = "/api/v1/namespaces/default/pods"


def text(cpu: str) -> str:
    return PersistedPermit(permit=amounts(cpu, "1Gi"), permit_limit=amounts(cpu, "1Gi")).text()


class Cluster:
    """An API server with one pod, whose permit is `text("3")`."""

    def __init__(self) -> None:
        self.server = ApiServer(rng=Random(1), wall=lambda: 1.8e9)
        meta = {"name": "p", "namespace": "default", "annotations": {PERMIT: text("3")}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        made = self._call("POST", PODS, {"metadata": meta, "spec": spec})
        self.uid: str = made["metadata"]["uid"]
        self.writer = VerticalWriter(self._send)

    async def _send(
        self, method: str, path: str, body: object, deadline: float, *, content_type: str = "application/json"
    ) -> Response:
        content = None if body is None else msgspec.json.encode(body)
        return answered_by(self.server, Write(method, path, body=content, content_type=content_type, timeout_seconds=deadline))

    def _call(self, method: str, path: str, body: object) -> Any:
        content = msgspec.json.encode(body)
        call = Write(method, path, body=content, content_type="application/json", timeout_seconds=1.0)
        return msgspec.json.decode(answered_by(self.server, call).body)

    @property
    def permit(self) -> str:
        found: str = self._call("GET", f"{PODS}/p", {})["metadata"]["annotations"][PERMIT]
        return found

    def write(self) -> WritePermit:
        """Raises the permit from 3 to 4 CPUs."""
        key = PodKey("default", "p")
        return WritePermit(uid=self.uid, key=key, on="pod", pod=PodUid(self.uid), before=text("3"), text=text("4"))


LATE: list[tuple[str, Callable[[WritePermit], WritePermit], str]] = [
    ("in time", lambda write: write, "4"),
    ("another text stands there", lambda write: structs.replace(write, before=text("2")), "3"),
    ("another object of the name", lambda write: structs.replace(write, uid="another"), "3"),
]


@pytest.mark.parametrize(("changed", "want"), [case[1:] for case in LATE], ids=[case[0] for case in LATE])
async def test_a_late_permit_does_not_overwrite_a_newer_one(changed: Callable[[WritePermit], WritePermit], want: str) -> None:
    """A process that was taken for dead may still write; what stands there by then is its successor's."""
    cluster = Cluster()
    outcome = await cluster.writer.perform(changed(cluster.write()), anyio.current_time() + 60)
    assert cluster.permit == text(want)
    assert (outcome.verdict == "done") is (want == "4")
    if isinstance(outcome.event, PermitWritten):
        assert outcome.event.text == text(want)
