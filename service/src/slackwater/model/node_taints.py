"""Classifies taints: whether one says that its node has not started, describes the node's present condition, or is a property
of the whole node group.

The terms are Cluster Autoscaler's. A start-up taint keeps pods away until something on the node has started; a node that has
one counts as upcoming. A status taint describes the present condition of a node that has started. Neither is a property of the
node's group. The keys of Kubernetes itself are fixed here; others are configured, with those of well-known drivers as defaults.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from slackwater.model.objects import Taint
from slackwater_protocol.names import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT

#: `*` matches any text. Many CNI and CSI drivers name their taint `agent-not-ready`: Cilium's, those of AWS, Azure and others.
STARTUP_TAINTS: Final = (
    "*/agent-not-ready",
    "startup-taint.cluster-autoscaler.kubernetes.io/*",
    "ignore-taint.cluster-autoscaler.kubernetes.io/*",
    "node.cluster.x-k8s.io/uninitialized",
    "readiness.k8s.io/*",
    "karpenter.sh/unregistered",
)
STATUS_TAINTS: Final = (
    "status-taint.cluster-autoscaler.kubernetes.io/*",
    "node.cluster.x-k8s.io/outdated-revision",
    "karpenter.sh/disrupted",
)
_KUBERNETES_STARTUP: Final = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
    }
)
_KUBERNETES_STATUS: Final = frozenset(
    {
        TO_BE_DELETED_TAINT,
        DELETION_CANDIDATE_TAINT,
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/out-of-service",
        "node.cloudprovider.kubernetes.io/shutdown",
    }
)

#: Identifies a taint within a group. Values are left out: they may differ by node, such as a time.
TaintId = tuple[str, str]


def taint_id(taint: Taint) -> TaintId:
    """The key and effect of the taint."""
    return taint.key, taint.effect


def repels(taint: Taint) -> bool:
    """Whether the taint keeps pods away that do not tolerate it."""
    return taint.effect in {"NoSchedule", "NoExecute"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRules:
    """Patterns of taint keys, in addition to those of Kubernetes itself."""

    startup_taints: tuple[str, ...] = STARTUP_TAINTS
    status_taints: tuple[str, ...] = STATUS_TAINTS

    def is_startup(self, key: str) -> bool:
        """Whether the taint says that the node has not started yet."""
        return key in _KUBERNETES_STARTUP or _pattern(self.startup_taints).fullmatch(key) is not None

    def is_own(self, key: str) -> bool:
        """Whether the taint describes one node only, and says nothing about its group."""
        return key in _KUBERNETES_STATUS or self.is_startup(key) or _pattern(self.status_taints).fullmatch(key) is not None


DEFAULT_TAINT_RULES: Final = TaintRules()


@lru_cache(maxsize=64)
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(pattern).replace(r"\*", ".*") for pattern in patterns) or r"(?!)")
