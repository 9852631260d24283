"""Applies patches of the API server's three types to a copy of an object, and checks updates.

Merge patch: RFC 7386. JSON Patch: RFC 6902 (`test`, `add`, `replace`, `remove`). Strategic merge patch: lists of objects are
merged by the key of their type, for the lists that our writer and usual patches change. An unknown directive is refused.
`updated` applies the rules for updates: immutable fields, the fields that each path may change, and versions.
"""

from typing import Any, Final

import msgspec

from slackwater.adapters.api_calls import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from slackwater.sandbox.embedded.admission import qos_class
from slackwater.sandbox.embedded.faults import Fault, Json, bad_request, invalid, modified
from slackwater.sandbox.embedded.kinds import NODES, PODS, Target

#: The merge key of each list, by the list's name. Other lists are replaced as a whole.
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
    """A patched copy of the object. `custom`: its type is defined by a CRD. Raises `Fault`: 400, 415, or 422 if a test of a
    JSON Patch fails."""
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
            if not isinstance(patch, list):
                raise bad_request("a JSON Patch is a list of operations")
            for operation in patch:
                steps = [step.replace("~1", "/").replace("~0", "~") for step in str(operation["path"]).split("/")[1:]]
                _apply_operation(copy, operation, steps)
            return _object(copy)
        case _:
            pass
    raise Fault(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join((JSON_PATCH, MERGE_PATCH) if custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)),
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


def _apply_operation(target: Any, operation: Json, steps: list[str]) -> None:
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


#: Fields of `metadata` that updates cannot change.
_KEPT_META: Final = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
#: The mutable fields of a pod's spec, besides the containers' images.
_FREE_SPEC: Final = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_IMMUTABLE: Final = "field is immutable"
_SPEC_FIXED: Final = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def updated(target: Target, before: Json, wanted: Json) -> Json:
    """The object to store when a request updates `before` to `wanted`; equal to `before` if nothing changes. Raises `Fault`
    (403, 409, 422)."""
    kind, name = target.kind, target.name
    old, meta = before["metadata"], dict(wanted.get("metadata") or {})
    if meta.get("resourceVersion", old["resourceVersion"]) not in {old["resourceVersion"], ""}:
        raise modified(kind.full_name, name)
    for part in ("uid", "name", "namespace"):
        if meta.get(part, old.get(part)) != old.get(part):
            raise invalid(kind.kind, name, [(f"metadata.{part}", f"Invalid value: {meta[part]!r}: {_IMMUTABLE}")])
    meta["resourceVersion"] = old["resourceVersion"]
    for part in _KEPT_META:
        meta.pop(part, None)
        if part in old:
            meta[part] = old[part]
    for part in ("labels", "annotations", "ownerReferences", "finalizers"):
        if part in meta and not meta[part]:
            del meta[part]
    after = _only_subresource(target, before, {**wanted, "metadata": {**{k: old[k] for k in ("uid",) if k in old}, **meta}})
    if kind is PODS:
        _check_pod(target, before, after)
    if kind.counted and after.get("spec") != before.get("spec"):
        after["metadata"]["generation"] = old.get("generation", 1) + 1
    return after


def _only_subresource(target: Target, before: Json, after: Json) -> Json:
    """Takes only those parts of `after` that the request's path may change: the status by `/status`, the containers' resources
    by `/resize`, all but the status by the object's own path. The rest is taken from `before`."""
    if not target.kind.halves:
        return after
    if target.subresource == "status":
        # Only those of nodes and pods may change by this path.
        kept = dict((after if target.kind in {NODES, PODS} else before)["metadata"])
        return {**before, "metadata": kept, **({"status": after["status"]} if "status" in after else {})}
    if target.subresource == "resize":
        spec = _resized(target, before["spec"], after["spec"])
        statuses = before["status"].get("containerStatuses") or ()
        # Only if the kubelet reports the containers' resources can they be resized.
        if spec != before["spec"] and not (statuses and all("resources" in status for status in statuses)):
            why = "Pod running on node without support for resize"
            raise Fault(403, "Forbidden", f'pods "{target.name}" is forbidden: {why}')
        return {**before, "metadata": dict(before["metadata"]), "spec": spec}
    return {**after, **({"status": before["status"]} if "status" in before else {})}


def _resized(target: Target, before: Json, after: Json) -> Json:
    """The pod's spec with the containers' new resources. Raises `Fault` (422) if the QoS class would change."""
    wanted = {c["name"]: c.get("resources") or {} for c in after["containers"]}
    if wanted.keys() != {c["name"] for c in before["containers"]}:
        wrong = "pod resize may not add or remove containers"
        causes = [("spec.containers", f"Forbidden: {wrong}"), ("spec.containers", f"Invalid value: {wrong}")]
        raise invalid("Pod", target.name, causes)
    spec = {**before, "containers": [{**c, "resources": wanted[c["name"]]} for c in before["containers"]]}
    if qos_class(spec) != qos_class(before):
        wrong = f'Invalid value: "{qos_class(spec)}": Pod QOS Class may not change as a result of resizing'
        raise invalid("Pod", target.name, [("spec", wrong)])
    return spec


def _check_pod(target: Target, before: Json, after: Json) -> None:
    old, new = before["spec"], after["spec"]
    if target.subresource == "":
        if _fixed(old) != _fixed(new):
            raise invalid("Pod", target.name, [("spec", _SPEC_FIXED)])
        gates = [gate["name"] for gate in new.get("schedulingGates") or ()]
        if not set(gates) <= {gate["name"] for gate in old.get("schedulingGates") or ()}:
            wrong = "Forbidden: only deletion is allowed, but found new scheduling gate"
            raise invalid("Pod", target.name, [("spec.schedulingGates", wrong)])
        if "schedulingGates" in new and not gates:
            del new["schedulingGates"]
    nominated = after["status"].get("nominatedNodeName")
    if old.get("nodeName") and nominated and nominated != before["status"].get("nominatedNodeName"):
        wrong = "Forbidden: may not be set on a pod that is bound"
        raise invalid("Pod", target.name, [("status.nominatedNodeName", wrong)])


def _fixed(spec: Json) -> Json:
    """The immutable part of a pod's spec."""

    def container(of: Json) -> Json:
        return {key: value for key, value in of.items() if key != "image"}

    fixed: dict[str, Any] = {key: value for key, value in spec.items() if key not in _FREE_SPEC}
    for part in ("containers", "initContainers"):
        if part in fixed:
            fixed[part] = [container(of) for of in fixed[part]]
    return fixed
