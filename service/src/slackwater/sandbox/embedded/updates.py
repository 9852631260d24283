"""What a change of an object may be: the parts that nobody changes, the parts that each path changes, and versions."""

from typing import Any, Final

from slackwater.sandbox.embedded.admission import qos_class
from slackwater.sandbox.embedded.faults import Fault, Json, invalid, modified
from slackwater.sandbox.embedded.kinds import NODES, PODS, Target

#: Of `metadata`: kept from before, whatever a change says.
_KEPT_META: Final = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
#: Of a pod's spec, what may be changed once it is made; containers' images besides.
_FREE_SPEC: Final = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_IMMUTABLE: Final = "field is immutable"
_SPEC_FIXED: Final = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def updated(target: Target, before: Json, wanted: Json) -> Json:
    """`wanted` as it may be stored; equal to `before` where it changes nothing. Raises `Fault` (409, 422)."""
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
    after = _halves(target, before, {**wanted, "metadata": {**{k: old[k] for k in ("uid",) if k in old}, **meta}})
    if kind is PODS:
        _check_pod(target, before, after)
    if kind.counted and after.get("spec") != before.get("spec"):
        after["metadata"]["generation"] = old.get("generation", 1) + 1
    return after


def _halves(target: Target, before: Json, after: Json) -> Json:
    """Status only through its path, and all else through the others."""
    if not target.kind.halves:
        return after
    if target.subresource == "status":
        kept = _meta_of_status(target, before, after)
        return {**before, "metadata": kept, **({"status": after["status"]} if "status" in after else {})}
    if target.subresource == "resize":
        spec = _resized(target, before["spec"], after["spec"])
        if spec != before["spec"] and not _tells_resources(before):
            why = "Pod running on node without support for resize"
            raise Fault(403, "Forbidden", f'pods "{target.name}" is forbidden: {why}')
        return {**before, "metadata": dict(before["metadata"]), "spec": spec}
    return {**after, **({"status": before["status"]} if "status" in before else {})}


def _meta_of_status(target: Target, before: Json, after: Json) -> Json:
    """Through a status' path nodes and pods may change their annotations and labels too; of custom ones nothing."""
    if target.kind in {NODES, PODS}:
        return dict(after["metadata"])
    return dict(before["metadata"])


def _tells_resources(pod: Json) -> bool:
    """Whether the pod's kubelet says what containers have: only then it can change that."""
    statuses = pod["status"].get("containerStatuses") or ()
    return bool(statuses) and all("resources" in status for status in statuses)


def _resized(target: Target, before: Json, after: Json) -> Json:
    """The containers' amounts alone, within the class that the pod has."""
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
    """What may not differ."""

    def container(of: Json) -> Json:
        return {key: value for key, value in of.items() if key != "image"}

    fixed: dict[str, Any] = {key: value for key, value in spec.items() if key not in _FREE_SPEC}
    for part in ("containers", "initContainers"):
        if part in fixed:
            fixed[part] = [container(of) for of in fixed[part]]
    return fixed
