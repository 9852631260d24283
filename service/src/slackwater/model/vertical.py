"""Workloads that grow in place, and NeonVM's objects, with the fields that decisions read.

- `Vertical`: a NeonVM virtual machine in its runner pod, or a plain pod that is resized. Outside the adapters both have this
  one form; `adapters.kube.vertical` reads it from annotations, labels and owner references.
- `Machine`, `VirtualMachineMigration`: virtual machines and their migrations.
"""

from dataclasses import dataclass
from typing import Literal

from slackwater.model.ids import NodeName, PodKey
from slackwater.model.resources import Amounts

#: source: the pod that a running migration moves away from. target: the pod that the migration creates.
Role = Literal["source", "target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRef:
    """The VirtualMachineMigration that owns a pod, in the pod's namespace."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeTarget:
    """How a plain pod is resized: through one of its containers.

    `requests` are that container's and `whole` those of the whole pod, both from the spec. `limits` says for CPU and for memory
    whether the container's limit equals its request and so changes with it. `pending` is set while the node does not carry out
    the resize: Deferred means not now, Infeasible never. Until that changes, the pod's `using` is what the pod has, not what
    its spec requests.
    """

    container: str
    requests: Amounts
    whole: Amounts
    limits: tuple[bool, bool]
    pending: Literal["Deferred", "Infeasible"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertical:
    """The amounts and settings of a pod that grows in place.

    `using` is what the pod uses now; placing the pod needs this much room. `scaling`: an agent may ask for more. `machine` is
    the name of the pod's VirtualMachine, in the pod's namespace; None for a plain pod, which never migrates. `permit` is the
    text of the pod's permit annotation, None without one.
    """

    min: Amounts
    max: Amounts
    using: Amounts
    slot_bytes: int = 1  #: the size of one memory slot; > 0
    scaling: bool = True
    auto_migrate: bool = False
    always_migrate: bool = False
    machine: str | None = None
    migration: MigrationRef | None = None
    permit: str | None = None
    resizing: ResizeTarget | None = None  #: set for a plain pod only

    @property
    def is_target(self) -> bool:
        """Does a migration create the pod?"""
        return self.migration is not None and self.migration.role == "target"

    @property
    def migratable(self) -> bool:
        return self.machine is not None and (self.auto_migrate or self.always_migrate)


#: The phase of a VirtualMachineMigration; "" until its controller has seen it.
Phase = Literal["", "Pending", "Running", "Succeeded", "Failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A VirtualMachine. `permit` is the text of its permit annotation, None without one."""

    key: PodKey
    uid: str
    resource_version: int
    permit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualMachineMigration:
    """A VirtualMachineMigration. `ours`: it has the label of migrations that a scheduler created, so we delete it once it has
    finished.

    `target_node` is the node on which we hold room for the target pod, as our annotation names it.
    """

    key: PodKey
    uid: str
    resource_version: int
    machine: str
    phase: Phase
    ours: bool
    deleting: bool
    source_pod: str
    target_pod: str
    target_node: NodeName | None

    @property
    def finished(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}

    @property
    def begun(self) -> bool:
        """Has its controller begun to migrate the machine, beyond asking for a target pod?"""
        return self.phase not in {"", "Pending"}
