"""What of the service's decisions is carried out, and what is withheld: decided, planned and shown, and not done.

A shadow withholds everything. What is withheld leaves no trace in what the next decision is made from: the next loop starts
from the cluster as it is.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from slackwater.model.nodegroups import GroupName

#: - slack: adding nodes that only pods to come need.
#: - preemption: our own preemptions; of these nothing is shown.
Capability = Literal["slack", "scale-up", "scale-down", "consolidation", "preemption"]
#: What a replacement of nodes needs: it buys nodes, and removes others.
NEEDS: Final[Mapping[Capability, frozenset[Capability]]] = {"consolidation": frozenset({"scale-up", "scale-down"})}

#: Why what a capability decides about a group is withheld; None: it is carried out.
Withholds = Callable[[Capability, GroupName], str | None]

#: Why a shadow does nothing.
SHADOW: Final = "this service is a shadow: it only watches, and writes nothing"


def withheld_by_settings(
    capability: Capability, group: GroupName, *, capabilities: Collection[Capability], groups: Collection[str]
) -> str | None:
    """Why the settings withhold it: they name the group, the capability, or one that it needs. None: they do not."""
    if group in groups:
        return f"shadow.groups names {group}"
    named = sorted({capability, *NEEDS.get(capability, ())} & set(capabilities))
    return f"shadow.capabilities names {named[0]}" if named else None


def withhold_nothing(_capability: Capability, _group: GroupName) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOverPods:
    """The pods that Slackwater places, and for which it preempts and adds nodes: those of these namespaces and scheduler names.
    Empty: of all."""

    namespaces: tuple[str, ...] = ()
    scheduler_names: tuple[str, ...] = ()

    def withholds(self, namespace: str, scheduler_name: str) -> str | None:
        """Why the pod is left as if Slackwater were a shadow; None: it is not."""
        if self.namespaces and namespace not in self.namespaces:
            return f"shadow.exceptNamespaces does not name {namespace}"
        if self.scheduler_names and scheduler_name not in self.scheduler_names:
            return f"shadow.exceptSchedulerNames does not name {scheduler_name}"
        return None


EVERY_POD: Final = HandedOverPods()
