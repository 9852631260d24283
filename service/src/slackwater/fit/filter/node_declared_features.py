"""kube-scheduler's NodeDeclaredFeatures: a node must declare the kubelet features that the pod needs.

Which features there are depends on the version (k8s.io/component-helpers/nodedeclaredfeatures).
"""

import numpy as np

from slackwater.model.columns import Codes
from slackwater.model.ids import Row
from slackwater.model.kubernetes_rules import KubernetesVersion, Rule
from slackwater.model.pod_constraints import HOST_USERS
from slackwater.model.reasons import MEANINGS, Reason
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.row_journal import Selection, coded


def features_asked(version: KubernetesVersion, features: tuple[str, ...]) -> tuple[str, ...]:
    """The features that this version requires nodes to declare, out of `features`, those that a pod uses."""
    if not features or not version.follows(Rule.NODE_DECLARED_FEATURES):
        return ()
    return tuple(name for name in features if name != HOST_USERS or version.follows(Rule.HOST_USERS_DECLARED))


def features_text(facts: NodeFacts, needed: tuple[str, ...], row: Row) -> str:
    """kube-scheduler's message for a row that lacks a feature."""
    if facts.kubernetes.follows(Rule.FEATURES_UNNAMED):
        return MEANINGS[Reason.NODE_FEATURES].text
    lacking = sorted(set(needed) - set(facts.nodes[row].features))
    return f"node declared features check failed - unsatisfied requirements: {', '.join(lacking)}"


def judge_node_declared_features(facts: NodeFacts, needed: tuple[str, ...], rows: Selection) -> Codes:
    lacking = np.array([not set(needed) <= set(declared) for declared in facts.feature_sets], np.bool_)
    return coded(lacking[facts.features[: facts.n_rows][rows]], Reason.NODE_FEATURES)
