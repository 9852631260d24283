"""kube-scheduler's NodeName: a pod that names its node fits on no other."""

import numpy as np

from slackwater.model.columns import Codes
from slackwater.model.ids import NodeName
from slackwater.model.reasons import Reason
from slackwater.snapshot.node_facts import ABSENT, NodeFacts
from slackwater.snapshot.row_journal import Selection, coded


def judge_node_name(facts: NodeFacts, name: str, rows: Selection) -> Codes:
    here = facts.row_of.get(NodeName(name), ABSENT)
    return coded(np.arange(facts.n_rows)[rows] != here, Reason.NODE_NAME)
