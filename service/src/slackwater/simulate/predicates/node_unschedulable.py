"""A cordoned node takes only pods that tolerate its cordon (kube-scheduler's NodeUnschedulable)."""

from slackwater.model.kinds import Kind
from slackwater.model.objects import Node, Taint
from slackwater.model.reasons import Reason
from slackwater.simulate.predicates.taint_toleration import tolerated

_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def judge_node_unschedulable(kind: Kind, node: Node) -> Reason:
    if node.unschedulable and not tolerated(_CORDON, kind.tolerations):
        return Reason.NODE_UNSCHEDULABLE
    return Reason.OK
