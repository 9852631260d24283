"""kube-scheduler's NodeUnschedulable: a cordoned node takes only pods that tolerate its cordon."""

from slackwater.fit.filter.taint_toleration import tolerated
from slackwater.model.columns import Codes
from slackwater.model.objects import Taint
from slackwater.model.pod_constraints import Kind
from slackwater.model.reasons import Reason
from slackwater.snapshot.node_facts import NodeFacts
from slackwater.snapshot.row_journal import Selection, all_ok, coded

_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def judge_node_unschedulable(facts: NodeFacts, kind: Kind, rows: Selection) -> Codes:
    # The cordon's taint has no value, so no comparison tolerates it.
    if kind.tolerations and tolerated(_CORDON, kind.tolerations, comparing=False):
        return all_ok(rows)
    return coded(facts.cordoned[: facts.n_rows][rows], Reason.NODE_UNSCHEDULABLE)
