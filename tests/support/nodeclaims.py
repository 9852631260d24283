"""A controller of NodeClaims that behaves towards an autoscaler as Karpenter's does, over an API server in memory.

`step` takes new NodeClaims in hand; `settle` lets their nodes register, and those that are being deleted go. Deliberately
absent: provisioning and disruption of its own. `tests/karpenter` has the real one.
"""

from dataclasses import dataclass
from typing import Any, Final

from slackwater.adapters.cloud.karpenter.objects import CLAIMS_PATH, EVENTS_PATH, POOLS_PATH
from tests.support.objectstore import ObjectStore

Json = dict[str, Any]

NODES: Final = "/api/v1/nodes"
_EVENTS: Final = "/api/v1/events"
_FINALIZER: Final = "karpenter.sh/termination"
NODE_CLASS: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
#: What hands a NodePool over.
STOPPED: Final = {"nodes": "0"}


def a_store() -> ObjectStore:
    return ObjectStore(served={NODES, CLAIMS_PATH, POOLS_PATH, _EVENTS})


def a_pool(store: ObjectStore, name: str, *, template: Json | None = None, labels: Json | None = None, **spec: Any) -> None:
    """A NodePool that was handed over, unless `spec` says otherwise."""
    made = {"spec": {"nodeClassRef": NODE_CLASS, **(template or {})}, "metadata": {"labels": labels or {}}}
    annotations = {"karpenter.sh/nodepool-hash": "17", "karpenter.sh/nodepool-hash-version": "v3", "else": "x"}
    said = {"limits": STOPPED, "disruption": {"budgets": [STOPPED]}, **spec}
    store.put(f"{POOLS_PATH}/{name}", metadata={"annotations": annotations}, spec={"template": made, **said})


@dataclass
class NodeClaimController:
    """`amounts`: what each node has."""

    store: ObjectStore
    amounts: Json

    def step(self) -> None:
        for path, claim in self._claims():
            if "status" not in claim:
                meta = {**claim["metadata"], "finalizers": [_FINALIZER]}
                launched = {"type": "Launched", "status": "Unknown", "reason": "AwaitingReconciliation"}
                self.store.put(path, **{**claim, "metadata": meta, "status": {"conditions": [launched]}})

    def settle(self) -> None:
        """Until nothing is left to do."""
        self.step()
        for path, claim in self._claims():
            name, reason = claim["metadata"]["name"], claim["status"]["conditions"][0].get("reason", "")
            if "deletionTimestamp" in claim["metadata"]:
                self.store.drop(path)
                self.store.drop(f"{NODES}/node-{name}")
            elif reason == "AwaitingReconciliation":
                self._boot(path, claim)

    def give_up(self) -> None:
        """What has no node is deleted: there is no capacity."""
        self.step()
        for path, claim in self._claims():
            if not claim["status"].get("nodeName"):
                name = claim["metadata"]["name"]
                about = {"kind": "NodeClaim", "name": name}
                message = f"NodeClaim {name} event: insufficient capacity, all of it is taken"
                event = f"{EVENTS_PATH}/{name}.1"
                self.store.put(event, involvedObject=about, reason="InsufficientCapacityError", message=message)
                self.store.drop(path)

    def refuse(self) -> None:
        """What has no node is not launched, and tried again."""
        self.step()
        for path, claim in self._claims():
            if not claim["status"].get("nodeName"):
                launched = {"type": "Launched", "status": "Unknown", "reason": "LaunchFailed", "message": "no credentials"}
                self.store.put(path, **{**claim, "status": {"conditions": [launched]}})

    def _claims(self) -> list[tuple[str, Json]]:
        return list(self.store.listed(CLAIMS_PATH).items())

    def _boot(self, path: str, claim: Json) -> None:
        name, id_ = claim["metadata"]["name"], f"kwok://node-{claim['metadata']['name']}"
        labels = claim["metadata"]["labels"]
        status = {"capacity": self.amounts, "allocatable": self.amounts}
        self.store.put(f"{NODES}/node-{name}", metadata={"labels": labels}, spec={"providerID": id_}, status=status)
        launched = {"type": "Launched", "status": "True"}
        known = {**status, "providerID": id_, "nodeName": f"node-{name}", "conditions": [launched]}
        self.store.put(path, **{**claim, "status": known})
