"""An agent's permit request: the permit that its pod gets, and the migration that the request may start.

In: the request and the cluster state. Out: a `PermitDecision` with its effects, or a refusal. Invariant: once the agent of a
migrating pod knows of the migration, the pod keeps what it has and gets nothing more.
"""

from collections.abc import Callable
from dataclasses import replace

from slackwater.cluster.cluster_state import ClusterState
from slackwater.controllers.migration.state import Migrating
from slackwater.controllers.permits.permit_limits import PermitLimits
from slackwater.controllers.permits.state import PermitCase, PermitDecision, Permits
from slackwater.controllers.policy import Policy
from slackwater.model.effects import Effect
from slackwater.model.ids import Instant
from slackwater.model.permits import Caller, PermitAnswer, PermitAsk, PermitRefusal


class PermitFlow:
    """Decides agents' permit requests. `room_given` is called when a pod has given back room, and returns effects."""

    def __init__(
        self,
        cluster_state: ClusterState,
        *,
        permit_limits: PermitLimits,
        migrating: Migrating,
        room_given: Callable[[Instant], list[Effect]],
    ) -> None:
        self._permits = Permits(cluster_state, permit_limits=permit_limits, room_given=room_given)
        self._reservations = cluster_state.reservations
        self._permit_limits = permit_limits
        self._migrating = migrating
        self._room_given = room_given

    def ask(self, ask: PermitAsk, caller: Caller | None, policy: Policy, now: Instant) -> PermitDecision | PermitRefusal:
        """Decides a request, and applies the decision to the pod's resources at once. Refuses a request that fails a check."""
        case = self._permits.case(ask, caller, policy)
        if isinstance(case, PermitCase) and self._migrating.is_notified(case.pod) and not case.asks_as_held():
            message = "cannot change resources: agent has already been informed that pod is migrating"
            case = PermitRefusal(status=400, code="migrating", message=message)
        if isinstance(case, PermitRefusal):
            return replace(case, node=self._permits.node_of(ask.key))
        return self._decided(case, policy, now)

    def answer(self, decided: PermitDecision) -> PermitAnswer | PermitRefusal:
        """The answer that may be given now (`Permits.answer`)."""
        return self._permits.answer(decided)

    def _decided(self, case: PermitCase, policy: Policy, now: Instant) -> PermitDecision:
        pod = case.pod
        held = self._permits.note_given_back(case)
        target_node = self._migrating.choice.decide(pod, case.vertical_pod, policy, now)
        leaves = target_node is not None or self._migrating.is_leaving(pod.uid)
        first_odd = self._permits.note_report(case, now)
        if not leaves:
            self._queue(case)
        notified = self._migrating.is_notified(pod)
        if notified:
            effects = self._keep(case, now)
        else:
            effects = self._permits.settle(case, now, withhold=leaves)
            if target_node is not None:
                effects += self._migrating.start(pod, target_node)
            elif leaves:
                self._migrating.leaving_pod_changed(pod.uid)
            # Before a resize: a pod's writes are sent in this order.
            effects = [*self._permit_limits.ensure(pod.uid, now, held=held), *effects]
        reservation = self._reservations.get(pod.uid)
        assert reservation is not None
        return PermitDecision(
            uid=pod.uid,
            row=case.row,
            asked=case.question.asked,
            held=held,
            slot_bytes=case.slot_bytes,
            notified=notified,
            migrate=target_node is not None,
            denied=any(reservation.pod_resources.capacity_pressure) and not leaves,
            first_odd=first_odd,
            effects=tuple(effects),
        )

    def _queue(self, case: PermitCase) -> None:
        """Puts the pod into its node's migration queue, or moves it there by the load that its agent reports."""
        vertical, load = case.pod.vertical, case.ask.load
        if vertical is not None and case.pod.migratable and vertical.migration is None:
            load1_micro = None if load is None else load.load1_micro
            self._migrating.choice.queue.put(case.pod.uid, case.reservation.node, load1_micro)

    def _keep(self, case: PermitCase, now: Instant) -> list[Effect]:
        """Leaves a migrating pod what it has, without its Buffer: its agent has said what the pod uses. Returns effects."""
        if not self._permits.drop_buffer(case):
            return []
        self._migrating.leaving_pod_changed(case.pod.uid)
        self._permit_limits.recorded(case.pod.uid)
        return self._room_given(now)
