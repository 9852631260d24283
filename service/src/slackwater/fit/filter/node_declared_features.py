"""kube-scheduler's NodeDeclaredFeatures (on since 1.36): a node must declare the kubelet features that the pod needs."""

import numpy as np

from slackwater.model.columns import Codes
from slackwater.model.reasons import Reason
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.selection import Selection, coded


def judge_node_declared_features(facts: NodeFacts, needed: tuple[str, ...], rows: Selection) -> Codes:
    lacking = np.array([not set(needed) <= set(declared) for declared in facts.feature_sets], np.bool_)
    return coded(lacking[facts.features[: facts.n_rows][rows]], Reason.NODE_FEATURES)
