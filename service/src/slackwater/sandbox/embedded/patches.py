"""The three patch types of the API server, applied to a copy.

Merge: RFC 7386. JSON Patch: RFC 6902 (`test`, `add`, `replace`, `remove`). Strategic merge: lists of objects are merged by the
key that their type names, as far as our writer and people's usual patches touch them; a directive that is not known is refused.
"""

from typing import Any, Final

import msgspec

from slackwater.sandbox.embedded.faults import Fault, Json, bad_request

MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"

#: By the list's name: the key that tells its items apart. Other lists are replaced as a whole.
_MERGE_KEYS: Final = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "schedulingGates": "name",
    "ownerReferences": "uid",
    "taints": "key",
    "volumes": "name",
    "env": "name",
    "ports": "containerPort",
}


def patched(before: Json, body: bytes, content_type: str, *, custom: bool) -> Json:
    """Raises `Fault`: 400, 415, or 422 where a test of a JSON Patch fails."""
    try:
        patch = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    copy: Json = msgspec.json.decode(msgspec.json.encode(before))
    match content_type:
        case "application/merge-patch+json":
            return _object(_merged(copy, patch))
        case "application/strategic-merge-patch+json" if not custom:
            return _object(_strategic(copy, patch))
        case "application/json-patch+json":
            return _object(_operated(copy, patch))
        case _:
            pass
    raise Fault(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join((JSON_PATCH, MERGE) if custom else (JSON_PATCH, MERGE, STRATEGIC)),
    )


def _object(found: Any) -> Json:
    if not isinstance(found, dict):
        raise bad_request("the patch leaves no object")
    return found


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _strategic(target: Any, patch: Any, name: str = "") -> Any:
    if isinstance(patch, list) and name in _MERGE_KEYS:
        return _merged_list(target if isinstance(target, list) else [], patch, _MERGE_KEYS[name])
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$"):
            raise bad_request(f"the sandbox does not know the directive {key}")
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _strategic(merged.get(key), value, key)
    return merged


def _merged_list(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    merged = list(target)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, known in enumerate(merged) if known.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            merged = [known for known in merged if known.get(key) != item[key]]
        elif at is None:
            merged.append(item)
        else:
            merged[at] = _strategic(merged[at], item)
    return merged


def _operated(target: Any, operations: Any) -> Any:
    if not isinstance(operations, list):
        raise bad_request("a JSON Patch is a list of operations")
    for operation in operations:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in str(operation["path"]).split("/")[1:]]
        _operate(target, operation, steps)
    return target


def _operate(target: Any, operation: Json, steps: list[str]) -> None:
    parent = target
    for step in steps[:-1]:
        parent = parent[int(step)] if isinstance(parent, list) else parent.get(step) if isinstance(parent, dict) else None
    last = steps[-1]
    there = isinstance(parent, dict) and last in parent
    match operation.get("op"):
        case "test":
            if not there or parent[last] != operation.get("value"):
                raise _failed(f"testing value {operation['path']} failed")
        case "replace" if there:
            parent[last] = operation["value"]
        case "add" if isinstance(parent, dict):
            parent[last] = operation["value"]
        case "remove" if there:
            del parent[last]
        case op:
            raise _failed(f"{op} operation does not apply: doc is missing path: {operation['path']}")


def _failed(message: str) -> Fault:
    return Fault(422, "Invalid", f"the server rejected our request due to an error in our request: {message}")
