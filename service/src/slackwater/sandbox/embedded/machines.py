"""Simulates NeonVM's controller as schedulers and agents see it: runner Pods of VirtualMachines, and migrations.

Shortly after a change the controller reads all machines and migrations and takes the next step of each. A machine has a runner
Pod with exactly the machine's labels and annotations. A migration creates a second runner, and ends with the deletion of the
first. There are no real machines.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import anyio
import msgspec

from slackwater.sandbox.embedded.faults import Json
from slackwater.sandbox.embedded.kinds import MACHINES, MIGRATIONS, PODS, ResourceKind
from slackwater.sandbox.embedded.server import ApiServer
from slackwater.sandbox.embedded.store import Change
from slackwater.sandbox.embedded.timers import Timers
from slackwater_protocol.names import NEON_VM_NAME, NEON_VM_RESOURCES

_LOOK_AFTER_SECONDS: Final = 0.1
_PLACES: Final = {kind: kind.prefix + "/namespaces/{}/" + kind.plural for kind in (PODS, MACHINES, MIGRATIONS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationBehavior:
    """How migrations proceed. `seconds`: how long a migration takes once its target Pod runs, multiplied by a random factor
    from 0.5 to 1.5. `fails`: the share of migrations that fail, 0 to 1."""

    seconds: float = 2.0
    fails: float = 0.0


class Machines:
    """Simulates the controller for all machines and migrations."""

    def __init__(
        self, api: ApiServer, timers: Timers, *, rng: Random, migration_behavior: MigrationBehavior = MigrationBehavior()
    ) -> None:
        self._api = api
        self._timers = timers
        self._rng = rng
        self._behavior = migration_behavior
        self._due = False
        self._ends_at: dict[str, float] = {}  # by the UID of the migration
        api.store.on_change.append(self._on_change)

    def _on_change(self, kind: ResourceKind, _change: Change) -> None:
        if kind in {PODS, MACHINES, MIGRATIONS}:
            self._schedule()

    def _schedule(self) -> None:
        if not self._due:
            self._due = True
            self._timers.after(_LOOK_AFTER_SECONDS, self._reconcile)

    def _reconcile(self) -> None:
        self._due = False
        for stored in self._api.store.all(MACHINES):
            self._ensure_runner(stored.body)
        for stored in self._api.store.all(MIGRATIONS):
            migration = stored.body
            key = (migration["metadata"]["namespace"], migration["spec"]["vmName"])
            machine = self._api.store.find(MACHINES, key)
            if machine is not None:
                self._migrate(migration, machine.body)
        self._clear_away()

    # --- machines ---------------------------------------------------------------------------------------------------------

    def _ensure_runner(self, machine: Json) -> None:
        """Ensures that the machine has a runner Pod with the machine's labels and annotations."""
        status, namespace = machine.get("status") or {}, machine["metadata"]["namespace"]
        runner = self._pod(namespace, status.get("podName", ""))
        if runner is None or runner["status"].get("phase") in {"Succeeded", "Failed"}:
            if status.get("phase") not in {"PreMigrating", "Migrating"} and "deletionTimestamp" not in machine["metadata"]:
                self._renew(machine, runner)
            return
        self._same(machine, runner)
        if status["phase"] == "Pending" and runner["status"].get("phase") == "Running":
            self._set_status(MACHINES, machine, phase="Running", node=runner["spec"]["nodeName"])

    def _renew(self, machine: Json, ended: Json | None) -> None:
        if ended is not None:
            self._delete(ended)
        name = self._a_name(machine)
        self._set_status(MACHINES, machine, podName=name, phase="Pending", node=None)
        self._create_runner(name, machine, [_owner(machine, controller=True)])

    def _same(self, machine: Json, pod: Json) -> None:
        """Makes the pod's labels and annotations equal to the machine's, and removes all others."""
        want = _copied(machine)
        found = {part: pod["metadata"].get(part) or {} for part in ("labels", "annotations")}
        changes = {
            part: {
                **{key: value for key, value in want[part].items() if found[part].get(key) != value},
                **dict.fromkeys(sorted(found[part].keys() - want[part].keys())),
            }
            for part in want
        }
        if any(changes.values()):
            self._patch(PODS, pod, {"metadata": changes})

    def _create_runner(self, name: str, machine: Json, owners: Iterable[Json], **spec: Any) -> None:
        namespace = machine["metadata"]["namespace"]
        body = {
            "metadata": {"name": name, "ownerReferences": list(owners), **_copied(machine)},
            "spec": {
                "schedulerName": machine["spec"]["schedulerName"],
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "neonvm-runner", "image": "example/runner"}],
                **spec,
            },
        }
        self._api.request("POST", _PLACES[PODS].format(namespace), body=msgspec.json.encode(body))

    # --- migrations -------------------------------------------------------------------------------------------------------

    def _migrate(self, migration: Json, machine: Json) -> None:
        phase, state = (migration.get("status") or {}).get("phase", ""), (machine.get("status") or {}).get("phase")
        # While the migration lasts, the target Pod has the machine's labels and annotations too.
        awaited = phase in {"Pending", "Running"}
        target = self._pod(machine["metadata"]["namespace"], migration["status"]["targetPodName"]) if awaited else None
        if target is not None:
            self._same(machine, target)
        if phase == "" and state == "Running":
            self._begin(migration, machine)
        elif phase == "Pending":
            self._await_target(migration, machine)
        elif phase == "Running":
            left = self._ends_at.get(migration["metadata"]["uid"], 0.0) - anyio.current_time()
            if left <= 0:
                self._end(migration, machine)
            else:
                self._timers.after(left, self._schedule)

    def _begin(self, migration: Json, machine: Json) -> None:
        namespace = machine["metadata"]["namespace"]
        source = self._pod(namespace, machine["status"]["podName"])
        if source is None:
            return
        name = self._a_name(machine)
        self._set_status(MACHINES, machine, phase="PreMigrating")
        status = {"sourcePodName": source["metadata"]["name"], "sourceNode": source["spec"]["nodeName"], "targetPodName": name}
        self._own(MIGRATIONS, migration, [_owner(machine, controller=True)])
        self._set_status(MIGRATIONS, migration, phase="Pending", **status)
        term = {
            "labelSelector": {"matchLabels": {NEON_VM_NAME: machine["metadata"]["name"]}},
            "topologyKey": "kubernetes.io/hostname",
        }
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        owners = [_owner(migration, controller=True), _owner(machine, controller=False)]
        self._create_runner(name, machine, owners, affinity=affinity)
        self._own(PODS, source, [_owner(machine, controller=True), _owner(migration, controller=False)])

    def _await_target(self, migration: Json, machine: Json) -> None:
        namespace, uid = machine["metadata"]["namespace"], migration["metadata"]["uid"]
        target = self._pod(namespace, migration["status"]["targetPodName"])
        source = self._pod(namespace, migration["status"]["sourcePodName"])
        if target is None or source is None:
            self._end(migration, machine)
        elif target["status"].get("phase") == "Running":
            seconds = self._behavior.seconds * self._rng.uniform(0.5, 1.5)
            self._ends_at[uid] = anyio.current_time() + seconds
            self._timers.after(seconds, self._schedule)
            self._set_status(MACHINES, machine, phase="Migrating")
            self._set_status(MIGRATIONS, migration, phase="Running", targetNode=target["spec"]["nodeName"])

    def _end(self, migration: Json, machine: Json) -> None:
        status, namespace = migration["status"], machine["metadata"]["namespace"]
        source, target = self._pod(namespace, status["sourcePodName"]), self._pod(namespace, status["targetPodName"])
        succeeded = target is not None and target["status"].get("phase") == "Running" and source is not None
        succeeded = succeeded and self._rng.random() >= self._behavior.fails
        if succeeded:
            assert target is not None
            assert source is not None
            self._own(PODS, target, [_owner(machine, controller=True)])
            self._set_status(
                MACHINES, machine, phase="Running", podName=status["targetPodName"], node=target["spec"]["nodeName"]
            )
            self._own(PODS, source, [_owner(migration, controller=False), _owner(machine, controller=False)])
            self._delete(source)
        else:
            self._set_status(MACHINES, machine, phase="Running")
            if source is not None:
                self._own(PODS, source, [_owner(machine, controller=True)])
            if target is not None:
                self._delete(target)
        self._ends_at.pop(migration["metadata"]["uid"], None)
        self._set_status(MIGRATIONS, migration, phase="Succeeded" if succeeded else "Failed")

    def _clear_away(self) -> None:
        """Deletes runners whose machine and migration no longer exist, as the garbage collector does. Returns machines whose
        migration no longer exists to phase Running."""
        living = {s.body["metadata"]["uid"] for kind in (MACHINES, MIGRATIONS) for s in self._api.store.each(kind)}
        for stored in self._api.store.all(PODS):
            owners = stored.body["metadata"].get("ownerReferences") or ()
            ours = [owner for owner in owners if owner["apiVersion"] == MACHINES.api_version]
            if ours and not any(o["uid"] in living for o in ours) and "deletionTimestamp" not in stored.body["metadata"]:
                self._delete(stored.body)
        for stored in self._api.store.all(MACHINES):
            machine = stored.body
            busy = (machine.get("status") or {}).get("phase") in {"PreMigrating", "Migrating"}
            if busy and not any(
                s.body["spec"]["vmName"] == machine["metadata"]["name"] for s in self._api.store.each(MIGRATIONS)
            ):
                self._set_status(MACHINES, machine, phase="Running")

    # --- the API ----------------------------------------------------------------------------------------------------------

    def _pod(self, namespace: str, name: str) -> Json | None:
        stored = self._api.store.find(PODS, (namespace, name))
        return None if stored is None else stored.body

    def _a_name(self, machine: Json) -> str:
        return f"{machine['metadata']['name']}-{self._rng.getrandbits(24):06x}"

    def _own(self, kind: ResourceKind, item: Json, owners: list[Json]) -> None:
        self._patch(kind, item, {"metadata": {"ownerReferences": owners}})

    def _set_status(self, kind: ResourceKind, item: Json, **status: Any) -> None:
        self._patch(kind, item, {"status": status}, "/status")

    def _delete(self, pod: Json) -> None:
        body = {"preconditions": {"uid": pod["metadata"]["uid"]}}
        self._api.request("DELETE", _path(PODS, pod), body=msgspec.json.encode(body))

    def _patch(self, kind: ResourceKind, item: Json, patch: Json, part: str = "") -> None:
        self._api.merge(_path(kind, item) + part, patch)


def _path(kind: ResourceKind, item: Json) -> str:
    return f"{_PLACES[kind].format(item['metadata']['namespace'])}/{item['metadata']['name']}"


def _copied(machine: Json) -> dict[str, dict[str, str]]:
    """The labels and annotations that the machine's runner Pods must have."""
    meta, guest = machine["metadata"], machine["spec"]["guest"]
    resources = msgspec.json.encode({part: guest[part] for part in ("cpus", "memorySlots", "memorySlotSize")}).decode()
    return {
        "labels": {**(meta.get("labels") or {}), NEON_VM_NAME: meta["name"]},
        "annotations": {**(meta.get("annotations") or {}), NEON_VM_RESOURCES: resources},
    }


def _owner(item: Json, *, controller: bool) -> Json:
    return {
        "apiVersion": MACHINES.api_version,
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": controller,
    }
