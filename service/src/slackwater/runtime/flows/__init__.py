"""Flows: questions and duties that concern several controllers. Each module calls the controllers in a fixed order.

`Controllers` are the controllers with the cluster state, as each flow is handed them.
"""

from slackwater.cluster.cluster_state import ClusterState
from slackwater.cluster.refusals import Conditions
from slackwater.cluster.reservations import Reservation
from slackwater.controllers.disagreement.state import Disagreements
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.permits.permit_limits import PermitLimits
from slackwater.controllers.placement.tried_nodes import ChosenNodes, SampleMisses
from slackwater.controllers.policy import Policy
from slackwater.controllers.preemption.preemptors import Preemptors
from slackwater.controllers.preemption.state import Preemptions
from slackwater.model.ids import PodUid


class Controllers:
    """The cluster state, and what the capabilities keep for pods beside it, created together. Each flow is handed the whole."""

    def __init__(self, policy: Policy) -> None:
        self.state = state = ClusterState(policy.nodes, policy.kubernetes, self._reservation_ended, policy.profiles)
        self.preemptions, self.migrating = Preemptions(state), Migrating(state)
        self.preemptors = Preemptors(state, self.preemptions)
        self.permit_limits = PermitLimits(state, policy=policy)
        self.chosen_nodes, self.sample_misses = ChosenNodes(), SampleMisses()
        self.conditions = Conditions(state.event_counts)
        self.disagreements = Disagreements(state)

    def _reservation_ended(self, uid: PodUid, reservation: Reservation) -> None:
        self.preemptions.left(uid)
        if self.state.vertical_pods.forget(uid) is not None:
            self.permit_limits.forget(uid, reservation.node)
            self.migrating.pod_gone(uid)
