"""An API server in memory, behind the port of the providers: versions, preconditions, selectors, pages, scale and status.

Deliberately absent: what Kubernetes checks or adds, what controllers do, and what goes wrong on the way (`flakyapi`).
"""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel

from slackwater.adapters.api_calls import Call, Response
from slackwater.adapters.kube.decode import NodeDecoder
from slackwater.model.objects import Node

Json = dict[str, Any]


@dataclass
class ObjectStore:
    """Objects by their path. `served` are the types there are, as paths of the whole cluster's list."""

    served: set[str]
    objects: dict[str, Json] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)  #: (method, path)
    _versions: Iterator[int] = field(default_factory=lambda: count(100))

    async def send(self, call: Call) -> Response:
        self.asked.append((call.method, call.path))
        await anyio.lowlevel.checkpoint()  # others may come in between
        if call.method == "GET":
            return self._read(call.path, call.params)
        return self._write(call.method, call.path, json.loads(call.body or b"null"), call.content_type)

    # What tests and controllers of tests use directly.

    def put(self, path: str, **parts: Any) -> Json:
        """Makes or replaces the object there."""
        before = self.objects.get(path)
        meta = parts.pop("metadata", {})
        name, namespace = path.rpartition("/")[2], _namespace(path)
        uid = before["metadata"]["uid"] if before else f"uid-{next(self._versions)}"
        made = {**parts, "metadata": {**meta, "name": name, "uid": uid} | ({"namespace": namespace} if namespace else {})}
        return self._store(path, made)

    def listed(self, plural_path: str) -> dict[str, Json]:
        """The objects of one type, of all namespaces, by path."""
        return {path: item for path, item in self.objects.items() if _type(path) == plural_path}

    def drop(self, path: str) -> None:
        self.objects.pop(path, None)

    # How it is done.

    def _read(self, path: str, params: Mapping[str, str]) -> Response:
        if path.endswith("/scale"):
            parent = self.objects.get(path.removesuffix("/scale"))
            return _not_found(path) if parent is None else _ok(_scale(parent))
        if path in self.objects:
            return _ok(self.objects[path])
        if path + "/x" not in self.objects and _type(path + "/x") in self.served:
            return self._list(path, params)
        return _not_found(path)

    def _list(self, path: str, params: Mapping[str, str]) -> Response:
        plural, namespace = _type(path + "/x"), _namespace(path + "/x")
        found = [o for p, o in sorted(self.listed(plural).items()) if namespace in ("", _namespace(p))]
        found = [item for item in found if _selected(item, params.get("labelSelector", ""))]
        found = [item for item in found if _has_fields(item, params.get("fieldSelector", ""))]
        start, limit = int(params.get("continue", "0")), int(params.get("limit", "0")) or len(found)
        more = str(start + limit) if start + limit < len(found) else ""
        return _ok({"metadata": {"continue": more}, "items": found[start : start + limit]})

    def _write(self, method: str, path: str, body: Json, content_type: str) -> Response:
        if method == "POST":
            return self._create(f"{path}/{body['metadata']['name']}", body)
        scaled = path.endswith("/scale")
        path = path.removesuffix("/scale").removesuffix("/status")
        now = self.objects.get(path)
        if now is None:
            return _not_found(path)
        if method == "DELETE":
            return self._delete(path, now, body or {})
        meta = body.get("metadata", {})
        for key in ("uid", "resourceVersion"):
            if key in meta and meta[key] != now["metadata"][key]:
                return Response(409, b'{"message":"the object has been modified"}')
        if scaled:
            return _ok(_scale(self._store(path, _merged(now, {"spec": {"replicas": body["spec"]["replicas"]}}))))
        assert method == "PATCH"
        assert content_type == "application/merge-patch+json"
        return _ok(self._store(path, _merged(now, body)))

    def _create(self, path: str, body: Json) -> Response:
        if _type(path) not in self.served:
            return _not_found(path)
        if path in self.objects:
            return Response(409, b'{"reason":"AlreadyExists"}')
        return Response(201, json.dumps(self.put(path, **body)).encode())

    def _delete(self, path: str, now: Json, body: Json) -> Response:
        if any(now["metadata"][key] != value for key, value in body.get("preconditions", {}).items()):
            return Response(409)
        if now["metadata"].get("finalizers"):
            now["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            return Response(202)
        del self.objects[path]
        return Response(200)

    def _store(self, path: str, item: Json) -> Json:
        if "deletionTimestamp" in item["metadata"] and not item["metadata"].get("finalizers"):
            del self.objects[path]
            return item
        item["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[path] = copy.deepcopy(item)
        return item


def _type(path: str) -> str:
    """`/apis/g/v1/namespaces/ns/things/name` is of the type `/apis/g/v1/things`."""
    parts = path.split("/")[:-1]
    if "namespaces" in parts and parts.index("namespaces") < len(parts) - 2:
        at = parts.index("namespaces")
        del parts[at : at + 2]
    return "/".join(parts)


def _namespace(path: str) -> str:
    parts = path.split("/")
    return parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-2] else ""


def _selected(item: Json, selector: str) -> bool:
    labels = item["metadata"].get("labels", {})
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def _has_fields(item: Json, selector: str) -> bool:
    for term in filter(None, selector.split(",")):
        field_path, _, value = term.partition("=")
        found: Any = item
        for key in field_path.split("."):
            found = found.get(key, {})
        if found != value:
            return False
    return True


def _merged(now: Json, patch: Json) -> Json:
    """RFC 7386."""
    result = dict(now)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            before = result.get(key)
            result[key] = _merged(before if isinstance(before, dict) else {}, value)
        else:
            result[key] = value
    return result


def _scale(parent: Json) -> Json:
    meta = {key: parent["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    replicas = parent["spec"].get("replicas", 0)
    return {"kind": "Scale", "metadata": meta, "spec": {"replicas": replicas}, "status": {"replicas": replicas}}


def _ok(body: Json) -> Response:
    return Response(200, json.dumps(body).encode())


def _not_found(path: str) -> Response:
    return Response(404, json.dumps({"reason": "NotFound", "message": path}).encode())


async def nodes_of(store: ObjectStore, path: str) -> list[Node]:
    """The Nodes that the store has at the path of their list."""
    decoder = NodeDecoder()
    return [decoder.decode(json.dumps(node).encode()) for node in store.listed(path).values()]
