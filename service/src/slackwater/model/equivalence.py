"""Pods interned into kinds: all pods whose scheduling needs are the same share one frozen value.

Judging a kind judges all its pods. What no decision reads is no part of a kind, so pods without controllers share kinds too.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary, ref

from slackwater.model.pod_constraints import NodeSelectorTerm, PodConstraints
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration; empty `key` with operator Exists tolerates every key, empty `effect` every effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Kind:
    """What scheduling asks of a node for each pod of this kind.

    `node_affinity` is None where the pod demands no node affinity; one of its terms must match otherwise.
    `missing_request` names the first container and resource without a request ("app: memory"), or is None.
    `images` are those of all containers, in order. `pod constraints` is None where the pod asks nothing of what stands there.
    """

    namespace: str
    requests: Amounts
    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduler_name: str = "default-scheduler"
    preempts: bool = True
    missing_request: str | None = None
    images: tuple[str, ...] = ()
    pod_constraints: PodConstraints | None = None


class KindInterner:
    """One instance for each distinct kind, so that pods share memory and kinds compare by identity first.

    Kinds that no pod has any more are forgotten: pods of a DaemonSet have a kind each, one for each node's name.
    """

    def __init__(self) -> None:
        self._kinds: WeakKeyDictionary[Kind, ref[Kind]] = WeakKeyDictionary()

    def intern(self, kind: Kind) -> Kind:
        known = self._kinds.get(kind)
        found = None if known is None else known()
        if found is None:
            self._kinds[kind] = ref(kind)
            return kind
        return found

    def __len__(self) -> int:
        return len(self._kinds)
