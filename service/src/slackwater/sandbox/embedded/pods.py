"""Implements the embedded API server's actions on pods: binding, eviction, and deletion with a grace period."""

from collections.abc import Callable

from slackwater.adapters.kube.decode import ENDED
from slackwater.model.objects import COPIED_LABELS
from slackwater.sandbox.embedded.admission import rfc3339
from slackwater.sandbox.embedded.faults import Fault, Json, conflict, other_uid
from slackwater.sandbox.embedded.kinds import BUDGETS, NODES, PODS, selects
from slackwater.sandbox.embedded.store import Key, Store, StoredObject


class PodActions:
    """Carries out bindings, evictions and deletions of pods in the store."""

    def __init__(self, store: Store, wall: Callable[[], float]) -> None:
        self._store = store
        self._wall = wall

    def bind(self, key: Key, binding: Json) -> None:
        """Binds the pod to the node that the Binding names. Raises `Fault` (404, 409)."""
        pod = self._store.get(PODS, key).body
        meta, spec, name = pod["metadata"], pod["spec"], key[1]
        wanted = (binding.get("metadata") or {}).get("uid")
        if wanted and wanted != meta["uid"]:
            raise other_uid("pods", name, wanted, meta["uid"])
        if "deletionTimestamp" in meta:
            raise conflict("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise conflict("pods/binding", name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
        if spec.get("schedulingGates"):
            raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
        now = rfc3339(self._wall())
        status = {k: v for k, v in pod["status"].items() if k != "nominatedNodeName"}
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        others = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
        status["conditions"] = [*others, scheduled]
        node = binding["target"]["name"]
        meta = {**meta, "generation": meta.get("generation", 1) + 1}
        if added := self._labels_of(node):
            meta["labels"] = {**(meta.get("labels") or {}), **added}
        self._store.put(PODS, key, {**pod, "metadata": meta, "spec": {**spec, "nodeName": node}, "status": status})

    def _labels_of(self, node: str) -> dict[str, str]:
        """The labels that a pod on the node gets."""
        found = self._store.find(NODES, ("", node))
        labels = (found.body["metadata"].get("labels") if found is not None else None) or {}
        return {name: labels[name] for name in COPIED_LABELS if name in labels}

    def evict(self, key: Key, eviction: Json) -> None:
        """Evicts the pod, if its disruption budget allows that. Raises `Fault` (404, 409, 429, 500)."""
        pod = self._store.get(PODS, key)
        options = eviction.get("deleteOptions") or {}
        phase = pod.body["status"].get("phase")
        if phase not in {"Succeeded", "Failed", "Pending"} and "deletionTimestamp" not in pod.body["metadata"]:
            self._spend(pod.body)
        check_preconditions("pods", key[1], options.get("preconditions") or {}, pod.body["metadata"])
        conditions = pod.body["status"].get("conditions") or ()
        others = [c for c in conditions if c["type"] != "DisruptionTarget"]
        said = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        if [c.get("reason") for c in conditions if c["type"] == "DisruptionTarget"] != [said["reason"]]:
            said["message"], said["lastTransitionTime"] = "Eviction API: evicting", rfc3339(self._wall())
            status = {**pod.body["status"], "conditions": [*others, said]}
            self._store.put(PODS, key, {**pod.body, "status": status})
        self.delete(key, options)

    def _spend(self, pod: Json) -> None:
        """Uses up one disruption of the budget that selects the pod, if there is one. Raises `Fault` if the budget has none
        left (429), or if several budgets select the pod (500)."""
        meta = pod["metadata"]
        budgets = [
            stored
            for stored in self._store.all(BUDGETS, meta["namespace"])
            if selects(stored.body["spec"].get("selector"), meta.get("labels") or {})
        ]
        if not budgets:
            return
        if len(budgets) > 1:
            raise Fault(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            )
        budget = budgets[0].body
        status = budget.get("status") or {}
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
            raise _too_many(f"The disruption budget {budget['metadata']['name']} is still being processed by the server.", 10)
        if status.get("disruptionsAllowed", 0) <= 0:
            text = (
                f"The disruption budget {budget['metadata']['name']} needs {status.get('desiredHealthy', 0)} healthy pods "
                f"and has {status.get('currentHealthy', 0)} currently"
            )
            raise _too_many(text, None)
        disrupted = {**(status.get("disruptedPods") or {}), meta["name"]: rfc3339(self._wall())}
        status = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted}
        key = (meta["namespace"], budget["metadata"]["name"])
        self._store.put(BUDGETS, key, {**budget, "status": status})

    def delete(self, key: Key, options: Json) -> StoredObject:
        """Deletes the pod; if it has a grace period or finalizers, only sets `deletionTimestamp`. Returns the pod after that.
        Raises `Fault` (404, 409)."""
        stored = self._store.get(PODS, key)
        pod, meta = stored.body, stored.body["metadata"]
        check_preconditions("pods", key[1], options.get("preconditions") or {}, meta)
        asked = options.get("gracePeriodSeconds")
        at_once = not pod["spec"].get("nodeName") or pod["status"].get("phase") in ENDED
        grace = 0 if at_once else int(pod["spec"]["terminationGracePeriodSeconds"] if asked is None else asked)
        left = meta.get("deletionGracePeriodSeconds")
        if left is not None and left <= grace and grace:
            return stored
        generation = meta.get("generation", 1) + 1
        ending = {
            "deletionTimestamp": rfc3339(self._wall() + grace),
            "deletionGracePeriodSeconds": grace,
            "generation": generation,
        }
        marked = self._store.put(PODS, key, {**pod, "metadata": {**meta, **ending}})
        return marked if grace or meta.get("finalizers") else self._store.remove(PODS, key)


def _too_many(text: str, seconds: int | None) -> Fault:
    cause = {"reason": "DisruptionBudget", "message": text}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return Fault(429, "TooManyRequests", message, details={"causes": [cause]}, retry_after=seconds)


def check_preconditions(plural: str, name: str, wanted: Json, meta: Json) -> None:
    """Checks the preconditions of a request, UID and version, against the object's metadata. Raises `Fault` (409)."""
    if (uid := wanted.get("uid")) is not None and uid != meta["uid"]:
        raise other_uid(plural, name, uid, meta["uid"])
    version = wanted.get("resourceVersion")
    if version is not None and version != meta["resourceVersion"]:
        why = f"Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: "
        raise conflict(plural, name, why + meta["resourceVersion"])
