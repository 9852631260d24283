"""NeonVM's VirtualMachine and VirtualMachineMigration as resource types; their CRDs may be absent."""

from collections.abc import Callable
from typing import Final, TypeVar, cast, get_args

import msgspec

from slackwater.adapters.api_objects import ObjectDecoder, Wire
from slackwater.adapters.kube.decode import read_meta, version_number
from slackwater.adapters.kube.resource_type import Found, OnBroken, ResourceType
from slackwater.adapters.kube.structs import MetaWire
from slackwater.adapters.kube.vertical import MIGRATION_KIND
from slackwater.model.effects import CreateMigration
from slackwater.model.events import Event, MachineGone, MachineSeen, MigrationGone, MigrationSeen
from slackwater.model.ids import NodeName, PodKey
from slackwater.model.vertical import Machine, Phase, VirtualMachineMigration
from slackwater_protocol.names import NEON_CREATED_BY_SCHEDULER, NEON_VM_GROUP, NEON_VM_VERSION, TARGET_NODE

T = TypeVar("T", Machine, VirtualMachineMigration)

API_VERSION: Final = f"{NEON_VM_GROUP}/{NEON_VM_VERSION}"
MACHINES_PATH: Final = f"/apis/{API_VERSION}/virtualmachines"
MIGRATIONS_PATH: Final = f"/apis/{API_VERSION}/virtualmachinemigrations"


class _MigrationSpec(Wire):
    vm_name: str = ""


class _MigrationStatus(Wire):
    phase: str = ""
    source_pod_name: str = ""
    target_pod_name: str = ""


class _MigrationWire(Wire):
    metadata: MetaWire = msgspec.field(default_factory=MetaWire)
    spec: _MigrationSpec = msgspec.field(default_factory=_MigrationSpec)
    status: _MigrationStatus = msgspec.field(default_factory=_MigrationStatus)


_MIGRATION: Final = ObjectDecoder(_MigrationWire)


def decode_machine(raw: bytes | msgspec.Raw) -> Machine:
    """Decodes the JSON of a VirtualMachine. Raises ValueError."""
    meta = read_meta(raw)
    permit = meta.annotations.permit if meta.annotations is not None else None
    return Machine(
        key=PodKey(meta.namespace, meta.name),
        uid=meta.uid,
        resource_version=version_number(meta.resource_version),
        permit=permit,
    )


def decode_migration(raw: bytes | msgspec.Raw) -> VirtualMachineMigration:
    """Decodes the JSON of a VirtualMachineMigration. Raises ValueError."""
    wire = _MIGRATION.decode(raw)
    meta, status = wire.metadata, wire.status
    if status.phase not in get_args(Phase):
        raise ValueError(
            f"{MIGRATION_KIND} {meta.namespace}/{meta.name}: phase {status.phase!r}, want one of {get_args(Phase)}"
        )
    target_node = meta.annotations.target_node if meta.annotations is not None else None
    return VirtualMachineMigration(
        key=PodKey(meta.namespace, meta.name),
        uid=meta.uid,
        resource_version=version_number(meta.resource_version),
        machine=wire.spec.vm_name,
        phase=cast("Phase", status.phase),
        ours=NEON_CREATED_BY_SCHEDULER in (meta.labels or {}),
        deleting=meta.deletion_timestamp is not None,
        source_pod=status.source_pod_name,
        target_pod=status.target_pod_name,
        target_node=None if target_node is None else NodeName(target_node),
    )


def machines(on_broken: OnBroken) -> ResourceType[PodKey]:
    """The resource type of VirtualMachines in all namespaces."""
    return _resource(
        "virtualmachines", path=MACHINES_PATH, read=decode_machine, seen=MachineSeen, gone=MachineGone, on_broken=on_broken
    )


def migrations(on_broken: OnBroken) -> ResourceType[PodKey]:
    """The resource type of VirtualMachineMigrations in all namespaces.

    Migrations that others created count too, because each of them takes a machine off its node.
    """
    return _resource(
        "virtualmachinemigrations",
        path=MIGRATIONS_PATH,
        read=decode_migration,
        seen=MigrationSeen,
        gone=MigrationGone,
        on_broken=on_broken,
    )


def _resource(
    name: str,
    *,
    path: str,
    read: Callable[[bytes | msgspec.Raw], T],
    seen: Callable[[T], Event],
    gone: Callable[[PodKey], Event],
    on_broken: OnBroken,
) -> ResourceType[PodKey]:
    def decode(raw: bytes | msgspec.Raw) -> Found[PodKey]:
        found = read(raw)
        return Found(found.key, found.uid, found.resource_version, seen(found))

    return ResourceType(
        name=name,
        path=path,
        decode=decode,
        key_of=PodKey,
        gone=lambda key, _: gone(key),
        on_broken=on_broken,
        may_be_absent=True,
    )


def migration_object(effect: CreateMigration) -> dict[str, object]:
    """The VirtualMachineMigration to create: what Neon's scheduler plugin would create (neondatabase/autoscaling v0.36.1), plus
    the node on which we hold room.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": MIGRATION_KIND,
        "metadata": {
            "name": effect.name,
            "namespace": effect.key.namespace,
            "labels": {NEON_CREATED_BY_SCHEDULER: "true"},
            "annotations": {TARGET_NODE: effect.target_node},
        },
        "spec": {
            "vmName": effect.machine,
            "preventMigrationToSameHost": True,
            "completionTimeout": 3600,
            "incremental": True,
            "allowPostCopy": False,
            "autoConverge": True,
            "maxBandwidth": "1Gi",
        },
    }
