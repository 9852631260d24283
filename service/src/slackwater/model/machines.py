"""NeonVM's own objects, as far as some decision reads them: virtual machines and their migrations."""

from dataclasses import dataclass
from typing import Literal

from slackwater.model.ids import NodeName, PodKey

#: Of a VirtualMachineMigration; "" until its controller has seen it.
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
    """A VirtualMachineMigration. `ours`: it carries the label of what a scheduler made, so it is ours to clean up.

    `landing` is the node that we keep room on for its target pod, by our annotation.
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
