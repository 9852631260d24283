"""NeonVM's objects, with the fields that some decision reads: virtual machines and their migrations."""

from dataclasses import dataclass
from typing import Literal

from slackwater.model.ids import NodeName, PodKey

#: The phase of a VirtualMachineMigration; "" until its controller has seen it.
Phase = Literal["", "Pending", "Running", "Succeeded", "Failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A VirtualMachine. `permit` is the text of its permit annotation, None where it has none."""

    key: PodKey
    uid: str
    resource_version: int
    permit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualMachineMigration:
    """A VirtualMachineMigration. `ours`: it has the label of migrations that a scheduler created, so we delete it when
    finished.

    `target_node` is the node, named by our annotation, on which we hold room for its target pod.
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
