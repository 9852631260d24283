"""What the ops listener of a real service on a real control plane answers is what openapi/ops.yaml says.

With SLACKWATER_TEST_EXAMPLES=FOLDER the bodies are written there, as the document's examples: `make openapi RECORD=1`.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import aiohttp
import jsonschema_rs
import pytest
import yaml

from deploy.documents.ops_examples import EXAMPLES, OpsExample
from slackwater_protocol.names import NODE_GROUP
from tests.cluster.support.bodies import Json, a_pod
from tests.cluster.support.ground import Ground
from tests.cluster.support.stage import Stage
from tests.cluster.test_history import until_reported

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

FOLDER: Final = os.environ.get("SLACKWATER_TEST_EXAMPLES")
DOCUMENT: Final[Json] = yaml.safe_load(Path("openapi/ops.yaml").read_text())
_ROOM: Final = {"cpu": "8", "memory": "16Gi", "pods": "110"}


def supposed() -> dict[str, Json]:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "another"},
        "status": {"allocatable": _ROOM, "capacity": _ROOM},
    }
    group = {"name": "pool", "provider": "kwok", "maxSize": 3, "template": {"status": {"capacity": _ROOM}}}
    grows = {"configuration": {"autoscaler": {"enabled": True, "nodeGroups": [group]}}}
    replaces = {**grows, "objects": [each for number in (1, 2) for each in half_empty(f"pool-{number}")]}
    return {"placement": {"objects": [node]}, "scale-up": grows, "scale-down": grows, "consolidate": replaces}


def half_empty(name: str) -> list[Json]:
    """A node of the group, and a pod on it that leaves most of its room."""
    ready = [{"type": "Ready", "status": "True"}]
    meta = {"name": name, "labels": {NODE_GROUP: "pool"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": _ROOM, "conditions": ready}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    requests = {"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"on-{name}", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"nodeName": name, "containers": [{"name": "web", "image": "web", **requests}]},
        "status": {"phase": "Running"},
    }
    return [node, pod]


async def exchanged(url: str, example: OpsExample, path: str) -> tuple[Json | None, str]:
    body = supposed().get(example.name)
    async with aiohttp.ClientSession() as http, http.request(example.method, f"{url}{path}", json=body) as answer:
        assert answer.status == 200, await answer.text()
        return body, await answer.text()


def schema_of(example: OpsExample) -> tuple[Any, bool]:
    """The schema of an answer."""
    ((_, content),) = DOCUMENT["paths"][example.path][example.method]["responses"]["200"]["content"].items()
    return content["schema"], example.lines


def check(schema: Json, body: Any) -> None:
    jsonschema_rs.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(body)


async def test_what_is_answered_is_what_the_document_says(stage: Stage, ground: Ground) -> None:
    nodes = await ground.make_nodes(2, cpu="4")
    service = await stage.up()
    await ground.make_pods([a_pod("web-0", cpu="1"), a_pod("web-1", cpu="1")])
    await ground.until_bound(2, within_seconds=60)
    await ground.make_pods([a_pod("large", cpu="6")])
    await ground.until_refused("large")
    objects = {"/explain/pods/{namespace}/{name}": f"/explain/pods/{ground.name}/large"}
    objects["/history/pods/{namespace}/{name}"] = f"/history/pods/{ground.name}/large"
    await until_reported(service, f"pods/{ground.name}/large", "refused")
    objects["/explain/nodes/{name}"] = f"/explain/nodes/{nodes[0]}"
    for example in EXAMPLES:
        path = objects.get(example.path, example.path)
        asked, answer = await exchanged(service.ops_url, example, path)
        schema, lines = schema_of(example)
        for document in answer.splitlines() if lines else [answer]:
            check(schema, json.loads(document))
        if FOLDER is not None:
            write(Path(FOLDER), example, asked, answer)


def write(folder: Path, example: OpsExample, asked: Json | None, answer: str) -> None:
    text = answer if example.lines else json.dumps(json.loads(answer), indent=1) + "\n"
    (folder / example.file).write_text(text)
    if example.request_file is not None:
        (folder / example.request_file).write_text(json.dumps(asked, indent=1) + "\n")
