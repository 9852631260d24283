"""Equivalence groups of pods: all pods whose scheduling needs are the same share one frozen `Kind`.

A verdict on a `Kind` holds for all its pods. A `Kind` contains only what some decision reads, so pods without controllers share
one too.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary, ref

from slackwater.model.pod_constraints import NodeSelectorTerm, PodConstraints
from slackwater.model.resources import Amounts


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration. An empty `key` with operator Exists tolerates every key, an empty `effect` every effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Kind:
    """The scheduling needs that all pods of an equivalence group have in common.

    `node_affinity` is None where the pod requires no node affinity; otherwise one of its terms must match. `missing_request`
    names the first container and resource without a request ("app: memory"), or is None. `images` are those of all containers,
    in order. `pod_constraints` is None where the pod has none of the rarer constraints.
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
    """Keeps one instance of each distinct `Kind`, so that pods share memory and comparison by identity comes first.

    References are weak, so that a `Kind` without pods is forgotten: each pod of a DaemonSet has another one, which names its
    node.
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
