"""The predicates that depend on nodes only, not on the pods that run there."""

from slackwater.fit.filter.node_affinity import judge_node_affinity
from slackwater.fit.filter.node_unschedulable import judge_node_unschedulable
from slackwater.fit.filter.taint_toleration import judge_taint_toleration
from slackwater.model.columns import Mask
from slackwater.model.equivalence import Kind
from slackwater.model.reasons import Reason
from slackwater.snapshot.node_facts import NodeFacts

#: The predicates in kube-scheduler's order.
NODE_RULES = (judge_node_unschedulable, judge_taint_toleration, judge_node_affinity)


def admitting(kind: Kind, facts: NodeFacts) -> Mask:
    """Which rows these predicates accept for the equivalence group, shape (n_rows,); closed rows are not accepted."""
    rows = slice(0, facts.n_rows)
    mask: Mask = facts.live[rows].copy()
    for rule in NODE_RULES:
        mask &= rule(facts, kind, rows) == Reason.OK
    return mask
