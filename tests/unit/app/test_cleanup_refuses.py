"""Cleanup changes nothing while a service runs, whatever its election: a Pod, a Lease or a recent write gives it away."""

import json
import socket
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slackwater.adapters.api_calls import Call, Response
from slackwater.app.cleanup import Cleaner, StillRuns
from slackwater.cli.commands import ops_client
from slackwater.cli.main import main

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
Json = dict[str, Any]


class Api:
    """An API server with the types of the core and of Leases, and without the others. `writes`: the requests that change."""

    def __init__(self, **collections: list[Json]) -> None:
        self.collections = collections
        self.writes: list[str] = []

    async def send(self, call: Call) -> Response:
        if call.method != "GET":
            self.writes.append(f"{call.method} {call.path}")
        status, body = self._answer(call)
        return Response(status, json.dumps(body).encode(), {})

    def _answer(self, call: Call) -> tuple[int, Json]:
        name = call.path.rpartition("/")[2]
        match call.path:
            case "/api/v1":
                return 200, {"resources": [{"name": name} for name in ("pods", "nodes", "configmaps")]}
            case "/apis/coordination.k8s.io":
                return 200, {"preferredVersion": {"groupVersion": "coordination.k8s.io/v1"}}
            case "/apis/coordination.k8s.io/v1":
                return 200, {"resources": [{"name": "leases"}]}
            case _ if name in {"pods", "nodes", "configmaps", "leases"}:
                ours = "labelSelector" in call.params  # the Pods of the service
                return 200, {"items": self.collections.get("replicas" if ours else name, [])}
            case _:
                return 404, {}

    def stream(self, *_: Any, **__: Any) -> AsyncGenerator[list[bytes], None]:
        raise NotImplementedError


def written(name: str, seconds_ago: float, manager: str = "slackwater") -> Json:
    at = (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = {"manager": manager, "time": at, "fieldsV1": {"f:data": {".": {}}}}
    meta = {"name": name, "namespace": "ns", "uid": "u", "resourceVersion": "1", "managedFields": [entry]}
    return {"metadata": {**meta, "annotations": {"slackwater.dev/permit": "{}"}}, "spec": {}, "status": {}}


def a_replica(phase: str = "Running") -> Json:
    meta = {"name": "slackwater-0", "namespace": "kube-system"}
    return {"metadata": meta, "spec": {"containers": []}, "status": {"phase": phase}}


async def cleaned(api: Api, *, force: bool = False) -> list[str]:
    await Cleaner(api, now=NOW, dry_run=False).run(force=force)
    return api.writes


@pytest.mark.parametrize("kind", ["pods", "nodes", "configmaps"])
async def test_it_refuses_when_something_was_written_within_a_minute(kind: str) -> None:
    api = Api(**{kind: [written("old", 4000), written("fresh", 12)]})
    with pytest.raises(StillRuns, match=f"wrote to {kind} ns/fresh 12 s ago.*try again in 60 s.*--force"):
        await cleaned(api)
    assert api.writes == []
    assert await cleaned(api, force=True) != []


async def test_it_refuses_while_a_replica_runs_that_writes_nothing() -> None:
    api = Api(replicas=[a_replica()], pods=[written("old", 4000)])
    with pytest.raises(StillRuns, match="Pod kube-system/slackwater-0 runs the service; stop it"):
        await cleaned(api)
    assert api.writes == []


async def test_it_begins_when_nothing_runs_and_nothing_was_written_lately() -> None:
    others = written("theirs", 1, manager="kubectl")
    del others["metadata"]["annotations"]
    api = Api(replicas=[a_replica("Succeeded")], pods=[written("old", 61), others])
    assert {write.rpartition("/")[2] for write in await cleaned(api)} == {"old"}


def test_the_command_refuses_while_something_answers_on_this_host(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(ops_client, "DEFAULT_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert main(["cleanup", "--kubeconfig", "/nowhere"]) == 1
    assert "something answers at" in capsys.readouterr().err
