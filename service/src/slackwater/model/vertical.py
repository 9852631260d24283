"""A workload that grows in place, whatever it is: a NeonVM virtual machine in its runner pod, or a plain pod that is resized.

The core knows this one shape. How it is read from annotations, labels and owner references is `adapters/kube/vertical`'s.
"""

from dataclasses import dataclass
from typing import Literal

from slackwater.model.resources import Amounts

#: source: the pod that a running migration leaves behind. target: the pod that it makes.
Role = Literal["source", "target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRef:
    """The VirtualMachineMigration that owns a pod, in the pod's namespace."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """How a plain pod is resized: by one of its containers.

    `requests` are that container's, `whole` the whole pod's, as the spec has them. `limits`: of which resources (CPU, memory)
    the limit equals the request and so moves with it. `pending`: the node cannot resize it now, or ever; the pod's `using` is
    then what it has until that changes.
    """

    container: str
    requests: Amounts
    whole: Amounts
    limits: tuple[bool, bool]
    pending: Literal["Deferred", "Infeasible"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertical:
    """What is special about a pod that grows in place.

    `using` is what it uses now, and what it asks of a node when it is placed. `scaling`: somebody (an agent) may ask for more.
    `machine` is the name of its VirtualMachine, in the pod's namespace; None for a plain pod, which never migrates.
    `permit` is the text of its own permit annotation, None where it has none.
    """

    min: Amounts
    max: Amounts
    using: Amounts
    slot_bytes: int = 1  #: of what the pod's memory is made; > 0
    scaling: bool = True
    auto_migrate: bool = False
    always_migrate: bool = False
    machine: str | None = None
    migration: MigrationRef | None = None
    permit: str | None = None
    resizing: Resizing | None = None  #: of a plain pod only

    @property
    def migratable(self) -> bool:
        return self.machine is not None and (self.auto_migrate or self.always_migrate)
